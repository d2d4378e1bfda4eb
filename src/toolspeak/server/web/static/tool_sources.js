// @ts-check
/** Where the Playground takes tools from: those that the server runs, and the operations of an OpenAPI document. */

import { fetchJson } from "./api.js";
import { errorText, h, labelled, setChildren, withCode } from "./dom.js";
import { operationsOf } from "./openapi_tools.js";

/** @typedef {import("./openapi_tools.js").Declared} Declared */

/** Number of tools that are listed; the filter finds the others. */
const MOST_LISTED = 100;

/**
 * A list from which tools are chosen.
 * @param {(tools: Declared[]) => void} add is called with the chosen tools
 */
function makeChoice(add) {
  /** @type {Declared[]} */
  let tools = [];
  /** @type {Set<string>} */
  const chosen = new Set();
  const filter = /** @type {HTMLInputElement} */ (h("input", { type: "search", autocomplete: "off", input: () => draw() }));
  const list = h("div", { class: "stack-tight choice-list", role: "group", "aria-label": "Tools to choose" });
  const button = /** @type {HTMLButtonElement} */ (h("button", { type: "button", click: () => take() }));
  const filterField = labelled("Filter", filter);
  const element = h("div", { class: "stack-tight", hidden: true }, filterField, list, h("div", {}, button));

  function draw() {
    const words = filter.value.toLowerCase();
    const found = tools.filter((tool) => `${tool.name} ${tool.description}`.toLowerCase().includes(words));
    const rows = found.slice(0, MOST_LISTED).map((tool) => {
      const box = /** @type {HTMLInputElement} */ (h("input", { type: "checkbox", change: () => ((box.checked ? chosen.add(tool.name) : chosen.delete(tool.name)), showCount()) }));
      box.checked = chosen.has(tool.name);
      return h("label", { class: "check" }, box, h("span", {}, h("span", { class: "strong" }, tool.name), h("span", { class: "soft" }, ` ${tool.description.split("\n", 1)[0].slice(0, 120)}`)));
    });
    setChildren(list, rows, found.length > MOST_LISTED && h("p", { class: "small soft" }, `${found.length - MOST_LISTED} more: use the filter.`));
    showCount();
  }

  function showCount() {
    button.textContent = `Add tools (${chosen.size})`;
    button.disabled = !chosen.size;
  }

  function take() {
    add(tools.filter((tool) => chosen.has(tool.name)));
    chosen.clear();
    draw();
  }

  return {
    element,
    /** @param {Declared[]} given */
    set(given) {
      tools = given;
      chosen.clear();
      filter.value = "";
      element.hidden = !given.length;
      filterField.hidden = given.length < 10;
      draw();
    },
  };
}

/**
 * The tools that the server runs, such as those of its MCP servers. Only their definitions are used.
 * @param {(tools: Declared[]) => void} add
 */
export function makeServerSource(add) {
  const choice = makeChoice(add);
  const status = h("p", { class: "small soft", role: "status" });
  async function load() {
    setChildren(status, "Loading the tools…");
    try {
      const { tools, why } = await fetchJson("toolspeak/tools");
      choice.set(tools);
      setChildren(status, withCode(why || (tools.length ? "The models are offered these tools, but this page does not run them." : "The configuration of this server defines no tools or MCP servers in `[server_tools.NAME]`.")));
    } catch (error) {
      setChildren(status, h("span", { class: "failed" }, errorText(error)));
    }
  }
  return { element: h("div", { class: "stack-tight" }, status, choice.element), load };
}

/**
 * The operations of a pasted OpenAPI document.
 * @param {(tools: Declared[]) => void} add
 */
export function makeOpenApiSource(add) {
  const choice = makeChoice(add);
  const status = h("p", { class: "small", role: "status" });
  const pasted = /** @type {HTMLTextAreaElement} */ (h("textarea", { rows: 4, class: "mono wide-text", spellcheck: "false", placeholder: '{"openapi": "3.1.0", "paths": {…}}' }));
  function read() {
    try {
      setChildren(status);
      choice.set(operationsOf(pasted.value));
    } catch (error) {
      choice.set([]);
      setChildren(status, h("span", { class: "failed" }, errorText(error)));
    }
  }
  return h("div", { class: "stack-tight" }, labelled("OpenAPI document (JSON)", pasted), h("div", {}, h("button", { type: "button", click: read }, "Read operations")), status, choice.element);
}
