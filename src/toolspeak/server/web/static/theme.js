// @ts-check
/** The colour theme: light, dark or the system's; stored in this browser. */

import { h } from "./dom.js";

const KEY = "toolspeak-theme";
const NEXT = /** @type {Record<string, string>} */ ({ "": "dark", dark: "light", light: "" });
const NAMES = /** @type {Record<string, string>} */ ({ "": "◐ auto", dark: "● dark", light: "○ light" });
const WORDS = /** @type {Record<string, string>} */ ({ "": "same as the system", dark: "dark", light: "light" });

/** @param {HTMLElement} button that switches to the next theme */
export function startTheme(button) {
  let theme = stored();
  const show = () => {
    if (theme) document.documentElement.dataset.theme = theme;
    else delete document.documentElement.dataset.theme;
    const [sign, word] = NAMES[theme].split(" ");
    button.replaceChildren(sign, " ", h("span", { class: "word" }, `Theme: ${word}`));
    button.title = `Colours: ${WORDS[theme]}`;
    button.setAttribute("aria-label", `Theme: ${word}`);
  };
  button.addEventListener("click", () => {
    theme = NEXT[theme];
    try {
      localStorage.setItem(KEY, theme);
    } catch {
      // If storage is disabled, the theme lasts until the page is closed.
    }
    show();
  });
  show();
}

function stored() {
  try {
    const value = localStorage.getItem(KEY) ?? "";
    return value in NAMES ? value : "";
  } catch {
    return "";
  }
}
