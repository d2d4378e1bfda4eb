// @ts-check
/**
 * Runs test cases through the public API of the server, one request for each round. The server judges the answers, with
 * the judge of `toolspeak eval`.
 */

import { ApiError, fetchJson } from "./api.js";
import { WAYS } from "./call_ways.js";
import { ownRequests } from "./columns.js";
import { streamReply } from "./stream.js";
import { asTool } from "./tools.js";

/** What `toolspeak eval` uses by default. */
export const REQUEST = { temperature: 0, max_tokens: 2048 };
export const RETRIES = 2;
const TIMEOUT = 300_000;
/** Number of errors after which the model counts as unavailable, unless a case has been answered. */
const GIVE_UP_AFTER = 10;

/** @typedef {{name: string, arguments: any}} GivenCall */
/**
 * The result of a case, in the format of `cases.jsonl`, with the ids of the recorded requests.
 * @typedef {object} Result
 * @property {string} case
 * @property {string} category
 * @property {boolean} correct
 * @property {string} fault
 * @property {string} detail
 * @property {string} error of a request that failed; the case counts as wrong and is repeated
 * @property {string[]} plans of each round
 * @property {GivenCall[][]} calls of each round
 * @property {string} text
 * @property {number} requests
 * @property {number} input_tokens
 * @property {number} output_tokens
 * @property {number} seconds
 * @property {string[]} records
 */
/** @typedef {{model: string, way: string}} Column */
/**
 * @typedef {object} Run
 * @property {string} id
 * @property {number} began seconds since the epoch
 * @property {import("./suites.js").Suite} suite with the chosen cases only
 * @property {Column[]} columns
 * @property {number} parallel
 * @property {(Result | null)[][]} results by column and case
 * @property {string} [stopped] why it stopped by itself
 */

/** @param {Result | null} result */
export const isFinished = (result) => result !== null && !result.error;

/** @param {Run} run */
export const isComplete = (run) => run.results.every((results) => results.every(isFinished));

/**
 * Runs the unfinished cases of a run, alternating between its columns.
 * @param {Run} run
 * @param {AbortSignal} signal
 * @param {(column: number, index: number, running: boolean) => void} changed is called before and after each case
 */
export async function runCases(run, signal, changed) {
  const jobs = run.suite.tasks.flatMap((_, index) => run.columns.map((_, column) => ({ column, index }))).filter(({ column, index }) => !isFinished(run.results[column][index]));
  let answered = run.results.some((results) => results.some(isFinished));
  let errors = 0;
  run.stopped = "";
  const work = async () => {
    for (let job = jobs.shift(); job && !signal.aborted && !run.stopped; job = jobs.shift()) {
      const { column, index } = job;
      changed(column, index, true);
      const result = await runCase(run.suite, run.suite.tasks[index], run.columns[column], signal);
      if (result) {
        run.results[column][index] = result;
        answered ||= !result.error;
        errors += Number(Boolean(result.error));
        if (!answered && errors >= GIVE_UP_AFTER) run.stopped = `The first ${errors} requests failed: ${result.error}`;
      }
      changed(column, index, false);
    }
  };
  await Promise.all(Array.from({ length: run.parallel }, work));
}

/**
 * @param {import("./suites.js").Suite} suite
 * @param {import("./suites.js").Case} task
 * @param {Column} column
 * @param {AbortSignal} stop
 * @returns {Promise<Result | null>} null if it was stopped
 */
async function runCase(suite, task, { model, way }, stop) {
  /** @type {Result} */
  const result = { case: task.id, category: task.category, correct: false, fault: "", detail: "", error: "", plans: [], calls: [], text: "", requests: 0, input_tokens: 0, output_tokens: 0, seconds: 0, records: [] };
  const timeout = AbortSignal.timeout(TIMEOUT);
  const signal = AbortSignal.any([stop, timeout]);
  const tools = task.tools.map((name) => asTool({ name, ...suite.tools[name] }).definition);
  /** @type {any[]} */
  const messages = [{ role: "user", content: task.ask }];
  try {
    for (const [number, expected] of task.rounds.entries()) {
      const reply = await askRound({ model, messages, tools, ...REQUEST }, way, signal, result);
      const judgement = await judge(expected, reply, result);
      Object.assign(result, { correct: judgement.correct, fault: judgement.fault, detail: judgement.detail });
      if (!judgement.correct || number === task.rounds.length - 1) break;
      messages.push({ role: "assistant", content: reply.text, tool_calls: reply.calls.map(({ id, ...call }) => ({ id, type: "function", function: call })) });
      messages.push(...reply.calls.map((call, index) => ({ role: "tool", tool_call_id: call.id, content: judgement.results[index] })));
    }
  } catch (error) {
    if (stop.aborted || (error instanceof ApiError && error.status === 401)) return null;
    const message = timeout.aborted ? `no answer within ${TIMEOUT / 1000} s` : /** @type {Error} */ (error).message;
    Object.assign(result, { correct: false, fault: "error", detail: "", error: message });
  }
  result.seconds = Math.round(result.seconds * 1000) / 1000;
  return result;
}

/**
 * Asks for one round, and adds what it cost to the result.
 * @param {object} body
 * @param {string} way
 * @param {AbortSignal} signal
 * @param {Result} result
 */
async function askRound(body, way, signal, result) {
  const began = performance.now();
  try {
    const reply = await streamReply(body, { ...WAYS[way][2], retries: RETRIES }, signal, (partial, piece) => {
      if (piece) return;
      ownRequests.add(partial.record);
      result.records.push(partial.record);
    });
    reply.calls = reply.calls.filter(Boolean);
    result.plans.push(reply.plan);
    result.requests += reply.requests || 1;
    result.input_tokens += reply.input;
    result.output_tokens += reply.output;
    return reply;
  } finally {
    result.seconds += (performance.now() - began) / 1000;
  }
}

/**
 * @param {import("./suites.js").Round} expected
 * @param {import("./stream.js").StreamedReply} reply
 * @param {Result} result
 * @returns {Promise<{correct: boolean, fault: string, detail: string, results: string[]}>}
 */
async function judge(expected, reply, result) {
  result.text = reply.text.slice(0, 2000);
  const calls = reply.calls.map((call) => ({ name: call.name, arguments: parsed(call.arguments) }));
  result.calls.push(calls.map((call, index) => ({ name: call.name, arguments: call.arguments ?? reply.calls[index].arguments })));
  const broken = calls.find((call) => call.arguments === null);
  if (broken) return { correct: false, fault: "invalid_arguments", detail: `the arguments of ${broken.name} are not a JSON object`, results: [] };
  return fetchJson("toolspeak/judgement", { method: "POST", body: { expected, calls, text: reply.text } });
}

/**
 * The arguments of a call; null if they are not a JSON object.
 * @param {string} text
 */
function parsed(text) {
  try {
    const value = JSON.parse(text || "{}");
    return typeof value === "object" && !Array.isArray(value) ? value : null;
  } catch {
    return null;
  }
}
