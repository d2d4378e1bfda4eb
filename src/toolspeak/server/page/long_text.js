// @ts-check
/**
 * Long texts in pieces, of which the browser lays out only those that can be seen: a megabyte opens at once. Stretches
 * of the text can be marked; a mark that goes on in the next piece is drawn in both.
 */

import { h } from "./dom.js";

/** Characters of a piece: a few screens. */
const PIECE = 4000;
/** Pieces that are made at once; the rest follows when the browser has time. */
const AT_ONCE = 24;

/** @typedef {{start: number, end: number, make: (text: string, first: boolean) => Node}} Stretch */

/**
 * A text, with stretches of it drawn by their own functions.
 * @param {string} text
 * @param {Stretch[]} [stretches] from left to right, apart from each other
 * @returns {HTMLElement}
 */
export function longText(text, stretches = []) {
  const place = h("pre", { class: "code tall", tabindex: 0 });
  const cuts = pieces(text);
  let next = 0;
  const more = () => {
    for (const until = Math.min(next + AT_ONCE, cuts.length); next < until; next += 1) {
      const [start, end] = cuts[next];
      place.append(h("div", { class: cuts.length > 1 ? "chunk" : null }, drawn(text, start, end, stretches)));
    }
    if (next < cuts.length) setTimeout(more);
  };
  more();
  return place;
}

/**
 * Where to cut: behind a line where there is one.
 * @param {string} text
 * @returns {[number, number][]}
 */
function pieces(text) {
  /** @type {[number, number][]} */
  const cuts = [];
  for (let start = 0; start < text.length; ) {
    let end = Math.min(start + PIECE, text.length);
    if (end < text.length) {
      const line = text.lastIndexOf("\n", end);
      if (line > start) end = line + 1;
      else if (/[\ud800-\udbff]/.test(text[end - 1])) end -= 1;
    }
    cuts.push([start, end]);
    start = end;
  }
  return cuts;
}

/**
 * One piece.
 * @param {string} text
 * @param {number} start
 * @param {number} end
 * @param {Stretch[]} stretches
 */
function drawn(text, start, end, stretches) {
  /** @type {(Node | string)[]} */
  const out = [];
  let at = start;
  for (const stretch of stretches) {
    const from = Math.max(stretch.start, start);
    const until = Math.min(stretch.end, end);
    if (from >= until) continue;
    if (from > at) out.push(text.slice(at, from));
    out.push(stretch.make(text.slice(from, until), from === stretch.start));
    at = until;
  }
  if (at < end) out.push(text.slice(at, end));
  return out;
}

/**
 * A JSON value, written out.
 * @param {unknown} value
 */
export const jsonText = (value) => longText(typeof value === "string" ? value : JSON.stringify(value, null, 2) ?? "");
