// @ts-check
/** One question with the same tools in several columns, each with a model and a way to make calls; once, or ten times. */

import { fetchJson } from "./api.js";
import { makeWayField, modelIn, WAYS } from "./call_ways.js";
import { askOnce, makeColumn } from "./columns.js";
import { DEMO_TOOLS } from "./demo_tools.js";
import { announce, errorText, h, labelled, setChildren } from "./dom.js";
import { compact, duration, percent } from "./format.js";
import { recognise } from "./import_formats.js";
import { interval, median } from "./statistics.js";
import { addToConfiguration, tomlTable } from "./toml.js";
import { makeOpenApiSource, makeServerSource } from "./tool_sources.js";
import { asTool, declaredTools, EXAMPLE } from "./tools.js";

const MAX_COLUMNS = 4;
const RUNS = 10;
const QUESTION = "What time is it in Oslo?";

/**
 * @param {import("./app.js").About} about
 * @returns {import("./app.js").Part}
 */
export function makePlayground(about) {
  const question = /** @type {HTMLTextAreaElement} */ (h("textarea", { rows: 2, dir: "auto", class: "wide-text" }));
  question.value = QUESTION;
  const tools = makeToolEditor((text) => (question.value = text));
  const places = h("div", { class: "columns" });
  const status = h("div", { role: "status" });
  const add = /** @type {HTMLButtonElement} */ (h("button", { type: "button", click: () => addColumn("inline") }, "Add column"));
  const once = /** @type {HTMLButtonElement} */ (h("button", { class: "main" }, "Run"));
  const often = /** @type {HTMLButtonElement} */ (h("button", { type: "button", click: () => start(true) }, `Run ${RUNS} times`));
  /** @type {Slot[]} */
  const slots = [];
  /** @type {AbortController | undefined} */
  let running;

  /** @typedef {ReturnType<typeof makeSlot>} Slot */
  /** @param {string} way */
  function addColumn(way) {
    const slot = makeSlot(about, way, () => {
      slots.splice(slots.indexOf(slot), 1);
      slot.element.remove();
      showButtons();
    });
    slots.push(slot);
    places.append(slot.element);
    showButtons();
  }

  function showButtons() {
    add.disabled = slots.length >= MAX_COLUMNS;
    for (const slot of slots) slot.remove.hidden = slots.length < 2;
    setChildren(once, running ? "Stop" : "Run");
    often.disabled = Boolean(running);
  }

  /** @param {boolean} many whether to measure a rate */
  async function start(many) {
    if (running) return running.abort();
    setChildren(status);
    if (!slots.every((slot) => slot.isValid())) return;
    const wish = { question: question.value.trim(), tools: tools.tools() };
    if (tools.error() || !wish.question) return setChildren(status, h("p", { class: "notice bad" }, tools.error() || "Enter a question first."));
    const { signal } = (running = new AbortController());
    showButtons();
    await Promise.all(slots.map((slot) => (many ? slot.measure(wish, signal) : slot.run(wish, signal))));
    running = undefined;
    showButtons();
    announce(signal.aborted ? "Stopped." : "All columns are done.");
  }

  addColumn("raw");
  addColumn("auto");
  const form = h(
    "form",
    { class: "card stack", submit: (/** @type {Event} */ event) => (event.preventDefault(), start(false)) },
    labelled("Question", question),
    tools.element,
    h("div", { class: "row" }, once, often, add),
    status,
  );
  const element = h("div", { class: "scroll" }, h("div", { class: "page tidy" }, h("header", {}, h("h1", {}, "Playground"), h("p", { class: "lead" }, "Ask the same question in two to four columns, to compare models or ways to call tools.")), form, places));
  // On the document, so Escape stops the columns wherever the focus is.
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !event.isComposing && element.isConnected) running?.abort();
  });
  return {
    element,
    show(rest) {
      if (modelIn(rest)) for (const slot of slots) slot.setModel(modelIn(rest));
    },
  };
}

/**
 * A column with its choices.
 * @param {import("./app.js").About} about
 * @param {string} chosen way
 * @param {() => void} removed
 */
function makeSlot(about, chosen, removed) {
  const column = makeColumn(WAYS[chosen][0]);
  const field = makeWayField(about, chosen, { removed, changed: (way) => column.setTitle(WAYS[way][0]) });
  const { model } = field;
  const rate = h("div", { class: "small", role: "status" });

  /** @param {{question: string, tools: import("./tools.js").Tool[]}} wish */
  const complete = (wish) => ({ ...wish, model: model.value(), settings: WAYS[field.way()][2] });
  const outcome = h("div", { class: "small stack-tight", role: "status" });
  const makeDefault = h("button", { type: "button", class: "link", click: () => setDefault(model, field.way(), outcome) }, "Make this the default");
  const element = h("div", { class: "stack-tight slot" }, field.element, column.element, rate, h("div", {}, makeDefault), outcome);
  return {
    element,
    remove: field.remove,
    setModel: model.set,
    isValid: model.isValid,
    /** @param {Parameters<typeof complete>[0]} wish @param {AbortSignal} signal */
    async run(wish, signal) {
      setChildren(rate);
      await column.run(complete(wish), signal);
    },
    /** @param {Parameters<typeof complete>[0]} wish @param {AbortSignal} signal */
    async measure(wish, signal) {
      /** @type {import("./columns.js").Outcome[]} */
      const outcomes = [await column.run(complete(wish), signal)];
      while (outcomes.length < RUNS && !signal.aborted) {
        setChildren(rate, h("progress", { max: RUNS, value: outcomes.length, "aria-label": "Runs" }), ` ${outcomes.length} of ${RUNS}`);
        outcomes.push(await askOnce(complete(wish), signal));
      }
      const done = outcomes.filter((outcome) => outcome.error !== "stopped");
      setChildren(rate, done.length > 0 && drawRate(done));
    },
  };
}

/**
 * Makes a way to call tools the default of a model, and says how to keep it.
 * @param {import("./model_fields.js").ModelField} field
 * @param {string} way
 * @param {HTMLElement} place
 */
async function setDefault(field, way, place) {
  if (!field.isValid()) return;
  const [label, , settings] = WAYS[way];
  try {
    const { model, changed } = await fetchJson("toolspeak/default", { method: "POST", body: { model: field.value(), settings } });
    const said = !changed
      ? "This server has several workers, so its settings cannot be changed while it runs."
      : way === "auto"
        ? `${field.value()} uses its configured settings again.`
        : `${field.value()} now uses ${label}, for every client, until the server stops or reloads its configuration.`;
    setChildren(place, h("p", { class: `notice ${changed ? "good" : "warn"}` }, said), way !== "auto" && addToConfiguration(tomlTable(["models", model], settings)));
  } catch (error) {
    setChildren(place, h("p", { class: "notice bad" }, errorText(error)));
  }
}

/** @param {import("./columns.js").Outcome[]} outcomes of repeated runs */
function drawRate(outcomes) {
  const successes = outcomes.filter((outcome) => outcome.called).length;
  const errors = outcomes.filter((outcome) => outcome.error).length;
  const [low, high] = interval(successes, outcomes.length);
  const first = median(outcomes.filter((outcome) => outcome.first).map((outcome) => outcome.first));
  const tokens = median(outcomes.filter((outcome) => outcome.tokens).map((outcome) => outcome.tokens));
  const facts = [`95% interval ${percent(low)} to ${percent(high)}`, first && `first token ${duration(first)}`, tokens && `${compact(tokens)} tokens`, errors && `${errors} failed`];
  return h("p", {}, h("span", { class: "big" }, `${successes} of ${outcomes.length}`), " valid calls", h("br"), h("span", { class: "soft" }, facts.filter(Boolean).join(" · ")));
}

/**
 * The tools: demo tools, a form, JSON, or those of the server, an OpenAPI document or a pasted request.
 * @param {(question: string) => void} asked is called with the question of a pasted request
 */
function makeToolEditor(asked) {
  const chosen = new Set(["clock"]);
  /** @type {import("./tools.js").Tool[]} */
  let own = [];
  let problem = "";
  const status = h("p", { class: "small", role: "status" });
  const field = /** @type {HTMLTextAreaElement} */ (h("textarea", { rows: 5, class: "mono wide-text", spellcheck: "false", placeholder: EXAMPLE, input: () => read() }));
  const name = /** @type {HTMLInputElement} */ (h("input", { autocomplete: "off", placeholder: "get_weather", pattern: "[A-Za-z0-9_.\\-]{1,64}" }));
  const description = /** @type {HTMLInputElement} */ (h("input", { autocomplete: "off", placeholder: "The weather in a city." }));
  const parameters = /** @type {HTMLInputElement} */ (h("input", { autocomplete: "off", placeholder: "city, days: integer?" }));
  const pasted = /** @type {HTMLTextAreaElement} */ (h("textarea", { rows: 4, class: "mono wide-text", spellcheck: "false", placeholder: "curl …, or the JSON of a request" }));

  function read() {
    problem = "";
    try {
      own = declaredTools(field.value);
    } catch (error) {
      own = [];
      problem = /** @type {Error} */ (error).message;
    }
    field.ariaInvalid = String(Boolean(problem));
    setChildren(status, problem ? h("span", { class: "failed" }, problem) : own.length ? `Your tools: ${own.map((tool) => tool.name).join(", ")}` : "");
  }

  /** @param {object[]} declarations */
  function write(declarations) {
    field.value = JSON.stringify(declarations, null, 2);
    read();
  }

  function addTool() {
    if (!name.value || !name.reportValidity()) return name.focus();
    write([...own.map((tool) => tool.definition.function), { name: name.value, description: description.value, parameters: schemaOf(parameters.value) }]);
    for (const each of [name, description, parameters]) each.value = "";
  }

  async function take() {
    try {
      const imported = await fetchJson("toolspeak/import", { method: "POST", body: recognise(pasted.value).body });
      write(imported.tools.map((/** @type {any} */ tool) => ({ name: tool.name, description: tool.description, parameters: tool.parameters ?? { type: "object" } })));
      if (imported.question) asked(imported.question);
      pasted.value = "";
    } catch (error) {
      setChildren(status, h("span", { class: "failed" }, errorText(error)));
    }
  }

  const demo = DEMO_TOOLS.map((tool) => {
    const box = /** @type {HTMLInputElement} */ (h("input", { type: "checkbox", change: () => (box.checked ? chosen.add(tool.name) : chosen.delete(tool.name)) }));
    box.checked = chosen.has(tool.name);
    return h("label", { class: "check" }, box, tool.name);
  });
  /** @param {import("./openapi_tools.js").Declared[]} tools replace those of the same name */
  const add = (tools) => {
    const names = new Set(tools.map((tool) => tool.name));
    const kept = own.map((tool) => tool.definition.function).filter((tool) => !names.has(tool.name));
    write([...kept, ...tools.map(({ name: given, description: about, parameters: schema }) => ({ name: given, description: about, parameters: schema ?? { type: "object" } }))]);
  };
  const server = makeServerSource(add);
  const fromServer = h("details", { toggle: () => fromServer instanceof HTMLDetailsElement && fromServer.open && server.load() }, h("summary", {}, "Import from the server (MCP)"), server.element);
  const group = (/** @type {string} */ title, /** @type {import("./dom.js").Child[]} */ ...content) => h("details", {}, h("summary", {}, title), h("div", { class: "stack-tight" }, content));
  const element = h(
    "fieldset",
    { class: "stack-tight" },
    h("legend", {}, "Tools"),
    h("div", { class: "row" }, demo),
    group("Describe a tool", h("div", { class: "fields" }, labelled("Name", name), labelled("Description", description), labelled("Parameters", parameters), h("button", { type: "button", click: addTool }, "Add tool")), h("p", { class: "small soft" }, "Separate parameters with commas. A type follows a colon; a question mark means optional.")),
    group("Edit as JSON", labelled("Tools as JSON", field)),
    fromServer,
    group("Import from OpenAPI", makeOpenApiSource(add)),
    group("Import from a request", labelled("Request in any protocol", pasted), h("div", {}, h("button", { type: "button", click: take }, "Import tools and question"))),
    status,
  );
  return { element, error: () => problem, tools: () => [...DEMO_TOOLS.filter((tool) => chosen.has(tool.name)).map(asTool), ...own] };
}

const TYPES = ["string", "integer", "number", "boolean", "array", "object"];

/**
 * The schema for parameters such as `city, days: integer?`.
 * @param {string} text
 */
export function schemaOf(text) {
  /** @type {Record<string, {type: string}>} */
  const properties = {};
  /** @type {string[]} */
  const required = [];
  for (const part of text.split(",").map((each) => each.trim()).filter(Boolean)) {
    const [name, type = "string"] = part.replaceAll("?", "").split(":").map((each) => each.trim());
    properties[name] = { type: TYPES.includes(type) ? type : "string" };
    if (!part.includes("?")) required.push(name);
  }
  return { type: "object", properties, required };
}
