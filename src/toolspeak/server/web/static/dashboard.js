// @ts-check
/** Requests over time: success of tool calls, latency, errors and tokens, by model, client and key. Every bar leads to its requests. */

import { fetchJson } from "./api.js";
import { drawChart } from "./chart.js";
import { disclosure, h, labelled, s, select, setChildren } from "./dom.js";
import { compact, day, duration, minute, percent, plural } from "./format.js";
import { percentile } from "./histogram.js";
import { makePoller } from "./polling.js";

/** Milliseconds between two polls. */
const POLL_INTERVAL = 10_000;
/** The periods to choose from, in minutes; 0 for one with a beginning and an end to choose. */
const RANGES = /** @type {Record<string, number>} */ ({ "Last hour": 60, "Last 6 hours": 360, "Last 24 hours": 1440, "Last 7 days": 7 * 1440, "Last 30 days": 30 * 1440, "Last 90 days": 90 * 1440, "Custom range": 0 });
const DAY_SECONDS = 86_400;
/** What requests are grouped by, with the heading of each list and the word for requests without a value. */
const DIMENSIONS = /** @type {[string, string, string][]} */ ([["model", "By model", "no model"], ["client", "By client", "unknown client"], ["key", "By key", "no key"]]);
/** The value that stands for several: beyond 50 models, clients or keys in a period, or names that no model has. */
const OTHER = "other";

/**
 * @typedef {object} Totals the numbers of a group of requests; those that are zero are left out
 * @property {number} [requests]
 * @property {number} [native]
 * @property {number} [emulated]
 * @property {number} [errors]
 * @property {number} [disconnected]
 * @property {number} [calls]
 * @property {number} [no_call]
 * @property {number} [retries]
 * @property {number} [refusals]
 * @property {number} [repairs]
 * @property {number} [judged] requests with tools that a model answered
 * @property {number} [unaided] those whose first answer could be used as it was
 * @property {number} [successful] those that ended with valid calls or a plain answer
 * @property {number} [input_tokens]
 * @property {number} [output_tokens]
 * @property {number} [added] overhead in seconds
 * @property {import("./histogram.js").Buckets} [total]
 * @property {import("./histogram.js").Buckets} [first_token]
 */
/** @typedef {Exclude<keyof Totals, "total" | "first_token">} Count */

/**
 * @typedef {object} Statistics
 * @property {number} since seconds since the epoch
 * @property {number} until
 * @property {number} width of a bar in seconds
 * @property {number} late number of workers that did not respond in time
 * @property {boolean} stored whether the numbers are in the store
 * @property {Record<string, string>} key_names by id
 * @property {Record<string, Record<string, Totals>>} groups by `model`, `client`, `key` and `bar`, and all under an empty name
 */
/** @typedef {{dimension: string, value: string}} Choice whose requests to draw: all, if the dimension is empty */

const ALL = { dimension: "", value: "" };

/** @returns {import("./app.js").Part} */
export function makeDashboard() {
  const show = select([], "All requests", { change: restart });
  const range = select(Object.keys(RANGES), undefined, { change: changeRange });
  const since = moment("From", -DAY_SECONDS);
  const until = moment("To", 60); // the minute that has begun, too
  const custom = h("div", { class: "fields", hidden: true }, since.element, until.element);
  const lead = h("p", { class: "lead" });
  const content = h("div", { class: "stack-wide" });
  range.value = "Last 24 hours";

  /** @param {string} label @param {number} offset seconds from now */
  function moment(label, offset) {
    const field = /** @type {HTMLInputElement} */ (h("input", { type: "datetime-local", change: restart }));
    field.value = localTime(Date.now() / 1000 + offset);
    return { field, element: labelled(label, field) };
  }

  function changeRange() {
    custom.hidden = RANGES[range.value] > 0;
    restart();
  }

  function restart() {
    poller.start();
  }

  /** @returns {[number, number]} seconds since the epoch */
  function chosenRange() {
    const minutes = RANGES[range.value];
    const now = Math.ceil(Date.now() / 60_000) * 60;
    return minutes ? [now - minutes * 60, now] : [new Date(since.field.value).getTime() / 1000, new Date(until.field.value).getTime() / 1000];
  }

  /** @returns {Choice} */
  const choice = () => (show.value ? JSON.parse(show.value) : ALL);

  const poller = makePoller(
    async (signal) => {
      const [from, to] = chosenRange();
      if (!(from < to)) return setChildren(content, h("p", { class: "notice warn", role: "alert" }, "The start must be before the end."));
      const query = new URLSearchParams({ since: String(from), until: String(to), ...choice() });
      /** @type {Statistics} */
      const statistics = await fetchJson(`toolspeak/statistics?${query}`, { signal });
      if (signal.aborted) return;
      setChildren(lead, about(statistics));
      fillChoices(show, statistics);
      // Do not redraw what a person is reading or moving through.
      if (content.querySelector("details[open]") && content.dataset.query === range.value + show.value) return;
      if (content.contains(document.activeElement)) return;
      content.dataset.query = range.value + show.value;
      setChildren(content, draw(statistics, choice()));
    },
    (message) => setChildren(content, h("p", { class: "notice bad", role: "alert" }, message)),
    () => POLL_INTERVAL,
  );

  const fields = h("div", { class: "stack narrow" }, h("div", { class: "fields" }, labelled("Show", show), labelled("Period", range)), custom);
  const header = h("header", { class: "row apart" }, h("div", {}, h("h1", {}, "Dashboard"), lead), fields);
  return {
    element: h("div", { class: "scroll" }, h("div", { class: "page" }, header, content)),
    show: poller.start,
    hide: poller.stop,
  };
}

/** @param {number} seconds since the epoch; as the value of a field with the local time */
function localTime(seconds) {
  const time = new Date(seconds * 1000);
  return new Date(time.getTime() - time.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

/** @param {Statistics} statistics */
function about({ stored, late }) {
  const place = stored ? "These are the requests of all servers that share this store. They are kept for 90 days." : "These are the last 5,000 requests of each worker since the server started. To keep the numbers, set a store in the configuration.";
  return [place, " For Prometheus, see ", h("code", {}, "/metrics"), ".", late > 0 && ` ${plural(late, "worker")} did not respond in time.`];
}

/**
 * Offers every model, client and key with requests. The chosen one stays.
 * @param {HTMLSelectElement} field
 * @param {Statistics} statistics
 */
function fillChoices(field, statistics) {
  const chosen = field.value;
  const groups = DIMENSIONS.map(([dimension, title]) => {
    const values = Object.keys(statistics.groups[dimension] ?? {});
    const options = values.map((value) => h("option", { value: JSON.stringify({ dimension, value }) }, name(statistics, dimension, value)));
    return options.length > 0 && h("optgroup", { label: title }, options);
  });
  const signature = JSON.stringify(DIMENSIONS.map(([dimension]) => Object.keys(statistics.groups[dimension] ?? {})));
  if (field.dataset.signature === signature) return; // an open list must not change under the pointer
  field.dataset.signature = signature;
  setChildren(field, h("option", { value: "" }, "All requests"), groups);
  if (chosen && ![...field.options].some((option) => option.value === chosen)) {
    const { dimension, value } = JSON.parse(chosen);
    field.append(h("option", { value: chosen }, name(statistics, dimension, value)));
  }
  field.value = chosen;
}

/**
 * The name of a model, a client or a key.
 * @param {Statistics} statistics
 * @param {string} dimension
 * @param {string} value
 */
function name({ key_names: names }, dimension, value) {
  if (dimension === "key" && value) {
    if (value === "session") return "this page";
    return names[value] ?? (value.startsWith("own-") ? `client's own key ${value.slice(4, 12)}` : `deleted key ${value.slice(0, 8)}`);
  }
  return value || (DIMENSIONS.find(([each]) => each === dimension)?.[2] ?? "");
}

// ---- links to requests

/**
 * The address of the requests in a range of time.
 * @param {{since: number, until: number}} range
 * @param {Choice} choice
 * @param {string} [more] another search term
 */
function requestsLink({ since, until }, choice, more) {
  const times = `since:${isoTime(since)} until:${isoTime(until)}`;
  return `#/requests/?${encodeURIComponent([more, term(choice), times].filter(Boolean).join(" "))}`;
}

/** @param {number} seconds since the epoch */
const isoTime = (seconds) => `${new Date(seconds * 1000).toISOString().slice(0, 16)}Z`;

/** @param {Choice} choice */
function term({ dimension, value }) {
  if (!dimension) return "";
  if (value.includes('"')) return `${dimension}:"${value.split('"')[0]}"`; // a quoted text cannot contain a quote
  return `${dimension}:=${/^\S+$/.test(value) ? value : `"${value}"`}`;
}

// ---- drawing

/**
 * @param {Statistics} statistics
 * @param {Choice} choice
 */
function draw(statistics, choice) {
  const totals = statistics.groups[choice.dimension]?.[choice.value] ?? {};
  if (!totals.requests) return h("p", { class: "notice" }, "No requests in this period.");
  return [drawSuccess(statistics, choice, totals), drawTiles(totals), drawCharts(statistics, choice), DIMENSIONS.map(([dimension, title]) => drawList(statistics, dimension, title))];
}

/**
 * How many requests with tools ended well: with the first answer of the model, and with toolspeak.
 * @param {Statistics} statistics
 * @param {Choice} choice
 * @param {Totals} totals
 */
function drawSuccess(statistics, choice, { judged = 0, unaided = 0, successful = 0 }) {
  if (!judged) return null;
  const rows = /** @type {[string, number, string, string][]} */ ([
    ["Model's first answer", unaided, "status:unaided", "series-2"],
    ["With toolspeak", successful, "status:success", "series-1"],
  ]);
  return h(
    "section",
    { class: "card stack success", "aria-labelledby": "success" },
    h("h2", { id: "success" }, "Success of requests with tools"),
    rows.map(([label, count, query, className]) =>
      h(
        "a",
        { class: "success-row", href: requestsLink(statistics, choice, query) },
        h("span", { class: "strong" }, label),
        h("span", { class: "big" }, percent(count / judged)),
        drawBar(count / judged, className),
        h("span", { class: "soft small" }, `${compact(count)} of ${compact(judged)} requests`),
      ),
    ),
    judged > successful && h("p", { class: "small flush" }, h("a", { href: requestsLink(statistics, choice, "status:failed") }, `${plural(judged - successful, "request")} still failed`), "."),
    disclosure("What is counted?", () => [
      h("p", { class: "small" }, h("span", { class: "strong" }, "Model's first answer"), ": the answer was usable as it was. All its calls were valid, or it was a plain answer and no call was required."),
      h("p", { class: "small" }, h("span", { class: "strong" }, "With toolspeak"), ": the answer was usable after repairs, retries, or a call by the interpreter. A call that the model wrote as text although it was given tools natively counts here only."),
      h("p", { class: "small flush" }, "If tools are emulated, both numbers depend on toolspeak, because its prompt asks for the calls. Requests without tools, with mode off or without an answer are not counted, nor are those whose client disconnected. toolspeak cannot know whether a plain answer should have been a call."),
    ], { class: "small soft" }),
  );
}

/**
 * A horizontal bar.
 * @param {number} share between 0 and 1
 * @param {string} className
 */
const drawBar = (share, className) => s("svg", { class: "share", viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" }, s("rect", { width: 100, height: 8, class: "empty" }), s("rect", { width: Math.max(share * 100, share && 0.5), height: 8, class: className }));

/** @param {number | null} seconds */
const time = (seconds) => (seconds === null ? "–" : duration(Number(seconds.toPrecision(2))));

/** @param {Totals} totals */
function drawTiles({ requests = 0, errors = 0, disconnected = 0, retries = 0, refusals = 0, repairs = 0, calls = 0, no_call = 0, native = 0, emulated = 0, added = 0, input_tokens = 0, output_tokens = 0, total = {}, first_token = {} }) {
  const tiles = [
    ["Requests", compact(requests), [`${compact(errors)} failed`, disconnected && `${compact(disconnected)} disconnected`].filter(Boolean).join(", ")],
    ["Latency", time(percentile(total, 0.5)), `median; 95% within ${time(percentile(total, 0.95))}`],
    ["First token", time(percentile(first_token, 0.5)), `median; 95% within ${time(percentile(first_token, 0.95))}`],
    ["Emulated", native + emulated ? percent(emulated / (native + emulated)) : "–", `of ${compact(native + emulated)} with tools`],
    ["Calls", compact(calls), `${plural(no_call, "request")} without a call`],
    ["Retries", compact(retries), plural(refusals, "refusal")],
    ["Repairs", compact(repairs), "in accepted calls"],
    ["Overhead", duration(added / requests), "per request, on average"],
    ["Tokens", compact(input_tokens + output_tokens), `${compact(output_tokens)} output`],
  ];
  return h("dl", { class: "tiles" }, tiles.map(([title, value, more]) => h("div", { class: "card tile" }, h("dt", { class: "soft small" }, title), h("dd", {}, h("span", { class: "big" }, value), h("span", { class: "soft small" }, more)))));
}

/**
 * @param {Statistics} statistics
 * @param {Choice} choice
 */
function drawCharts(statistics, choice) {
  const { since, until, width } = statistics;
  const count = Math.ceil((until - since) / width);
  const bars = /** @type {Totals[]} */ (Array.from({ length: count }, (_, index) => statistics.groups.bar?.[index] ?? {}));
  const moments = bars.map((_, index) => since + index * width);
  const times = moments.map((each) => (until - since > DAY_SECONDS ? day(each) : minute(each)));
  const ticks = moments.map((each) => (until - since > 2 * DAY_SECONDS ? shortDay(each) : minute(each)));
  const links = moments.map((each, index) => (bars[index].requests ? requestsLink({ since: each, until: Math.min(each + width, until) }, choice) : ""));
  const common = { times, ticks, links };
  /** @type {(name: string, className: string, value: Count | ((bar: Totals) => number), query?: string) => import("./chart.js").Series} */
  const of = (title, className, value, query) => ({
    name: title,
    className,
    values: bars.map((bar) => (typeof value === "function" ? value(bar) : (bar[value] ?? 0))),
    href: query && requestsLink(statistics, choice, query),
  });
  const share = (/** @type {"total" | "first_token"} */ field, /** @type {number} */ part) => (/** @type {Totals} */ bar) => Number((percentile(bar[field] ?? {}, part) ?? 0).toPrecision(2));
  return h(
    "div",
    { class: "charts" },
    drawChart({
      title: "Success over time",
      ...common,
      format: compact,
      series: [of("first answer", "series-2", "unaided", "status:unaided"), of("recovered", "series-1", (bar) => (bar.successful ?? 0) - (bar.unaided ?? 0), "status:aided"), of("failed", "series-4", (bar) => (bar.judged ?? 0) - (bar.successful ?? 0), "status:failed")],
    }),
    drawChart({
      title: "Requests",
      ...common,
      format: compact,
      series: [of("emulated", "series-1", "emulated"), of("native", "series-2", "native"), of("without tools", "series-3", ({ requests = 0, emulated = 0, native = 0 }) => requests - emulated - native)],
    }),
    drawChart({ title: "Latency", ...common, format: duration, layered: true, series: [of("median", "series-1", share("total", 0.5)), of("95% within", "series-2", share("total", 0.95))] }),
    drawChart({ title: "Time to the first token", ...common, format: duration, layered: true, series: [of("median", "series-1", share("first_token", 0.5)), of("95% within", "series-2", share("first_token", 0.95))] }),
    drawChart({ title: "Errors", ...common, format: compact, series: [of("failed", "series-4", "errors", "status:error"), of("client disconnected", "series-3", "disconnected", "status:disconnected")] }),
    drawChart({ title: "Corrections", ...common, format: compact, series: [of("repairs", "series-1", "repairs", "status:repair"), of("retries", "series-2", "retries", "status:retry"), of("refusals", "series-4", "refusals")] }),
    drawChart({ title: "Tokens", ...common, format: compact, series: [of("input", "series-3", "input_tokens"), of("output", "series-1", "output_tokens")] }),
    drawChart({ title: "toolspeak overhead", ...common, format: duration, series: [of("per request", "series-1", ({ added = 0, requests = 1 }) => added / requests)] }),
  );
}

/** @param {number} seconds since the epoch */
const shortDay = (seconds) => new Date(seconds * 1000).toLocaleDateString(undefined, { month: "short", day: "numeric" });

/**
 * The models, clients or keys, the busiest first.
 * @param {Statistics} statistics
 * @param {string} dimension
 * @param {string} title
 */
function drawList(statistics, dimension, title) {
  const rows = Object.entries(statistics.groups[dimension] ?? {}).sort(([, one], [, two]) => (two.requests ?? 0) - (one.requests ?? 0));
  const most = rows[0]?.[1].requests ?? 1;
  const columns = ["Requests", "First answer", "With toolspeak", "Median", "95% within", "First token", "Failed", "Tokens"];
  const head = h("tr", {}, h("th", { scope: "col" }, `${dimension[0].toUpperCase()}${dimension.slice(1)}`), columns.map((each) => h("th", { scope: "col", class: "number" }, each)));
  return h(
    "section",
    { class: "card stack", "aria-labelledby": `by-${dimension}` },
    h("h2", { id: `by-${dimension}` }, title),
    h("div", { class: "wide", tabindex: 0, role: "region", "aria-labelledby": `by-${dimension}` }, h("table", { class: "breakdown" }, h("thead", {}, head), h("tbody", {}, rows.map(([value, totals]) => drawRow(statistics, { dimension, value }, totals, most))))),
  );
}

/**
 * @param {Statistics} statistics
 * @param {Choice} choice
 * @param {Totals} totals
 * @param {number} most requests of a row
 */
function drawRow(statistics, choice, { requests = 0, judged = 0, unaided = 0, successful = 0, errors = 0, input_tokens = 0, output_tokens = 0, total = {}, first_token = {} }, most) {
  const label = [h("span", { class: "name", dir: "auto" }, name(statistics, choice.dimension, choice.value)), drawBar(requests / most, "series-1")];
  // No search finds the requests of several models, clients or keys together.
  const cell = choice.value === OTHER ? h("span", { class: "bar-link" }, label) : h("a", { class: "bar-link", href: requestsLink(statistics, choice) }, label);
  const values = [compact(requests), judged ? percent(unaided / judged) : "–", judged ? percent(successful / judged) : "–", time(percentile(total, 0.5)), time(percentile(total, 0.95)), time(percentile(first_token, 0.5)), compact(errors), compact(input_tokens + output_tokens)];
  return h("tr", {}, h("th", { scope: "row" }, cell), values.map((value) => h("td", { class: "number" }, value)));
}
