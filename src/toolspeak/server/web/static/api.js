// @ts-check
/** HTTP requests to the server, with JSON in both directions and one error class. */

/** The event that is dispatched when the server reports that the session is invalid. */
export const SESSION_EXPIRED = "toolspeak-session-expired";

/** The event that is dispatched when a person has signed in again. */
export const SIGNED_IN = "toolspeak-signed-in";

/** The event that is dispatched when a model was connected. */
export const MODELS_CHANGED = "toolspeak-models-changed";

/** An error response from the server. */
export class ApiError extends Error {
  /**
   * @param {number} status
   * @param {string} message
   * @param {string} [record] the id of the recorded request
   */
  constructor(status, message, record = "") {
    super(message);
    this.status = status;
    this.record = record;
  }
}

/**
 * Like `fetch`, but with a readable message if the server cannot be reached.
 * @param {string} path
 * @param {RequestInit} options
 */
export async function request(path, options) {
  try {
    return await fetch(path, options);
  } catch (error) {
    throw error instanceof TypeError ? new Error("the server cannot be reached") : error;
  }
}

/**
 * Sends a request and returns the JSON of its response.
 * @param {string} path
 * @param {{method?: string, body?: unknown, signal?: AbortSignal}} [options]
 * @returns {Promise<any>}
 */
export async function fetchJson(path, { method = "GET", body, signal } = {}) {
  const response = await request(path, {
    method,
    signal,
    headers: { accept: "application/json", ...(body === undefined ? {} : { "content-type": "application/json" }) },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  if (response.status === 401) dispatchEvent(new Event(SESSION_EXPIRED));
  if (!response.ok) throw await errorFrom(response);
  return response.json();
}

/**
 * Converts an error response to an error.
 * @param {Response} response
 */
export async function errorFrom(response) {
  const { id = "" } = metadata(response);
  const text = await response.text();
  try {
    const error = JSON.parse(text).error;
    return new ApiError(response.status, String(error?.message ?? error ?? text), id);
  } catch {
    return new ApiError(response.status, text.slice(0, 500) || `the server responded with status ${response.status}`, id);
  }
}

/**
 * The `x-toolspeak` metadata of a response; error responses also have it.
 * @param {Response} response
 * @returns {{id?: string, plan?: string, warnings?: string[]}}
 */
export function metadata(response) {
  try {
    return JSON.parse(response.headers.get("x-toolspeak") ?? "{}");
  } catch {
    return {};
  }
}
