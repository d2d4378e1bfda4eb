// @ts-check
/** The inspector: a live list of the server's requests, filters, and the details of one request beside it. */

import { ApiError, fetchJson } from "./api.js";
import { makeBackLink, makeDetail } from "./detail.js";
import { h, labelled, setChildren, select } from "./dom.js";
import { clock, compact, plural, duration } from "./format.js";
import { makePoller } from "./polling.js";
import { VirtualList } from "./virtual_list.js";

/** Milliseconds between two polls, maximum number of requests in the list, and height of a row in pixels. */
const POLL_INTERVAL = 1500;
const MAX_REQUESTS = 2000;
const ROW_HEIGHT = 76;

/**
 * @typedef {object} Line one request
 * @property {number} number
 * @property {string} id
 * @property {number} time
 * @property {string} face
 * @property {string} model
 * @property {string} plan
 * @property {string} tools
 * @property {number} status
 * @property {number} requests
 * @property {number} retries
 * @property {number} calls
 * @property {number} candidates
 * @property {number} repairs
 * @property {string[]} warnings
 * @property {"answered" | "error" | "left"} outcome how it ended; `left`: the client disconnected before the end
 * @property {string} error
 * @property {string} why_no_call
 * @property {string} replay_of
 * @property {{whole: number, first: number, waited: number, added: number, first_token: number, held: number, tooled: number}} timing seconds
 * @property {number} input_tokens
 * @property {number} output_tokens
 * @property {boolean} [running] whether it is still running
 */

/** @typedef {{id: string, time: number, seconds: number, face: string, model: string}} Running one request that is still running */

/** Placeholder values for fields that are unknown until a request has ended. */
const RUNNING_DEFAULTS = { number: 0, plan: "", tools: "", status: 0, requests: 0, retries: 0, calls: 0, candidates: 0, repairs: 0, warnings: [], outcome: /** @type {const} */ ("answered"), error: "", why_no_call: "", replay_of: "", input_tokens: 0, output_tokens: 0 };
const NO_TIMES = { first: 0, waited: 0, added: 0, first_token: 0, held: 0, tooled: 0 };

/**
 * @param {Running} one
 * @returns {Line} in the form of a completed request
 */
const runningLine = ({ seconds, ...one }) => ({ ...RUNNING_DEFAULTS, ...one, timing: { ...NO_TIMES, whole: seconds }, running: true });

/** @param {Line} line its end time, by which the list is sorted */
const endTime = (line) => line.time + line.timing.whole;

/**
 * @param {import("./app.js").About} about
 * @returns {import("./app.js").Part}
 */
export function makeInspector(about) {
  /** @type {Line[]} */
  let lines = [];
  /** Opaque position of the newest listed request, assigned by the server. */
  let cursor = "";
  /** @type {Line[]} requests that are still running */
  let running = [];
  /** Number of workers that did not respond in time. */
  let late = 0;
  /** The id of the open request; late responses for other requests are ignored. */
  let openId = "";
  let failed = false;
  /** Whether the open request was still running when it was opened. */
  let openedWhileRunning = false;

  const filters = makeFilters(() => update());
  const rows = new VirtualList({
    label: "Requests, newest first",
    height: ROW_HEIGHT,
    key: (/** @type {Line} */ line) => line.id,
    draw: drawLine,
    open(line, moved) {
      const address = `#/inspector/${line.id}`;
      if (!moved) return void (location.hash = address);
      history.replaceState(null, "", address); // one step back leaves the list, even after moving through it with arrow keys
      open(line.id);
    },
  });
  const summary = h("p", { class: "small soft rows-summary" });
  const detail = h("section", { class: "detail", "aria-label": "Request details", tabindex: -1 });
  const element = h(
    "div",
    { class: "inspector" },
    h("section", { class: "requests", "aria-label": "Requests" }, filters.element, summary, rows.element),
    detail,
  );

  function update() {
    const busy = running.filter(filters.matches);
    const matching = lines.filter(filters.matches);
    rows.items = [...busy, ...matching];
    summary.textContent = about.recording
      ? `${plural(matching.length, "request")}${matching.length < lines.length ? ` of ${lines.length}` : ""}${busy.length ? `, ${busy.length} running` : ""}${late ? `. ${plural(late, "worker")} did not respond in time; missing requests will appear later.` : ""}`
      : "Recording is off on this server, so there are no requests to show.";
  }

  const poller = makePoller(
    async (signal) => {
      /** @type {{requests: Line[], running: Running[], next: string, late: number}} */
      const answer = await fetchJson(`toolspeak/requests?after=${encodeURIComponent(cursor)}`, { signal });
      if (signal.aborted) return;
      const { requests } = answer;
      const same = !requests.length && !failed && !running.length && !answer.running.length && late === answer.late;
      ({ next: cursor, late } = answer);
      running = answer.running.map(runningLine);
      if (same) return;
      failed = false;
      const ids = new Set(requests.map((line) => line.id));
      lines = [...requests, ...lines.filter((line) => !ids.has(line.id))].slice(0, MAX_REQUESTS);
      lines.sort((one, two) => endTime(two) - endTime(one)); // a late worker may report older requests
      filters.addOptions(requests);
      update();
      if (openedWhileRunning && ids.has(openId)) open(openId); // the open request has ended
    },
    (message) => {
      failed = true;
      summary.textContent = `The list could not be refreshed: ${message}`;
    },
    () => (document.hidden ? POLL_INTERVAL * 8 : POLL_INTERVAL),
  );

  /** @param {string} id */
  async function open(id) {
    openId = id;
    openedWhileRunning = false;
    rows.select(id);
    element.classList.toggle("has-one", Boolean(id));
    detail.ariaBusy = String(Boolean(id));
    if (!id) {
      setChildren(detail, h("div", { class: "nothing soft" }, h("p", {}, "Select a request to see what was sent, what the model answered and how the answer was parsed.")));
      return;
    }
    // Remove the previous request at once, so it cannot be re-run by mistake.
    setChildren(detail, makeBackLink(), h("p", { class: "soft", role: "status" }, "Loading…"));
    try {
      const one = await fetchJson(`toolspeak/requests/${encodeURIComponent(id)}`);
      if (openId !== id) return;
      setChildren(detail, makeDetail(one, about));
      detail.scrollTop = 0;
    } catch (error) {
      if (openId !== id) return;
      openedWhileRunning = running.some((line) => line.id === id);
      if (openedWhileRunning) setChildren(detail, makeBackLink(), h("p", { class: "notice", role: "status" }, "This request is still running. It will appear here when it has ended."));
      else setChildren(detail, makeBackLink(), h("p", { class: "notice bad" }, loadError(error)));
    }
    detail.ariaBusy = "false";
  }

  update();
  return {
    element,
    show(rest) {
      open(rest);
      poller.start();
    },
    hide: poller.stop,
  };
}

/**
 * The reason why a request cannot be shown.
 * @param {unknown} error
 */
const loadError = (error) => (error instanceof ApiError && error.status === 404 ? "This request is no longer stored, or it belongs to another user." : /** @type {Error} */ (error).message);

/**
 * The filters of the list.
 * @param {() => void} changed
 */
function makeFilters(changed) {
  const model = select([], "All models", { change: changed });
  const plan = select([], "All plans", { change: changed });
  const kind = select(["Warning", "Error", "Client disconnected", "Retried", "Repaired", "No tool call"], "All requests", { change: changed });
  /** @type {Record<string, (line: Line) => boolean>} */
  const kinds = {
    "": () => true,
    Warning: (line) => line.warnings.length > 0,
    Error: (line) => line.outcome === "error",
    "Client disconnected": (line) => line.outcome === "left",
    Retried: (line) => line.retries > 0,
    Repaired: (line) => line.repairs > 0,
    "No tool call": (line) => Boolean(line.why_no_call),
  };
  const listed = new Set();
  const add = (/** @type {HTMLSelectElement} */ list, /** @type {string} */ name) => {
    const key = `${list === model} ${name}`;
    if (!name || listed.has(key)) return;
    listed.add(key);
    list.append(h("option", { value: name }, name));
  };
  return {
    element: h("div", { class: "fields filters" }, labelled("Model", model), labelled("Plan", plan), labelled("Show", kind)),
    /** @param {Line} line */
    matches: (line) => (!model.value || line.model === model.value) && (!plan.value || line.plan === plan.value) && kinds[kind.value](line),
    /** @param {Line[]} lines */
    addOptions(lines) {
      for (const line of lines) {
        add(model, line.model);
        add(plan, line.plan);
      }
    },
  };
}

/**
 * @param {Line} line
 * @returns {(Node | string)[]}
 */
function drawLine(line) {
  return [
    h("div", { class: "row-top" }, h("span", { class: "row-model" }, line.model || "no model"), outcome(line)),
    h(
      "div",
      { class: "row-bottom" },
      [
        clock(line.time),
        line.running ? "" : line.plan || "rejected",
        duration(line.timing.whole),
        line.retries ? plural(line.retries, "retry", "retries") : "",
        line.repairs ? plural(line.repairs, "repair") : "",
        line.output_tokens ? `${compact(line.input_tokens + line.output_tokens)} tokens` : "",
        line.replay_of ? "re-run" : "",
      ]
        .filter(Boolean)
        .join(" · "),
    ),
  ];
}

/** @param {Line} line */
function outcome(line) {
  if (line.running) return h("span", { class: "badge warn" }, "running");
  if (line.outcome === "left") return h("span", { class: "badge", title: "The client disconnected before the end" }, "client disconnected");
  if (line.status >= 400) return h("span", { class: "badge bad" }, `error ${line.status}`);
  if (line.error) return h("span", { class: "badge bad" }, "interrupted"); // the error occurred after the response had started
  if (line.calls) return h("span", { class: "badge good" }, plural(line.calls, "call"));
  if (line.tools === "none") return h("span", { class: "badge" }, "no tools");
  return h("span", { class: "badge" }, "no tool call");
}
