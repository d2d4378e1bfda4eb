// @ts-check
/**
 * A virtual list of any length: only the visible rows are in the document. It behaves like a list box: the arrow, Home,
 * End and Page keys, j and k move the selection, and Enter opens the selected row.
 */

import { h, setChildren } from "./dom.js";

/** Number of extra rows above and below the visible ones, so scrolling shows no gaps. */
const OVERSCAN = 6;

/**
 * The key of the row that is the target of an event.
 * @param {Event} event
 */
const keyAt = (event) => /** @type {Element} */ (event.target).closest(".rows-row")?.getAttribute("data-key") ?? undefined;

/**
 * @template Item
 */
export class VirtualList {
  /**
   * @param {object} options
   * @param {string} options.label
   * @param {number} options.height of a row, in pixels
   * @param {(item: Item) => string} options.key
   * @param {(item: Item) => (Node | string)[]} options.draw
   * @param {(item: Item, moved: boolean) => void} options.open `moved`: whether the row was reached by a movement key
   */
  constructor({ label, height, key, draw, open }) {
    this._height = height;
    this._key = key;
    this._draw = draw;
    this._open = open;
    /** @type {Item[]} */
    this._items = [];
    this._selected = "";
    /** Whether the selected row must still be scrolled into view. */
    this._revealPending = false;
    this._frame = 0;
    /** @type {string | undefined} the key of the row of the last pointerdown event */
    this._pressedKey = undefined;
    /** @type {Map<string, {item: Item, row: HTMLElement}>} the rows in the document, by their keys */
    this._rendered = new Map();
    this._space = h("div", { class: "rows-space", role: "presentation" });
    this.element = h(
      "div",
      { class: "rows", role: "listbox", tabindex: 0, "aria-label": label, scroll: () => this._requestFrame(), pointerdown: (event) => (this._pressedKey = keyAt(event)), click: (event) => this._onClick(event), keydown: (event) => this._onKeydown(event) },
      this._space,
    );
    new ResizeObserver(() => this._requestFrame()).observe(this.element);
  }

  /** @param {Item[]} items */
  set items(items) {
    // When new rows are added at the top of a list that is scrolled down, the visible rows stay in place.
    const first = this._items[0];
    const added = first && this.element.scrollTop > 0 ? items.findIndex((item) => this._key(item) === this._key(first)) : 0;
    this._items = items;
    this._space.style.height = `${items.length * this._height}px`;
    if (added > 0) this.element.scrollTop += added * this._height;
    this._revealSelected();
    this._requestFrame();
  }

  /** @param {string} key of the row that is open */
  select(key) {
    this._revealPending = key !== this._selected;
    this._selected = key;
    this._revealSelected();
    this._requestFrame();
  }

  /** Scrolls the selected row into view, as soon as it is in the list. */
  _revealSelected() {
    const at = this._revealPending ? this._items.findIndex((item) => this._key(item) === this._selected) : -1;
    if (at < 0) return;
    this._revealPending = false;
    this._reveal(at);
  }

  _requestFrame() {
    if (!this._frame) this._frame = requestAnimationFrame(() => this._show());
  }

  _show() {
    this._frame = 0;
    const first = Math.max(0, Math.floor(this.element.scrollTop / this._height) - OVERSCAN);
    const last = Math.min(this._items.length, first + Math.ceil(this.element.clientHeight / this._height) + 2 * OVERSCAN);
    const rows = [];
    const rendered = new Map();
    for (let index = first; index < last; index += 1) {
      const item = this._items[index];
      const row = this._row(item, index);
      rendered.set(this._key(item), { item, row });
      rows.push(row);
    }
    this._rendered = rendered;
    // Do not replace rows that stay: a click in progress would be lost.
    for (const row of [...this._space.children]) if (!rows.includes(/** @type {HTMLElement} */ (row))) row.remove();
    rows.forEach((row, index) => {
      if (this._space.children[index] !== row) this._space.insertBefore(row, this._space.children[index] ?? null);
    });
    const active = rows.find((row) => row.getAttribute("aria-selected") === "true");
    if (active) this.element.setAttribute("aria-activedescendant", active.id);
    else this.element.removeAttribute("aria-activedescendant");
  }

  /**
   * The row of an item: the existing one, redrawn if the item has changed.
   * @param {Item} item
   * @param {number} index
   */
  _row(item, index) {
    const key = this._key(item);
    const existing = this._rendered.get(key);
    const row = existing?.row ?? h("div", { class: "rows-row", role: "option", id: `row-${key}`, "data-key": key });
    if (existing?.item !== item) setChildren(row, this._draw(item));
    row.setAttribute("aria-selected", key === this._selected ? "true" : "false");
    row.setAttribute("aria-posinset", String(index + 1));
    row.setAttribute("aria-setsize", String(this._items.length));
    row.style.transform = `translateY(${index * this._height}px)`;
    row.style.height = `${this._height}px`;
    return row;
  }

  /** @param {MouseEvent} event on any of the rows */
  _onClick(event) {
    // If the list moves between pointerdown and pointerup, the click hits no row. Use the row that was pressed.
    const key = keyAt(event) ?? this._pressedKey;
    const item = this._items.find((each) => this._key(each) === key);
    if (item) this._open(item, false);
  }

  /**
   * Opens the next row, or the one before.
   * @param {number} step
   */
  move(step) {
    if (!this._items.length) return;
    const at = this._items.findIndex((item) => this._key(item) === this._selected);
    const to = Math.max(0, Math.min(this._items.length - 1, at + step));
    this._reveal(to);
    this._open(this._items[to], true);
  }

  /** @param {KeyboardEvent} event */
  _onKeydown(event) {
    const page = Math.max(1, Math.floor(this.element.clientHeight / this._height) - 1);
    const steps = /** @type {Record<string, number>} */ ({ ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity });
    const at = this._items.findIndex((item) => this._key(item) === this._selected);
    if (event.key in steps && this._items.length) {
      event.preventDefault();
      this.move(steps[event.key]);
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
