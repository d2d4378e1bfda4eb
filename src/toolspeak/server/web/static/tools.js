// @ts-check
/** Tools as the page offers them to models. */

/** @typedef {{name: string, definition: any, run: ((args: any) => string) | null, aliases?: Record<string, string>, strict?: boolean}} Tool `aliases`: other names of parameters, and the declared ones; `strict`: others are errors */

/** An example of a user's own tool. */
export const EXAMPLE = `[{"name": "get_weather", "description": "The weather in a city.",
  "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}]`;

/** Valid tool names. Upstreams with stricter rules report violations themselves. */
const NAME = /^[^\s\p{C}<>`]{1,200}$/u;

/**
 * @param {{name: string, description?: string, parameters?: object, run?: ((args: any) => string) | null, aliases?: Record<string, string>, strict?: boolean}} declared
 * @returns {Tool}
 */
export const asTool = ({ name, description = "", parameters = { type: "object" }, run = null, aliases, strict }) => ({ name, definition: { type: "function", function: { name, description, parameters } }, run, aliases, strict });

/**
 * The tools that a user declared as JSON: one or several, bare or in OpenAI's format. Throws if they are not valid.
 * @param {string} text
 * @returns {Tool[]}
 */
export function declaredTools(text) {
  try {
    return text.trim() ? [JSON.parse(text)].flat().map(declaredTool) : [];
  } catch (error) {
    throw new Error(`Not a valid list of tools: ${/** @type {Error} */ (error).message}`);
  }
}

/** @param {any} value */
function declaredTool(value) {
  const { name, description, parameters } = value?.function ?? value ?? {};
  if (!isObject(value?.function ?? value)) throw new Error("each tool must be an object");
  if (typeof name !== "string" || !NAME.test(name)) throw new Error("each tool needs a `name` without spaces");
  if (parameters !== undefined && !isObject(parameters)) throw new Error(`the \`parameters\` of ${name} must be an object`);
  return asTool({ name, description, parameters });
}

/** @param {unknown} value */
const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
