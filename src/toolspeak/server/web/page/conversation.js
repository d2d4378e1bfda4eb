// @ts-check
/**
 * A conversation: what was said, and answers with the rounds that led to them. It asks the model, lets tools run and
 * asks again, and tells a view of everything that happens. It knows nothing of elements.
 */

import { Refused } from "./api.js";
import { listen } from "./stream.js";

/** Rounds after which a model that goes on calling is stopped. */
const MOST_ROUNDS = 20;

/** @typedef {{id: string, name: string, arguments: string, result: string, failed: boolean, seconds: number, done: boolean}} MadeCall */
/** @typedef {{text: string, reasoning: string, calls: MadeCall[], record: string, seconds: number | null, server?: boolean}} Round `server`: its tools ran there */
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
 * @property {number} input_tokens
 * @property {number} output_tokens
 * @property {number | null} seconds null where nobody knows: it was opened from a session that does not say
 */
/** @typedef {{question: string, answer: Answer}} Exchange */
/**
 * @typedef {object} Wishes
 * @property {string} model
 * @property {Record<string, string>} settings
 * @property {import("./tool_picker.js").ChatTool[]} tools
 * @property {string[]} serverTools the names of those that the server is to run
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
    const answer = { rounds: [], content: "", reasoning: "", status: "running", error: "", record: "", plan: "", warnings: [], input_tokens: 0, output_tokens: 0, seconds: 0 };
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
      const there = new RanThere(answer, watcher);
      const heard = await listen(this._body(wishes), { ...wishes.settings, server_tools: wishes.serverTools }, signal, (so_far, piece) => {
        if (piece?.ran) there.hear(so_far, piece.ran);
        answer.content = so_far.text;
        answer.reasoning = so_far.reasoning;
        answer.record = so_far.record;
        if (piece && !piece.ran) watcher.piece(piece);
      });
      answer.input_tokens += heard.input;
      answer.output_tokens += heard.output;
      Object.assign(answer, { record: heard.record, plan: heard.plan, warnings: heard.warnings });
      if (!heard.calls.length) return;
      const cut = heard.finish === "length" && heard.calls.find((call) => !isWhole(call));
      if (cut) throw new Error(`the limit of tokens cut the answer off inside a call of \`${cut.name}\`; nothing was run`);
      /** @type {Round} */
      const round = { text: heard.text, reasoning: heard.reasoning, calls: [], record: heard.record, seconds: 0 };
      round.calls = heard.calls.map(unanswered);
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
    call.done = true;
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
 * @param {import("./stream.js").Call} call
 * @returns {boolean} whether all of its arguments are there
 */
function isWhole(call) {
  try {
    JSON.parse(call.arguments || "{}");
    return true;
  } catch {
    return false;
  }
}

/**
 * @param {import("./stream.js").Call} call
 * @returns {MadeCall} without a result yet
 */
const unanswered = (call) => ({ ...call, result: "", failed: false, seconds: 0, done: false });

/** Rounds of one answer whose tools the server runs: told beside the text, calls first, then their results. */
class RanThere {
  /**
   * @param {Answer} answer
   * @param {Watcher} watcher
   */
  constructor(answer, watcher) {
    this._answer = answer;
    this._watcher = watcher;
    /** @type {Round | null} the round whose tools run */
    this._round = null;
    this._began = performance.now();
  }

  /**
   * @param {import("./stream.js").Heard} heard what was said until now; that is the text of the round
   * @param {import("./stream.js").Ran} ran
   */
  hear(heard, { call, result }) {
    if (call) this._begin(heard).calls.push(unanswered(call));
    if (call) this._watcher.piece({ call });
    const made = this._round?.calls.find((each) => each.id === result?.id);
    if (!result || !made || !this._round) return;
    Object.assign(made, { result: result.content, failed: result.error, seconds: result.seconds, done: true });
    this._watcher.result(made);
    if (this._round.calls.every((each) => each.done)) this._end(this._round);
  }

  /** @param {import("./stream.js").Heard} heard */
  _begin(heard) {
    if (this._round) return this._round;
    this._round = { text: heard.text.trim(), reasoning: heard.reasoning, calls: [], record: heard.record, seconds: 0, server: true };
    heard.text = heard.reasoning = "";
    this._answer.rounds.push(this._round);
    return this._round;
  }

  /** @param {Round} round */
  _end(round) {
    round.seconds = (performance.now() - this._began) / 1000;
    this._began = performance.now();
    this._round = null;
    this._watcher.round(round);
  }
}

/**
 * What was said, as the protocol wants it.
 * @param {Exchange} exchange
 * @returns {object[]}
 */
function messages({ question, answer }) {
  // What the server ran before it handed a call over, it puts back itself when the result comes.
  const handed = new Set(answer.rounds.filter((round) => !round.server).map((round) => round.record));
  const told = answer.rounds.filter((round) => !round.server || !round.record || !handed.has(round.record));
  const rounds = told.flatMap((round) => [
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
