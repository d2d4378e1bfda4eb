// @ts-check
/** A text that grows at its end, in blocks: what is added costs the same however long the text already is. */

import { h } from "./dom.js";

/** Characters after which a block ends with its line, and after which it ends anywhere. */
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
      const cut = end(text, this._last.length);
      this._last.appendData(text.slice(0, cut.behind));
      text = text.slice(cut.next);
      if (cut.ends) this._last = null;
    }
  }
}

/**
 * How much of a text still goes into a block. The line break that ends it is not shown: the block is one.
 * @param {string} text
 * @param {number} length of the block so far
 * @returns {{behind: number, next: number, ends: boolean}}
 */
function end(text, length) {
  const line = text.indexOf("\n", Math.max(0, BLOCK - length));
  const most = LARGEST - length;
  if (line >= 0 && line < most) return { behind: line, next: line + 1, ends: true };
  if (text.length < most) return { behind: text.length, next: text.length, ends: false };
  // Never between the two halves of one character.
  const at = most > 1 && /[\ud800-\udbff]/.test(text[most - 1]) ? most - 1 : most;
  return { behind: at, next: at, ends: true };
}
