// @ts-check
/** A request once more, with another policy, dialect, plan, mode or model, and both outcomes side by side. */

import { ask } from "./api.js";
import { drawAttempts } from "./attempts.js";
import { h, labelled, put, say, select, withCode } from "./dom.js";
import { span } from "./format.js";

/**
 * @param {import("./detail.js").Whole} one
 * @param {import("./app.js").About} about
 * @returns {HTMLElement}
 */
export function makeReplay(one, about) {
  const fields = {
    policy: select(about.policies, "as it was"),
    dialect: select(about.dialects, "as it was"),
    plan: select(about.plans, "as it was"),
    mode: select(about.modes, "as it was"),
    model: select(about.models, "as it was"),
  };
  const button = /** @type {HTMLButtonElement} */ (h("button", { class: "main" }, "Replay"));
  const result = h("div", { class: "stack" });
  const run = async (/** @type {Event} */ event) => {
    event.preventDefault();
    button.disabled = true;
    put(result, h("p", { class: "soft" }, "The model answers …"));
    const wanted = Object.fromEntries(Object.entries(fields).map(([name, field]) => [name, field.value]));
    try {
      const again = await ask(`toolspeak/requests/${encodeURIComponent(one.id)}/replay`, { method: "POST", body: wanted });
      put(result, compare(one, again));
      say("The replay is finished.");
    } catch (error) {
      put(result, h("p", { class: "notice bad" }, /** @type {Error} */ (error).message));
    }
    button.disabled = false;
  };
  return h(
    "section",
    { class: "stack replay" },
    h("h2", {}, "Replay"),
    h("p", { class: "soft small" }, "Asks the model again with other settings. No tool is executed and no client hears of it."),
    h("form", { class: "fields", submit: run }, Object.entries(fields).map(([name, field]) => labelled(name[0].toUpperCase() + name.slice(1), field)), button),
    result,
  );
}

/** @type {[string, (one: import("./detail.js").Whole) => string][]} what is compared */
const ROWS = [
  ["plan", (one) => one.plan],
  ["calls", (one) => called(one) || "none"],
  ["why no call", (one) => one.trace.why_no_call || "–"],
  ["requests upstream", (one) => String(one.requests)],
  ["retries", (one) => String(one.retries)],
  ["repairs", (one) => String(one.repairs)],
  ["tokens in, out", (one) => `${one.input_tokens}, ${one.output_tokens}`],
  ["time", (one) => span(one.timing.whole)],
  ["error", (one) => one.error || "–"],
];

/** @param {import("./detail.js").Whole} one */
const called = (one) =>
  one.trace.attempts
    .flatMap((attempt) => attempt.candidates.filter((candidate) => candidate.verdict === "call"))
    .map((candidate) => `${candidate.name}(${JSON.stringify(candidate.arguments)})`)
    .join(", ");

/**
 * @param {import("./detail.js").Whole} first
 * @param {import("./detail.js").Whole} again
 */
function compare(first, again) {
  const rows = ROWS.map(([name, tell]) => {
    const [one, two] = [tell(first), tell(again)];
    return h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, withCode(one)), h("td", { class: one === two ? null : "changed" }, withCode(two)));
  });
  const head = h("tr", {}, h("td", {}), h("th", { scope: "col" }, "first"), h("th", { scope: "col" }, "replay"));
  return [
    h("div", { class: "wide", tabindex: 0 }, h("table", { class: "compare" }, h("thead", {}, head), h("tbody", {}, rows))),
    drawAttempts(again),
    h("p", {}, h("a", { href: `#/inspector/${again.id}` }, "Open the replay as a request of its own")),
  ];
}
