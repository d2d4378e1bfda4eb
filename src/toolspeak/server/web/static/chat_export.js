// @ts-check
/** A chat as a file: JSON with everything, or Markdown to read. */

import { h } from "./dom.js";

/** Milliseconds after which the file is surely read, so its address can be given up. */
const KEPT = 60_000;
const LONGEST_NAME = 60;

/**
 * Lets the browser save a text as a file.
 * @param {string} name
 * @param {string} type
 * @param {string} text
 */
export function download(name, type, text) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  h("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), KEPT);
}

/** @param {string} title */
export const fileName = (title) => title.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "").slice(0, LONGEST_NAME) || "chat";

/**
 * @param {string} title
 * @param {import("./conversation.js").Exchange[]} exchanges
 */
export function chatAsMarkdown(title, exchanges) {
  const parts = exchanges.map(({ question, answer }) => [
    `## You\n\n${question}`,
    ...answer.rounds.flatMap((round) => [round.text, ...round.calls.map((call) => `**${call.name}**\n\n${fenced(call.arguments, "json")}\n\n${fenced(call.result, "")}`)]),
    `## Answer${answer.model ? ` (${answer.model})` : ""}\n\n${answer.content || answer.error || answer.status}`,
  ]);
  return `${[`# ${title}`, ...parts.flat()].filter(Boolean).join("\n\n")}\n`;
}

/**
 * @param {string} title
 * @param {import("./conversation.js").Exchange[]} exchanges
 */
export const chatAsJson = (title, exchanges) => `${JSON.stringify({ title, exchanges }, null, 2)}\n`;

/**
 * A text in a fence that it does not contain.
 * @param {string} text
 * @param {string} language
 */
function fenced(text, language) {
  const longest = Math.max(2, ...(text.match(/`+/g) ?? []).map((marks) => marks.length));
  const fence = "`".repeat(longest + 1);
  return `${fence}${language}\n${text}\n${fence}`;
}
