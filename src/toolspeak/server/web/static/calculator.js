// @ts-check
/** Evaluates arithmetic expressions with + - * / % ^ and brackets, using a parser instead of `eval`. */

/** Other ways to write an expression, each with its usual form. */
const SPELLINGS = /** @type {[RegExp, string][]} */ ([
  [/\*\*/g, "^"],
  [/[×·]|\btimes\b|\bmultiplied by\b|(?<=\d)(?<!\b0)\s*x\s*(?=\d)/gi, "*"],
  [/[÷]|\bdivided by\b/gi, "/"],
  [/[−–]|\bminus\b/gi, "-"],
  [/\bplus\b/gi, "+"],
  [/(\d)\s*(?:%|percent) of\b/gi, "$1 / 100 *"],
  [/(?<=\d),(?=\d{3}(?!\d))/g, ""],
  [/=[\s?]*$/, ""],
]);

/** Maximum nesting depth of brackets and signs. */
const DEEPEST = 64;
const TOKEN = /\s*(?:(\d+(?:\.\d+)?(?:e[+-]?\d+)?|\.\d+)|([-+*/%^()]))/iy;

/**
 * @param {string} text
 * @returns {number}
 */
export function calculate(text) {
  for (const [spelling, usual] of SPELLINGS) text = text.replace(spelling, usual);
  const tokens = read(text);
  let at = 0;
  let depth = 0;

  /** @returns {number} the value of a number or a bracket, with or without a sign */
  function single() {
    const token = tokens[at++];
    if (typeof token === "number") return token;
    if (++depth > DEEPEST) throw new Error("the expression has too many nested brackets");
    let value;
    if (token === "-" || token === "+") value = token === "-" ? -power() : power();
    else if (token === "(") {
      value = sum();
      if (tokens[at++] !== ")") throw new Error("a bracket is not closed");
    } else throw new Error(token === undefined ? "the expression is incomplete" : `\`${token}\` is in the wrong place`);
    depth -= 1;
    return value;
  }

  /** @returns {number} */
  function power() {
    const base = single();
    if (tokens[at] !== "^") return base;
    at += 1;
    return base ** power();
  }

  /** @returns {number} */
  function product() {
    let value = power();
    for (;;) {
      if (tokens[at] === "*") (at += 1), (value *= power());
      else if (tokens[at] === "/") (at += 1), (value /= power());
      else if (tokens[at] === "%") (at += 1), (value %= power());
      else return value;
    }
  }

  /** @returns {number} */
  function sum() {
    let value = product();
    for (;;) {
      if (tokens[at] === "+") (at += 1), (value += product());
      else if (tokens[at] === "-") (at += 1), (value -= product());
      else return value;
    }
  }

  const value = sum();
  if (at < tokens.length) throw new Error(`\`${tokens[at]}\` is in the wrong place`);
  return value;
}

/**
 * @param {string} text
 * @returns {(number | string)[]}
 */
function read(text) {
  const tokens = [];
  const end = text.trimEnd().length;
  TOKEN.lastIndex = 0;
  while (TOKEN.lastIndex < end) {
    const from = TOKEN.lastIndex;
    const match = TOKEN.exec(text);
    if (!match) throw new Error(`cannot read \`${text.slice(from, from + 12)}\`; use numbers with + - * / % ^ and brackets, such as (3 + 4) * 2`);
    tokens.push(match[1] !== undefined ? Number(match[1]) : match[2]);
  }
  return tokens;
}
