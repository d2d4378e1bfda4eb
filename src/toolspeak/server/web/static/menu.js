// @ts-check
/** A menu above the page content. Escape, a click elsewhere, or opening another menu closes it. */

import { h } from "./dom.js";

/**
 * @param {import("./dom.js").Child} title
 * @param {HTMLElement} inside
 * @param {{class?: string, opened?: () => void}} [options] `opened` is called each time it opens
 * @returns {HTMLDetailsElement}
 */
export function makeMenu(title, inside, options = {}) {
  const summary = h("summary", {}, title);
  // Browsers keep only one of the details elements with the same name open.
  const details = /** @type {HTMLDetailsElement} */ (h("details", { class: `menu ${options.class ?? ""}`, name: "menu" }, summary, inside));
  details.addEventListener("toggle", () => details.open && options.opened?.());
  details.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !details.open) return;
    event.stopPropagation(); // outside a menu, Escape stops an answer
    details.open = false;
    summary.focus();
  });
  document.addEventListener("pointerdown", (event) => {
    if (details.open && !details.contains(/** @type {Node} */ (event.target))) details.open = false;
  });
  return details;
}
