// @ts-check
/** Bar charts over time as SVG, each with a table of the same numbers. */

import { disclosure, responsive, h, s } from "./dom.js";

/** @typedef {{name: string, className: string, values: number[], href?: string}} Series `href` leads to what is counted */

const [HEIGHT, LEFT, BOTTOM, TOP] = [170, 52, 24, 8];
const PLOT = HEIGHT - BOTTOM - TOP;
/** Maximum number of time labels below the bars, and the width that each needs. */
const [MOST_TIMES, TIME_WIDTH] = [6, 60];

/**
 * @typedef {object} Chart
 * @property {string} title
 * @property {string[]} times the labels of the buckets
 * @property {string[]} [ticks] shorter labels
 * @property {Series[]} series
 * @property {(value: number) => string} format
 * @property {string[]} [links] where each bar leads; empty for nowhere
 * @property {boolean} [layered] whether each bar begins at zero, in front of the larger ones, and is not stacked
 */

/**
 * @param {Chart} chart
 * @returns {HTMLElement}
 */
export function drawChart(chart) {
  const { title, series, layered } = chart;
  const description = `${title}: ${series.map((each) => `${each.name} ${summed(chart, each)}`).join(", ")}`;
  const legend = series.map((each) => h("li", {}, h("i", { class: each.className }), each.href ? h("a", { href: each.href }, each.name) : each.name));
  return h(
    "figure",
    { class: "chart card stack-tight" },
    h("figcaption", { class: "row apart" }, h("h2", {}, title), h("ul", { class: "legend small" }, legend)),
    responsive("plot over-time", (width) => s("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, role: chart.links ? "group" : "img", "aria-label": layered ? title : description, keydown: moveFocus }, drawPlot(width, chart))),
    disclosure("Show as table", () => drawTable(chart), { class: "small soft" }),
  );
}

/**
 * @param {Chart} chart
 * @param {Series} series
 */
const summed = ({ format }, { values }) => format(values.reduce((sum, value) => sum + value, 0));

/**
 * @param {number} across
 * @param {Chart} chart
 */
function drawPlot(across, { times, ticks = times, series, format, links = [], layered = false }) {
  const sums = times.map((_, index) => series.reduce((sum, each) => (layered ? Math.max(sum, each.values[index]) : sum + each.values[index]), 0));
  const most = ceiling(Math.max(...sums, 0));
  const width = (across - LEFT) / times.length;
  const y = (/** @type {number} */ value) => TOP + PLOT - (value / most) * PLOT;
  const grid = [0, 0.5, 1].map((share) => [
    s("line", { x1: LEFT, x2: across, y1: y(most * share), y2: y(most * share), class: "grid" }),
    s("text", { x: LEFT - 8, y: y(most * share) + 4, class: "tick", "text-anchor": "end" }, format(most * share)),
  ]);
  let focusable = true;
  const bars = times.map((time, index) => {
    let below = 0;
    const parts = (layered ? [...series].reverse() : series).map((each) => {
      const value = each.values[index];
      below = layered ? value : below + value;
      if (!value) return null;
      const box = { x: LEFT + index * width + width * 0.12, width: width * 0.76, y: y(below), height: Math.max(1, (value / most) * PLOT) };
      return s("rect", { ...box, rx: 1.5, class: each.className }, s("title", {}, `${time}, ${each.name}: ${format(value)}`));
    });
    if (!links[index]) return parts;
    const label = `${time}: ${series.map((each) => `${each.name} ${format(each.values[index])}`).join(", ")}. Show requests`;
    // The whole height is the target of the pointer, because a bar may be too small to hit.
    const target = s("rect", { x: LEFT + index * width, width, y: TOP, height: PLOT, class: "target" }, s("title", {}, label));
    const link = s("a", { href: links[index], "aria-label": label, tabindex: focusable ? 0 : -1 }, target, parts);
    focusable = false;
    return link;
  });
  const every = Math.ceil(times.length / Math.max(1, Math.min(MOST_TIMES, Math.floor((across - LEFT) / TIME_WIDTH))));
  const labels = ticks.map((tick, index) => (index % every ? null : s("text", { x: LEFT + (index + 0.5) * width, y: HEIGHT - 6, class: "tick", "text-anchor": "middle" }, tick)));
  return [grid, bars, labels];
}

/** How the arrow keys and others move among the bars with a link. */
const MOVES = /** @type {Record<string, (at: number, count: number) => number>} */ ({ ArrowRight: (at, count) => Math.min(at + 1, count - 1), ArrowLeft: (at) => Math.max(at - 1, 0), Home: () => 0, End: (_, count) => count - 1 });

/**
 * Moves among the bars, of which one at a time can be reached with Tab.
 * @param {KeyboardEvent} event
 */
function moveFocus(event) {
  const links = /** @type {SVGAElement[]} */ ([.../** @type {Element} */ (event.currentTarget).querySelectorAll("a")]);
  const at = links.indexOf(/** @type {SVGAElement} */ (document.activeElement));
  const move = MOVES[event.key];
  if (at < 0 || !move) return;
  event.preventDefault();
  const next = links[move(at, links.length)];
  links[at].setAttribute("tabindex", "-1");
  next.setAttribute("tabindex", "0");
  next.focus();
}

/**
 * The next round number above a value.
 * @param {number} value
 */
export function ceiling(value) {
  if (value <= 0) return 1;
  const step = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((each) => each * step).find((each) => each >= value) ?? value;
}

/** @param {Chart} chart */
function drawTable({ times, series, format, links = [] }) {
  const head = h("tr", {}, h("th", { scope: "col" }, "time"), series.map((each) => h("th", { scope: "col", class: "number" }, each.name)));
  const rows = times.map((time, index) => h("tr", {}, h("th", { scope: "row" }, links[index] ? h("a", { href: links[index] }, time) : time), series.map((each) => h("td", { class: "number" }, format(each.values[index])))));
  return h("div", { class: "wide tall", tabindex: 0 }, h("table", {}, h("thead", {}, head), h("tbody", {}, rows)));
}
