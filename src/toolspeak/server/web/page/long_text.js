// @ts-check
/**
 * Long texts in pieces, of which the browser lays out only those that can be seen: a megabyte opens at once. Stretches
 * of the text can be marked; a mark that goes on in the next piece is drawn in both.
 */

import { h } from "./dom.js";
import { Turn } from "./turns.js";

/** Characters of a piece: a few screens. */
const PIECE = 4000;
/** Things of a list that are drawn before somebody asks for more. */
const FIRST = 100;

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
  let passed = 0; // stretches that end before the next piece
  const draw = async () => {
    for (const turn = new Turn(); next < cuts.length; next += 1) {
      const [start, end] = cuts[next];
      while (passed < stretches.length && stretches[passed].end <= start) passed += 1;
      place.append(h("div", { class: cuts.length > 1 ? "chunk" : null, dir: "auto" }, drawn(text, start, end, stretches, passed)));
      if (turn.over) await turn.next();
    }
  };
  draw();
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
      // Within the piece only: a text of one line would be searched to its beginning for each piece.
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
 * @param {Stretch[]} stretches
 * @param {number} first of them that may stand here
 */
function drawn(text, start, end, stretches, first) {
  /** @type {(Node | string)[]} */
  const out = [];
  let at = start;
  for (let index = first; index < stretches.length && stretches[index].start < end; index += 1) {
    const stretch = stretches[index];
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

/**
 * A list of which the first ones are drawn, and more when they are wanted.
 * @template Item
 * @param {HTMLElement} list
 * @param {Item[]} items
 * @param {(item: Item) => Node} draw
 * @returns {HTMLElement[]} the list, and the button for more
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
