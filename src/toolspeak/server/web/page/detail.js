// @ts-check
/** One request in detail: what the client sent, what went upstream, what came back, what was made of it, and a replay. */

import { drawAttempts, drawNotes } from "./attempts.js";
import { disclosure, h, withCode } from "./dom.js";
import { clock, compact, counted, day, span } from "./format.js";
import { jsonText } from "./long_text.js";
import { makeReplay } from "./replay.js";

/**
 * @typedef {{code: string, detail: string}} Note
 * @typedef {{name: string, verdict: string, reason: string, why: string, dialect: string, arguments: unknown, evidence: Record<string, unknown>, notes: Note[]}} Candidate
 * @typedef {{start: number, end: number, candidates: number[]}} Mark
 * @typedef {object} Attempt one request that went upstream
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
 * }} Whole
 */

/**
 * @param {Whole} one
 * @param {import("./app.js").About} about
 * @returns {HTMLElement}
 */
export function makeDetail(one, about) {
  return h(
    "article",
    { class: "stack one" },
    makeBack(),
    head(one),
    timing(one),
    notes(one),
    h("section", { class: "stack" }, h("h2", {}, one.trace.attempts.length > 1 ? "What came back, attempt by attempt" : "What came back"), drawAttempts(one)),
    disclosure("What the client sent", () => jsonText(one.client.body), { class: "section" }),
    makeReplay(one, about),
  );
}

/** The way back to the list, where there is no room for both. */
export const makeBack = () => h("p", { class: "back" }, h("a", { href: "#/inspector" }, "← All requests"));

/** @param {Whole} one */
function head(one) {
  const facts = [
    one.face.replaceAll("_", " "),
    one.tools === "none" ? "no tools" : `${one.tools} tools`,
    counted(one.requests, "request upstream", "requests upstream"),
    `${compact(one.input_tokens)} tokens in, ${compact(one.output_tokens)} out`,
  ];
  if (one.trace.contract_tokens) facts.push(`contract ${compact(one.trace.contract_tokens)} tokens`);
  return h(
    "header",
    { class: "stack-tight" },
    h("div", { class: "row" }, h("h1", {}, one.model || "no model"), one.plan && h("span", { class: "badge good" }, one.plan), one.replay_of && h("span", { class: "badge" }, "replay")),
    h("p", { class: "soft small" }, h("time", { title: day(one.time) }, clock(one.time)), ` · ${facts.join(" · ")}`),
    one.trace.why && h("p", { class: "small" }, withCode(one.trace.why), " ", h("code", { class: "soft" }, one.trace.rule)),
    one.outcome === "left" && h("p", { class: "notice" }, "The client left before the end: what was under way was broken off."),
    one.error && h("p", { class: "notice bad" }, one.error),
    one.trace.why_no_call && h("p", { class: "notice" }, h("span", { class: "strong" }, "Why there was no call: "), withCode(one.trace.why_no_call), " ", h("code", { class: "soft" }, one.trace.no_call_code)),
    one.replay_of && h("p", { class: "small" }, "This repeats ", h("a", { href: `#/inspector/${one.replay_of}` }, "another request"), "."),
    h("p", { class: "soft small" }, "id ", h("code", {}, one.id)),
  );
}

/** The place of tools among the parts of the bar: that they ran at all is worth knowing. */
const TOOLS = 3;

/** @param {Whole} one the bar from the first to the last byte */
function timing(one) {
  const { whole, first, waited, added, first_token, held, tooled } = one.timing;
  const parts = [
    { name: "first token", seconds: first_token, class: "time-wait", about: "until the model began to write" },
    { name: "hold-back", seconds: held, class: "time-held", about: "the model wrote, and none of it could go on yet: it might have been a call" },
    { name: "streaming", seconds: waited - first_token - held, class: "time-model", about: "the model wrote, and what it wrote went on" },
    { name: "tools", seconds: tooled, class: "time-tools", about: "tools ran in the server" },
    { name: "toolspeak", seconds: added, class: "time-own", about: "added by toolspeak" },
    { name: "client", seconds: whole - waited - tooled - added, class: "time-client", about: "the client took its time" },
  ].filter((part, index) => part.seconds > (index === TOOLS ? 0 : whole / 200));
  const bar = h(
    "div",
    { class: "time-bar", role: "img", "aria-label": `${span(whole)} in all, the first byte after ${span(first)}` },
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
      parts.map((part) => h("li", { title: part.about }, h("i", { class: part.class }), `${part.name} ${span(part.seconds)}`)),
      h("li", {}, h("i", { class: "time-first-key" }), `first byte to the client after ${span(first)}`),
    ),
  );
}

/** @param {Whole} one */
function notes(one) {
  if (!one.warnings.length && !one.notes.length) return null;
  return h(
    "section",
    { class: "stack-tight", "aria-label": "Warnings and notes" },
    one.warnings.length > 0 && h("div", { class: "row" }, one.warnings.map((warning) => h("span", { class: "badge warn long" }, warning))),
    drawNotes(one.notes),
  );
}
