// @ts-check
/** One question with one demo tool in two columns: what the model does by itself, and with toolspeak. */

import { makeColumn } from "./columns.js";
import { DEMO_TOOLS } from "./demo_tools.js";
import { announce, h, setChildren } from "./dom.js";
import { makeCallSettings, makeModelField } from "./model_fields.js";
import { asTool } from "./tools.js";

const QUESTION = "What time is it in Oslo?";
/** The question asks for a zone, so a call without one does not answer it. */
const CLOCK = DEMO_TOOLS.filter((tool) => tool.name === "clock").map((tool) => asTool({ ...tool, parameters: { ...tool.parameters, required: ["zone"] } }));

/**
 * @param {import("./app.js").About} about
 * @returns {{element: HTMLElement, run: () => Promise<void>}}
 */
export function makeComparison(about) {
  const model = makeModelField(about);
  const calls = makeCallSettings(about, model.value);
  const raw = makeColumn("Raw", "The tools go to the model's server unchanged.");
  const own = makeColumn("toolspeak", "The same request, with toolspeak in between.");
  const verdict = h("div", {});
  const button = /** @type {HTMLButtonElement} */ (h("button", { type: "button", class: "main", click: () => run() }, "Compare"));
  /** @type {AbortController | undefined} */
  let running;

  async function run() {
    running?.abort();
    if (!model.isValid()) return;
    const { signal } = (running = new AbortController());
    const wish = { model: model.value(), question: QUESTION, tools: CLOCK };
    columns.hidden = false;
    setChildren(verdict);
    // One after the other: a local model would only make both wait.
    const first = await raw.run({ ...wish, settings: { mode: "off" } }, signal);
    const second = await own.run({ ...wish, settings: calls.values() }, signal);
    if (signal.aborted) return;
    const said = verdictOn(first, second);
    setChildren(verdict, h("p", { class: `notice ${second.called ? "good" : "warn"}` }, said));
    announce(said);
  }

  const columns = h("div", { class: "columns", hidden: true }, raw.element, own.element);
  const element = h(
    "div",
    { class: "stack" },
    h("div", { class: "fields" }, model.element, calls.element, button),
    h("p", { class: "small soft" }, "Question: ", h("q", {}, QUESTION), " · Tool: ", h("code", {}, "clock")),
    columns,
    verdict,
  );
  return { element, run };
}

/**
 * @param {import("./columns.js").Outcome} raw
 * @param {import("./columns.js").Outcome} own with toolspeak
 */
function verdictOn(raw, own) {
  if (own.error) return raw.error ? "Neither request was answered." : "The request with toolspeak failed.";
  if (own.called) return raw.called ? "Both led to a valid call: this model also calls tools without toolspeak." : "Only the request with toolspeak led to a valid call.";
  const made = own.calls.length ? "an invalid call" : "no call";
  return raw.called ? `The model made the call without toolspeak. With it, there was ${made}. Open the details to see why.` : `There was ${made}. Open the details to see why, or try a stronger model.`;
}
