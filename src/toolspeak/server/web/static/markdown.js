// @ts-check
/**
 * Renders Markdown as DOM nodes. The text of a model can only become headings, lists, tables, code, emphasis and links to
 * web pages. Images are shown as their alternative text and never loaded. Every line is parsed once. Long texts are drawn
 * in time slices and in sections, of which the browser lays out only the visible ones.
 */

import { copyButton } from "./copy.js";
import { h } from "./dom.js";
import { highlight } from "./highlight.js";
import { longText } from "./long_text.js";
import { TimeSlice } from "./time_slice.js";

/** Maximum length of a formatted text. Longer texts are shown as plain text, because each block takes time. */
const LONGEST = 200_000;
/** Maximum number of lines in a section, and in a list or table within it. */
const MOST_LINES = 200;
/** Code longer than this many characters gets a scrollable box. */
const LONG_CODE = 20_000;
/** Number of spaces by which a nested list is indented, and maximum nesting depth. */
const NESTED_INDENT = 2;
const DEEPEST = 6;
/** Number of characters of a link address in which brackets are counted. */
const LONGEST_ADDRESS = 2000;
/** Maximum length of a formatted line. Longer lines are shown as plain text. */
const LONGEST_LINE = 20_000;
const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([\w+#.-]*)/;
const HEADING = /^ {0,3}(#{1,6}) +(.*)$/;
const ITEM = /^( {0,24})([-*+]|\d{1,9}[.)]) +(.*)$/;
const RULE = /^ {0,3}([-*_])( *\1){2,} *$/;
const QUOTE = /^ {0,3}> ?(.*)$/;
const TASK = /^\[([ xX])\] +/;
/** Formulas of their own lines, by what begins and what ends them. They are shown as they were written. */
const FORMULA_ENDS = /** @type {Record<string, string>} */ ({ "\\[": "\\]", $$: "$$" });
const DIVIDER = /^ {0,3}\|?( *:?-+:? *\|)+ *(:?-+:?)? *$/;

/**
 * Draws a text as blocks. A short text is complete at once (`done` is null), a long text when `done` resolves.
 * @param {string} text
 * @returns {{element: HTMLElement, done: Promise<void> | null}}
 */
export function markdown(text) {
  const element = h("div", { class: "text", dir: "auto" });
  if (text.length > LONGEST) {
    element.append(longText(text));
    return { element, done: null };
  }
  const lines = text.split("\n");
  const sections = drawSections(lines, element);
  const slice = new TimeSlice();
  while (!sections.next().done) if (slice.expired) return { element, done: rest(sections, slice) };
  return { element, done: null };
}

/**
 * @param {Generator<void>} sections
 * @param {TimeSlice} slice
 */
async function rest(sections, slice) {
  await slice.next();
  while (!sections.next().done) if (slice.expired) await slice.next();
}

/**
 * Draws block by block. A short text has no sections.
 * @param {string[]} lines
 * @param {HTMLElement} element
 * @returns {Generator<void>}
 */
function* drawSections(lines, element) {
  const cut = lines.length > MOST_LINES;
  let place = element;
  let until = 0;
  for (let at = 0; at < lines.length; ) {
    if (cut && at >= until) {
      element.append((place = h("div", { class: "chunk" })));
      until = at + MOST_LINES;
    }
    at = block(lines, at, place);
    yield;
  }
}

/**
 * Parses one block and appends it to its container.
 * @param {string[]} lines
 * @param {number} at
 * @param {ParentNode & Node} place
 * @returns {number} the line after it
 */
export function block(lines, at, place) {
  const line = lines[at];
  if (!line.trim()) return at + 1;
  const fence = FENCE.exec(line);
  if (fence) return code(lines, at, fence, place);
  const formula = formulaEnd(lines, at);
  if (formula) {
    place.append(h("div", { class: "formula", dir: "ltr" }, lines.slice(at, formula).join("\n")));
    return formula;
  }
  const heading = HEADING.exec(line);
  if (heading) {
    place.append(h(`h${Math.min(heading[1].length + 2, 6)}`, {}, inline(heading[2])));
    return at + 1;
  }
  if (RULE.test(line)) {
    place.append(h("hr"));
    return at + 1;
  }
  if (QUOTE.test(line)) return quote(lines, at, place);
  if (ITEM.test(line)) return list(lines, at, place);
  if (line.includes("|") && DIVIDER.test(lines[at + 1] ?? "")) return table(lines, at, place);
  return paragraph(lines, at, place);
}

/**
 * The marks and the language with which a code block begins, or null.
 * @param {string} line
 */
export const fenceAt = (line) => FENCE.exec(line);

/**
 * Whether a line ends a code block.
 * @param {string} line
 * @param {string} marks with which the block begins
 */
export const endsFence = (line, marks) => line.trimStart().startsWith(marks);

/** @type {(lines: string[], at: number, fence: RegExpExecArray, place: ParentNode & Node) => number} */
function code(lines, at, [, marks, language], place) {
  let end = at + 1;
  while (end < lines.length && !endsFence(lines[end], marks)) end += 1;
  const text = lines.slice(at + 1, end).join("\n");
  place.append(codeBlock(language, text.length > LONG_CODE ? longText(text) : h("pre", { class: "code", tabindex: 0, dir: "ltr" }, highlight(text, language)), () => text));
  return end + 1;
}

/**
 * A code block with its language and a button to copy it.
 * @param {string} language
 * @param {HTMLElement} content
 * @param {() => string} text
 */
export const codeBlock = (language, content, text) =>
  h("div", { class: "code-block" }, h("div", { class: "code-head row apart" }, h("span", { class: "soft small" }, language || "text"), copyButton(text, "code")), content);

/**
 * The line after a formula that begins at a line; 0 if none does.
 * @param {string[]} lines
 * @param {number} at
 */
function formulaEnd(lines, at) {
  const line = lines[at].trim();
  const end = FORMULA_ENDS[line.slice(0, 2)];
  if (!end) return 0;
  if (line.length > 2 && line.endsWith(end) && line.indexOf(end, 2) === line.length - 2) return at + 1;
  for (let next = at + 1; next < Math.min(lines.length, at + MOST_LINES); next += 1) if (lines[next].trimEnd().endsWith(end)) return next + 1;
  return 0;
}

/** @type {(lines: string[], at: number, place: ParentNode & Node) => number} */
function quote(lines, at, place) {
  const inner = [];
  const most = at + MOST_LINES;
  for (let match; at < Math.min(most, lines.length) && (match = QUOTE.exec(lines[at])); at += 1) inner.push(match[1]);
  // The content is not parsed as blocks, because quotes could be nested without limit.
  place.append(h("blockquote", {}, inner.flatMap((line, index) => (index ? [h("br"), ...inline(line)] : inline(line)))));
  return at;
}

/**
 * A list, with nested lists. Indented lines that are not items continue the item before.
 * @type {(lines: string[], at: number, place: ParentNode & Node) => number}
 */
function list(lines, at, place) {
  /** @type {{indent: number, kind: string, list: HTMLElement}[]} open lists, outermost first */
  const open = [];
  const most = at + MOST_LINES;
  for (; at < Math.min(most, lines.length); at += 1) {
    const match = ITEM.exec(lines[at]);
    if (!match) {
      if (RULE.test(lines[at]) || !continuesList(lines, at)) break;
      if (lines[at].trim()) open.at(-1)?.list.lastElementChild?.append("\n", ...inline(lines[at].trim()));
      continue;
    }
    if (RULE.test(lines[at])) break;
    const indent = match[1].length;
    const kind = /\d/.test(match[2]) ? "ol" : "ul";
    while (open.length > 1 && indent < (open.at(-1)?.indent ?? 0)) open.pop();
    let last = open.at(-1);
    if (last && last.kind !== kind && indent < last.indent + NESTED_INDENT) {
      if (open.length === 1) break; // another list
      open.pop();
      last = undefined;
    }
    if (!last || (indent >= last.indent + NESTED_INDENT && open.length < DEEPEST)) {
      const child = h(kind, { start: kind === "ol" && parseInt(match[2]) !== 1 && parseInt(match[2]) });
      (open.at(-1)?.list.lastElementChild ?? place).append(child);
      last = { indent, kind, list: child };
      open.push(last);
    }
    last.list.append(listItem(match[3]));
  }
  return at;
}

/** @param {string} text of an item, which may begin with the checkbox of a task */
function listItem(text) {
  const task = TASK.exec(text);
  if (!task) return h("li", {}, inline(text));
  const done = task[1] !== " ";
  const box = h("input", { type: "checkbox", disabled: true, checked: done, "aria-label": done ? "done" : "to do" });
  return h("li", { class: "task" }, box, " ", inline(text.slice(task[0].length)));
}

/**
 * Whether a line that is not an item still belongs to the list.
 * @param {string[]} lines
 * @param {number} at
 */
function continuesList(lines, at) {
  if (lines[at].trim()) return /^ {2,}\S/.test(lines[at]) && !FENCE.test(lines[at]);
  const next = lines[at + 1] ?? "";
  return ITEM.test(next) && !RULE.test(next);
}

/** @type {(lines: string[], at: number, place: ParentNode & Node) => number} */
function table(lines, at, place) {
  const cells = (/** @type {string} */ line) => line.trim().replace(/^\||\|$/g, "").split("|").map((cell) => cell.trim());
  const sides = cells(lines[at + 1]).map((cell) => (cell.endsWith(":") ? (cell.startsWith(":") ? "middle" : "right") : null));
  const head = h("tr", {}, cells(lines[at]).map((cell, column) => h("th", { class: sides[column] }, inline(cell))));
  const body = [];
  const most = at + MOST_LINES;
  for (at += 2; at < Math.min(most, lines.length) && lines[at].includes("|"); at += 1) {
    body.push(h("tr", {}, cells(lines[at]).map((cell, column) => h("td", { class: sides[column] }, inline(cell)))));
  }
  place.append(h("div", { class: "wide", tabindex: 0 }, h("table", {}, h("thead", {}, head), h("tbody", {}, body))));
  return at;
}

/** @type {(lines: string[], at: number, place: ParentNode & Node) => number} */
function paragraph(lines, at, place) {
  const inner = [];
  const most = at + MOST_LINES;
  do inner.push(lines[at++]);
  while (at < Math.min(most, lines.length) && lines[at].trim() && !starts(lines[at]));
  place.append(h("p", {}, inner.flatMap((line, index) => (index ? ["\n", ...inline(line)] : inline(line)))));
  return at;
}

/** @param {string} line */
const starts = (line) => [FENCE, HEADING, ITEM, QUOTE].some((pattern) => pattern.test(line));

// ---- inline markup

/** @type {[string, string][]} emphasis marks and their elements */
const PAIRS = [["**", "strong"], ["__", "strong"], ["~~", "s"], ["*", "em"], ["_", "em"]];

/**
 * Parses the inline markup of a line.
 * @param {string} text
 * @param {number} [depth] of the marks around it
 * @returns {(Node | string)[]}
 */
export function inline(text, depth = 0) {
  if (text.length > LONGEST_LINE || depth > DEEPEST) return [text];
  /** @type {(Node | string)[]} */
  const out = [];
  /** Marks that do not occur again in the line, so they need not be searched again. @type {Set<string>} */
  const exhausted = new Set();
  let plain = 0;
  let at = 0;
  const take = (/** @type {number} */ end, /** @type {Node | string} */ node) => {
    if (at > plain) out.push(text.slice(plain, at));
    out.push(node);
    plain = at = end;
  };
  const closer = (/** @type {string} */ mark, /** @type {number} */ from) => {
    const match = exhausted.has(mark) ? -1 : text.indexOf(mark, from);
    if (match < 0) exhausted.add(mark);
    return match;
  };
  while (at < text.length) {
    const formula = formulaAt(text, at, closer);
    if (formula) {
      take(formula, h("span", { class: "formula" }, text.slice(at, formula)));
    } else if (text[at] === "\\" && /[\\`*_~[\]!#>-]/.test(text[at + 1] ?? "")) {
      take(at + 2, text[at + 1]);
    } else if (text[at] === "`") {
      const end = closer("`", at + 1);
      if (end < 0) at += 1;
      else take(end + 1, h("code", {}, text.slice(at + 1, end)));
    } else if (text[at] === "[" || text.startsWith("![", at)) {
      const link = linkAt(text, at, closer);
      if (link) take(link.end, link.node);
      else at += 1;
    } else {
      const pair = PAIRS.find(([mark]) => text.startsWith(mark, at) && /\S/.test(text[at + mark.length] ?? " "));
      const bounded = pair && (pair[0][0] !== "_" || !/\w/.test(text[at - 1] ?? " "));
      const end = pair && bounded ? pairEnd(text, pair[0], at + pair[0].length, closer) : -1;
      if (pair && end > at + pair[0].length) take(end + pair[0].length, h(pair[1], {}, inline(text.slice(at + pair[0].length, end), depth + 1)));
      else at += pair ? pair[0].length : 1;
    }
  }
  if (plain < text.length) out.push(text.slice(plain));
  return out;
}

/**
 * The position after a formula in a line, such as `\\(a_1\\)` or `$a_1$`; 0 if there is none. Prices are not formulas.
 * @param {string} text
 * @param {number} at
 * @param {(mark: string, from: number) => number} closer
 */
function formulaAt(text, at, closer) {
  if (text[at] === "\\" && (text[at + 1] === "(" || text[at + 1] === "[")) {
    const end = closer(text[at + 1] === "(" ? "\\)" : "\\]", at + 2);
    return end < 0 ? 0 : end + 2;
  }
  if (text[at] !== "$") return 0;
  const mark = text[at + 1] === "$" ? "$$" : "$";
  const begin = at + mark.length;
  const end = /\s/.test(text[begin] ?? " ") ? -1 : closer(mark, begin);
  if (end <= begin || /\s/.test(text[end - 1]) || /[\d\w]/.test(text[end + mark.length] ?? " ") || /\w/.test(text[at - 1] ?? " ")) return 0;
  return end + mark.length;
}

/**
 * The position where a mark closes. Marks inside code do not count, and `*` does not match half of `**`.
 * @param {string} text
 * @param {string} mark
 * @param {number} from
 * @param {(mark: string, from: number) => number} closer
 */
function pairEnd(text, mark, from, closer) {
  for (let at = from; ; ) {
    const match = closer(mark, at);
    if (match < 0) return -1;
    const tick = text.indexOf("`", at);
    const codeEnd = tick >= 0 && tick < match ? text.indexOf("`", tick + 1) : -1;
    if (codeEnd >= 0) at = codeEnd + 1;
    else if (mark.length === 1 && text[match + 1] === mark && text[match + 2] !== mark) at = match + 2;
    else return match;
  }
}

/**
 * A link, or an image, which is replaced by its alternative text.
 * @param {string} text
 * @param {number} at
 * @param {(mark: string, from: number) => number} closer
 */
function linkAt(text, at, closer) {
  const image = text[at] === "!";
  const begin = at + (image ? 2 : 1);
  const middle = closer("](", begin);
  const end = middle < 0 ? -1 : bracketEnd(text, middle + 2, closer(")", middle + 2));
  if (end < 0) return null;
  const name = text.slice(begin, middle);
  const target = text.slice(middle + 2, end).trim().split(/\s/)[0];
  if (image) return { end: end + 1, node: h("span", { class: "badge" }, `image: ${name || "untitled"}`) };
  if (!/^https?:\/\//i.test(target)) return { end: end + 1, node: name };
  return { end: end + 1, node: h("a", { href: target, rel: "noopener noreferrer", target: "_blank" }, name || target) };
}

/**
 * The position where a link address ends. Balanced brackets are part of the address.
 * @param {string} text
 * @param {number} from
 * @param {number} first closing bracket, or -1
 */
function bracketEnd(text, from, first) {
  if (first < 0 || !text.slice(from, first).includes("(")) return first;
  let open = 1;
  for (let at = from; at < Math.min(text.length, from + LONGEST_ADDRESS); at += 1) {
    if (text[at] === "(") open += 1;
    else if (text[at] === ")" && !(open -= 1)) return at;
  }
  return first;
}
