// @ts-check
/** What a person sees until an answer begins: what the model does, and for how many seconds. */

import { fetchJson } from "./api.js";
import { h } from "./dom.js";
import { makePoller } from "./polling.js";

const COUNT = new Intl.NumberFormat("en");
/** Milliseconds between two updates of the seconds, and between two questions to the server. */
const TICK = 1000;
const POLL_INTERVAL = 1500;
/** Number of tokens from which on it is said that the model reads them: it takes noticeable time. */
const MANY_TOKENS = 200;

/**
 * @typedef {{sent: number, writing: boolean, fault: string[]}} Running the state of a request on the server
 * @typedef {{element: HTMLElement, stop: () => void}} Waiting
 */

/**
 * @param {() => {id: string, tokens: number}} request that is being answered, and about how many tokens it has
 * @returns {Waiting}
 */
export function makeWaiting(request) {
  const began = performance.now();
  const stage = h("span", {}, "Thinking…");
  const seconds = h("span", { "aria-hidden": "true" });
  const element = h("p", { class: "soft waiting" }, h("span", { class: "spinner", "aria-hidden": "true" }), stage, " ", seconds);
  /** @type {Running | null} */
  let running = null;
  const show = () => {
    const passed = Math.floor((performance.now() - began) / 1000);
    stage.textContent = `${words(running, request().tokens, passed)}…`;
    seconds.textContent = passed ? `${passed} s` : "";
  };
  const poller = makePoller(
    async (signal) => {
      const { id } = request();
      if (id && performance.now() - began > POLL_INTERVAL) running = await fetchJson(`toolspeak/requests/${encodeURIComponent(id)}`, { signal });
      show();
    },
    () => (running = null), // the request has not arrived yet, or it has ended
    () => POLL_INTERVAL,
  );
  const timer = setInterval(show, TICK);
  poller.start();
  return {
    element,
    stop() {
      clearInterval(timer);
      poller.stop();
    },
  };
}

/**
 * @param {Running | null} running
 * @param {number} tokens
 * @param {number} passed seconds
 */
function words(running, tokens, passed) {
  const why = running?.fault?.at(-1);
  if (running && running.sent > 1 && why) return `Retrying (attempt ${running.sent}): ${why}`;
  if (running?.writing) return "Checking the answer for tool calls";
  if (passed >= 2 && tokens >= MANY_TOKENS) return `Reading about ${COUNT.format(tokens)} tokens`;
  return "Thinking";
}
