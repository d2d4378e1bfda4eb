// @ts-check
/** Stacked bar charts over time as SVG, each with a table of the same numbers. */

import { disclosure, responsive, h, s } from "./dom.js";

/** @typedef {{name: string, className: string, values: number[]}} Series */

const [HEIGHT, LEFT, BOTTOM, TOP] = [170, 52, 24, 8];
const PLOT = HEIGHT - BOTTOM - TOP;
/** Maximum number of time labels below the bars, and the width that each needs. */
const [MOST_TIMES, TIME_WIDTH] = [6, 60];

/**
 * @param {object} options
 * @param {string} options.title
 * @param {string[]} options.times the labels of the buckets
 * @param {Series[]} options.series
 * @param {(value: number) => string} options.format
 * @returns {HTMLElement}
 */
export function drawChart({ title, times, series, format }) {
  const totals = series.map((each) => `${each.name} ${format(each.values.reduce((sum, value) => sum + value, 0))}`);
  return h(
    "figure",
    { class: "chart card stack-tight" },
    h("figcaption", { class: "row apart" }, h("h2", {}, title), h("ul", { class: "legend small" }, series.map((each) => h("li", {}, h("i", { class: each.className }), each.name)))),
    responsive("plot over-time", (width) => s("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": `${title}: ${totals.join(", ")}` }, drawPlot(width, times, series, format))),
    disclosure("Show as table", () => drawTable(times, series, format), { class: "small soft" }),
  );
}

/**
 * @param {number} across
 * @param {string[]} times
 * @param {Series[]} series
 * @param {(value: number) => string} format
 */
function drawPlot(across, times, series, format) {
  const sums = times.map((_, index) => series.reduce((sum, each) => sum + each.values[index], 0));
  const most = ceiling(Math.max(...sums, 0));
  const width = (across - LEFT) / times.length;
  const y = (/** @type {number} */ value) => TOP + PLOT - (value / most) * PLOT;
  const grid = [0, 0.5, 1].map((share) => [
    s("line", { x1: LEFT, x2: across, y1: y(most * share), y2: y(most * share), class: "grid" }),
    s("text", { x: LEFT - 8, y: y(most * share) + 4, class: "tick", "text-anchor": "end" }, format(most * share)),
  ]);
  const bars = times.flatMap((time, index) => {
    let below = 0;
    return series.map((each) => {
      const value = each.values[index];
      below += value;
      if (!value) return null;
      const box = { x: LEFT + index * width + width * 0.12, width: width * 0.76, y: y(below), height: Math.max(1, (value / most) * PLOT) };
      return s("rect", { ...box, rx: 1.5, class: each.className }, s("title", {}, `${time}, ${each.name}: ${format(value)}`));
    });
  });
  const every = Math.ceil(times.length / Math.max(1, Math.min(MOST_TIMES, Math.floor((across - LEFT) / TIME_WIDTH))));
  const ticks = times.map((time, index) => (index % every ? null : s("text", { x: LEFT + (index + 0.5) * width, y: HEIGHT - 6, class: "tick", "text-anchor": "middle" }, time)));
  return [grid, bars, ticks];
}

/**
 * The next round number above a value.
 * @param {number} value
 */
function ceiling(value) {
  if (value <= 0) return 1;
  const step = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((each) => each * step).find((each) => each >= value) ?? value;
}

/**
 * @param {string[]} times
 * @param {Series[]} series
 * @param {(value: number) => string} format
 */
function drawTable(times, series, format) {
  const head = h("tr", {}, h("th", { scope: "col" }, "time"), series.map((each) => h("th", { scope: "col", class: "number" }, each.name)));
  const rows = times.map((time, index) => h("tr", {}, h("th", { scope: "row" }, time), series.map((each) => h("td", { class: "number" }, format(each.values[index])))));
  return h("div", { class: "wide tall", tabindex: 0 }, h("table", {}, h("thead", {}, head), h("tbody", {}, rows)));
}
