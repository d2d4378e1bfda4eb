// @ts-check
/** Suites of test cases, in the format of `toolspeak eval --suite FILE`. The server has the built-in one and checks others. */

import { fetchJson } from "./api.js";

/** @typedef {{name: string, arguments: Record<string, any[]>, result: string}} ExpectedCall each argument has its accepted values */
/** @typedef {{calls: ExpectedCall[], says: string[]}} Round */
/** @typedef {{id: string, category: string, ask: string, tools: string[], rounds: Round[]}} Case */
/** @typedef {{name: string, version: string, tools: Record<string, {description: string, parameters: any}>, tasks: Case[]}} Suite */

/** A suite that another view hands over. @type {Suite | null} */
let handed = null;

/** @returns {Promise<Suite>} */
export const builtinSuite = async () => ({ name: "builtin", ...(await fetchJson("toolspeak/suite")) });

/**
 * Checks a suite and adds what it leaves out. Throws if it is not valid.
 * @param {string} name
 * @param {unknown} content
 * @returns {Promise<Suite>}
 */
export async function checkedSuite(name, content) {
  const suite = await fetchJson("toolspeak/suite", { method: "POST", body: content });
  if (!suite.tasks.length) throw new Error("The suite has no cases.");
  return { name, ...suite };
}

/** @param {Suite} suite */
export const handOver = (suite) => void (handed = suite);

/** The suite that was handed over, once. */
export function takeHanded() {
  const suite = handed;
  handed = null;
  return suite;
}

/** @param {Suite} suite */
export const categoriesOf = (suite) => [...new Set(suite.tasks.map((task) => task.category))];

/**
 * @param {Suite} suite
 * @param {string} category empty for all
 * @param {number} most cases of each category; 0 for all
 */
export function chosenCases(suite, category, most) {
  return categoriesOf(suite)
    .filter((name) => !category || name === category)
    .flatMap((name) => suite.tasks.filter((task) => task.category === name).slice(0, most || undefined));
}
