// @ts-check
/** Something that opens over the page and closes when somebody turns away from it: by Escape, by another one, by a click. */

import { h } from "./dom.js";

/**
 * @param {import("./dom.js").Child} title
 * @param {HTMLElement} inside
 * @param {{class?: string, opened?: () => void}} [options] `opened` is told each time
 * @returns {HTMLDetailsElement}
 */
export function makeMenu(title, inside, options = {}) {
  const summary = h("summary", {}, title);
  // Of those with one name, only one is open.
  const details = /** @type {HTMLDetailsElement} */ (h("details", { class: `menu ${options.class ?? ""}`, name: "menu" }, summary, inside));
  details.addEventListener("toggle", () => details.open && options.opened?.());
  details.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !details.open) return;
    event.stopPropagation(); // elsewhere it ends an answer
    details.open = false;
    summary.focus();
  });
  document.addEventListener("pointerdown", (event) => {
    if (details.open && !details.contains(/** @type {Node} */ (event.target))) details.open = false;
  });
  return details;
}
