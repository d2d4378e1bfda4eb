// @ts-check
/** The details of one request: the client's request, what was sent to the model, its answers as parsed, and a re-run. */

import { drawAttempts, drawNotes } from "./attempts.js";
import { download } from "./chat_export.js";
import { copyButton } from "./copy.js";
import { announce, disclosure, h, withCode } from "./dom.js";
import { clock, compact, day, duration, plural, sentence } from "./format.js";
import { jsonText } from "./long_text.js";
import { makeReplay } from "./replay.js";
import { title, traceFile } from "./trace_file.js";

/**
 * @typedef {{code: string, detail: string, why?: string}} Note `why`: why the model was asked again
 * @typedef {{name: string, verdict: string, reason: string, why: string, dialect: string, arguments: unknown, evidence: Record<string, unknown>, notes: Note[]}} Candidate
 * @typedef {{start: number, end: number, candidates: number[]}} Mark
 * @typedef {object} Attempt one request to the model
 * @property {string} phase
 * @property {any} request
 * @property {string} raw
 * @property {string} reasoning
 * @property {Candidate[]} candidates
 * @property {Note[]} notes
 * @property {string} finish_reason
 * @property {{input_tokens: number, output_tokens: number}} usage
 * @property {{kind: string, detail: string, why: string} | null} fault
 * @property {Mark[]} marks
 */

/**
 * @typedef {import("./inspector.js").Line & {
 *   notes: Note[], protocol: string, changed: Record<string, unknown>, client: {body: unknown, fields: Record<string, unknown>},
 *   trace: {plan: string, rule: string, why: string, why_no_call: string, no_call_code: string, contract_tokens: number, attempts: Attempt[]},
 * }} RequestDetail
 */

/**
 * @param {RequestDetail} one
 * @param {import("./app.js").About} about
 * @returns {HTMLElement}
 */
export function makeDetail(one, about) {
  return h(
    "article",
    { class: "stack one" },
    makeBackLink(),
    head(one),
    timing(one),
    notes(one),
    h("section", { class: "stack" }, h("h2", {}, "Attempts"), drawAttempts(one)),
    disclosure("Request from the client", () => jsonText(one.client.body), { class: "section" }),
    makeReplay(one, about),
  );
}

/** The link back to the list, for narrow screens, which show either the list or a request. */
export const makeBackLink = () => h("p", { class: "back" }, h("a", { href: "#/requests" }, "← All requests"));

/** @param {RequestDetail} one */
function head(one) {
  const facts = [
    one.face.replaceAll("_", " "),
    one.tools === "none" ? "no tools" : `${one.tools} tools`,
    one.client_name === "browser" ? "a browser" : one.user_agent,
    one.requests ? plural(one.requests, "model request", "model requests") : "not sent to a model",
    `${compact(one.input_tokens)} tokens in, ${compact(one.output_tokens)} out`,
  ];
  if (one.trace.contract_tokens) facts.push(`${compact(one.trace.contract_tokens)} tokens of tool instructions`);
  return h(
    "header",
    { class: "stack-tight" },
    h("h1", { dir: "auto" }, title(one)),
    h("div", { class: "row" }, h("span", { class: "strong" }, one.model || "no model"), one.called.map((name) => h("span", { class: "badge good" }, name)), one.invalid > 0 && h("span", { class: "badge bad" }, plural(one.invalid, "invalid call")), one.plan && h("span", { class: "badge" }, one.plan === "pass" ? "unchanged" : one.plan), one.replay_of && h("span", { class: "badge" }, "re-run")),
    h("p", { class: "soft small" }, h("time", { title: day(one.time) }, clock(one.time)), ` · ${facts.filter(Boolean).join(" · ")}`),
    one.trace.why && h("p", { class: "small", title: one.trace.rule }, withCode(sentence(one.trace.why))),
    one.outcome === "left" && h("p", { class: "notice" }, "The client disconnected early, so the request was stopped."),
    one.error && h("p", { class: "notice bad" }, one.error),
    one.trace.why_no_call && h("p", { class: one.call_likely ? "notice" : "soft small", title: one.trace.no_call_code }, h("span", { class: "strong" }, "Why there was no call: "), withCode(sentence(one.trace.why_no_call))),
    one.replay_of && h("p", { class: "small" }, "Re-run of ", h("a", { href: `#/requests/${one.replay_of}` }, "another request"), "."),
    h(
      "div",
      { class: "row small soft" },
      h("span", {}, "id ", h("code", {}, one.id)),
      copyButton(() => one.id, "request id"),
      h("button", { type: "button", class: "quiet copy", click: () => saveTrace(one.id) }, "Download trace"),
    ),
  );
}

/** @param {string} id */
async function saveTrace(id) {
  try {
    download(`toolspeak-${id.slice(0, 8)}.html`, "text/html", await traceFile(id));
  } catch (error) {
    announce(/** @type {Error} */ (error).message);
  }
}

/** The index of the tools segment in the time bar, which is shown even if it is very short. */
const TOOLS = 3;

/** @param {RequestDetail} one drawn as a bar from the first to the last byte */
function timing(one) {
  const { whole, first, waited, added, first_token, held, tooled } = one.timing;
  const parts = [
    { name: "first token", seconds: first_token, class: "time-wait", about: "waiting for the first token of the model" },
    { name: "held back (could still become a call)", seconds: held, class: "time-held", about: "the model was writing, but toolspeak waited because the text could still become a call" },
    { name: "streaming", seconds: waited - first_token - held, class: "time-model", about: "the model was writing, and its text was passed on" },
    { name: "tools", seconds: tooled, class: "time-tools", about: "tools running on the server" },
    { name: "toolspeak", seconds: added, class: "time-own", about: "processing by toolspeak" },
    { name: "client", seconds: whole - waited - tooled - added, class: "time-client", about: "waiting for the client to receive data" },
  ].filter((part, index) => part.seconds > (index === TOOLS ? 0 : whole / 200));
  const bar = h(
    "div",
    { class: "time-bar", role: "img", "aria-label": `${duration(whole)} in total, first byte after ${duration(first)}` },
    parts.map((part) => {
      const piece = h("span", { class: part.class });
      piece.style.flexGrow = String(Math.max(part.seconds / whole, 0.004));
      return piece;
    }),
  );
  const mark = h("span", { class: "time-first" });
  mark.style.left = `${whole ? Math.min(100, (first / whole) * 100) : 0}%`;
  bar.append(mark);
  return h(
    "section",
    { class: "stack-tight", "aria-label": "Time" },
    bar,
    h(
      "ul",
      { class: "legend small" },
      parts.map((part) => h("li", { title: part.about }, h("i", { class: part.class }), `${part.name} ${duration(part.seconds)}`)),
      h("li", {}, h("i", { class: "time-first-key" }), `first byte to the client after ${duration(first)}`),
    ),
  );
}

/** @param {RequestDetail} one */
function notes(one) {
  if (!one.warnings.length && !one.notes.length) return null;
  return h(
    "section",
    { class: "stack-tight", "aria-label": "Warnings and notes" },
    one.warnings.length > 0 && h("div", { class: "row" }, one.warnings.map((warning) => h("span", { class: "badge warn long" }, warning))),
    drawNotes(one.notes),
  );
}
