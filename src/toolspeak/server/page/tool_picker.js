// @ts-check
/** Which tools a chat offers: those to try things out with, and the person's own, for which the person answers. */

import { DEMO_TOOLS } from "./demo_tools.js";
import { counted } from "./format.js";
import { h, labelled, put } from "./dom.js";

/** @typedef {{name: string, definition: object, run: ((given: any) => string) | null}} ChatTool */

const EXAMPLE = `[{"name": "get_weather", "description": "The weather in a city.",
  "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}]`;

/** @returns {{element: HTMLElement, tools: () => ChatTool[]}} */
export function makeToolPicker() {
  /** @type {ChatTool[]} */
  let own = [];
  const chosen = new Set(DEMO_TOOLS.map((tool) => tool.name));
  const title = h("summary", {});
  const said = h("p", { class: "small soft", role: "status" });
  const field = /** @type {HTMLTextAreaElement} */ (h("textarea", { rows: 6, class: "mono", spellcheck: "false", placeholder: EXAMPLE }));
  const tools = () => [...DEMO_TOOLS.filter((tool) => chosen.has(tool.name)).map((tool) => ({ name: tool.name, definition: defined(tool), run: tool.run })), ...own];
  const show = () => put(title, counted(tools().length, "tool"));
  const tell = () => {
    const twice = own.map((tool) => tool.name).filter((name, index, names) => chosen.has(name) || names.indexOf(name) < index);
    const asked = own.length ? `${own.map((tool) => tool.name).join(", ")}: you are asked what they answer.` : "";
    put(said, asked, twice.length > 0 && h("span", { class: "failed" }, ` There is more than one tool named ${[...new Set(twice)].join(", ")}: leave out all but one.`));
  };

  field.addEventListener("input", () => {
    try {
      own = field.value.trim() ? ownTools(JSON.parse(field.value)) : [];
      tell();
    } catch (error) {
      own = [];
      put(said, `This is no list of tools: ${/** @type {Error} */ (error).message}`);
    }
    show();
  });
  const boxes = DEMO_TOOLS.map((tool) => {
    const box = /** @type {HTMLInputElement} */ (h("input", { type: "checkbox" }));
    box.checked = true;
    box.addEventListener("change", () => {
      if (box.checked) chosen.add(tool.name);
      else chosen.delete(tool.name);
      if (own.length) tell();
      show();
    });
    return h("label", { class: "check" }, box, h("span", {}, h("span", { class: "strong" }, tool.name), h("span", { class: "soft" }, ` ${tool.description}`)));
  });
  show();
  const inside = h("div", { class: "picker card stack" }, boxes, labelled("Your own tools, as JSON schemas", field), said);
  return { element: h("details", { class: "tools" }, title, inside), tools };
}

/** @param {{name: string, description?: string, parameters?: object}} tool */
const defined = ({ name, description = "", parameters = { type: "object" } }) => ({ type: "function", function: { name, description, parameters } });

/**
 * @param {any} value one declaration or several, bare or in OpenAI's shape
 * @returns {ChatTool[]}
 */
function ownTools(value) {
  return [value].flat().map((each) => {
    const tool = each?.function ?? each;
    if (typeof tool?.name !== "string" || !tool.name) throw new Error("each needs a `name`");
    return { name: tool.name, definition: defined(tool), run: null };
  });
}
