// @ts-check
/**
 * Which tools a chat offers: those to try things out with, those that the server runs, and the person's own, for which
 * the person answers.
 */

import { ask } from "./api.js";
import { DEMO_TOOLS } from "./demo_tools.js";
import { counted } from "./format.js";
import { h, labelled, put, withCode } from "./dom.js";
import { makeMenu } from "./menu.js";

/** @typedef {{name: string, definition: object, run: ((given: any) => string) | null}} ChatTool */

const EXAMPLE = `[{"name": "get_weather", "description": "The weather in a city.",
  "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}]`;

/** A name that can be told to a model; some upstreams take fewer, and say so themselves. */
const USABLE = /^[^\s\p{C}<>`]{1,200}$/u;

/** @typedef {{name: string, description: string, side_effects: boolean}} ServerTool */

/**
 * `trouble` says why what stands there cannot be offered, `complain` brings that into sight.
 * @returns {{element: HTMLElement, tools: () => ChatTool[], serverTools: () => string[], trouble: () => string, complain: () => void}}
 */
export function makeToolPicker() {
  /** @type {ChatTool[]} */
  let own = [];
  /** Why the person's own tools cannot be read. */
  let trouble = "";
  const chosen = new Set(DEMO_TOOLS.map((tool) => tool.name));
  /** @type {Set<string>} */
  const there = new Set();
  const title = h("span", {});
  const said = h("p", { class: "small soft", role: "status" });
  const field = /** @type {HTMLTextAreaElement} */ (h("textarea", { rows: 6, class: "mono", spellcheck: "false", placeholder: EXAMPLE }));
  const tools = () => [...DEMO_TOOLS.filter((tool) => chosen.has(tool.name)).map((tool) => ({ name: tool.name, definition: defined(tool), run: tool.run })), ...own];
  const show = () => put(title, counted(tools().length + there.size, "tool"));
  const tell = () => {
    field.ariaInvalid = String(Boolean(trouble));
    if (trouble) return put(said, h("span", { class: "failed" }, trouble));
    const twice = [...own.map((tool) => tool.name), ...there].filter((name, index, names) => chosen.has(name) || names.indexOf(name) < index);
    const asked = own.length ? `${own.map((tool) => tool.name).join(", ")}: you are asked what they answer.` : "";
    put(said, asked, twice.length > 0 && h("span", { class: "failed" }, ` There is more than one tool named ${[...new Set(twice)].join(", ")}: leave out all but one.`));
  };

  field.addEventListener("input", () => {
    trouble = "";
    try {
      own = field.value.trim() ? ownTools(JSON.parse(field.value)) : [];
    } catch (error) {
      own = [];
      trouble = `This is no list of tools: ${/** @type {Error} */ (error).message}`;
    }
    tell();
    show();
  });

  /**
   * A box to choose a tool with.
   * @param {{name: string, description: string, side_effects?: boolean}} tool
   * @param {Set<string>} among
   */
  const choice = (tool, among) => {
    const box = /** @type {HTMLInputElement} */ (h("input", { type: "checkbox" }));
    box.checked = among.has(tool.name);
    box.addEventListener("change", () => {
      if (box.checked) among.add(tool.name);
      else among.delete(tool.name);
      tell();
      show();
    });
    const about = h("span", { class: "soft" }, ` ${firstLine(tool.description)}`);
    return h("label", { class: "check" }, box, h("span", {}, h("span", { class: "strong" }, tool.name), about, tool.side_effects && h("span", { class: "badge warn" }, "changes things")));
  };

  const server = h("fieldset", { class: "stack-tight", hidden: true });
  /** Asked when it is opened: the server may have to start others for it. */
  const look = async () => {
    try {
      /** @type {{tools: ServerTool[], why: string}} */
      const { tools: found, why } = await ask("toolspeak/tools");
      for (const name of there) if (!found.some((tool) => tool.name === name)) there.delete(name);
      server.hidden = !found.length && !why;
      put(
        server,
        h("legend", {}, "The server runs"),
        why && h("p", { class: "small soft" }, withCode(why)),
        found.map((tool) => choice(tool, there)),
        found.some((tool) => tool.side_effects) && h("p", { class: "small soft" }, "Nobody is asked: what would need approval answers with an error."),
      );
    } catch (error) {
      server.hidden = false;
      put(server, h("legend", {}, "The server runs"), h("p", { class: "small failed" }, /** @type {Error} */ (error).message));
    }
    show();
  };
  show();
  const demo = h("fieldset", { class: "stack-tight" }, h("legend", {}, "To try things out, in this page"), DEMO_TOOLS.map((tool) => choice(tool, chosen)));
  const inside = h("div", { class: "picker card stack" }, demo, server, labelled("Your own tools, as JSON schemas", field), said);
  const element = makeMenu(title, inside, { class: "tools", opened: () => look().then(reveal) });
  /** What the server runs stands above it, and may push it out of sight. */
  const reveal = () => trouble && said.scrollIntoView({ block: "nearest" });
  const complain = () => {
    element.open = true;
    field.focus();
    reveal();
  };
  return { element, tools, serverTools: () => [...there], trouble: () => trouble, complain };
}

/** @param {string} text of which the beginning says what it is about */
const firstLine = (text) => {
  const [line] = text.trim().split("\n");
  return line.length > 160 ? `${line.slice(0, 160)}…` : line;
};

/** @param {{name: string, description?: string, parameters?: object}} tool */
const defined = ({ name, description = "", parameters = { type: "object" } }) => ({ type: "function", function: { name, description, parameters } });

/**
 * @param {any} value one declaration or several, bare or in OpenAI's shape
 * @returns {ChatTool[]}
 */
function ownTools(value) {
  return [value].flat().map((each) => {
    const tool = each?.function ?? each;
    if (!isObject(tool)) throw new Error("each must be an object");
    if (typeof tool.name !== "string" || !USABLE.test(tool.name)) throw new Error("each needs a `name`, in one word");
    if (tool.parameters !== undefined && !isObject(tool.parameters)) throw new Error(`the \`parameters\` of ${tool.name} must be an object`);
    return { name: tool.name, definition: defined(tool), run: null };
  });
}

/** @param {unknown} value */
const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
