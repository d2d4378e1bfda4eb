// @ts-check
/**
 * A list of any length, of which only the rows that can be seen are in the page. It is a list box: arrow keys, Home, End
 * and Page keys move, Enter opens.
 */

import { h, put } from "./dom.js";

/** Rows beside those that can be seen, so that scrolling shows no gaps. */
const SPARE = 6;

/**
 * The row that something happens on.
 * @param {Event} event
 */
const keyAt = (event) => /** @type {Element} */ (event.target).closest(".rows-row")?.getAttribute("data-key") ?? undefined;

/**
 * @template Item
 */
export class Rows {
  /**
   * @param {object} options
   * @param {string} options.label
   * @param {number} options.height of a row, in pixels
   * @param {(item: Item) => string} options.key
   * @param {(item: Item) => (Node | string)[]} options.draw
   * @param {(item: Item, moved: boolean) => void} options.open hears whether one came there by keys, step by step
   */
  constructor({ label, height, key, draw, open }) {
    this._height = height;
    this._key = key;
    this._draw = draw;
    this._open = open;
    /** @type {Item[]} */
    this._items = [];
    this._chosen = "";
    /** Whether the chosen row is still to be brought into sight. */
    this._sought = false;
    this._planned = 0;
    /** @type {string | undefined} the row that was pressed last */
    this._down = undefined;
    /** @type {Map<string, {item: Item, row: HTMLElement}>} the rows that are in the page, by their keys */
    this._shown = new Map();
    this._space = h("div", { class: "rows-space", role: "presentation" });
    this.element = h(
      "div",
      { class: "rows", role: "listbox", tabindex: 0, "aria-label": label, scroll: () => this._plan(), pointerdown: (event) => (this._down = keyAt(event)), click: (event) => this._clicked(event), keydown: (event) => this._pressed(event) },
      this._space,
    );
    new ResizeObserver(() => this._plan()).observe(this.element);
  }

  /** @param {Item[]} items */
  set items(items) {
    // Who has scrolled down goes on seeing what was seen when new rows come on top.
    const first = this._items[0];
    const grown = first && this.element.scrollTop > 0 ? items.findIndex((item) => this._key(item) === this._key(first)) : 0;
    this._items = items;
    this._space.style.height = `${items.length * this._height}px`;
    if (grown > 0) this.element.scrollTop += grown * this._height;
    this._seek();
    this._plan();
  }

  /** @param {string} key of the row that is open */
  choose(key) {
    this._sought = key !== this._chosen;
    this._chosen = key;
    this._seek();
    this._plan();
  }

  /** Brings the chosen row into sight, once it is there. */
  _seek() {
    const at = this._sought ? this._items.findIndex((item) => this._key(item) === this._chosen) : -1;
    if (at < 0) return;
    this._sought = false;
    this._reveal(at);
  }

  _plan() {
    if (!this._planned) this._planned = requestAnimationFrame(() => this._show());
  }

  _show() {
    this._planned = 0;
    const first = Math.max(0, Math.floor(this.element.scrollTop / this._height) - SPARE);
    const last = Math.min(this._items.length, first + Math.ceil(this.element.clientHeight / this._height) + 2 * SPARE);
    const rows = [];
    const shown = new Map();
    for (let index = first; index < last; index += 1) {
      const item = this._items[index];
      const row = this._row(item, index);
      shown.set(this._key(item), { item, row });
      rows.push(row);
    }
    this._shown = shown;
    // A row that stays is not touched: a finger or a button that is down on it is a click when it comes up.
    for (const row of [...this._space.children]) if (!rows.includes(/** @type {HTMLElement} */ (row))) row.remove();
    rows.forEach((row, index) => {
      if (this._space.children[index] !== row) this._space.insertBefore(row, this._space.children[index] ?? null);
    });
    const active = rows.find((row) => row.getAttribute("aria-selected") === "true");
    if (active) this.element.setAttribute("aria-activedescendant", active.id);
    else this.element.removeAttribute("aria-activedescendant");
  }

  /**
   * The row of an item: the one that is there, unless the item has changed.
   * @param {Item} item
   * @param {number} index
   */
  _row(item, index) {
    const key = this._key(item);
    const known = this._shown.get(key);
    const row = known?.row ?? h("div", { class: "rows-row", role: "option", id: `row-${key}`, "data-key": key });
    if (known?.item !== item) put(row, this._draw(item));
    row.setAttribute("aria-selected", key === this._chosen ? "true" : "false");
    row.setAttribute("aria-posinset", String(index + 1));
    row.setAttribute("aria-setsize", String(this._items.length));
    row.style.transform = `translateY(${index * this._height}px)`;
    row.style.height = `${this._height}px`;
    return row;
  }

  /** @param {MouseEvent} event on any of the rows */
  _clicked(event) {
    // Between down and up the list may have moved: then the click is nobody's, and the row that was pressed is meant.
    const key = keyAt(event) ?? this._down;
    const item = this._items.find((each) => this._key(each) === key);
    if (item) this._open(item, false);
  }

  /** @param {KeyboardEvent} event */
  _pressed(event) {
    const page = Math.max(1, Math.floor(this.element.clientHeight / this._height) - 1);
    const steps = /** @type {Record<string, number>} */ ({ ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity });
    const at = this._items.findIndex((item) => this._key(item) === this._chosen);
    if (event.key in steps && this._items.length) {
      event.preventDefault();
      const to = Math.max(0, Math.min(this._items.length - 1, at + steps[event.key]));
      this._reveal(to);
      this._open(this._items[to], true);
    } else if ((event.key === "Enter" || event.key === " ") && at >= 0) {
      event.preventDefault();
      this._open(this._items[at], false);
    }
  }

  /** @param {number} index */
  _reveal(index) {
    const top = index * this._height;
    const box = this.element;
    if (top < box.scrollTop) box.scrollTop = top;
    else if (top + this._height > box.scrollTop + box.clientHeight) box.scrollTop = top + this._height - box.clientHeight;
  }
}
