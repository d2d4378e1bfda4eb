// @ts-check
/**
 * A conversation: questions, and answers with the rounds that led to them. It calls the model, runs tools, calls the
 * model again, and notifies an observer of everything that happens. It is independent of the DOM.
 */

import { ApiError, fetchJson } from "./api.js";
import { checkedCall, InvalidCall } from "./call_arguments.js";
import { whyNoCall } from "./no_call.js";
import { streamReply } from "./stream.js";

/** Beginning of the result of a call whose arguments do not fit. Such a call is never run. */
const INVALID = "invalid call: ";
/** Number of characters in a token, on average. */
const CHARS_PER_TOKEN = 4;
/** Milliseconds before the record of an answer is asked for again: it is made when the answer has ended. */
const RECORD_PAUSE = 300;

/** Maximum number of rounds, after which a model that keeps calling tools is stopped. */
const MAX_ROUNDS = 20;

/** @typedef {{id: string, name: string, arguments: string, result: string, failed: boolean, seconds: number, done: boolean, diffs?: {path: string, diff: string}[]}} CallRecord `diffs`: the files that it changed */
/** @typedef {{text: string, reasoning: string, calls: CallRecord[], record: string, seconds: number | null, server?: boolean}} Round `server`: its tools ran on the server */
/**
 * @typedef {object} Answer
 * @property {Round[]} rounds
 * @property {string} content
 * @property {string} reasoning
 * @property {"running" | "complete" | "interrupted" | "failed"} status
 * @property {string} error
 * @property {string} record
 * @property {number} [errorStatus] the HTTP status of an error response
 * @property {string} plan
 * @property {string[]} warnings
 * @property {number} input_tokens
 * @property {number} output_tokens
 * @property {number | null} seconds null if unknown: sessions of agents do not record it
 * @property {string} model
 * @property {string} why why there was no call, if one was likely
 */
/** @typedef {{question: string, answer: Answer}} Exchange */
/**
 * @typedef {object} RequestOptions
 * @property {string} model
 * @property {Record<string, string>} settings
 * @property {import("./tools.js").Tool[]} tools
 * @property {string[]} serverTools the names of the server tools to offer
 */
/**
 * @typedef {object} AnswerObserver is notified of what happens
 * @property {(piece: {text?: string, reasoning?: string, call?: import("./stream.js").Call}) => void} piece
 * @property {(call: CallRecord) => void} result
 * @property {(round: Round) => void} round
 * @property {(id: string, tokens: number) => void} asking the model is asked: the id of the request, and about how many tokens it has
 * @property {(call: CallRecord, args: unknown, signal: AbortSignal) => Promise<string>} askUser asks the user for the result of a tool that has no implementation
 */

export class Conversation {
  constructor() {
    /** @type {Exchange[]} */
    this.exchanges = [];
    /** @type {AbortController | null} */
    this._running = null;
  }

  get busy() {
    return this._running !== null;
  }

  cancel() {
    this._running?.abort();
  }

  /**
   * Removes a question and everything after it.
   * @param {number} index
   */
  truncate(index) {
    this.exchanges.length = index;
  }

  /**
   * @param {string} question
   * @returns {Exchange} ready to be answered
   */
  add(question) {
    /** @type {Answer} */
    const answer = { rounds: [], content: "", reasoning: "", status: "running", error: "", record: "", plan: "", warnings: [], input_tokens: 0, output_tokens: 0, seconds: 0, model: "", why: "" };
    const exchange = { question, answer };
    this.exchanges.push(exchange);
    return exchange;
  }

  /**
   * Answers the last question. If it ends early, the partial answer is kept.
   * @param {Exchange} exchange
   * @param {RequestOptions} options
   * @param {AnswerObserver} observer
   */
  async answer(exchange, options, observer) {
    const { answer } = exchange;
    const running = (this._running = new AbortController());
    const began = performance.now();
    answer.model = options.model;
    try {
      await this._rounds(answer, options, observer, running.signal);
      answer.status = "complete";
      const mayCall = options.tools.length + options.serverTools.length > 0;
      if (mayCall && !answer.rounds.length) answer.why = await whyCallIsMissing(answer.record, answer.content, running.signal);
    } catch (error) {
      answer.status = running.signal.aborted ? "interrupted" : "failed";
      answer.error = running.signal.aborted ? "" : /** @type {Error} */ (error).message;
      if (error instanceof ApiError) Object.assign(answer, { record: error.record || answer.record, errorStatus: error.status });
    }
    answer.seconds = (performance.now() - began) / 1000;
    this._running = null;
  }

  /**
   * @param {Answer} answer
   * @param {RequestOptions} options
   * @param {AnswerObserver} observer
   * @param {AbortSignal} signal
   */
  async _rounds(answer, options, observer, signal) {
    for (let number = 0; number < MAX_ROUNDS; number += 1) {
      answer.content = answer.reasoning = "";
      const began = performance.now();
      const serverRounds = new ServerRounds(answer, observer);
      const body = this._body(options);
      const id = randomId();
      observer.asking(id, Math.ceil(JSON.stringify(body).length / CHARS_PER_TOKEN));
      const reply = await streamReply(body, { ...options.settings, server_tools: options.serverTools }, signal, (soFar, piece) => {
        if (piece?.serverTool) serverRounds.handle(soFar, piece.serverTool);
        answer.content = soFar.text;
        answer.reasoning = soFar.reasoning;
        answer.record = soFar.record;
        if (piece && !piece.serverTool) observer.piece(piece);
      }, id);
      answer.input_tokens += reply.input;
      answer.output_tokens += reply.output;
      Object.assign(answer, { record: reply.record, plan: reply.plan, warnings: reply.warnings });
      if (!reply.calls.length) return;
      const incomplete = reply.finish === "length" && reply.calls.find((call) => !isComplete(call));
      if (incomplete) throw new Error(`the answer reached the token limit inside a call to \`${incomplete.name}\`, so the call was not run`);
      /** @type {Round} */
      const round = { text: reply.text, reasoning: reply.reasoning, calls: [], record: reply.record, seconds: 0 };
      round.calls = reply.calls.map(pending);
      answer.rounds.push(round);
      answer.content = answer.reasoning = "";
      await Promise.all(round.calls.map((call) => this._run(call, options, observer, signal)));
      round.seconds = (performance.now() - began) / 1000;
      observer.round(round);
    }
    throw new Error(`stopped after ${MAX_ROUNDS} rounds of tool calls`);
  }

  /**
   * @param {CallRecord} call
   * @param {RequestOptions} options
   * @param {AnswerObserver} observer
   * @param {AbortSignal} signal
   */
  async _run(call, options, observer, signal) {
    const began = performance.now();
    try {
      const { tool, args } = checkedCall(call, options.tools);
      call.result = tool.run ? tool.run(args) : await observer.askUser(call, args, signal);
    } catch (error) {
      if (signal.aborted) throw error;
      call.failed = true;
      const { message } = /** @type {Error} */ (error);
      call.result = error instanceof InvalidCall ? `${INVALID}${message}` : `error: ${message}`;
    }
    call.done = true;
    call.seconds = (performance.now() - began) / 1000;
    observer.result(call);
  }

  /** @param {RequestOptions} options */
  _body(options) {
    const tools = options.tools.map((tool) => tool.definition);
    return { model: options.model, messages: this.exchanges.flatMap(messages), ...(tools.length ? { tools } : {}) };
  }
}

/** An unguessable id. */
export const randomId = () => [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");

/** @param {CallRecord} call */
export const isInvalid = (call) => call.failed && call.result.startsWith(INVALID);

/**
 * Why an answer has no call, if one was likely; else an empty string.
 * @param {string} record
 * @param {string} text that is shown
 * @param {AbortSignal} signal
 */
async function whyCallIsMissing(record, text, signal) {
  for (let attempt = 0; record && attempt < 2 && !signal.aborted; attempt += 1) {
    if (attempt) await new Promise((resolve) => setTimeout(resolve, RECORD_PAUSE));
    try {
      const { call_likely, trace } = await fetchJson(`toolspeak/requests/${encodeURIComponent(record)}`, { signal });
      return call_likely ? whyNoCall(trace, text) : "";
    } catch {
      // the request is not recorded, or not yet
    }
  }
  return "";
}

/**
 * @param {import("./stream.js").Call} call
 * @returns {boolean} whether its arguments are complete
 */
function isComplete(call) {
  try {
    JSON.parse(call.arguments || "{}");
    return true;
  } catch {
    return false;
  }
}

/**
 * @param {import("./stream.js").Call} call
 * @returns {CallRecord} without a result yet
 */
const pending = (call) => ({ ...call, result: "", failed: false, seconds: 0, done: false });

/** Rounds of one answer whose tools the server runs. Their events arrive between the text, first calls, then results. */
class ServerRounds {
  /**
   * @param {Answer} answer
   * @param {AnswerObserver} observer
   */
  constructor(answer, observer) {
    this._answer = answer;
    this._observer = observer;
    /** @type {Round | null} the round whose tools run */
    this._round = null;
    this._began = performance.now();
  }

  /**
   * @param {import("./stream.js").StreamedReply} reply the reply so far; its text becomes the text of the round
   * @param {import("./stream.js").ServerToolEvent} event
   */
  handle(reply, { call, result }) {
    if (call) this._begin(reply).calls.push(pending(call));
    if (call) this._observer.piece({ call });
    const record = this._round?.calls.find((each) => each.id === result?.id);
    if (!result || !record || !this._round) return;
    Object.assign(record, { result: result.content, failed: result.error, seconds: result.seconds, done: true, diffs: result.diffs });
    this._observer.result(record);
    if (this._round.calls.every((each) => each.done)) this._end(this._round);
  }

  /** @param {import("./stream.js").StreamedReply} reply */
  _begin(reply) {
    if (this._round) return this._round;
    this._round = { text: reply.text.trim(), reasoning: reply.reasoning, calls: [], record: reply.record, seconds: 0, server: true };
    reply.text = reply.reasoning = "";
    this._answer.rounds.push(this._round);
    return this._round;
  }

  /** @param {Round} round */
  _end(round) {
    round.seconds = (performance.now() - this._began) / 1000;
    this._began = performance.now();
    this._round = null;
    this._observer.round(round);
  }
}

/**
 * An exchange as messages of the chat completions protocol.
 * @param {Exchange} exchange
 * @returns {object[]}
 */
function messages({ question, answer }) {
  // Leave out rounds that the server ran before it passed on a call: it restores them when it gets the result.
  const passedOn = new Set(answer.rounds.filter((round) => !round.server).map((round) => round.record));
  const sent = answer.rounds.filter((round) => !round.server || !round.record || !passedOn.has(round.record));
  const rounds = sent.flatMap((round) => [
    {
      role: "assistant",
      content: round.text || null,
      tool_calls: round.calls.map((call) => ({ id: call.id, type: "function", function: { name: call.name, arguments: call.arguments } })),
    },
    ...round.calls.map((call) => ({ role: "tool", tool_call_id: call.id, content: call.done ? call.result : "interrupted" })),
  ]);
  const last = answer.status !== "running" && answer.content ? [{ role: "assistant", content: answer.content }] : [];
  return [{ role: "user", content: question }, ...rounds, ...last];
}
