// @ts-check
/** A growing text in blocks, so that the cost of appending does not depend on its length. */

import { h } from "./dom.js";

/** Number of characters after which a block ends at the next line break, and after which it ends anywhere. */
const BLOCK = 4000;
const LARGEST = 8000;

export class LiveText {
  /** @param {HTMLElement} element where it is shown */
  constructor(element) {
    this.element = element;
    this.length = 0;
    /** @type {Text | null} */
    this._last = null;
  }

  /** @param {string} text */
  add(text) {
    this.length += text.length;
    while (text) {
      if (!this._last) {
        this._last = document.createTextNode("");
        this.element.append(h("div", { class: "chunk live-block", dir: "auto" }, this._last));
      }
      const cut = splitPoint(text, this._last.length);
      this._last.appendData(text.slice(0, cut.end));
      text = text.slice(cut.next);
      if (cut.ends) this._last = null;
    }
  }
}

/**
 * The part of a text that still fits into a block. Its final line break is omitted, because the next block starts a line.
 * @param {string} text
 * @param {number} length of the block so far
 * @returns {{end: number, next: number, ends: boolean}}
 */
function splitPoint(text, length) {
  const line = text.indexOf("\n", Math.max(0, BLOCK - length));
  const most = LARGEST - length;
  if (line >= 0 && line < most) return { end: line, next: line + 1, ends: true };
  if (text.length < most) return { end: text.length, next: text.length, ends: false };
  // Never split a surrogate pair.
  const at = most > 1 && /[\ud800-\udbff]/.test(text[most - 1]) ? most - 1 : most;
  return { end: at, next: at, ends: true };
}
