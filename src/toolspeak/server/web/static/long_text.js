// @ts-check
/**
 * Long texts in pieces. The browser lays out only the visible pieces, so a megabyte opens at once. Ranges of the text can
 * be marked; a mark that continues in the next piece is drawn in both.
 */

import { h } from "./dom.js";
import { TimeSlice } from "./time_slice.js";

/** Number of characters in a piece: a few screens. */
const PIECE = 4000;
/** Number of list items drawn at first and with each click on the button for more. */
const FIRST = 100;

/** @typedef {{start: number, end: number, make: (text: string, first: boolean) => Node}} TextRange */

/**
 * A text in which ranges are drawn by their own functions.
 * @param {string} text
 * @param {TextRange[]} [ranges] in order, without overlap
 * @returns {HTMLElement}
 */
export function longText(text, ranges = []) {
  const place = h("pre", { class: "code tall", tabindex: 0 });
  const cuts = pieces(text);
  let next = 0;
  let passed = 0; // ranges that end before the next piece
  const draw = async () => {
    for (const slice = new TimeSlice(); next < cuts.length; next += 1) {
      const [start, end] = cuts[next];
      while (passed < ranges.length && ranges[passed].end <= start) passed += 1;
      place.append(h("div", { class: cuts.length > 1 ? "chunk" : null, dir: "auto" }, drawPiece(text, start, end, ranges, passed)));
      if (slice.expired) await slice.next();
    }
  };
  draw();
  return place;
}

/**
 * Where to split a text: after a line break if there is one.
 * @param {string} text
 * @returns {[number, number][]}
 */
function pieces(text) {
  /** @type {[number, number][]} */
  const cuts = [];
  for (let start = 0; start < text.length; ) {
    let end = Math.min(start + PIECE, text.length);
    if (end < text.length) {
      // Search this piece only: in a text without line breaks, each search would go back to the beginning.
      const line = text.slice(start, end).lastIndexOf("\n");
      if (line > 0) end = start + line + 1;
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
 * @param {TextRange[]} ranges
 * @param {number} first range that may overlap the piece
 */
function drawPiece(text, start, end, ranges, first) {
  /** @type {(Node | string)[]} */
  const out = [];
  let at = start;
  for (let index = first; index < ranges.length && ranges[index].start < end; index += 1) {
    const range = ranges[index];
    const from = Math.max(range.start, start);
    const until = Math.min(range.end, end);
    if (from >= until) continue;
    if (from > at) out.push(text.slice(at, from));
    out.push(range.make(text.slice(from, until), from === range.start));
    at = until;
  }
  if (at < end) out.push(text.slice(at, end));
  return out;
}

/**
 * A JSON value, indented.
 * @param {unknown} value
 */
export const jsonText = (value) => longText(typeof value === "string" ? value : JSON.stringify(value, null, 2) ?? "");

/**
 * A list of which the first items are drawn, with a button for more.
 * @template Item
 * @param {HTMLElement} list
 * @param {Item[]} items
 * @param {(item: Item) => Node} draw
 * @returns {HTMLElement[]} the list, and the button if there are more
 */
export function longList(list, items, draw) {
  let next = 0;
  const button = h("button", { type: "button", class: "link small", click: () => more() });
  const more = () => {
    const from = next;
    next = Math.min(next + FIRST, items.length);
    list.append(...items.slice(from, next).map(draw));
    const left = items.length - next;
    button.hidden = !left;
    button.textContent = `Show ${Math.min(left, FIRST)} more of ${left}`;
  };
  more();
  return items.length > FIRST ? [list, button] : [list];
}
