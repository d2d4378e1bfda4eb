// @ts-check
/** Colours code: comments, strings, numbers and keywords, as most languages write them. Each character is read once. */

import { h } from "./dom.js";

/** Maximum length of coloured code, because each word takes an element. */
const LONGEST = 20_000;
/** Languages in which `#` begins a comment, and those in which `--` does. All others use `//`. */
const HASH = new Set(["bash", "sh", "shell", "zsh", "console", "python", "py", "ruby", "rb", "yaml", "yml", "toml", "ini", "dockerfile", "makefile", "perl", "r"]);
const DASHES = new Set(["sql", "lua", "haskell"]);
/** Languages of texts, in which words have no special meaning. */
const PLAIN = new Set(["", "text", "txt", "plain", "markdown", "md", "diff", "log", "output"]);
const KEYWORDS = new Set(
  (
    "and as assert async await break case catch class const continue def default del delete do elif else end enum except export extends false finally fn for from func function global if impl import in instanceof interface is lambda let match mod module mut new nil none nonlocal not null or package pass private protected pub public raise return self static struct super switch then this throw trait true try type typeof undefined union use var void where while with yield " +
    "select insert update create table into values join left right inner outer on group by order having limit set fi done echo"
  ).split(" "),
);

/**
 * @param {string} text
 * @param {string} language
 * @returns {HTMLElement} the code, with its parts in elements of their own
 */
export function highlight(text, language) {
  const name = language.toLowerCase();
  const element = h("code", {});
  if (PLAIN.has(name) || text.length > LONGEST) {
    element.append(text);
    return element;
  }
  const comment = HASH.has(name) ? "#[^\\n]*" : DASHES.has(name) ? "--[^\\n]*" : "\\/\\/[^\\n]*|\\/\\*(?:[^*]|\\*(?!\\/))*(?:\\*\\/)?";
  // The strings of one line, each with an end that may be missing, so nothing is read twice.
  const strings = "\"(?:[^\"\\\\\\n]|\\\\.)*\"?|'(?:[^'\\\\\\n]|\\\\.)*'?|`(?:[^`\\\\]|\\\\.)*`?";
  const pattern = new RegExp(`(${comment})|(${strings})|(\\b\\d[\\w.]*)|([A-Za-z_$][\\w$]*)`, "g");
  let plain = 0;
  for (const match of text.matchAll(pattern)) {
    const kind = match[1] ? "comment" : match[2] ? "string" : match[3] ? "number" : KEYWORDS.has(match[4].toLowerCase()) ? "keyword" : "";
    if (!kind) continue;
    element.append(text.slice(plain, match.index), h("span", { class: `code-${kind}` }, match[0]));
    plain = match.index + match[0].length;
  }
  element.append(text.slice(plain));
  return element;
}
