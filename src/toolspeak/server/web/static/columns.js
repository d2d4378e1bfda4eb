// @ts-check
/** One answer of one model with one setting, as a column: its text and calls as they arrive, then what came of it. */

import { ApiError, fetchJson } from "./api.js";
import { checkedCall } from "./call_arguments.js";
import { h, setChildren, withCode } from "./dom.js";
import { compact, duration, plural } from "./format.js";
import { whyNoCall } from "./no_call.js";
import { streamReply } from "./stream.js";

/** The requests that columns have sent, which are not those of a client. */
export const ownRequests = new Set();

/** @typedef {import("./tools.js").Tool} Tool */
/** @typedef {import("./stream.js").Call & {problem: string}} CheckedCall */
/**
 * @typedef {object} Outcome
 * @property {CheckedCall[]} calls
 * @property {string} error
 * @property {boolean} called whether there are calls, and all of them are valid
 * @property {number} seconds
 * @property {number} first seconds until the first piece
 * @property {number} tokens output tokens
 * @property {string} plan
 * @property {string} record the id of the recorded request
 */

/**
 * Asks a model once.
 * @param {{model: string, question: string, tools: Tool[], settings: Record<string, string>}} wish
 * @param {AbortSignal} signal
 * @param {(reply: import("./stream.js").StreamedReply) => void} [onPiece]
 * @returns {Promise<Outcome>}
 */
export async function askOnce({ model, question, tools, settings }, signal, onPiece = () => {}) {
  const began = performance.now();
  /** @type {Outcome} */
  const outcome = { calls: [], error: "", called: false, seconds: 0, first: 0, tokens: 0, plan: "", record: "" };
  const body = { model, messages: [{ role: "user", content: question }], tools: tools.map((tool) => tool.definition) };
  try {
    const reply = await streamReply(body, settings, signal, (partial, piece) => {
      outcome.record = partial.record;
      ownRequests.add(partial.record);
      if (!piece) return;
      outcome.first ||= (performance.now() - began) / 1000;
      onPiece(partial);
    });
    outcome.calls = reply.calls.filter(Boolean).map((call) => ({ ...call, problem: problemOf(call, tools) }));
    outcome.tokens = reply.output;
    outcome.plan = reply.plan;
    outcome.called = outcome.calls.length > 0 && outcome.calls.every((call) => !call.problem);
  } catch (error) {
    outcome.error = signal.aborted ? "stopped" : /** @type {Error} */ (error).message;
    if (error instanceof ApiError && error.record) ownRequests.add((outcome.record = error.record));
  }
  outcome.seconds = (performance.now() - began) / 1000;
  return outcome;
}

/**
 * Why a call cannot be run; empty if it can.
 * @param {import("./stream.js").Call} call
 * @param {Tool[]} tools
 */
function problemOf(call, tools) {
  try {
    checkedCall(call, tools);
    return "";
  } catch (error) {
    return /** @type {Error} */ (error).message;
  }
}

/**
 * @param {string} title
 * @param {string} [about]
 */
export function makeColumn(title, about = "") {
  const state = h("span", { class: "badge" }, "ready");
  const content = h("div", { class: "stack-tight column-content" });
  const facts = h("p", { class: "small soft" });
  const why = h("p", { class: "small" });
  const heading = h("h3", {}, title);
  const element = h("section", { class: "card stack column", "aria-label": title }, h("div", { class: "row apart" }, heading, state), about && h("p", { class: "small soft" }, about), content, facts, why);

  /** @param {string} text @param {string} [style] */
  const setState = (text, style = "") => {
    state.className = `badge ${style}`;
    state.textContent = text;
  };

  /** @param {import("./stream.js").StreamedReply} reply */
  const drawPartial = (reply) => setChildren(content, reply.text && h("p", { class: "live" }, reply.text), reply.calls.filter(Boolean).map((call) => h("p", { class: "call" }, h("code", {}, `${call.name}(${call.arguments})`))));

  return {
    element,
    /** @param {string} text */
    setTitle(text) {
      heading.textContent = text;
      element.setAttribute("aria-label", text);
    },
    /**
     * @param {Parameters<typeof askOnce>[0]} wish
     * @param {AbortSignal} signal
     */
    async run(wish, signal) {
      setChildren(content);
      setChildren(facts);
      setChildren(why);
      const began = performance.now();
      const tick = setInterval(() => setState(`${((performance.now() - began) / 1000).toFixed(0)} s`), 1000);
      setState("waiting…");
      /** @type {import("./stream.js").StreamedReply | undefined} */
      let last;
      const outcome = await askOnce(wish, signal, (reply) => drawPartial((last = reply)));
      clearInterval(tick);
      if (outcome.called) setState(plural(outcome.calls.length, "call"), "good");
      else setState(outcome.error ? "failed" : outcome.calls.length ? "invalid call" : "no call", outcome.error || outcome.calls.length ? "bad" : "warn");
      setChildren(content, last?.text && h("p", { class: "live" }, last.text), outcome.calls.map((call) => drawCall(call, wish.tools)), outcome.error && h("p", { class: "notice bad small" }, outcome.error));
      setChildren(facts, [outcome.first && `first token ${duration(outcome.first)}`, `total ${duration(outcome.seconds)}`, outcome.tokens && `${compact(outcome.tokens)} tokens`].filter(Boolean).join(" · "));
      setChildren(why, await explain(outcome, last?.text ?? ""));
      return outcome;
    },
  };
}

/**
 * @param {CheckedCall} call
 * @param {Tool[]} tools
 */
function drawCall(call, tools) {
  let result = "";
  if (!call.problem) {
    try {
      const { tool, args } = checkedCall(call, tools);
      result = tool.run?.(args) ?? "";
    } catch (error) {
      result = `error: ${/** @type {Error} */ (error).message}`;
    }
  }
  return h("div", { class: "call" }, h("code", {}, `${call.name}(${call.arguments})`), call.problem ? h("p", { class: "small failed" }, withCode(`✗ ${call.problem}`)) : h("p", { class: "small soft" }, "✓ valid arguments", result && ` → ${result}`));
}

/**
 * What happened, in a sentence, with a link to the request.
 * @param {Outcome} outcome
 * @param {string} text that is shown
 * @returns {Promise<import("./dom.js").Child>}
 */
async function explain(outcome, text) {
  const link = outcome.record && h("a", { href: `#/requests/${outcome.record}` }, "Details");
  const detail = outcome.record ? await fetchJson(`toolspeak/requests/${encodeURIComponent(outcome.record)}`).catch(() => null) : null;
  if (!detail) return link;
  const candidates = detail.trace.attempts.flatMap((/** @type {any} */ attempt) => attempt.candidates);
  const accepted = candidates.filter((/** @type {any} */ each) => each.verdict === "call");
  const dialects = [...new Set(accepted.map((/** @type {any} */ each) => each.dialect))].filter((name) => name && name !== "native");
  const emulated = detail.plan !== "pass" && detail.plan !== "native";
  const said = [
    detail.plan === "pass" && !outcome.error && (outcome.calls.length ? "The server supports tools itself." : "The tools were sent unchanged, and the model answered with text only."),
    emulated && `toolspeak described the tools in the prompt (plan \`${detail.plan}\`).`,
    dialects.length > 0 && `The call was found in the text (dialect \`${dialects.join(", ")}\`).`,
    detail.repairs > 0 && `${plural(detail.repairs, "mistake was", "mistakes were")} repaired.`,
    detail.retries > 0 && `It took ${plural(detail.retries, "retry", "retries")}.`,
    emulated && !outcome.calls.length && detail.trace.why_no_call && `No call. ${whyNoCall(detail.trace, text)}`,
  ];
  return [withCode(said.filter(Boolean).join(" ")), " ", link];
}
