// @ts-check
/** Polls while a part of the page is visible, one request at a time. */

import { sentence } from "./format.js";

/**
 * @param {(signal: AbortSignal) => Promise<void>} poll fetches what is new; the signal aborts it
 * @param {(message: string) => void} onError
 * @param {() => number} interval milliseconds until the next poll
 * @returns {{start: () => void, stop: () => void}} `start` polls at once, even while polling is running
 */
export function makePoller(poll, onError, interval) {
  /** @type {AbortController | null} */
  let running = null;

  function stop() {
    running?.abort();
    running = null;
  }

  async function start() {
    stop();
    const { signal } = (running = new AbortController());
    while (!signal.aborted) {
      try {
        await poll(signal);
      } catch (error) {
        if (signal.aborted) return;
        onError(sentence(/** @type {Error} */ (error).message));
      }
      await pause(interval(), signal);
    }
  }

  return { start, stop };
}

/**
 * @param {number} milliseconds
 * @param {AbortSignal} signal
 */
const pause = (milliseconds, signal) =>
  new Promise((/** @type {(value: void) => void} */ resolve) => {
    if (signal.aborted) return resolve();
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
