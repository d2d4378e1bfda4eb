// @ts-check
/** Charts of an evaluation: success against latency, and a bar for each setting and category, with 95% intervals. */

import { ceiling } from "./chart.js";
import { responsive, h, s } from "./dom.js";
import { compact, duration, percent } from "./format.js";

/** @typedef {{cases: number, correct: number, share: number, low: number, high: number, errors: number, median_seconds?: number, [name: string]: any}} Score */

const ALL = "all";
const BAR = 12;
/** Width below which labels are placed above the bars instead of beside them. */
const NARROW = 480;

/**
 * The layout: margins, the distance between rows, the offsets of bar and labels in a row, and the longest label.
 * @typedef {{left: number, right: number, step: number, bar: number, words: number, most: number}} Layout
 */
const BESIDE = { left: 180, right: 150, step: 24, bar: 6, words: 16, most: 28 };
const ABOVE = { left: 12, right: 20, step: 42, bar: 20, words: 14, most: 24 };

/** @typedef {{label: string, scores: Record<string, Score>}} Row */

/**
 * @param {any} report the content of `results.json`
 * @returns {HTMLElement}
 */
export function drawEvaluation(report) {
  return h(
    "section",
    { class: "card stack evaluation" },
    h("div", {}, h("h3", {}, report.model), h("p", { class: "small soft" }, [`suite ${report.suite}`, report.when, report.complete ? "" : "incomplete"].filter(Boolean).join(" · "))),
    report.rows.length > 1 && report.rows.every((/** @type {Row} */ row) => row.scores[ALL]?.median_seconds !== undefined) && drawSuccess(report.rows),
    drawCategories(report.rows),
  );
}

/** @param {Row[]} rows */
export const drawCategories = (rows) => rows.map((row) => h("figure", { class: "chart" }, h("figcaption", { class: "small strong" }, row.label), responsive("plot", (width) => bars(row.scores, row.label, width))));

const [HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [220, 52, 24, 12, 40];
const SERIES = 4;
/** The distance below which the numbers of two points would overlap. */
const APART = 16;

/**
 * Success against latency: a point for each setting, with its number, and a table of the same numbers.
 * @param {Row[]} rows
 * @returns {HTMLElement}
 */
export function drawSuccess(rows) {
  const points = rows.map((row, index) => ({ name: row.label, number: index + 1, className: `series-${(index % SERIES) + 1}`, score: row.scores[ALL] })).filter((point) => point.score.cases);
  const legend = h("ul", { class: "legend small" }, points.map((point) => h("li", {}, h("i", { class: point.className }), `${point.number} ${point.name}`)));
  const about = points.map(({ name, score }) => `${name} ${percent(score.share)} in ${duration(score.median_seconds ?? 0)}`).join(", ");
  return h(
    "figure",
    { class: "chart stack-tight" },
    h("figcaption", { class: "row apart" }, h("span", { class: "strong small" }, "Success against latency"), legend),
    responsive("plot success-plot", (width) => s("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": `Success against latency: ${about}` }, successPlot(points, width))),
    drawTable(points),
  );
}

/** @param {{name: string, score: Score}[]} points */
function drawTable(points) {
  const head = h("tr", {}, ["Setting", "Right", "95% interval", "Errors", "Median", "Output tokens"].map((name, index) => h("th", { scope: "col", class: index ? "number" : null }, name)));
  const rows = points.map(({ name, score }) => {
    const values = [`${score.correct} of ${score.cases}`, `${percent(score.low)} to ${percent(score.high)}`, String(score.errors), duration(score.median_seconds ?? 0), compact(score.output_tokens ?? 0)];
    return h("tr", {}, h("th", { scope: "row" }, name), values.map((value) => h("td", { class: "number" }, value)));
  });
  return h("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "Summary" }, h("table", {}, h("thead", {}, head), h("tbody", {}, rows)));
}

/**
 * @param {{name: string, number: number, className: string, score: Score}[]} points
 * @param {number} width
 */
function successPlot(points, width) {
  const most = ceiling(Math.max(...points.map((point) => point.score.median_seconds ?? 0), 0));
  const x = (/** @type {number} */ seconds) => LEFT + (seconds / most) * (width - LEFT - RIGHT);
  const y = (/** @type {number} */ share) => TOP + (1 - share) * (HEIGHT - TOP - BOTTOM);
  const grid = [0, 0.5, 1].flatMap((share) => [
    s("line", { x1: LEFT, x2: width - RIGHT, y1: y(share), y2: y(share), class: "grid" }),
    s("text", { x: LEFT - 8, y: y(share) + 4, class: "tick", "text-anchor": "end" }, percent(share)),
    s("text", { x: x(most * share), y: HEIGHT - BOTTOM + 17, class: "tick", "text-anchor": share === 1 ? "end" : "middle" }, duration(most * share)),
  ]);
  const title = s("text", { x: (LEFT + width - RIGHT) / 2, y: HEIGHT - 5, class: "tick", "text-anchor": "middle" }, "median time of a case");
  /** @type {{left: number, top: number}[]} */
  const numbers = [];
  const drawn = points.map(({ name, number, className, score }) => {
    const [left, top] = [x(score.median_seconds ?? 0), y(score.share)];
    const place = { left: left + 9, top: Math.max(TOP + 12, top - 4) };
    while (numbers.some((other) => Math.abs(other.left - place.left) < APART && Math.abs(other.top - place.top) < APART)) place.top += APART;
    numbers.push(place);
    return [
      s("path", { d: `M${left} ${y(score.low)}V${y(score.high)}M${left - 4} ${y(score.low)}h8M${left - 4} ${y(score.high)}h8`, class: "whisker" }),
      s("circle", { cx: left, cy: top, r: 6, class: className }, s("title", {}, `${name}: ${percent(score.share)}, ${duration(score.median_seconds ?? 0)}`)),
      s("text", { x: place.left, y: place.top, class: "strong" }, String(number)),
    ];
  });
  return [grid, title, drawn];
}

/**
 * @param {Record<string, Score>} scores by category
 * @param {string} label
 * @param {number} width
 */
function bars(scores, label, width) {
  const rows = Object.entries(scores);
  const narrow = width < NARROW;
  const layout = narrow ? ABOVE : BESIDE;
  const height = rows.length * layout.step + 22;
  const plot = width - layout.left - layout.right;
  const at = (/** @type {number} */ share) => layout.left + plot * share;
  const summary = rows.map(([name, score]) => `${name} ${percent(score.share)}`).join(", ");
  const grid = [0, 0.25, 0.5, 0.75, 1].map((share) => [
    s("line", { x1: at(share), x2: at(share), y1: 0, y2: height - 20, class: "grid" }),
    s("text", { x: at(share), y: height - 4, class: "tick", "text-anchor": "middle" }, percent(share)),
  ]);
  const [name_at, score_at] = narrow ? [{ x: 0 }, { x: width, "text-anchor": "end" }] : [{ x: layout.left - 10, "text-anchor": "end" }, { x: width - layout.right + 10 }];
  const drawn = rows.map(([name, score], index) => {
    const top = index * layout.step;
    const y = top + layout.bar;
    const middle = y + BAR / 2;
    return [
      s("text", { ...name_at, y: top + layout.words, class: name === ALL ? "strong" : null }, name.slice(0, layout.most)),
      s("rect", { x: layout.left, y, width: Math.max(1, plot * score.share), height: BAR, rx: 3, class: name === ALL ? "bar" : "bar faint" }),
      s("path", { d: `M${at(score.low)} ${middle}H${at(score.high)}M${at(score.low)} ${middle - 4}v8M${at(score.high)} ${middle - 4}v8`, class: "whisker" }),
      s("text", { ...score_at, y: top + layout.words }, `${percent(score.share)} (${score.correct} of ${score.cases})`),
    ];
  });
  return s("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${label}: ${summary}` }, grid.flat(), drawn.flat());
}
