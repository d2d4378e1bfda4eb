// @ts-check
/**
 * Renders Markdown while it arrives. A block that can no longer change is drawn once; only the last one is drawn again.
 * It is drawn again only after it has grown by a share of its length, so that the time is linear in the text.
 */

import { h } from "./dom.js";
import { LiveText } from "./live_text.js";
import { block, codeBlock, endsFence, fenceAt } from "./markdown.js";
import { TimeSlice } from "./time_slice.js";

/** Number of characters after which the rest is plain text until the answer ends, as in `markdown`. */
const LONGEST = 200_000;
/** Number of lines after which blocks are put into a new section, which the browser lays out only if it is visible. */
const SECTION_LINES = 200;
/** Number of complete lines that must follow a block before it is final: it may depend on them. */
const LOOKAHEAD = 2;
/** The share by which the last block must grow before it is drawn again, and the size up to which it always is. */
const GROWTH = 0.1;
const SMALL = 4000;

export class LiveMarkdown {
  constructor() {
    this.element = h("div", { class: "text live", dir: "auto" });
    /** The text that is not final: the last block, and what had to wait for the next frame. */
    this._tail = "";
    this._drawn = 0;
    this._length = 0;
    this._sectionLines = 0;
    this._section = this.element;
    /** The last block, as it is drawn at the moment. */
    this._last = h("div", { class: "last-block" });
    this.element.append(this._last);
    /** @type {{marks: string, text: LiveText, lines: string[]} | null} the code block that is being written */
    this._code = null;
    /** @type {LiveText | null} the plain text after the limit */
    this._plain = null;
  }

  /**
   * Adds a text, and draws for the time of a slice.
   * @param {string} text
   * @returns {boolean} whether there is more to draw, by adding an empty text in the next frame
   */
  add(text) {
    this._length += text.length;
    if (!this._plain && this._length > LONGEST) this._endMarkdown();
    if (this._plain) {
      this._plain.add(text);
      return false;
    }
    this._tail += text;
    const lines = this._tail.split("\n");
    const slice = new TimeSlice();
    let at = 0;
    let next = 0;
    while ((next = this._code ? this._codeLines(lines, at) : this._finalBlock(lines, at)) > at && !slice.expired) at = next;
    at = Math.max(at, next);
    if (at) {
      this._tail = lines.slice(at).join("\n");
      this._drawn = 0;
      this._last.replaceChildren(); // it may show a block that is final now
    }
    if (slice.expired) return true;
    if (!this._code && (this._tail.length < SMALL || this._tail.length > this._drawn * (1 + GROWTH))) this._drawLast(lines, at);
    return false;
  }

  /** Shows the rest as plain text. */
  _endMarkdown() {
    this._plain = new LiveText(h("div", { class: "plain" }));
    this._last.replaceChildren(this._plain.element);
    this._plain.add(this._tail);
  }

  /**
   * @param {string[]} lines
   * @param {number} at
   */
  _drawLast(lines, at) {
    this._drawn = this._tail.length;
    this._last.replaceChildren();
    while (at < lines.length) at = block(lines, at, this._last);
  }

  /**
   * Draws the block at a line for good, if it cannot change any more.
   * @param {string[]} lines
   * @param {number} at
   * @returns {number} the line after it; `at` if it is not final
   */
  _finalBlock(lines, at) {
    const complete = lines.length - 1;
    const fence = at < complete ? fenceAt(lines[at]) : null;
    if (fence) {
      this._beginCode(fence);
      return at + 1;
    }
    if (at + LOOKAHEAD >= complete) return at;
    const draft = document.createDocumentFragment();
    const end = block(lines, at, draft);
    if (end + LOOKAHEAD > complete) return at;
    this._append(draft, end - at);
    return end;
  }

  /**
   * @param {Node} node that is final
   * @param {number} lines of it
   */
  _append(node, lines) {
    this._sectionLines += lines;
    if (this._sectionLines > SECTION_LINES) {
      this._sectionLines = 0;
      this._section = h("div", { class: "chunk" });
      this.element.insertBefore(this._section, this._last);
    }
    this._section.insertBefore(node, this._section === this.element ? this._last : null);
  }

  /** @param {RegExpExecArray} fence with which the code begins */
  _beginCode([, marks, language]) {
    const text = new LiveText(h("pre", { class: "code", tabindex: 0, dir: "ltr" }));
    /** @type {string[]} */
    const lines = [];
    this._code = { marks, text, lines };
    this._last.replaceChildren();
    this._append(codeBlock(language, text.element, () => lines.join("\n")), 1);
  }

  /**
   * Adds complete lines to the code.
   * @param {string[]} lines
   * @param {number} at
   * @returns {number} the line after the code, or after the complete lines
   */
  _codeLines(lines, at) {
    const code = /** @type {NonNullable<typeof this._code>} */ (this._code);
    let end = at;
    while (end < lines.length - 1 && !endsFence(lines[end], code.marks)) end += 1;
    const added = lines.slice(at, end);
    if (added.length) code.text.add(`${code.lines.length ? "\n" : ""}${added.join("\n")}`);
    code.lines.push(...added);
    if (end === lines.length - 1) return end;
    this._code = null;
    return end + 1;
  }
}
