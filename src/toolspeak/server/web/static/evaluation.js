// @ts-check
/** Charts of a `toolspeak eval` run: one bar for each setting and category, with its 95 % interval. */

import { responsive, h, s } from "./dom.js";
import { percent } from "./format.js";

/** @typedef {{cases: number, correct: number, share: number, low: number, high: number, errors: number}} Score */

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

/**
 * @param {any} report the content of `results.json`
 * @returns {HTMLElement}
 */
export function drawEvaluation(report) {
  return h(
    "section",
    { class: "card stack evaluation" },
    h("div", {}, h("h3", {}, report.model), h("p", { class: "small soft" }, [`suite ${report.suite}`, report.when, report.complete ? "" : "incomplete"].filter(Boolean).join(" · "))),
    report.rows.map((/** @type {any} */ row) => h("figure", { class: "chart" }, h("figcaption", { class: "small strong" }, row.label), responsive("plot", (width) => bars(row.scores, row.label, width)))),
  );
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
