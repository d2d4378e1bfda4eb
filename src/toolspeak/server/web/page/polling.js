// @ts-check
/** Looking again and again while a part is shown: one look at a time, and none once it is hidden. */

/**
 * @param {(signal: AbortSignal) => Promise<void>} look takes in what is new; the signal ends it
 * @param {(message: string) => void} failed
 * @param {() => number} every milliseconds until the next look
 * @returns {{start: () => void, stop: () => void}} `start` looks at once, also while it runs
 */
export function polling(look, failed, every) {
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
        await look(signal);
      } catch (error) {
        if (signal.aborted) return;
        failed(/** @type {Error} */ (error).message);
      }
      await rest(every(), signal);
    }
  }

  return { start, stop };
}

/**
 * @param {number} milliseconds
 * @param {AbortSignal} signal
 */
const rest = (milliseconds, signal) =>
  new Promise((/** @type {(value: void) => void} */ resolve) => {
    if (signal.aborted) return resolve();
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
