// @ts-check
/** How the page speaks with its server: JSON both ways, and one kind of error. */

/** The event that tells the page that the server does not know who is there. */
export const UNKNOWN = "toolspeak-unknown";

/** What the server said when it did not do what was asked. */
export class Refused extends Error {
  /**
   * @param {number} status
   * @param {string} message
   * @param {string} [record] the id under which the server tells more
   */
  constructor(status, message, record = "") {
    super(message);
    this.status = status;
    this.record = record;
  }
}

/**
 * As `fetch`, but who cannot be reached is said in words that people read.
 * @param {string} path
 * @param {RequestInit} options
 */
export async function sent(path, options) {
  try {
    return await fetch(path, options);
  } catch (error) {
    throw error instanceof TypeError ? new Error("the server cannot be reached") : error;
  }
}

/**
 * Asks for JSON.
 * @param {string} path
 * @param {{method?: string, body?: unknown, signal?: AbortSignal}} [options]
 * @returns {Promise<any>}
 */
export async function ask(path, { method = "GET", body, signal } = {}) {
  const answer = await sent(path, {
    method,
    signal,
    headers: { accept: "application/json", ...(body === undefined ? {} : { "content-type": "application/json" }) },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  if (answer.status === 401) dispatchEvent(new Event(UNKNOWN));
  if (!answer.ok) throw await refusal(answer);
  return answer.json();
}

/**
 * The error that an answer stands for.
 * @param {Response} answer
 */
export async function refusal(answer) {
  const { id = "" } = beside(answer);
  const text = await answer.text();
  try {
    const error = JSON.parse(text).error;
    return new Refused(answer.status, String(error?.message ?? error ?? text), id);
  } catch {
    return new Refused(answer.status, text.slice(0, 500) || `the server answered ${answer.status}`, id);
  }
}

/**
 * What the server says beside an answer, also beside an error.
 * @param {Response} answer
 * @returns {{id?: string, plan?: string, warnings?: string[]}}
 */
export function beside(answer) {
  try {
    return JSON.parse(answer.headers.get("x-toolspeak") ?? "{}");
  } catch {
    return {};
  }
}
