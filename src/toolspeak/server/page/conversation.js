// @ts-check
/**
 * A conversation: what was said, and answers with the rounds that led to them. It asks the model, lets tools run and
 * asks again, and tells a view of everything that happens. It knows nothing of elements.
 */

import { Refused } from "./api.js";
import { listen } from "./stream.js";

/** Rounds after which a model that goes on calling is stopped. */
const MOST_ROUNDS = 20;

/** @typedef {{id: string, name: string, arguments: string, result: string, failed: boolean, seconds: number}} MadeCall */
/** @typedef {{text: string, reasoning: string, calls: MadeCall[], record: string, seconds: number}} Round */
/**
 * @typedef {object} Answer
 * @property {Round[]} rounds
 * @property {string} content
 * @property {string} reasoning
 * @property {"running" | "complete" | "interrupted" | "failed"} status
 * @property {string} error
 * @property {string} record
 * @property {number} [refused] the status with which the server refused
 * @property {string} plan
 * @property {string[]} warnings
 * @property {number} tokens
 * @property {number} seconds
 */
/** @typedef {{question: string, answer: Answer}} Exchange */
/**
 * @typedef {object} Wishes
 * @property {string} model
 * @property {Record<string, string>} settings
 * @property {import("./tool_picker.js").ChatTool[]} tools
 */
/**
 * @typedef {object} Watcher is told what happens
 * @property {(piece: {text?: string, reasoning?: string, call?: import("./stream.js").Call}) => void} piece
 * @property {(call: MadeCall) => void} result
 * @property {(round: Round) => void} round
 * @property {(call: MadeCall, given: unknown, signal: AbortSignal) => Promise<string>} person answers for a tool that is nobody's
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
   * Forgets everything from one question on.
   * @param {number} index
   */
  cut(index) {
    this.exchanges.length = index;
  }

  /**
   * @param {string} question
   * @returns {Exchange} ready to be answered
   */
  say(question) {
    /** @type {Answer} */
    const answer = { rounds: [], content: "", reasoning: "", status: "running", error: "", record: "", plan: "", warnings: [], tokens: 0, seconds: 0 };
    const exchange = { question, answer };
    this.exchanges.push(exchange);
    return exchange;
  }

  /**
   * Answers the last question. What has come when it ends early stays.
   * @param {Exchange} exchange
   * @param {Wishes} wishes
   * @param {Watcher} watcher
   */
  async answer(exchange, wishes, watcher) {
    const { answer } = exchange;
    const running = (this._running = new AbortController());
    const began = performance.now();
    try {
      await this._rounds(answer, wishes, watcher, running.signal);
      answer.status = "complete";
    } catch (error) {
      answer.status = running.signal.aborted ? "interrupted" : "failed";
      answer.error = running.signal.aborted ? "" : /** @type {Error} */ (error).message;
      if (error instanceof Refused) Object.assign(answer, { record: error.record || answer.record, refused: error.status });
    }
    answer.seconds = (performance.now() - began) / 1000;
    this._running = null;
  }

  /**
   * @param {Answer} answer
   * @param {Wishes} wishes
   * @param {Watcher} watcher
   * @param {AbortSignal} signal
   */
  async _rounds(answer, wishes, watcher, signal) {
    for (let number = 0; number < MOST_ROUNDS; number += 1) {
      answer.content = answer.reasoning = "";
      const began = performance.now();
      const heard = await listen(this._body(wishes), wishes.settings, signal, (so_far, piece) => {
        answer.content = so_far.text;
        answer.reasoning = so_far.reasoning;
        answer.record = so_far.record;
        if (piece) watcher.piece(piece);
      });
      Object.assign(answer, { record: heard.record, plan: heard.plan, warnings: heard.warnings, tokens: answer.tokens + heard.tokens });
      if (!heard.calls.length) return;
      /** @type {Round} */
      const round = { text: heard.text, reasoning: heard.reasoning, calls: [], record: heard.record, seconds: 0 };
      round.calls = heard.calls.map((call) => ({ ...call, result: "", failed: false, seconds: 0 }));
      answer.rounds.push(round);
      answer.content = answer.reasoning = "";
      await Promise.all(round.calls.map((call) => this._run(call, wishes, watcher, signal)));
      round.seconds = (performance.now() - began) / 1000;
      watcher.round(round);
    }
    throw new Error(`the model went on calling for ${MOST_ROUNDS} rounds`);
  }

  /**
   * @param {MadeCall} call
   * @param {Wishes} wishes
   * @param {Watcher} watcher
   * @param {AbortSignal} signal
   */
  async _run(call, wishes, watcher, signal) {
    const began = performance.now();
    const tool = wishes.tools.find((each) => each.name === call.name);
    try {
      const given = JSON.parse(call.arguments || "{}");
      if (!tool) throw new Error(`there is no tool \`${call.name}\``);
      call.result = tool.run ? tool.run(given) : await watcher.person(call, given, signal);
    } catch (error) {
      if (signal.aborted) throw error;
      call.failed = true;
      call.result = `error: ${/** @type {Error} */ (error).message}`;
    }
    call.seconds = (performance.now() - began) / 1000;
    watcher.result(call);
  }

  /** @param {Wishes} wishes */
  _body(wishes) {
    const tools = wishes.tools.map((tool) => tool.definition);
    return { model: wishes.model, messages: this.exchanges.flatMap(messages), ...(tools.length ? { tools } : {}) };
  }
}

/**
 * What was said, as the protocol wants it.
 * @param {Exchange} exchange
 * @returns {object[]}
 */
function messages({ question, answer }) {
  const rounds = answer.rounds.flatMap((round) => [
    {
      role: "assistant",
      content: round.text || null,
      tool_calls: round.calls.map((call) => ({ id: call.id, type: "function", function: { name: call.name, arguments: call.arguments } })),
    },
    ...round.calls.map((call) => ({ role: "tool", tool_call_id: call.id, content: call.result || "interrupted" })),
  ]);
  const last = answer.status !== "running" && answer.content ? [{ role: "assistant", content: answer.content }] : [];
  return [{ role: "user", content: question }, ...rounds, ...last];
}
