// @ts-check
/** The attempts of a request side by side: what went upstream, and the answer with its candidates marked in place. */

import { disclosure, h, withCode } from "./dom.js";
import { counted } from "./format.js";
import { jsonText, longList, longText } from "./long_text.js";

/** What became of a candidate: a word for people, and how it looks. */
const VERDICTS = /** @type {Record<string, [string, string]>} */ ({
  call: ["accepted", "good"],
  repaired: ["repaired", "warn"],
  invalid: ["does not fit", "bad"],
  truncated: ["cut off", "bad"],
  text: ["rejected", ""],
  reasoning: ["only thought", ""],
});

/**
 * @param {import("./detail.js").Whole} one
 * @returns {HTMLElement}
 */
export function drawAttempts(one) {
  const { attempts } = one.trace;
  if (!attempts.length) return h("p", { class: "notice" }, "Nothing was asked of the model.");
  return h("div", { class: "attempts" }, attempts.map((attempt, index) => drawAttempt(attempt, attempts[index + 1], index, attempts.length)));
}

/**
 * @param {import("./detail.js").Attempt} attempt
 * @param {import("./detail.js").Attempt | undefined} following
 * @param {number} index
 * @param {number} all
 */
function drawAttempt(attempt, following, index, all) {
  const again = attempt.fault && following?.phase === attempt.phase;
  const about = [attempt.phase, attempt.finish_reason, `${attempt.usage.input_tokens} → ${attempt.usage.output_tokens} tokens`];
  return h(
    "section",
    { class: "card stack attempt" },
    h("div", { class: "row apart" }, h("h3", {}, all > 1 ? `Attempt ${index + 1}` : "Answer"), h("span", { class: "soft small" }, about.join(" · "))),
    attempt.fault && h("p", { class: "notice warn small" }, `${again ? "Asked again" : "Given up"}: `, withCode(attempt.fault.why)),
    attempt.reasoning && disclosure("Thinking", () => longText(attempt.reasoning)),
    attempt.raw ? marked(attempt) : h("p", { class: "soft small" }, attempt.candidates.length ? "No text: the calls came natively." : "No text."),
    attempt.candidates.length > 0 && longList(h("ol", { class: "candidates" }), attempt.candidates, drawCandidate),
    disclosure(`What went upstream: ${counted(attempt.request.messages.length, "message")}`, () => drawRequest(attempt.request)),
    drawNotes(attempt.notes),
  );
}

/** @param {import("./detail.js").Note[]} notes */
export const drawNotes = (notes) => notes.length > 0 && longList(h("ul", { class: "notes small" }), notes, (note) => h("li", {}, h("code", {}, note.code), " ", note.detail));

/** @param {import("./detail.js").Attempt} attempt the answer with its candidates marked */
function marked(attempt) {
  const stretches = attempt.marks.map(({ start, end, candidates }) => {
    const [number] = candidates;
    const [word, look] = verdict(attempt.candidates[number]);
    const names = candidates.map((each) => attempt.candidates[each].name || "no name").join(", ");
    return {
      start,
      end,
      make: (/** @type {string} */ text, /** @type {boolean} */ first) =>
        h("span", {}, first && h("span", { class: `badge found-name ${look}` }, `${number + 1} · ${names}: ${word}`), h("mark", { class: `found ${look}` }, text)),
    };
  });
  return longText(attempt.raw, stretches);
}

/** @param {import("./detail.js").Candidate} candidate */
const verdict = (candidate) => VERDICTS[candidate.verdict === "call" && candidate.notes.length ? "repaired" : candidate.verdict] ?? [candidate.verdict, ""];

/** @param {import("./detail.js").Candidate} candidate */
function drawCandidate(candidate) {
  const [word, look] = verdict(candidate);
  const evidence = Object.entries(candidate.evidence);
  return h(
    "li",
    {},
    h("div", { class: "row" }, h("code", { class: "strong" }, candidate.name || "no name"), h("span", { class: `badge ${look}` }, word), h("span", { class: "small soft" }, candidate.why)),
    drawNotes(candidate.notes),
    candidate.arguments !== null && h("pre", { class: "code small" }, JSON.stringify(candidate.arguments)),
    evidence.length > 0 &&
      disclosure("Evidence", () => h("dl", { class: "evidence small" }, evidence.flatMap(([name, value]) => [h("dt", {}, name.replaceAll("_", " ")), h("dd", {}, String(value))])), { class: "small" }),
  );
}

/** @param {any} request what went upstream, message by message */
function drawRequest(request) {
  const { messages, ...rest } = request;
  return h(
    "div",
    { class: "stack" },
    messages.map((/** @type {any} */ message) => drawMessage(message)),
    disclosure("Everything else", () => jsonText(rest)),
  );
}

/** @param {any} message */
function drawMessage(message) {
  const text = message.parts.map((/** @type {any} */ part) => (part.type === "text" ? part.text : `[${part.kind ?? part.type}]`)).join("");
  const beside = [...message.calls, ...message.results];
  return h("div", { class: "stack-tight" }, h("div", {}, h("span", { class: "badge" }, message.role)), text && longText(text), beside.length > 0 && jsonText(beside));
}
