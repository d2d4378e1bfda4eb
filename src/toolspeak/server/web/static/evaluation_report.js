// @ts-check
/** The report of a run, and both files in which `toolspeak eval` writes results. */

import { WAYS } from "./call_ways.js";
import { isComplete, REQUEST, RETRIES } from "./evaluation_run.js";
import { interval, median } from "./statistics.js";

/** @typedef {import("./evaluation_run.js").Run} Run */
/** @typedef {import("./evaluation_run.js").Result} Result */
/** @typedef {import("./evaluation.js").Score} Score */

/**
 * @param {Run} run
 * @param {number} column
 * @returns {Result[]}
 */
export const resultsOf = (run, column) => /** @type {Result[]} */ (run.results[column].filter(Boolean));

/**
 * A name of a column that is unique in its run.
 * @param {Run} run
 * @param {number} column
 */
export function labelOf(run, column) {
  const { model, way } = run.columns[column];
  return run.columns.every((each) => each.model === model) ? WAYS[way][0] : `${model}, ${WAYS[way][0]}`;
}

/**
 * @param {Result[]} results
 * @returns {Score}
 */
export function scoreOf(results) {
  const correct = results.filter((result) => result.correct).length;
  const [low, high] = interval(correct, results.length);
  const sum = (/** @type {"requests" | "input_tokens" | "output_tokens" | "seconds"} */ name) => results.reduce((total, result) => total + result[name], 0);
  return {
    cases: results.length,
    correct,
    errors: results.filter((result) => result.error).length,
    share: results.length ? correct / results.length : 0,
    low,
    high,
    requests: sum("requests"),
    input_tokens: sum("input_tokens"),
    output_tokens: sum("output_tokens"),
    seconds: sum("seconds"),
    median_seconds: median(results.map((result) => result.seconds)),
  };
}

/**
 * What may affect the answers of a column, as `toolspeak eval` names it.
 * @param {Run} run
 * @param {number} column
 */
function settingOf(run, column) {
  const { model, way } = run.columns[column];
  const { mode = "auto", plan = "" } = WAYS[way][2];
  return { suite: run.suite.name, version: run.suite.version, model, base_url: `${location.origin}/v1`, mode, plan, retries: RETRIES, ...REQUEST };
}

/**
 * The content of `results.json`.
 * @param {Run} run
 * @param {string} version of toolspeak
 */
export function reportOf(run, version) {
  const rows = run.columns.map((_, column) => {
    const results = resultsOf(run, column);
    const categories = [...new Set(run.suite.tasks.map((task) => task.category))];
    const scores = Object.fromEntries([["all", scoreOf(results)], ...categories.map((name) => [name, scoreOf(results.filter((each) => each.category === name))])]);
    return { label: labelOf(run, column), setting: settingOf(run, column), chosen: run.suite.tasks.length, scores };
  });
  return {
    suite: run.suite.name,
    suite_version: run.suite.version,
    toolspeak: version,
    model: [...new Set(run.columns.map((each) => each.model))].join(", "),
    base_url: `${location.origin}/v1`,
    when: `${new Date(run.began * 1000).toISOString().slice(0, 16).replace("T", " ")} UTC`,
    complete: isComplete(run),
    rows,
  };
}

/**
 * The content of `cases.jsonl`.
 * @param {Run} run
 */
export const caseLines = (run) => run.columns.flatMap((_, column) => resultsOf(run, column).map(({ records, ...result }) => `${JSON.stringify({ setting: settingOf(run, column), ...result })}\n`)).join("");
