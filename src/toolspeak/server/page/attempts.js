// @ts-check
/** The attempts of a request side by side: what went upstream, and the answer with its candidates marked in place. */

import { disclosure, h } from "./dom.js";
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

/** The rules that decide, in words. */
const REASONS = /** @type {Record<string, string>} */ ({
  accepted: "it is a call",
  arguments_invalid: "its arguments do not fit the tool's schema",
  reasoning: "it stands inside the model's thinking",
  no_nonce: "its mark lacks the word that only this conversation knows",
  in_fence: "it stands inside a code block",
  in_code: "it stands inside inline code",
  unknown_tool: "there is no tool of that name",
  not_wrapped: "it has no marks of its own, and the policy is strict",
  inline: "it does not stand at the start of a line, and the policy is strict",
  not_whole_answer: "it is bare, and not the whole answer",
  echo: "it repeats a call that stands in text which nobody vouches for",
  does_not_fit: "it is weakly marked and does not fit the tool's schema",
  more_follows: "the model went on after it, so it was an example",
  truncated: "the text ended inside it",
  no_name: "it names no tool",
  not_json: "it cannot be read",
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
    attempt.fault && h("p", { class: "notice warn small" }, `${again ? "Asked again" : "Given up"}: ${attempt.fault.kind.replaceAll("_", " ")} ${attempt.fault.detail}`),
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

/**
 * Why there was no call, with the rule that decided in words.
 * @param {string} why
 */
export function inWords(why) {
  const at = why.lastIndexOf(": ");
  const rule = why.slice(at + 2);
  return at >= 0 && Object.hasOwn(REASONS, rule) ? `${why.slice(0, at)}: ${REASONS[rule]}` : why;
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
    h("div", { class: "row" }, h("code", { class: "strong" }, candidate.name || "no name"), h("span", { class: `badge ${look}` }, word), h("span", { class: "small soft" }, REASONS[candidate.reason] ?? candidate.reason.replaceAll("_", " "))),
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
  return h("div", { class: "stack-tight" }, h("span", { class: "badge" }, message.role), text && longText(text), beside.length > 0 && jsonText(beside));
}
