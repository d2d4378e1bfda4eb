// @ts-check
/** How the page speaks with its server: JSON both ways, and one kind of error. */

/** What the server said when it did not do what was asked. */
export class Refused extends Error {
  /**
   * @param {number} status
   * @param {string} message
   */
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/**
 * Asks for JSON.
 * @param {string} path
 * @param {{method?: string, body?: unknown, signal?: AbortSignal}} [options]
 * @returns {Promise<any>}
 */
export async function ask(path, { method = "GET", body, signal } = {}) {
  const answer = await fetch(path, {
    method,
    signal,
    headers: { accept: "application/json", ...(body === undefined ? {} : { "content-type": "application/json" }) },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  if (!answer.ok) throw await refusal(answer);
  return answer.json();
}

/**
 * The error that an answer stands for.
 * @param {Response} answer
 */
export async function refusal(answer) {
  const text = await answer.text();
  try {
    const error = JSON.parse(text).error;
    return new Refused(answer.status, String(error?.message ?? error ?? text));
  } catch {
    return new Refused(answer.status, text.slice(0, 500) || `the server answered ${answer.status}`);
  }
}
