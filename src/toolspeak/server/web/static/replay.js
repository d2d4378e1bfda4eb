// @ts-check
/** Re-runs a request with another policy, dialect, plan, mode or model, and compares both outcomes. */

import { fetchJson } from "./api.js";
import { drawAttempts } from "./attempts.js";
import { announce, errorText, h, labelled, select, setChildren, withCode } from "./dom.js";
import { duration } from "./format.js";

/**
 * @param {import("./detail.js").RequestDetail} one
 * @param {import("./app.js").About} about
 * @returns {HTMLElement}
 */
export function makeReplay(one, about) {
  const fields = {
    policy: select(about.policies, "unchanged"),
    dialect: select(about.dialects, "unchanged"),
    plan: select(about.plans, "unchanged"),
    mode: select(about.modes, "unchanged"),
    model: select(about.models, "unchanged"),
  };
  const button = /** @type {HTMLButtonElement} */ (h("button", { class: "main" }, "Re-run"));
  const result = h("div", { class: "stack" });
  const run = async (/** @type {Event} */ event) => {
    event.preventDefault();
    button.disabled = true;
    setChildren(result, h("p", { class: "soft" }, "Running…"));
    const settings = Object.fromEntries(Object.entries(fields).map(([name, field]) => [name, field.value]));
    try {
      const rerun = await fetchJson(`toolspeak/requests/${encodeURIComponent(one.id)}/replay`, { method: "POST", body: settings });
      setChildren(result, compare(one, rerun));
      result.scrollIntoView({ block: "start" });
      announce("Re-run complete.");
    } catch (error) {
      setChildren(result, h("p", { class: "notice bad" }, errorText(error)));
    }
    button.disabled = false;
  };
  return h(
    "section",
    { class: "stack replay" },
    h("h2", {}, "Re-run"),
    h("p", { class: "soft small" }, "Re-run this request with different settings. No tool is run, and the client is not affected."),
    h("form", { class: "fields", submit: run }, Object.entries(fields).map(([name, field]) => labelled(name[0].toUpperCase() + name.slice(1), field)), button),
    result,
  );
}

/** @type {[string, (one: import("./detail.js").RequestDetail) => string][]} the rows of the comparison */
const ROWS = [
  ["Plan", (one) => one.plan],
  ["Calls", (one) => acceptedCalls(one) || "none"],
  ["Why no call", (one) => one.trace.why_no_call || "–"],
  ["Requests to the model", (one) => String(one.requests)],
  ["Retries", (one) => String(one.retries)],
  ["Repairs", (one) => String(one.repairs)],
  ["Tokens in, out", (one) => `${one.input_tokens}, ${one.output_tokens}`],
  ["Time", (one) => duration(one.timing.whole)],
  ["Error", (one) => one.error || "–"],
];

/** @param {import("./detail.js").RequestDetail} one */
const acceptedCalls = (one) =>
  one.trace.attempts
    .flatMap((attempt) => attempt.candidates.filter((candidate) => candidate.verdict === "call"))
    .map((candidate) => `${candidate.name}(${JSON.stringify(candidate.arguments)})`)
    .join(", ");

/**
 * @param {import("./detail.js").RequestDetail} original
 * @param {import("./detail.js").RequestDetail} rerun
 */
function compare(original, rerun) {
  const rows = ROWS.map(([name, value]) => {
    const [one, two] = [value(original), value(rerun)];
    return h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, withCode(one)), h("td", { class: one === two ? null : "changed" }, withCode(two)));
  });
  const head = h("tr", {}, h("td", {}), h("th", { scope: "col" }, "original"), h("th", { scope: "col" }, "re-run"));
  return [
    h("div", { class: "wide", tabindex: 0 }, h("table", { class: "compare" }, h("thead", {}, head), h("tbody", {}, rows))),
    drawAttempts(rerun),
    h("p", {}, h("a", { href: `#/requests/${rerun.id}` }, "Open the re-run as a separate request")),
  ];
}
