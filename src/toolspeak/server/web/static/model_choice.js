// @ts-check
/** The choice of a model: those that the server lists, or another name. */

import { h, labelled, select } from "./dom.js";

const OTHER = "Other…";

/**
 * @param {string[]} models
 * @returns {{element: HTMLElement, get: () => string, set: (name: string) => void, isValid: () => boolean}}
 */
export function makeModelChoice(models) {
  const list = select([...models, OTHER]);
  const field = /** @type {HTMLInputElement} */ (h("input", { autocomplete: "off", spellcheck: "false", "aria-label": "Model name", placeholder: "Name of the model" }));
  const show = () => (field.hidden = list.value !== OTHER);
  list.addEventListener("change", () => {
    show();
    if (!field.hidden) field.focus();
  });
  show();
  return {
    element: h("div", { class: "model-choice" }, labelled("Model", list), field),
    get: () => (list.value === OTHER ? field.value.trim() : list.value),
    set(name) {
      list.value = models.includes(name) ? name : OTHER;
      if (list.value === OTHER) field.value = name;
      show();
    },
    isValid() {
      field.setCustomValidity(field.hidden || field.value.trim() ? "" : "Write the name of a model.");
      return field.reportValidity();
    },
  };
}
