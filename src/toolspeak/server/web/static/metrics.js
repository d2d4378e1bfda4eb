// @ts-check
/** Metrics over time: native and emulated requests, retries, refusals, repairs, overhead of toolspeak, tokens. */

import { fetchJson } from "./api.js";
import { drawChart } from "./chart.js";
import { h, labelled, setChildren, select } from "./dom.js";
import { compact, plural, minute, percent, duration } from "./format.js";
import { makePoller } from "./polling.js";

/** Milliseconds between two polls. */
const POLL_INTERVAL = 10_000;
const BUCKETS = 48;
/** The periods to choose from, in minutes. */
const RANGES = /** @type {Record<string, number>} */ ({ "Last hour": 60, "Last 6 hours": 360, "Last 24 hours": 1440 });

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
  const model = select([], "All models", { change: draw });
  const range = select(Object.keys(RANGES), undefined, { change: draw });
  const content = h("div", { class: "stack" });

  function draw() {
    const minutes = RANGES[range.value];
    const now = Math.floor(Date.now() / 60_000) * 60 + 60;
    const from = now - minutes * 60;
    const selected = rows.filter((row) => row.minute >= from && (!model.value || row.model === model.value));
    setChildren(content, selected.length ? [drawTiles(selected), drawCharts(selected, from, minutes)] : h("p", { class: "notice" }, "No requests in this period."));
  }

  const poller = makePoller(
    async (signal) => {
      const { rows: latest } = await fetchJson("toolspeak/series", { signal });
      if (signal.aborted) return;
      rows = latest;
      const listed = new Set([...model.options].map((option) => option.value));
      for (const name of new Set(rows.map((row) => row.model))) if (name && !listed.has(name)) model.append(h("option", { value: name }, name));
      // Do not redraw while a table is expanded.
      if (!content.querySelector("details[open]")) draw();
    },
    (message) => setChildren(content, h("p", { class: "notice bad" }, message)),
    () => POLL_INTERVAL,
  );

  const element = h(
    "div",
    { class: "scroll" },
    h(
      "div",
      { class: "page" },
      h("header", { class: "row apart" }, h("div", {}, h("h1", {}, "Dashboard"), h("p", { class: "lead" }, "Data from all workers for the last 24 hours. Also available at ", h("code", {}, "/metrics"), " for Prometheus.")), h("div", { class: "fields" }, labelled("Model", model), labelled("Period", range))),
      content,
    ),
  );
  return {
    element,
    show: poller.start,
    hide: poller.stop,
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
    ["requests", compact(requests), [`${compact(total(rows, (row) => row.errors))} failed`, left && `${compact(left)} disconnected`].filter(Boolean).join(", ")],
    ["emulated", native + emulated ? percent(emulated / (native + emulated)) : "–", `of ${compact(native + emulated)} with tools`],
    ["calls", compact(total(rows, (row) => row.calls)), `${compact(total(rows, (row) => row.no_call))} requests without a call`],
    ["retries", compact(total(rows, (row) => row.retries)), plural(total(rows, (row) => row.refusals), "refusal")],
    ["repairs", compact(total(rows, (row) => row.repairs)), "in accepted calls"],
    ["overhead", duration(total(rows, (row) => row.added) / requests), "per request, on average"],
    ["tokens", compact(total(rows, (row) => row.input_tokens + row.output_tokens)), `${compact(total(rows, (row) => row.output_tokens))} output`],
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
  const of = (/** @type {string} */ name, /** @type {string} */ className, /** @type {(row: Row) => number} */ value) => ({ name, className, values: buckets.map((bucket) => total(bucket, value)) });
  const added = buckets.map((bucket) => total(bucket, (row) => row.added) / Math.max(1, total(bucket, (row) => row.requests)));
  return h(
    "div",
    { class: "charts" },
    drawChart({
      title: "Requests",
      times,
      format: compact,
      series: [of("emulated", "series-1", (row) => row.emulated), of("native", "series-2", (row) => row.native), of("without tools", "series-3", (row) => row.requests - row.emulated - row.native)],
    }),
    drawChart({
      title: "Corrections",
      times,
      format: compact,
      series: [of("repairs", "series-1", (row) => row.repairs), of("retries", "series-2", (row) => row.retries), of("refusals", "series-4", (row) => row.refusals)],
    }),
    drawChart({ title: "toolspeak overhead", times, format: duration, series: [{ name: "overhead", className: "series-1", values: added }] }),
    drawChart({ title: "Tokens", times, format: compact, series: [of("input", "series-3", (row) => row.input_tokens), of("output", "series-1", (row) => row.output_tokens)] }),
  );
}
