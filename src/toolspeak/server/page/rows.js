// @ts-check
/**
 * A list of any length, of which only the rows that can be seen are in the page. It is a list box: arrow keys, Home, End
 * and Page keys move, Enter opens.
 */

import { h } from "./dom.js";

/** Rows beside those that can be seen, so that scrolling shows no gaps. */
const SPARE = 6;

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
   * @param {(item: Item) => void} options.open
   */
  constructor({ label, height, key, draw, open }) {
    this._height = height;
    this._key = key;
    this._draw = draw;
    this._open = open;
    /** @type {Item[]} */
    this._items = [];
    this._chosen = "";
    this._planned = 0;
    this._space = h("div", { class: "rows-space", role: "presentation" });
    this.element = h(
      "div",
      { class: "rows", role: "listbox", tabindex: 0, "aria-label": label, scroll: () => this._plan(), keydown: (event) => this._pressed(event) },
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
    this._plan();
  }

  /** @param {string} key of the row that is open */
  choose(key) {
    this._chosen = key;
    this._plan();
  }

  _plan() {
    if (!this._planned) this._planned = requestAnimationFrame(() => this._show());
  }

  _show() {
    this._planned = 0;
    const first = Math.max(0, Math.floor(this.element.scrollTop / this._height) - SPARE);
    const last = Math.min(this._items.length, first + Math.ceil(this.element.clientHeight / this._height) + 2 * SPARE);
    const rows = [];
    for (let index = first; index < last; index += 1) rows.push(this._row(this._items[index], index));
    this._space.replaceChildren(...rows);
    const active = rows.find((row) => row.getAttribute("aria-selected") === "true");
    if (active) this.element.setAttribute("aria-activedescendant", active.id);
    else this.element.removeAttribute("aria-activedescendant");
  }

  /**
   * @param {Item} item
   * @param {number} index
   */
  _row(item, index) {
    const key = this._key(item);
    const row = h(
      "div",
      {
        class: "rows-row",
        role: "option",
        id: `row-${key}`,
        "aria-selected": key === this._chosen ? "true" : "false",
        "aria-posinset": index + 1,
        "aria-setsize": this._items.length,
        click: () => this._open(item),
      },
      this._draw(item),
    );
    row.style.transform = `translateY(${index * this._height}px)`;
    row.style.height = `${this._height}px`;
    return row;
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
      this._open(this._items[to]);
    } else if ((event.key === "Enter" || event.key === " ") && at >= 0) {
      event.preventDefault();
      this._open(this._items[at]);
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
