// @ts-check
/** Light, dark, or as the system has it; remembered in this browser. */

import { h } from "./dom.js";

const KEY = "toolspeak-theme";
const NEXT = /** @type {Record<string, string>} */ ({ "": "dark", dark: "light", light: "" });
const NAMES = /** @type {Record<string, string>} */ ({ "": "◐ Auto", dark: "● Dark", light: "○ Light" });
const WORDS = /** @type {Record<string, string>} */ ({ "": "as the system has them", dark: "dark", light: "light" });

/** @param {HTMLElement} button switches from one to the next */
export function startTheme(button) {
  let theme = stored();
  const show = () => {
    if (theme) document.documentElement.dataset.theme = theme;
    else delete document.documentElement.dataset.theme;
    const [sign, word] = NAMES[theme].split(" ");
    button.replaceChildren(sign, " ", h("span", { class: "word" }, word));
    button.title = `Colours: ${WORDS[theme]}`;
    button.setAttribute("aria-label", `Theme: ${NAMES[theme].slice(2)}`);
  };
  button.addEventListener("click", () => {
    theme = NEXT[theme];
    try {
      localStorage.setItem(KEY, theme);
    } catch {
      // A browser that keeps nothing still shows it.
    }
    show();
  });
  show();
}

function stored() {
  try {
    const found = localStorage.getItem(KEY) ?? "";
    return found in NAMES ? found : "";
  } catch {
    return "";
  }
}
