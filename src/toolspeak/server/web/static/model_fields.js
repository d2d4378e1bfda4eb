// @ts-check
/** The choice of a model, and of how its calls are made. */

import { fetchJson, MODELS_CHANGED } from "./api.js";
import { h, labelled, select, setChildren, withCode } from "./dom.js";
import { makeMenu } from "./menu.js";

const KEY = "toolspeak-model";
/** Whether a model was connected since the page was opened. */
let connected = false;
/** The model that was connected last, which fields choose by default; this browser remembers it. */
let preferred = stored();
const OTHER = "\0other";

/**
 * @typedef {object} ModelField
 * @property {HTMLElement} element with the label
 * @property {() => string} value
 * @property {(name: string) => void} set
 * @property {() => boolean} isValid whether a model is chosen; if not, the field says so
 */

export const isConnected = () => connected;

function stored() {
  try {
    return localStorage.getItem(KEY) ?? "";
  } catch {
    return "";
  }
}

/**
 * Reloads the list of models after one was connected, and chooses it everywhere.
 * @param {import("./app.js").About} about
 * @param {string} model
 */
export async function preferModel(about, model) {
  preferred = model;
  connected = true;
  try {
    localStorage.setItem(KEY, model);
  } catch {
    // If storage is disabled, the choice lasts until the page is closed.
  }
  Object.assign(about, await fetchJson("toolspeak/about"));
  dispatchEvent(new Event(MODELS_CHANGED));
}

/**
 * A list of the models, which also takes a name that is not in it.
 * @param {import("./app.js").About} about
 * @returns {ModelField}
 */
export function makeModelField(about) {
  const list = /** @type {HTMLSelectElement} */ (h("select"));
  const name = /** @type {HTMLInputElement} */ (h("input", { autocomplete: "off", spellcheck: "false", "aria-label": "Model name", placeholder: "Model name" }));
  const showName = () => (name.hidden = list.value !== OTHER);
  /** @param {string} model */
  const set = (model) => {
    list.value = about.models.includes(model) ? model : OTHER;
    if (list.value === OTHER) name.value = model;
    showName();
  };
  const fill = () => {
    setChildren(list, about.models.map((model) => h("option", { value: model }, model)), h("option", { value: OTHER }, "Other…"));
    set(about.models.includes(preferred) ? preferred : about.models[0] ?? "");
  };
  fill();
  list.addEventListener("change", () => {
    showName();
    if (!name.hidden) name.focus();
  });
  addEventListener(MODELS_CHANGED, fill);
  return {
    element: h("div", { class: "model-field" }, labelled("Model", list), name),
    value: () => (list.value === OTHER ? name.value.trim() : list.value),
    set,
    isValid() {
      name.setCustomValidity(name.hidden || name.value.trim() ? "" : "Enter the name of a model.");
      return name.reportValidity();
    },
  };
}

/** What each setting decides, in one line. */
const WORDS = /** @type {Record<string, [string, string]>} */ ({
  mode: ["Mode", "When calls are emulated: automatically, always (force), only after a failure (fallback), or never (off)."],
  plan: ["Plan", "How they are emulated: in the answer (inline), with a separate question (decision), or as JSON (envelope)."],
  dialect: ["Dialect", "The format in which the model writes calls."],
});

/**
 * A menu with mode, plan and dialect.
 * @param {import("./app.js").About} about
 * @param {() => string} model the chosen model
 * @returns {{element: HTMLElement, values: () => Record<string, string>}} the values are empty where the model's own apply
 */
export function makeCallSettings(about, model) {
  const lists = /** @type {Record<string, HTMLSelectElement>} */ ({ mode: select(about.modes, "Default"), plan: select(about.plans, "Default"), dialect: select(about.dialects, "Default") });
  const title = h("span", {});
  const configured = h("p", { class: "small" });
  const showTitle = () => {
    const chosen = Object.values(lists).map((list) => list.value).filter(Boolean);
    setChildren(title, `Calls: ${chosen.join(", ") || "automatic"}`);
  };
  /** Shows what applies if nothing is chosen. */
  const load = async () => {
    const { models } = await fetchJson("toolspeak/models").catch(() => ({ models: [] }));
    const profile = models.find((/** @type {{name: string}} */ each) => each.name === model());
    setChildren(configured, profile?.plan && ["Now: ", h("span", { class: "badge good" }, profile.plan), " ", withCode(profile.plan_why)]);
    const values = /** @type {Record<string, string>} */ ({ mode: profile?.mode, plan: profile?.plan, dialect: profile?.dialect });
    for (const [name, list] of Object.entries(lists)) list.options[0].text = values[name] ? `Default (${values[name]})` : "Default";
  };
  const fields = Object.entries(lists).map(([name, list]) => {
    list.addEventListener("change", showTitle);
    return h("div", { class: "stack-tight" }, labelled(WORDS[name][0], list), h("p", { class: "small soft" }, WORDS[name][1]));
  });
  showTitle();
  const element = makeMenu(title, h("div", { class: "picker card stack" }, h("p", { class: "strong" }, "How calls are made"), configured, fields), { class: "call-settings", opened: load });
  return { element, values: () => Object.fromEntries(Object.entries(lists).map(([name, list]) => [name, list.value])) };
}
