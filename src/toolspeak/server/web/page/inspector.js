// @ts-check
/** The inspector: a live list of the requests through the server, filters, and one request in detail beside it. */

import { ask } from "./api.js";
import { makeBack, makeDetail } from "./detail.js";
import { h, labelled, put, select } from "./dom.js";
import { clock, compact, counted, span } from "./format.js";
import { polling } from "./polling.js";
import { Rows } from "./rows.js";

/** Milliseconds between two looks at what is new, and the most requests that are held. */
const EVERY = 1500;
const MOST = 2000;
const HEIGHT = 76;

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
 * @property {"answered" | "error" | "left"} outcome how it ended; `left`: its client did not wait for that
 * @property {string} error
 * @property {string} why_no_call
 * @property {string} replay_of
 * @property {{whole: number, first: number, waited: number, added: number, first_token: number, held: number, tooled: number}} timing seconds
 * @property {number} input_tokens
 * @property {number} output_tokens
 * @property {boolean} [running] whether it has no answer yet
 */

/** @typedef {{id: string, time: number, seconds: number, face: string, model: string}} Running one request without an answer yet */

/** What is not known of a request that runs. */
const UNKNOWN_YET = { number: 0, plan: "", tools: "", status: 0, requests: 0, retries: 0, calls: 0, candidates: 0, repairs: 0, warnings: [], outcome: /** @type {const} */ ("answered"), error: "", why_no_call: "", replay_of: "", input_tokens: 0, output_tokens: 0 };
const NO_TIMES = { first: 0, waited: 0, added: 0, first_token: 0, held: 0, tooled: 0 };

/**
 * @param {Running} one
 * @returns {Line} among those that were answered
 */
const runningLine = ({ seconds, ...one }) => ({ ...UNKNOWN_YET, ...one, timing: { ...NO_TIMES, whole: seconds }, running: true });

/** @param {Line} line when it was answered: the list is in this order */
const ended = (line) => line.time + line.timing.whole;

/**
 * @param {import("./app.js").About} about
 * @returns {import("./app.js").Part}
 */
export function makeInspector(about) {
  /** @type {Line[]} */
  let lines = [];
  /** Up to where the list has been told, in the server's words. */
  let mark = "";
  /** @type {Line[]} what the server is busy with */
  let running = [];
  /** Workers of the server that did not answer in time. */
  let late = 0;
  /** The request that is wanted: an answer about another one comes too late. */
  let wanted = "";
  let broken = false;
  /** Whether the request that is wanted was still running when somebody looked. */
  let early = false;

  const filters = makeFilters(() => update());
  const rows = new Rows({
    label: "Requests, the newest first",
    height: HEIGHT,
    key: (/** @type {Line} */ line) => line.id,
    draw: drawLine,
    open(line, moved) {
      const address = `#/inspector/${line.id}`;
      if (!moved) return void (location.hash = address);
      history.replaceState(null, "", address); // one step back leaves the list, however many were walked
      open(line.id);
    },
  });
  const told = h("p", { class: "small soft rows-told" });
  const detail = h("section", { class: "detail", "aria-label": "One request", tabindex: -1 });
  const element = h(
    "div",
    { class: "inspector" },
    h("section", { class: "requests", "aria-label": "Requests" }, filters.element, told, rows.element),
    detail,
  );

  function update() {
    const busy = running.filter(filters.matches);
    const matching = lines.filter(filters.matches);
    rows.items = [...busy, ...matching];
    told.textContent = about.recording
      ? `${counted(matching.length, "request")}${matching.length < lines.length ? ` of ${lines.length}` : ""}${busy.length ? `, and ${busy.length} running` : ""}${late ? `. ${counted(late, "worker")} of the server did not answer in time: what is missing comes in later.` : ""}`
      : "This server keeps no requests: it was started with recording off.";
  }

  const looking = polling(
    async (signal) => {
      /** @type {{requests: Line[], running: Running[], next: string, late: number}} */
      const answer = await ask(`toolspeak/requests?after=${encodeURIComponent(mark)}`, { signal });
      if (signal.aborted) return;
      const { requests } = answer;
      const same = !requests.length && !broken && !running.length && !answer.running.length && late === answer.late;
      ({ next: mark, late } = answer);
      running = answer.running.map(runningLine);
      if (same) return;
      broken = false;
      const known = new Set(requests.map((line) => line.id));
      lines = [...requests, ...lines.filter((line) => !known.has(line.id))].slice(0, MOST);
      lines.sort((one, two) => ended(two) - ended(one)); // a worker that was late may tell of older ones
      filters.learn(requests);
      update();
      if (early && known.has(wanted)) open(wanted); // it is answered now
    },
    (message) => {
      broken = true;
      told.textContent = `The list could not be renewed: ${message}`;
    },
    () => (document.hidden ? EVERY * 8 : EVERY),
  );

  /** @param {string} id */
  async function open(id) {
    wanted = id;
    early = false;
    rows.choose(id);
    element.classList.toggle("has-one", Boolean(id));
    detail.ariaBusy = String(Boolean(id));
    if (!id) {
      put(detail, h("div", { class: "nothing soft" }, h("p", {}, "Choose a request to see what was sent, what came back and what was made of it.")));
      return;
    }
    // Nothing of another one stays, and nobody replays that by mistake.
    put(detail, makeBack(), h("p", { class: "soft", role: "status" }, "Loading …"));
    try {
      const one = await ask(`toolspeak/requests/${encodeURIComponent(id)}`);
      if (wanted !== id) return;
      put(detail, makeDetail(one, about));
      detail.scrollTop = 0;
    } catch (error) {
      if (wanted !== id) return;
      early = running.some((line) => line.id === id);
      if (early) put(detail, makeBack(), h("p", { class: "notice", role: "status" }, "This request is still running. It is shown here once it is answered."));
      else put(detail, makeBack(), h("p", { class: "notice bad" }, /** @type {Error} */ (error).message));
    }
    detail.ariaBusy = "false";
  }

  update();
  return {
    element,
    show(rest) {
      open(rest);
      looking.start();
    },
    hide: looking.stop,
  };
}

/**
 * What to look for.
 * @param {() => void} changed
 */
function makeFilters(changed) {
  const model = select([], "every model", { change: changed });
  const plan = select([], "every plan", { change: changed });
  const kind = select(["with a warning", "with an error", "left by the client", "with a retry", "with a repair", "without a call"], "all", { change: changed });
  /** @type {Record<string, (line: Line) => boolean>} */
  const kinds = {
    "": () => true,
    "with a warning": (line) => line.warnings.length > 0,
    "with an error": (line) => line.outcome === "error",
    "left by the client": (line) => line.outcome === "left",
    "with a retry": (line) => line.retries > 0,
    "with a repair": (line) => line.repairs > 0,
    "without a call": (line) => Boolean(line.why_no_call),
  };
  const known = new Set();
  const add = (/** @type {HTMLSelectElement} */ list, /** @type {string} */ name) => {
    const key = `${list === model} ${name}`;
    if (!name || known.has(key)) return;
    known.add(key);
    list.append(h("option", { value: name }, name));
  };
  return {
    element: h("div", { class: "fields filters" }, labelled("Model", model), labelled("Plan", plan), labelled("Show", kind)),
    /** @param {Line} line */
    matches: (line) => (!model.value || line.model === model.value) && (!plan.value || line.plan === plan.value) && kinds[kind.value](line),
    /** @param {Line[]} lines */
    learn(lines) {
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
        line.running ? "" : line.plan || "refused",
        span(line.timing.whole),
        line.retries ? counted(line.retries, "retry", "retries") : "",
        line.repairs ? counted(line.repairs, "repair") : "",
        line.output_tokens ? `${compact(line.input_tokens + line.output_tokens)} tokens` : "",
        line.replay_of ? "replay" : "",
      ]
        .filter(Boolean)
        .join(" · "),
    ),
  ];
}

/** @param {Line} line */
function outcome(line) {
  if (line.running) return h("span", { class: "badge warn" }, "running");
  if (line.outcome === "left") return h("span", { class: "badge", title: "The client did not wait for the end" }, "client left");
  if (line.status >= 400) return h("span", { class: "badge bad" }, `error ${line.status}`);
  if (line.error) return h("span", { class: "badge bad" }, "broken off"); // it had begun well
  if (line.calls) return h("span", { class: "badge good" }, counted(line.calls, "call"));
  if (line.tools === "none") return h("span", { class: "badge" }, "no tools");
  return h("span", { class: "badge" }, "no call");
}
