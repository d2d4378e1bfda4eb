// @ts-check
/**
 * Selection of the tools that a chat offers: demo tools, tools that the server runs, and the user's own tools, for
 * which the user provides the results.
 */

import { fetchJson } from "./api.js";
import { DEMO_TOOLS } from "./demo_tools.js";
import { errorText, h, labelled, setChildren, withCode } from "./dom.js";
import { makeMenu } from "./menu.js";
import { asTool, declaredTools, EXAMPLE } from "./tools.js";

/** @typedef {import("./tools.js").Tool} Tool */
/** @typedef {{name: string, description: string, side_effects: boolean}} ServerTool */

/**
 * `error` returns the reason why the user's own tools cannot be parsed; `showError` scrolls it into view.
 * @returns {{element: HTMLElement, tools: () => Tool[], serverTools: () => string[], error: () => string, showError: () => void}}
 */
export function makeToolPicker() {
  /** @type {Tool[]} */
  let own = [];
  /** The reason why the user's own tools cannot be parsed. */
  let parseError = "";
  const chosen = new Set(DEMO_TOOLS.map((tool) => tool.name));
  /** @type {Set<string>} */
  const serverChosen = new Set();
  const title = h("span", {});
  const status = h("p", { class: "small soft", role: "status" });
  const field = /** @type {HTMLTextAreaElement} */ (h("textarea", { rows: 6, class: "mono", spellcheck: "false", placeholder: EXAMPLE }));
  const tools = () => [...DEMO_TOOLS.filter((tool) => chosen.has(tool.name)).map(asTool), ...own];
  const showCount = () => setChildren(title, `Tools (${tools().length + serverChosen.size})`);
  const showMessage = () => {
    field.ariaInvalid = String(Boolean(parseError));
    if (parseError) return setChildren(status, h("span", { class: "failed" }, parseError));
    const duplicates = [...own.map((tool) => tool.name), ...serverChosen].filter((name, index, names) => chosen.has(name) || names.indexOf(name) < index);
    const message = own.length ? `You will be asked for the result of ${own.map((tool) => tool.name).join(", ")}.` : "";
    setChildren(status, message, duplicates.length > 0 && h("span", { class: "failed" }, ` Duplicate tool name: ${[...new Set(duplicates)].join(", ")}. Keep only one of each.`));
  };

  field.addEventListener("input", () => {
    parseError = "";
    try {
      own = declaredTools(field.value);
    } catch (error) {
      own = [];
      parseError = /** @type {Error} */ (error).message;
    }
    showMessage();
    showCount();
  });

  /**
   * A checkbox for a tool.
   * @param {{name: string, description: string, side_effects?: boolean}} tool
   * @param {Set<string>} selection
   */
  const choice = (tool, selection) => {
    const box = /** @type {HTMLInputElement} */ (h("input", { type: "checkbox" }));
    box.checked = selection.has(tool.name);
    box.addEventListener("change", () => {
      if (box.checked) selection.add(tool.name);
      else selection.delete(tool.name);
      showMessage();
      showCount();
    });
    const about = h("span", { class: "soft" }, ` ${firstLine(tool.description)}`);
    return h("label", { class: "check" }, box, h("span", {}, h("span", { class: "strong" }, tool.name), about, tool.side_effects && h("span", { class: "badge warn" }, "side effects")));
  };

  const server = h("fieldset", { class: "stack-tight", hidden: true });
  /** Loads the server tools when the menu is opened, because the server may have to start MCP servers first. */
  const loadServerTools = async () => {
    try {
      /** @type {{tools: ServerTool[], why: string}} */
      const { tools: available, why } = await fetchJson("toolspeak/tools");
      for (const name of serverChosen) if (!available.some((tool) => tool.name === name)) serverChosen.delete(name);
      server.hidden = !available.length && !why;
      setChildren(
        server,
        h("legend", {}, "Server tools"),
        why && h("p", { class: "small soft" }, withCode(why)),
        available.map((tool) => choice(tool, serverChosen)),
        available.some((tool) => tool.side_effects) && h("p", { class: "small soft" }, "This page cannot ask for approval, so calls that need approval fail."),
      );
    } catch (error) {
      server.hidden = false;
      setChildren(server, h("legend", {}, "Server tools"), h("p", { class: "small failed" }, errorText(error)));
    }
    showCount();
  };
  showCount();
  const demo = h("fieldset", { class: "stack-tight" }, h("legend", {}, "Demo tools (run in your browser)"), DEMO_TOOLS.map((tool) => choice(tool, chosen)));
  const inside = h("div", { class: "picker card stack" }, demo, server, labelled("Your own tools (JSON Schema)", field), status);
  const element = makeMenu(title, inside, { class: "tools", opened: () => loadServerTools().then(reveal) });
  /** Scrolls to the error message, which the server tools above it may push out of view. */
  const reveal = () => parseError && status.scrollIntoView({ block: "nearest" });
  const showError = () => {
    element.open = true;
    field.focus();
    reveal();
  };
  return { element, tools, serverTools: () => [...serverChosen], error: () => parseError, showError };
}

/** @param {string} text whose first line is a summary */
const firstLine = (text) => {
  const [line] = text.trim().split("\n");
  return line.length > 160 ? `${line.slice(0, 160)}…` : line;
};
