// @ts-check
/** Configuration to copy: what keeps a change of the running server. */

import { copyButton } from "./copy.js";
import { h, withCode } from "./dom.js";

/**
 * A table in TOML.
 * @param {string[]} path of the table
 * @param {Record<string, unknown>} values strings and lists of strings
 */
export function tomlTable(path, values) {
  const name = path.map((part) => (/^[A-Za-z0-9_-]+$/.test(part) ? part : JSON.stringify(part))).join(".");
  return `[${name}]\n${Object.entries(values).map(([key, value]) => `${key} = ${JSON.stringify(value)}\n`).join("")}`;
}

/**
 * What to add to the configuration, with a button that copies it.
 * @param {string} text
 */
export const addToConfiguration = (text) => [h("p", { class: "small" }, withCode("Add this to `~/.config/toolspeak/config.toml`:")), h("pre", { class: "code small" }, text), h("div", {}, copyButton(() => text, "configuration"))];
