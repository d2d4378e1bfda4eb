// @ts-check
/**
 * Creates all elements of this page. Text always becomes text nodes and is never parsed as markup, so models, clients
 * and tools cannot inject elements.
 */

import { sentence } from "./format.js";

/** @typedef {Node | string | number | null | undefined | false | Child[]} Child lists may be nested */
/** @typedef {Record<string, string | number | boolean | null | undefined | ((event: any) => void)>} Attributes */

const SVG = "http://www.w3.org/2000/svg";

/**
 * Creates an element. Attributes that are functions become event listeners; false, null and undefined ones are omitted.
 * @param {string} tag
 * @param {Attributes} [attributes]
 * @param {...Child} children
 * @returns {HTMLElement}
 */
export function h(tag, attributes = {}, ...children) {
  return /** @type {HTMLElement} */ (fillElement(document.createElement(tag), attributes, children));
}

/**
 * Creates an SVG element.
 * @param {string} tag
 * @param {Attributes} [attributes]
 * @param {...Child} children
 * @returns {SVGElement}
 */
export function s(tag, attributes = {}, ...children) {
  return /** @type {SVGElement} */ (fillElement(document.createElementNS(SVG, tag), attributes, children));
}

/**
 * @param {Element} element
 * @param {Attributes} attributes
 * @param {Child[]} children
 */
function fillElement(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, String(value));
  }
  for (const child of /** @type {unknown[]} */ (children.flat(Infinity))) {
    if (child !== null && child !== undefined && child !== false) element.append(child instanceof Node ? child : String(child));
  }
  return element;
}

/**
 * Replaces the children of an element.
 * @param {Element} element
 * @param {...Child} children
 */
export function setChildren(element, ...children) {
  element.replaceChildren();
  fillElement(element, {}, children);
}

/**
 * A container that redraws its content when its width changes, because scaling would also scale the labels.
 * @param {string} className
 * @param {(width: number) => Child} draw
 */
export function responsive(className, draw) {
  const place = h("div", { class: className });
  let drawnWidth = 0;
  new ResizeObserver(([entry]) => {
    const width = Math.floor(entry.contentRect.width);
    // A hidden element has no width.
    if (!width || width === drawnWidth) return;
    drawnWidth = width;
    setChildren(place, draw(width));
  }).observe(place);
  return place;
}

/**
 * A form field with its label.
 * @param {string} name
 * @param {HTMLElement} field
 */
export const labelled = (name, field) => h("label", {}, name, field);

/**
 * A drop-down list. `empty` is the label of the empty choice.
 * @param {string[]} choices
 * @param {string} [empty]
 * @param {Attributes} [attributes]
 * @returns {HTMLSelectElement}
 */
export function select(choices, empty, attributes = {}) {
  const options = choices.map((choice) => h("option", { value: choice }, choice));
  if (empty !== undefined) options.unshift(h("option", { value: "" }, empty));
  return /** @type {HTMLSelectElement} */ (h("select", attributes, options));
}

/**
 * A disclosure whose content is created when it is first opened. A click creates it at once, because `toggle` fires only
 * after an empty box was shown. `toggle` creates it if a script or a text search opened the disclosure.
 * @param {Child} title
 * @param {() => Child} make
 * @param {{open?: boolean, class?: string}} [options]
 */
export function disclosure(title, make, options = {}) {
  const summary = h("summary", {}, title);
  const details = /** @type {HTMLDetailsElement} */ (h("details", { class: options.class }, summary));
  const fill = () => {
    if (details.childElementCount === 1) details.append(h("div", {}, make()));
  };
  summary.addEventListener("click", fill);
  details.addEventListener("toggle", () => details.open && fill());
  details.open = Boolean(options.open);
  if (details.open) fill();
  return details;
}

/**
 * A sentence in which words between backticks are shown as code.
 * @param {string} text
 * @returns {Child[]}
 */
export const withCode = (text) => text.split("`").map((part, index) => (index % 2 ? h("code", {}, part) : part));

/**
 * What an error says, as a sentence; texts in backticks become code.
 * @param {unknown} error
 */
export const errorText = (error) => withCode(sentence(/** @type {Error} */ (error).message));

/**
 * Announces a text to screen readers.
 * @param {string} text
 */
export function announce(text) {
  const place = document.getElementById("status");
  if (place) place.textContent = text;
}
