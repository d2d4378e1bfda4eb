// @ts-check
/** Keyboard shortcuts of a part of the page, and the list of them. */

import { h } from "./dom.js";

/** @typedef {{keys: string[], label: string, run: () => void}} Shortcut */

/**
 * @param {HTMLElement} element the part in which they work: only while it is shown, and not while a text is written
 * @param {Shortcut[]} shortcuts
 * @returns {() => void} shows the list
 */
export function addShortcuts(element, shortcuts) {
  const close = h("button", { class: "main" }, "Close");
  const rows = [...shortcuts, { keys: ["?"], label: "Show this list" }].map(({ keys, label }) => h("tr", {}, h("td", {}, keys.map((key) => h("kbd", {}, key))), h("td", {}, label)));
  const dialog = /** @type {HTMLDialogElement} */ (h("dialog", { class: "card shortcuts", "aria-label": "Keyboard shortcuts" }, h("form", { method: "dialog", class: "stack" }, h("h2", {}, "Keyboard shortcuts"), h("table", {}, h("tbody", {}, rows)), close)));
  const show = () => {
    if (!dialog.isConnected) element.append(dialog);
    dialog.showModal();
  };
  close.addEventListener("click", (event) => (event.preventDefault(), dialog.close())); // the policy of the page forbids sending forms
  document.addEventListener("keydown", (event) => {
    const target = /** @type {HTMLElement} */ (event.target);
    if (event.defaultPrevented || !element.isConnected || dialog.open || event.ctrlKey || event.metaKey || event.altKey || target.closest("input, textarea, select") || (event.key === "Enter" && target.closest("button, a, summary"))) return;
    const act = event.key === "?" ? show : shortcuts.find(({ keys }) => keys.includes(event.key))?.run;
    if (!act) return;
    event.preventDefault();
    act();
  });
  return show;
}
