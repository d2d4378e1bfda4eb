// @ts-check
/** The choice of a model together with a way to make calls, as each column of Playground and Evaluate has it. */

import { h, labelled, setChildren } from "./dom.js";
import { makeModelField } from "./model_fields.js";

/** The ways to make calls: label, what it means, settings. */
export const WAYS = /** @type {Record<string, [string, string, Record<string, string>]>} */ ({
  raw: ["Raw", "The tools go to the model's server unchanged.", { mode: "off" }],
  auto: ["Automatic", "What toolspeak does by default.", {}],
  native: ["Native first", "Emulated only after a failure.", { mode: "fallback" }],
  inline: ["Inline", "The model writes calls in its answer.", { mode: "force", plan: "inline" }],
  decision: ["Decision", "The model first decides, then fills in the arguments.", { mode: "force", plan: "decision" }],
  envelope: ["Envelope", "The whole answer is JSON.", { mode: "force", plan: "envelope" }],
});

/**
 * @typedef {object} WayField
 * @property {HTMLElement} element
 * @property {import("./model_fields.js").ModelField} model
 * @property {() => string} way a name in `WAYS`
 * @property {HTMLElement} remove the button that removes the column
 */

/**
 * @param {import("./app.js").About} about
 * @param {string} chosen way
 * @param {{removed: () => void, changed?: (way: string) => void}} options
 * @returns {WayField}
 */
export function makeWayField(about, chosen, { removed, changed = () => {} }) {
  const model = makeModelField(about);
  const way = /** @type {HTMLSelectElement} */ (h("select", { change: () => describe() }, Object.entries(WAYS).map(([name, [label]]) => h("option", { value: name, selected: name === chosen }, label))));
  const words = h("p", { class: "small soft" });
  const remove = h("button", { type: "button", class: "quiet", click: removed, "aria-label": "Remove this column", title: "Remove" }, "✕");
  const describe = () => {
    setChildren(words, WAYS[way.value][1]);
    changed(way.value);
  };
  setChildren(words, WAYS[chosen][1]);
  const element = h("div", { class: "stack-tight way-field" }, h("div", { class: "fields" }, model.element, labelled("Calls", way), remove), words);
  return { element, model, way: () => way.value, remove };
}

/**
 * The model that an address such as `#/playground/?model=NAME` names; empty if it names none.
 * @param {string} rest of the address
 */
export const modelIn = (rest) => (rest.startsWith("?model=") ? rest.slice("?model=".length) : "");
