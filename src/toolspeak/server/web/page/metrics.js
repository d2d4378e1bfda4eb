// @ts-check
/** How it goes: native against emulated, retries, refusals, repairs, what is added to each request, tokens, over time. */

import { ask } from "./api.js";
import { drawChart } from "./chart.js";
import { h, labelled, put, select } from "./dom.js";
import { compact, counted, minute, percent, span } from "./format.js";
import { polling } from "./polling.js";

/** Milliseconds between two looks. */
const EVERY = 10_000;
const BUCKETS = 48;
/** What can be looked at, in minutes. */
const RANGES = /** @type {Record<string, number>} */ ({ "the last hour": 60, "the last six hours": 360, "the last day": 1440 });

/**
 * @typedef {object} Row one minute of one model
 * @property {number} minute
 * @property {string} model
 * @property {number} requests
 * @property {number} native
 * @property {number} emulated
 * @property {number} errors
 * @property {number} left
 * @property {number} calls
 * @property {number} no_call
 * @property {number} retries
 * @property {number} refusals
 * @property {number} repairs
 * @property {number} added
 * @property {number} upstream
 * @property {number} input_tokens
 * @property {number} output_tokens
 */

/** @returns {import("./app.js").Part} */
export function makeMetrics() {
  /** @type {Row[]} */
  let rows = [];
  const model = select([], "every model", { change: draw });
  const range = select(Object.keys(RANGES), undefined, { change: draw });
  const told = h("div", { class: "stack" });

  function draw() {
    const minutes = RANGES[range.value];
    const now = Math.floor(Date.now() / 60_000) * 60 + 60;
    const from = now - minutes * 60;
    const seen = rows.filter((row) => row.minute >= from && (!model.value || row.model === model.value));
    put(told, seen.length ? [drawTiles(seen), drawCharts(seen, from, minutes)] : h("p", { class: "notice" }, "Nothing was asked in this time."));
  }

  const looking = polling(
    async (signal) => {
      const { rows: latest } = await ask("toolspeak/series", { signal });
      if (signal.aborted) return;
      rows = latest;
      const known = new Set([...model.options].map((option) => option.value));
      for (const name of new Set(rows.map((row) => row.model))) if (name && !known.has(name)) model.append(h("option", { value: name }, name));
      // What is being looked at closely stays as it is.
      if (!told.querySelector("details[open]")) draw();
    },
    (message) => put(told, h("p", { class: "notice bad" }, message)),
    () => EVERY,
  );

  const element = h(
    "div",
    { class: "scroll" },
    h(
      "div",
      { class: "page" },
      h("header", { class: "row apart" }, h("div", {}, h("h1", {}, "Metrics"), h("p", { class: "lead" }, "Of all workers of this server, since they were started, for a day at most. Prometheus reads the same at ", h("code", {}, "/metrics"), ".")), h("div", { class: "fields" }, labelled("Model", model), labelled("Time", range))),
      told,
    ),
  );
  return {
    element,
    show: looking.start,
    hide: looking.stop,
  };
}

/**
 * @param {Row[]} rows
 * @param {(row: Row) => number} value
 */
const total = (rows, value) => rows.reduce((sum, row) => sum + value(row), 0);

/** @param {Row[]} rows */
function drawTiles(rows) {
  const requests = total(rows, (row) => row.requests);
  const emulated = total(rows, (row) => row.emulated);
  const native = total(rows, (row) => row.native);
  const left = total(rows, (row) => row.left);
  const tiles = [
    ["requests", compact(requests), [`${compact(total(rows, (row) => row.errors))} with an error`, left && `${compact(left)} left by the client`].filter(Boolean).join(", ")],
    ["emulated", native + emulated ? percent(emulated / (native + emulated)) : "–", `of ${compact(native + emulated)} with tools`],
    ["calls", compact(total(rows, (row) => row.calls)), `${compact(total(rows, (row) => row.no_call))} requests without one`],
    ["retries", compact(total(rows, (row) => row.retries)), counted(total(rows, (row) => row.refusals), "refusal")],
    ["repairs", compact(total(rows, (row) => row.repairs)), "in calls that were taken"],
    ["added", span(total(rows, (row) => row.added) / requests), "to each request, on average"],
    ["tokens", compact(total(rows, (row) => row.input_tokens + row.output_tokens)), `${compact(total(rows, (row) => row.output_tokens))} written`],
  ];
  return h("dl", { class: "tiles" }, tiles.map(([name, value, more]) => h("div", { class: "card tile" }, h("dt", { class: "soft small" }, name), h("dd", {}, h("span", { class: "big" }, value), h("span", { class: "soft small" }, more)))));
}

/**
 * @param {Row[]} rows
 * @param {number} from
 * @param {number} minutes
 */
function drawCharts(rows, from, minutes) {
  const count = Math.min(minutes, BUCKETS);
  const width = (minutes * 60) / count;
  /** @type {Row[][]} */
  const buckets = Array.from({ length: count }, () => []);
  for (const row of rows) buckets[Math.min(count - 1, Math.floor((row.minute - from) / width))].push(row);
  const times = buckets.map((_, index) => minute(from + index * width));
  const of = (/** @type {string} */ name, /** @type {string} */ look, /** @type {(row: Row) => number} */ value) => ({ name, look, values: buckets.map((bucket) => total(bucket, value)) });
  const added = buckets.map((bucket) => total(bucket, (row) => row.added) / Math.max(1, total(bucket, (row) => row.requests)));
  return h(
    "div",
    { class: "charts" },
    drawChart({
      title: "Requests",
      times,
      format: compact,
      series: [of("emulated", "look-1", (row) => row.emulated), of("native", "look-2", (row) => row.native), of("without tools", "look-3", (row) => row.requests - row.emulated - row.native)],
    }),
    drawChart({
      title: "What had to be put right",
      times,
      format: compact,
      series: [of("repairs", "look-1", (row) => row.repairs), of("retries", "look-2", (row) => row.retries), of("refusals", "look-4", (row) => row.refusals)],
    }),
    drawChart({ title: "Added to each request, on average", times, format: span, series: [{ name: "seconds added", look: "look-1", values: added }] }),
    drawChart({ title: "Tokens", times, format: compact, series: [of("read", "look-3", (row) => row.input_tokens), of("written", "look-1", (row) => row.output_tokens)] }),
  );
}
