// @ts-check
/**
 * The one way in which this page makes elements. Text becomes text nodes; there is no way to hand over markup, so that
 * nothing a model, a client or a tool wrote can become part of the page.
 */

/** @typedef {Node | string | number | null | undefined | false | Child[]} Child lists may hold lists */
/** @typedef {Record<string, string | number | boolean | null | undefined | ((event: any) => void)>} Attributes */

const SVG = "http://www.w3.org/2000/svg";

/**
 * An element. Attributes that are functions are listeners; those that are false or null are left out.
 * @param {string} tag
 * @param {Attributes} [attributes]
 * @param {...Child} children
 * @returns {HTMLElement}
 */
export function h(tag, attributes = {}, ...children) {
  return /** @type {HTMLElement} */ (filled(document.createElement(tag), attributes, children));
}

/**
 * An element of a drawing.
 * @param {string} tag
 * @param {Attributes} [attributes]
 * @param {...Child} children
 * @returns {SVGElement}
 */
export function s(tag, attributes = {}, ...children) {
  return /** @type {SVGElement} */ (filled(document.createElementNS(SVG, tag), attributes, children));
}

/**
 * @param {Element} element
 * @param {Attributes} attributes
 * @param {Child[]} children
 */
function filled(element, attributes, children) {
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
 * Puts other children into an element.
 * @param {Element} element
 * @param {...Child} children
 */
export function put(element, ...children) {
  element.replaceChildren();
  filled(element, {}, children);
}

/**
 * A place for a drawing that is drawn anew for whatever width there is: one that is made smaller has smaller words, too.
 * @param {string} look
 * @param {(width: number) => Child} draw
 */
export function fitted(look, draw) {
  const place = h("div", { class: look });
  let drawn = 0;
  new ResizeObserver(([seen]) => {
    const width = Math.floor(seen.contentRect.width);
    // What is not shown has no width.
    if (!width || width === drawn) return;
    drawn = width;
    put(place, draw(width));
  }).observe(place);
  return place;
}

/**
 * A field with its name.
 * @param {string} name
 * @param {HTMLElement} field
 */
export const labelled = (name, field) => h("label", {}, name, field);

/**
 * A list to choose from. The empty choice says what happens without one.
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
 * Something that opens. What is inside is made when it is opened for the first time: at the click, before it opens, since
 * `toggle` is told only afterwards and a reader would see an empty box; at `toggle` when a script or a search opened it.
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
 * A sentence in which words between ticks are code.
 * @param {string} text
 * @returns {Child[]}
 */
export const withCode = (text) => text.split("`").map((part, index) => (index % 2 ? h("code", {}, part) : part));

/**
 * Tells those who do not see the page.
 * @param {string} text
 */
export function say(text) {
  const place = document.getElementById("status");
  if (place) place.textContent = text;
}
