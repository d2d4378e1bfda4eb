// @ts-check
/** Reads the operations of an OpenAPI document (2.0 to 3.1, as JSON) as tools. Nothing is fetched. */

/** @typedef {{name: string, description: string, parameters: any}} Declared */

const METHODS = ["get", "post", "put", "patch", "delete"];
/** Where a caller may give a value. Headers and cookies are left out, because they hold keys. */
const PLACES = ["path", "query"];
const LONGEST_NAME = 64;
const LONGEST_DESCRIPTION = 1000;
/** The largest schema of one operation, in values: references may refer to each other many times. */
const MOST_VALUES = 4000;
/** Fields of a Swagger 2.0 parameter that belong to its schema. */
const SCHEMA_FIELDS = ["type", "format", "enum", "items", "default", "minimum", "maximum"];

/** @param {any} value */
export const isOpenApi = (value) => typeof value?.openapi === "string" || typeof value?.swagger === "string";

/**
 * The operations of a document. Throws if it has none.
 * @param {string} text
 * @returns {Declared[]}
 */
export function operationsOf(text) {
  let document;
  try {
    document = JSON.parse(text);
  } catch {
    throw new Error("This is not JSON. Convert a YAML document to JSON first.");
  }
  if (!isOpenApi(document)) throw new Error("This is not an OpenAPI document: it has no `openapi` or `swagger` version.");
  /** @type {Map<string, Declared>} */
  const tools = new Map();
  for (const [path, item] of Object.entries(isObject(document.paths) ? document.paths : {})) {
    for (const method of METHODS) {
      if (!isObject(item?.[method])) continue;
      const tool = toolOf(document, `${method} ${path}`, item, item[method]);
      let { name } = tool;
      for (let number = 2; tools.has(name); number += 1) name = `${tool.name.slice(0, LONGEST_NAME - 4)}_${number}`;
      tools.set(name, { ...tool, name });
    }
  }
  if (!tools.size) throw new Error("This OpenAPI document has no operations.");
  return [...tools.values()];
}

/**
 * @param {any} document
 * @param {string} place method and path
 * @param {any} item
 * @param {any} operation
 * @returns {Declared}
 */
function toolOf(document, place, item, operation) {
  const resolve = makeResolver(document);
  const name = String(operation.operationId || place).replace(/[^A-Za-z0-9_-]+/g, "_").replace(/^_+|_+$/g, "").slice(0, LONGEST_NAME);
  const description = [operation.summary, operation.description].filter((text) => typeof text === "string").join("\n") || place;
  /** @type {Record<string, any>} */
  const properties = {};
  const required = new Set();
  for (const each of [item.parameters, operation.parameters].flat().filter(Boolean).map(resolve)) {
    if (each.in === "body") addBody(resolve(each.schema), Boolean(each.required), properties, required);
    if (!PLACES.includes(each.in) || typeof each.name !== "string") continue;
    const schema = each.schema ? resolve(each.schema) : Object.fromEntries(SCHEMA_FIELDS.filter((field) => each[field] !== undefined).map((field) => [field, each[field]]));
    properties[each.name] = { ...(each.description && { description: String(each.description) }), ...schema };
    if (each.required) required.add(each.name);
  }
  const body = resolve(operation.requestBody);
  const content = isObject(body.content) ? body.content["application/json"] ?? Object.values(body.content)[0] : null;
  if (content?.schema) addBody(resolve(content.schema), Boolean(body.required), properties, required);
  return { name, description: description.slice(0, LONGEST_DESCRIPTION), parameters: { type: "object", properties, required: [...required] } };
}

/**
 * Adds the fields of a body to the parameters, or the whole body where it is no object or a name is taken.
 * @param {any} schema
 * @param {boolean} isRequired
 * @param {Record<string, any>} properties
 * @param {Set<string>} required
 */
function addBody(schema, isRequired, properties, required) {
  const fields = isObject(schema.properties) ? schema.properties : null;
  if (!fields || Object.keys(fields).some((name) => Object.hasOwn(properties, name))) {
    properties.body = schema;
    if (isRequired) required.add("body");
    return;
  }
  Object.assign(properties, fields);
  if (isRequired && Array.isArray(schema.required)) for (const name of schema.required) required.add(name);
}

/**
 * Replaces references by what they refer to. A reference to itself, or too much of it, accepts anything.
 * @param {any} document
 * @returns {(value: any) => any}
 */
function makeResolver(document) {
  let values = 0;
  /** @param {any} value @param {string[]} within the references around it @returns {any} */
  const resolve = (value, within) => {
    values += 1;
    if (values > MOST_VALUES) return {};
    if (Array.isArray(value)) return value.map((each) => resolve(each, within));
    if (!isObject(value)) return value;
    const reference = value.$ref;
    if (typeof reference !== "string") return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, resolve(each, within)]));
    if (within.includes(reference)) return {};
    return resolve(find(document, reference), [...within, reference]);
  };
  return (value) => resolve(value ?? {}, []);
}

/**
 * @param {any} document
 * @param {string} reference such as `#/components/schemas/Pet`
 */
function find(document, reference) {
  if (!reference.startsWith("#/")) return {};
  let value = document;
  for (const part of reference.slice(2).split("/")) {
    const name = decoded(part).replaceAll("~1", "/").replaceAll("~0", "~");
    if (!isObject(value) && !Array.isArray(value)) return {};
    value = Object.hasOwn(value, name) ? value[name] : {};
  }
  return value;
}

/** @param {string} text */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** @param {unknown} value */
const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
