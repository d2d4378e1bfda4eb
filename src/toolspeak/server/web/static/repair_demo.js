// @ts-check
/** Recorded failures of real models, and what toolspeak makes of them, step by step. The recordings come from the engine. */

import { h, setChildren, withCode } from "./dom.js";
import { plural } from "./format.js";
import { longText } from "./long_text.js";
import { REPAIRS as RECORDINGS } from "./repairs.js";

/** Milliseconds between two steps. */
const STEP = 1100;
/** What each repair changed, in words. */
const WORDS = /** @type {Record<string, string>} */ ({ single_quotes: "Python quotes became JSON quotes" });

/**
 * @typedef {object} Recording made by scripts/record_repairs.py
 * @property {string} title
 * @property {string} source
 * @property {string} question
 * @property {string} tool
 * @property {string} raw
 * @property {{start: number, end: number, candidates: number[]}[]} marks
 * @property {{name: string, dialect: string, arguments: unknown, notes: {code: string, detail: string}[]}[]} candidates
 * @property {{name: string, arguments: string}[]} calls
 * @property {string} text
 */

/** @returns {HTMLElement} */
export function makeRepairDemo() {
  const stage = h("ol", { class: "steps" });
  const choices = h("div", { class: "row" });
  let playing = 0;

  /** @param {Recording} recording */
  async function play(recording) {
    const number = (playing += 1);
    const steps = stepsOf(recording);
    setChildren(stage);
    for (const button of choices.children) button.setAttribute("aria-pressed", String(button.textContent === recording.title));
    const quick = matchMedia("(prefers-reduced-motion: reduce)").matches;
    for (const step of steps) {
      if (number !== playing) return;
      stage.append(step());
      if (!quick) await new Promise((resolve) => setTimeout(resolve, STEP));
    }
  }

  setChildren(choices, RECORDINGS.map((recording) => h("button", { type: "button", "aria-pressed": "false", click: () => play(recording) }, recording.title)));
  return h("div", { class: "stack" }, choices, stage);
}

/**
 * @param {Recording} recording
 * @returns {(() => HTMLElement)[]}
 */
function stepsOf(recording) {
  const { raw, candidates, calls } = recording;
  const repairs = [...new Set(candidates.flatMap((candidate) => candidate.notes.map((note) => note.code)))];
  const dialects = [...new Set(candidates.map((candidate) => candidate.dialect))];
  const ranges = recording.marks.map(({ start, end }) => ({ start, end, make: (/** @type {string} */ text) => h("mark", { class: "candidate-mark good" }, text) }));
  return [
    () => step("The client asks", h("p", {}, h("q", {}, recording.question), " It offers the tool ", h("code", {}, recording.tool), ".")),
    () => step("The model answers in text", longText(raw), h("p", { class: "small soft" }, "A real answer, ", h("a", { href: recording.source, target: "_blank", rel: "noreferrer noopener" }, "published here"), ".")),
    () => step("A JSON parser gives up", h("p", { class: "failed" }, parserError(raw)), h("p", { class: "small soft" }, "Without toolspeak, the client gets this text and no call.")),
    () => step(`toolspeak finds ${plural(calls.length, "call")}`, longText(raw, ranges), h("p", { class: "small" }, withCode(`Notation: \`${dialects.join(", ")}\`. ${repairs.map((code) => WORDS[code] ?? code.replaceAll("_", " ")).join(", ")}${repairs.length ? "." : ""}`))),
    () => step("The client gets real calls", calls.map((call) => h("div", { class: "call" }, h("code", {}, `${call.name}(${call.arguments})`), h("p", { class: "small soft" }, "✓ known tool, valid arguments"))), !recording.text && raw.length > (recording.marks.at(-1)?.end ?? 0) && h("p", { class: "small" }, "The result that the model made up is not passed on: the tool has not run yet.")),
  ];
}

/**
 * @param {string} title
 * @param {...import("./dom.js").Child} content
 */
const step = (title, ...content) => h("li", { class: "stack-tight" }, h("h3", {}, title), content);

/**
 * What the JSON parser of this browser says about the part of an answer that looks like JSON.
 * @param {string} text
 */
function parserError(text) {
  try {
    JSON.parse(text.slice(Math.max(0, text.indexOf("[{"))));
    return "";
  } catch (error) {
    return /** @type {Error} */ (error).message.slice(0, 160);
  }
}
