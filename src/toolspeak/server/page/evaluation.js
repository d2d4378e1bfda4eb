// @ts-check
/** A run of `toolspeak eval` as a chart: one bar for each setting and category, with its 95 % interval. */

import { h, s } from "./dom.js";
import { percent } from "./format.js";

/** @typedef {{cases: number, correct: number, share: number, low: number, high: number, errors: number}} Score */

const [WIDTH, LEFT, RIGHT, BAR, STEP] = [720, 180, 130, 12, 24];
const PLOT = WIDTH - LEFT - RIGHT;
const ALL = "all";

/**
 * @param {any} report as `results.json` holds it
 * @returns {HTMLElement}
 */
export function drawEvaluation(report) {
  return h(
    "section",
    { class: "card stack evaluation" },
    h("div", {}, h("h3", {}, report.model), h("p", { class: "small soft" }, [`suite ${report.suite}`, report.when, report.complete ? "" : "not finished"].filter(Boolean).join(" · "))),
    report.rows.map((/** @type {any} */ row) => h("figure", { class: "chart" }, h("figcaption", { class: "small strong" }, row.label), bars(row.scores, row.label))),
  );
}

/**
 * @param {Record<string, Score>} scores by category
 * @param {string} label
 */
function bars(scores, label) {
  const rows = Object.entries(scores);
  const height = rows.length * STEP + 22;
  const at = (/** @type {number} */ share) => LEFT + PLOT * share;
  const told = rows.map(([name, score]) => `${name} ${percent(score.share)}`).join(", ");
  const grid = [0, 0.25, 0.5, 0.75, 1].map((share) => [
    s("line", { x1: at(share), x2: at(share), y1: 0, y2: height - 20, class: "grid" }),
    s("text", { x: at(share), y: height - 4, class: "tick", "text-anchor": "middle" }, percent(share)),
  ]);
  const drawn = rows.map(([name, score], index) => {
    const y = index * STEP + 6;
    const middle = y + BAR / 2;
    return [
      s("text", { x: LEFT - 10, y: middle + 4, "text-anchor": "end", class: name === ALL ? "strong" : null }, name.slice(0, 28)),
      s("rect", { x: LEFT, y, width: Math.max(1, PLOT * score.share), height: BAR, rx: 3, class: name === ALL ? "bar" : "bar faint" }),
      s("path", { d: `M${at(score.low)} ${middle}H${at(score.high)}M${at(score.low)} ${middle - 4}v8M${at(score.high)} ${middle - 4}v8`, class: "whisker" }),
      s("text", { x: WIDTH - RIGHT + 10, y: middle + 4 }, `${percent(score.share)} (${score.correct} of ${score.cases})`),
    ];
  });
  return s("svg", { viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": `${label}: ${told}` }, grid.flat(), drawn.flat());
}
