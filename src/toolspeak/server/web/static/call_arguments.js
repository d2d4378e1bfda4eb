// @ts-check
/** The arguments of a call, checked against the schema of its tool. A call that does not fit is never run. */

import { schemaError } from "./schema_check.js";

/** A call that cannot be run, and why. */
export class InvalidCall extends Error {}

/**
 * The arguments of a call. Throws InvalidCall if they do not fit its tool.
 * @param {{name: string, arguments: string}} call
 * @param {import("./tools.js").Tool[]} tools that are offered
 * @returns {{tool: import("./tools.js").Tool, args: any}}
 */
export function checkedCall(call, tools) {
  const tool = tools.find((each) => each.name === call.name);
  if (!tool) throw new InvalidCall(`there is no tool \`${call.name}\``);
  const args = withoutAliases(parse(call.arguments || "{}"), tool.aliases ?? {});
  const { parameters } = tool.definition.function;
  const why = schemaError(tool.strict ? { ...parameters, additionalProperties: false } : parameters, args);
  if (why) throw new InvalidCall(why);
  return { tool, args };
}

/** @param {string} text */
function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    throw new InvalidCall("the arguments are not valid JSON");
  }
}

/**
 * Gives parameters their declared names where models write others.
 * @param {any} args
 * @param {Record<string, string>} aliases
 */
function withoutAliases(args, aliases) {
  for (const [alias, name] of Object.entries(aliases)) {
    if (typeof args !== "object" || args === null || !Object.hasOwn(args, alias) || Object.hasOwn(args, name)) continue;
    const { [alias]: value, ...rest } = args;
    args = { ...rest, [name]: value };
  }
  return args;
}
