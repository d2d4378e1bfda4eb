// @ts-check
/** A button that copies a text to the clipboard. */

import { h, announce } from "./dom.js";

/** Milliseconds for which the button says that it has copied. */
const SHOWN = 1500;

/**
 * @param {() => string} text is called when the button is pressed
 * @param {string} [what] completes the accessible name, for example "code"
 * @param {string} [label]
 * @returns {HTMLElement}
 */
export function copyButton(text, what = "", label = "Copy") {
  const button = h("button", { type: "button", class: "quiet copy", "aria-label": label.endsWith(what) ? label : `${label} ${what}` }, label);
  button.addEventListener("click", async () => {
    const copied = await copy(text());
    button.textContent = copied ? "Copied" : "Copy failed";
    announce(copied ? "Copied." : "The browser did not allow copying.");
    setTimeout(() => (button.textContent = label), SHOWN);
  });
  return button;
}

/** @param {string} text */
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copySelection(text); // without HTTPS, other hosts than this one have no clipboard object
  }
}

/** @param {string} text */
function copySelection(text) {
  const field = /** @type {HTMLTextAreaElement} */ (h("textarea", { class: "visually-hidden", readonly: true, "aria-hidden": "true", tabindex: -1 }));
  const focused = /** @type {HTMLElement | null} */ (document.activeElement);
  field.value = text;
  document.body.append(field);
  field.select();
  const copied = document.execCommand("copy");
  field.remove();
  focused?.focus();
  return copied;
}
