// @ts-check
/**
 * Checks the arguments of a call against the schema of its tool. It covers the keywords that tools use; all others are
 * ignored, so a valid call is never refused. Patterns are ignored, too: a hostile one could take forever.
 */

/** Maximum depth of a schema. */
const DEEPEST = 32;

/** @type {Record<string, (value: any) => boolean>} */
const TYPES = {
  object: (value) => typeof value === "object" && value !== null && !Array.isArray(value),
  array: Array.isArray,
  string: (value) => typeof value === "string",
  number: (value) => typeof value === "number",
  integer: Number.isInteger,
  boolean: (value) => typeof value === "boolean",
  null: (value) => value === null,
};

/** @type {[string, (value: any, limit: any) => boolean, string][]} keyword, whether a value of the right type keeps to it, and what it must be */
const LIMITS = [
  ["minimum", (value, limit) => typeof value !== "number" || value >= limit, "at least"],
  ["maximum", (value, limit) => typeof value !== "number" || value <= limit, "at most"],
  ["exclusiveMinimum", (value, limit) => typeof value !== "number" || typeof limit !== "number" || value > limit, "more than"],
  ["exclusiveMaximum", (value, limit) => typeof value !== "number" || typeof limit !== "number" || value < limit, "less than"],
  ["minLength", (value, limit) => typeof value !== "string" || [...value].length >= limit, "a text whose length is at least"],
  ["maxLength", (value, limit) => typeof value !== "string" || [...value].length <= limit, "a text whose length is at most"],
  ["minItems", (value, limit) => !Array.isArray(value) || value.length >= limit, "a list whose length is at least"],
  ["maxItems", (value, limit) => !Array.isArray(value) || value.length <= limit, "a list whose length is at most"],
];

/**
 * The first reason why a value does not fit its schema; empty if it fits.
 * @param {any} schema
 * @param {unknown} value
 * @param {string} [name] of the value
 * @param {number} [depth]
 * @returns {string}
 */
export function schemaError(schema, value, name = "the arguments", depth = 0) {
  if (!TYPES.object(schema) || depth > DEEPEST) return "";
  const types = [schema.type ?? []].flat().filter((/** @type {string} */ type) => Object.hasOwn(TYPES, type));
  if (types.length && !types.some((/** @type {string} */ type) => TYPES[type](value))) return `${name} must be ${types.map(withArticle).join(" or ")}`;
  const choices = "const" in schema ? [schema.const] : schema.enum;
  if (Array.isArray(choices) && !choices.some((choice) => JSON.stringify(choice) === JSON.stringify(value))) return `${name} must be ${choices.map((choice) => JSON.stringify(choice)).join(" or ")}`;
  for (const [keyword, keeps, words] of LIMITS) if (keyword in schema && !keeps(value, schema[keyword])) return `${name} must be ${words} ${schema[keyword]}`;
  if (TYPES.object(value)) return objectError(schema, /** @type {Record<string, unknown>} */ (value), depth);
  if (!Array.isArray(value)) return "";
  return first(value, (item, index) => schemaError(schema.items, item, `item ${index + 1} of ${name}`, depth + 1));
}

/**
 * @param {any} schema
 * @param {Record<string, unknown>} value
 * @param {number} depth
 */
function objectError(schema, value, depth) {
  const properties = TYPES.object(schema.properties) ? schema.properties : {};
  const missing = (Array.isArray(schema.required) ? schema.required : []).find((/** @type {string} */ key) => !Object.hasOwn(value, key));
  if (missing !== undefined) return `\`${missing}\` is required`;
  return first(Object.keys(value), (key) => {
    if (Object.hasOwn(properties, key)) return schemaError(properties[key], value[key], `\`${key}\``, depth + 1);
    if (schema.additionalProperties === false) return `\`${key}\` is not a parameter`;
    return schemaError(schema.additionalProperties, value[key], `\`${key}\``, depth + 1);
  });
}

/** @param {string} type */
const withArticle = (type) => (type === "null" ? type : `${/^[aio]/.test(type) ? "an" : "a"} ${type}`);

/**
 * @template Item
 * @param {Item[]} items
 * @param {(item: Item, index: number) => string} check
 */
function first(items, check) {
  for (const [index, item] of items.entries()) {
    const error = check(item, index);
    if (error) return error;
  }
  return "";
}
