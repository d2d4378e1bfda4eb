// @ts-check
/** The attempts of a request side by side: what was sent to the model, and its answer with the candidates marked. */

import { disclosure, h, withCode } from "./dom.js";
import { plural } from "./format.js";
import { jsonText, longList, longText } from "./long_text.js";

/** What is not clear from the name of a phase. */
const PHASES = /** @type {Record<string, string>} */ ({ relay: "sent unchanged", both: "in the answer or natively", trial: "native trial" });

/** The label and the style class of each verdict on a candidate. */
const VERDICTS = /** @type {Record<string, [string, string]>} */ ({
  call: ["accepted", "good"],
  repaired: ["repaired", "warn"],
  invalid: ["invalid call", "bad"],
  truncated: ["invalid call (cut off)", "bad"],
  text: ["rejected", ""],
  reasoning: ["in reasoning", ""],
});

/**
 * @param {import("./detail.js").RequestDetail} one
 * @param {boolean} [asked] whether a model was asked, so that there are numbers of tokens
 * @returns {HTMLElement}
 */
export function drawAttempts(one, asked = true) {
  const { attempts } = one.trace;
  if (!attempts.length) return h("p", { class: "notice" }, "No request was sent to the model.");
  return h("div", { class: "attempts" }, attempts.map((attempt, index) => drawAttempt(attempt, attempts[index + 1], index, asked)));
}

/**
 * @param {import("./detail.js").Attempt} attempt
 * @param {import("./detail.js").Attempt | undefined} following
 * @param {number} index
 * @param {boolean} asked
 */
function drawAttempt(attempt, following, index, asked) {
  const retried = attempt.fault && following && !["final", "interpretation"].includes(following.phase);
  const outcome = retried ? "Retried" : following?.phase === "interpretation" ? "Asked the interpreter" : "Gave up";
  const { input_tokens: read, output_tokens: written } = attempt.usage;
  const about = [PHASES[attempt.phase] ?? attempt.phase, attempt.finish_reason, asked && read + written > 0 && `${read} → ${written} tokens`].filter(Boolean);
  return h(
    "section",
    { class: "card stack attempt" },
    h("div", { class: "row apart" }, h("h3", {}, `Attempt ${index + 1}`), h("span", { class: "soft small" }, about.join(" · "))),
    attempt.fault && h("p", { class: "notice warn small" }, `${outcome}: `, withCode(attempt.fault.why)),
    attempt.reasoning && disclosure("Reasoning", () => longText(attempt.reasoning)),
    attempt.raw ? marked(attempt) : h("p", { class: "soft small" }, attempt.candidates.length ? "No text, only native tool calls." : "No text."),
    attempt.candidates.length > 0 && longList(h("ol", { class: "candidates" }), attempt.candidates, drawCandidate),
    disclosure(`Sent to the model: ${plural(attempt.request.messages.length, "message")}`, () => drawRequest(attempt.request)),
    drawNotes(attempt.notes),
  );
}

/** @param {import("./detail.js").Note[]} notes */
export const drawNotes = (notes) => notes.length > 0 && longList(h("ul", { class: "notes small" }), notes, (note) => h("li", { title: note.code }, note.why ? `Retried: ${note.why}` : h("span", { class: "strong" }, note.code.replaceAll("_", " ")), note.detail && [": ", withCode(note.detail)]));

/** @param {import("./detail.js").Attempt} attempt whose answer is drawn with its candidates marked */
function marked(attempt) {
  const ranges = attempt.marks.map(({ start, end, candidates }) => {
    const [number] = candidates;
    const [label, style] = verdict(attempt.candidates[number]);
    const names = candidates.map((each) => attempt.candidates[each].name || "unnamed").join(", ");
    return {
      start,
      end,
      make: (/** @type {string} */ text, /** @type {boolean} */ first) =>
        h("span", {}, first && h("span", { class: `badge candidate-label ${style}` }, `${number + 1} · ${names}: ${label}`), h("mark", { class: `candidate-mark ${style}` }, text)),
    };
  });
  return longText(attempt.raw, ranges);
}

/** @param {import("./detail.js").Candidate} candidate */
const verdict = (candidate) => VERDICTS[candidate.verdict === "call" && candidate.notes.length ? "repaired" : candidate.verdict] ?? [candidate.verdict, ""];

/** @param {import("./detail.js").Candidate} candidate */
function drawCandidate(candidate) {
  const [label, style] = verdict(candidate);
  const evidence = Object.entries(candidate.evidence);
  return h(
    "li",
    {},
    h("div", { class: "row" }, h("code", { class: "strong" }, candidate.name || "unnamed"), h("span", { class: `badge ${style}` }, label), h("span", { class: "small soft" }, candidate.why)),
    drawNotes(candidate.notes),
    candidate.arguments !== null && h("pre", { class: "code small" }, JSON.stringify(candidate.arguments)),
    evidence.length > 0 &&
      disclosure("Evidence", () => h("dl", { class: "evidence small" }, evidence.flatMap(([name, value]) => [h("dt", {}, name.replaceAll("_", " ")), h("dd", {}, String(value))])), { class: "small" }),
  );
}

/** @param {any} request to the model, drawn message by message */
function drawRequest(request) {
  const { messages, ...rest } = request;
  return h(
    "div",
    { class: "stack" },
    messages.map((/** @type {any} */ message) => drawMessage(message)),
    disclosure("Other fields", () => jsonText(rest)),
  );
}

/** @param {any} message */
function drawMessage(message) {
  const text = message.parts.map((/** @type {any} */ part) => (part.type === "text" ? part.text : `[${part.kind ?? part.type}]`)).join("");
  const beside = [...message.calls, ...message.results];
  return h("div", { class: "stack-tight" }, h("div", {}, h("span", { class: "badge" }, message.role)), text && longText(text), beside.length > 0 && jsonText(beside));
}
