// @ts-check
/**
 * Markdown as DOM nodes. What a model writes can become a heading, a list, a table, code, emphasis or a link to a web
 * page, and nothing else. Pictures are told by their names and never loaded. Every line is looked at once, and long
 * texts are drawn in turns, in sections of which the browser lays out those that can be seen.
 */

import { h } from "./dom.js";
import { longText } from "./long_text.js";
import { Turn } from "./turns.js";

/** Longer texts are shown as they are: nobody reads them for their headings, and each block costs time. */
const LONGEST = 200_000;
/** Lines after which a section, and a list or a table within it, ends and another begins. */
const MOST_LINES = 200;
/** Characters of code from which on it has a place of its own to scroll in. */
const LONG_CODE = 20_000;
/** Spaces by which a list within a list stands further in, and how deep lists go. */
const DEEPER = 2;
const DEEPEST = 6;
/** Characters of an address in which brackets are counted. */
const LONGEST_ADDRESS = 2000;
/** In a longer line only plain text. */
const LONGEST_LINE = 20_000;
const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([\w+#.-]*)/;
const HEADING = /^ {0,3}(#{1,6}) +(.*)$/;
const ITEM = /^( {0,24})([-*+]|\d{1,9}[.)]) +(.*)$/;
const RULE = /^ {0,3}([-*_])( *\1){2,} *$/;
const QUOTE = /^ {0,3}> ?(.*)$/;
const DIVIDER = /^ {0,3}\|?( *:?-+:? *\|)+ *(:?-+:?)? *$/;

/**
 * A text as blocks. It is whole at once if it is short, and otherwise when `done` is kept.
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
  const turn = new Turn();
  while (!sections.next().done) if (turn.over) return { element, done: rest(sections, turn) };
  return { element, done: null };
}

/**
 * @param {Generator<void>} sections
 * @param {Turn} turn
 */
async function rest(sections, turn) {
  await turn.next();
  while (!sections.next().done) if (turn.over) await turn.next();
}

/**
 * Block by block. A short text has no sections.
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
 * Reads one block and puts it into its place.
 * @param {string[]} lines
 * @param {number} at
 * @param {ParentNode & Node} place
 * @returns {number} the line behind it
 */
function block(lines, at, place) {
  const line = lines[at];
  if (!line.trim()) return at + 1;
  const fence = FENCE.exec(line);
  if (fence) return code(lines, at, fence[1], place);
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

/** @type {(lines: string[], at: number, marks: string, place: ParentNode & Node) => number} */
function code(lines, at, marks, place) {
  let end = at + 1;
  while (end < lines.length && !lines[end].trimStart().startsWith(marks)) end += 1;
  const text = lines.slice(at + 1, end).join("\n");
  place.append(text.length > LONG_CODE ? longText(text) : h("pre", { class: "code", tabindex: 0, dir: "ltr" }, h("code", {}, text)));
  return end + 1;
}

/** @type {(lines: string[], at: number, place: ParentNode & Node) => number} */
function quote(lines, at, place) {
  const inner = [];
  const most = at + MOST_LINES;
  for (let found; at < Math.min(most, lines.length) && (found = QUOTE.exec(lines[at])); at += 1) inner.push(found[1]);
  // Not read as blocks of its own: quotes in quotes may be nested without end.
  place.append(h("blockquote", {}, inner.flatMap((line, index) => (index ? [h("br"), ...inline(line)] : inline(line)))));
  return at;
}

/**
 * A list, with lists in it. Lines that stand further in than an item and are none go on with it.
 * @type {(lines: string[], at: number, place: ParentNode & Node) => number}
 */
function list(lines, at, place) {
  /** @type {{indent: number, kind: string, list: HTMLElement}[]} lists that are open, the outermost first */
  const open = [];
  const most = at + MOST_LINES;
  for (; at < Math.min(most, lines.length); at += 1) {
    const found = ITEM.exec(lines[at]);
    if (!found) {
      if (RULE.test(lines[at]) || !goesOn(lines, at)) break;
      if (lines[at].trim()) open.at(-1)?.list.lastElementChild?.append("\n", ...inline(lines[at].trim()));
      continue;
    }
    if (RULE.test(lines[at])) break;
    const indent = found[1].length;
    const kind = /\d/.test(found[2]) ? "ol" : "ul";
    while (open.length > 1 && indent < (open.at(-1)?.indent ?? 0)) open.pop();
    let last = open.at(-1);
    if (last && last.kind !== kind && indent < last.indent + DEEPER) {
      if (open.length === 1) break; // another list
      open.pop();
      last = undefined;
    }
    if (!last || (indent >= last.indent + DEEPER && open.length < DEEPEST)) {
      const made = h(kind, { start: kind === "ol" && parseInt(found[2]) !== 1 && parseInt(found[2]) });
      (open.at(-1)?.list.lastElementChild ?? place).append(made);
      last = { indent, kind, list: made };
      open.push(last);
    }
    last.list.append(h("li", {}, inline(found[3])));
  }
  return at;
}

/**
 * Whether a line that begins no item still belongs to a list.
 * @param {string[]} lines
 * @param {number} at
 */
function goesOn(lines, at) {
  if (lines[at].trim()) return /^ {2,}\S/.test(lines[at]) && !FENCE.test(lines[at]);
  const next = lines[at + 1] ?? "";
  return ITEM.test(next) && !RULE.test(next);
}

/** @type {(lines: string[], at: number, place: ParentNode & Node) => number} */
function table(lines, at, place) {
  const cells = (/** @type {string} */ line) => line.trim().replace(/^\||\|$/g, "").split("|").map((cell) => cell.trim());
  const head = h("tr", {}, cells(lines[at]).map((cell) => h("th", {}, inline(cell))));
  const body = [];
  const most = at + MOST_LINES;
  for (at += 2; at < Math.min(most, lines.length) && lines[at].includes("|"); at += 1) {
    body.push(h("tr", {}, cells(lines[at]).map((cell) => h("td", {}, inline(cell)))));
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

// ---- within a line

/** @type {[string, string][]} marks that open and close alike, and what they mean */
const PAIRS = [["**", "strong"], ["__", "strong"], ["~~", "s"], ["*", "em"], ["_", "em"]];

/**
 * The pieces of a line.
 * @param {string} text
 * @param {number} [depth] of the marks around it
 * @returns {(Node | string)[]}
 */
export function inline(text, depth = 0) {
  if (text.length > LONGEST_LINE || depth > DEEPEST) return [text];
  /** @type {(Node | string)[]} */
  const out = [];
  /** Marks of which no other one follows: nobody looks for it again. @type {Set<string>} */
  const spent = new Set();
  let plain = 0;
  let at = 0;
  const take = (/** @type {number} */ end, /** @type {Node | string} */ node) => {
    if (at > plain) out.push(text.slice(plain, at));
    out.push(node);
    plain = at = end;
  };
  const closer = (/** @type {string} */ mark, /** @type {number} */ from) => {
    const found = spent.has(mark) ? -1 : text.indexOf(mark, from);
    if (found < 0) spent.add(mark);
    return found;
  };
  while (at < text.length) {
    if (text[at] === "\\" && /[\\`*_~[\]!#>-]/.test(text[at + 1] ?? "")) {
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
 * Where a mark closes: not within code, and one sign is not the half of two.
 * @param {string} text
 * @param {string} mark
 * @param {number} from
 * @param {(mark: string, from: number) => number} closer
 */
function pairEnd(text, mark, from, closer) {
  for (let at = from; ; ) {
    const found = closer(mark, at);
    if (found < 0) return -1;
    const tick = text.indexOf("`", at);
    const behind = tick >= 0 && tick < found ? text.indexOf("`", tick + 1) : -1;
    if (behind >= 0) at = behind + 1;
    else if (mark.length === 1 && text[found + 1] === mark && text[found + 2] !== mark) at = found + 2;
    else return found;
  }
}

/**
 * A link, or a picture, which is told and not shown.
 * @param {string} text
 * @param {number} at
 * @param {(mark: string, from: number) => number} closer
 */
function linkAt(text, at, closer) {
  const picture = text[at] === "!";
  const begin = at + (picture ? 2 : 1);
  const middle = closer("](", begin);
  const end = middle < 0 ? -1 : bracketEnd(text, middle + 2, closer(")", middle + 2));
  if (end < 0) return null;
  const name = text.slice(begin, middle);
  const target = text.slice(middle + 2, end).trim().split(/\s/)[0];
  if (picture) return { end: end + 1, node: h("span", { class: "badge" }, `picture: ${name || "without a name"}`) };
  if (!/^https?:\/\//i.test(target)) return { end: end + 1, node: name };
  return { end: end + 1, node: h("a", { href: target, rel: "noopener noreferrer", target: "_blank" }, name || target) };
}

/**
 * Where an address ends: brackets in it belong to it.
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
