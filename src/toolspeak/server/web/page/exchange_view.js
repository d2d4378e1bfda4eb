// @ts-check
/**
 * One question and its answer. While the answer comes, all of its text and calls are shown; afterwards each round is one
 * line that opens to its text, calls, arguments, results and times.
 */

import { ask } from "./api.js";
import { disclosure, h, labelled, put, say, withCode } from "./dom.js";
import { counted, span } from "./format.js";
import { LiveText } from "./live_text.js";
import { longText } from "./long_text.js";
import { markdown } from "./markdown.js";

/** What an end that is not a good one is called. */
const STATUS = /** @type {Record<string, string>} */ ({ interrupted: "Interrupted. What had come is kept.", failed: "The answer failed" });

/** Characters from which on a text is drawn this many milliseconds apart, and not with each frame. */
const LONG = 50_000;
const APART = 100;
/** Characters of arguments and results that are shown without a place of their own to scroll in. */
const SHORT = 8000;

/** @typedef {{text?: string, reasoning?: string, call?: import("./stream.js").Call}} Piece */

export class ExchangeView {
  /**
   * @param {import("./conversation.js").Exchange} exchange
   * @param {(question: string) => string} resend says why it cannot be, if so
   * @param {(draw: () => void) => void} [drawing] wraps whatever makes the view grow
   */
  constructor(exchange, resend, drawing = (draw) => draw()) {
    this._exchange = exchange;
    this._resend = resend;
    this._drawing = drawing;
    this._question = h("div", { class: "question" });
    this._answer = h("div", { class: "answer stack" });
    /** @type {LiveText | null} the text that grows */
    this._growing = null;
    this._growingKind = "";
    /** @type {Map<object, LiveText>} the arguments of calls that are shown live */
    this._calls = new Map();
    /** @type {Piece[]} what came since the last drawing, texts in one piece */
    this._pieces = [];
    this._length = 0;
    this._planned = false;
    this.element = h("article", { class: "exchange" }, this._question, this._answer);
    this._showQuestion();
    if (exchange.answer.status === "running") put(this._answer, h("p", { class: "soft waiting" }, "The model answers …"));
    else this.end();
  }

  _showQuestion() {
    const edit = h("button", { type: "button", class: "quiet small", click: () => this._editQuestion() }, "Edit");
    put(this._question, h("h2", { class: "unseen" }, "You"), h("div", { class: "bubble", dir: "auto" }, this._exchange.question), edit);
  }

  _editQuestion() {
    const field = /** @type {HTMLTextAreaElement} */ (h("textarea", { rows: 3, dir: "auto" }));
    const said = h("p", { class: "small soft", role: "status" });
    field.value = this._exchange.question;
    const send = (/** @type {Event} */ event) => {
      event.preventDefault();
      const why = field.value.trim() && this._resend(field.value.trim());
      put(said, why);
    };
    const back = () => {
      this._showQuestion();
      /** @type {HTMLElement | null} */ (this._question.querySelector("button"))?.focus();
    };
    const buttons = h("div", { class: "row" }, h("button", { class: "main" }, "Send again"), h("button", { type: "button", click: back }, "Leave it"));
    put(this._question, h("form", { class: "stack edit", submit: send }, labelled("Your question", field), buttons, said));
    field.focus();
  }

  // ---- while it comes

  /** @param {Piece} piece is drawn with the next frame, together with all that comes until then */
  piece(piece) {
    const last = this._pieces.at(-1);
    if (last?.text && piece.text) last.text += piece.text;
    else if (last?.reasoning && piece.reasoning) last.reasoning += piece.reasoning;
    else if (!last?.call || last.call !== piece.call) this._pieces.push({ ...piece });
    this._length += (piece.text ?? piece.reasoning ?? "").length;
    if (this._planned) return;
    this._planned = true;
    const frame = () => requestAnimationFrame(() => this._drawing(() => this._draw()));
    if (this._length > LONG) setTimeout(frame, APART);
    else frame();
  }

  /** Draws what has come. */
  _draw() {
    this._planned = false;
    const pieces = this._pieces;
    this._pieces = [];
    if (pieces.length) this._answer.querySelector(":scope > .waiting")?.remove();
    for (const piece of pieces) {
      if (piece.call) this._liveCall(piece.call);
      else if (piece.text) this._grow("text", piece.text);
      else if (piece.reasoning) this._grow("reasoning", piece.reasoning);
    }
  }

  /**
   * @param {string} kind
   * @param {string} text
   */
  _grow(kind, text) {
    if (!this._growing || this._growingKind !== kind) {
      this._growing = new LiveText(h("div", { class: `live ${kind}` }));
      this._growingKind = kind;
      this._answer.append(this._growing.element);
    }
    this._growing.add(text);
  }

  /** @param {import("./stream.js").Call} call */
  _liveCall(call) {
    let shown = this._calls.get(call);
    if (!shown) {
      shown = new LiveText(h("pre", { class: "small" }));
      this._calls.set(call, shown);
      this._answer.append(h("div", { class: "call" }, h("code", { class: "strong" }, call.name), shown.element));
      this._growing = null;
    }
    shown.add(call.arguments.slice(shown.length));
  }

  /** @param {import("./conversation.js").MadeCall} call has its result */
  result(call) {
    this._draw();
    this._answer.append(h("div", { class: "call result small" }, h("span", { class: "soft" }, `${call.name} answers `), call.result.length > SHORT ? longText(call.result) : h("span", { dir: "auto" }, call.result)));
    this._growing = null;
  }

  /** @param {import("./conversation.js").Round} round is over: one line from now on */
  round(round) {
    this._pieces = [];
    const lines = [...this._answer.children].filter((child) => child.matches("details.round"));
    put(this._answer, lines, drawRound(round, lines.length + 1));
    this._calls.clear();
    this._growing = null;
  }

  /**
   * Asks the person what a tool answers.
   * @param {import("./conversation.js").MadeCall} call
   * @param {unknown} given
   * @param {AbortSignal} signal
   * @returns {Promise<string>}
   */
  person(call, given, signal) {
    const field = /** @type {HTMLTextAreaElement} */ (h("textarea", { rows: 2 }));
    return new Promise((resolve, reject) => {
      const send = (/** @type {Event} */ event) => {
        event.preventDefault();
        form.remove();
        resolve(field.value);
      };
      const form = h("form", { class: "stack card", submit: send }, labelled(`What does ${call.name}(${JSON.stringify(given)}) answer?`, field), h("div", {}, h("button", { class: "main" }, "Give this result")));
      signal.addEventListener("abort", () => reject(new Error("interrupted")));
      this._answer.append(form);
      field.focus();
    });
  }

  // ---- afterwards

  /** The answer is over: rounds as lines, then the final text. Until that is whole, what came stays in sight. */
  end() {
    const { answer } = this._exchange;
    const text = answer.content ? markdown(answer.content) : null;
    if (!text?.done) return this._showEnd(text?.element);
    this._draw();
    text.done.then(() => this._drawing(() => this._showEnd(text.element)));
  }

  /** @param {HTMLElement} [text] */
  _showEnd(text) {
    const { answer } = this._exchange;
    this._growing = null;
    this._pieces = [];
    this._calls.clear();
    put(
      this._answer,
      h("h2", { class: "unseen" }, "Answer"),
      answer.rounds.map((round, index) => drawRound(round, index + 1)),
      answer.reasoning && disclosure("Thinking", () => longText(answer.reasoning), { class: "round" }),
      text,
      answer.status in STATUS && h("p", { class: `notice ${answer.status === "failed" ? "bad" : "warn"}` }, [STATUS[answer.status], answer.error].filter(Boolean).join(": ")),
      this._about(answer),
    );
  }

  /** @param {import("./conversation.js").Answer} answer */
  _about(answer) {
    const facts = [answer.plan && `plan ${answer.plan}`, counted(answer.rounds.length + 1, "round"), tokens(answer), spanned(answer.seconds)];
    const why = h("p", { class: "notice small", role: "status", hidden: true });
    const look = async () => {
      why.hidden = false;
      put(why, await whyNoCall(answer.record));
    };
    return h(
      "footer",
      { class: "about small soft" },
      facts.filter(Boolean).join(" · "),
      answer.record && h("a", { href: `#/inspector/${answer.record}` }, "Inspect"),
      answer.record && answer.status === "complete" && !answer.rounds.length && h("button", { type: "button", class: "link small", click: look }, "Why was there no call?"),
      why,
    );
  }
}

/** @param {number | null} seconds nothing where nobody knows */
const spanned = (seconds) => (seconds === null ? "" : span(seconds));

/** @param {import("./conversation.js").Answer} answer */
function tokens({ input_tokens, output_tokens }) {
  const sum = input_tokens + output_tokens;
  return sum ? counted(sum, "token") : "";
}

/**
 * One line that opens.
 * @param {import("./conversation.js").Round} round
 * @param {number} number
 */
function drawRound(round, number) {
  const names = round.calls.map((call) => call.name).join(", ");
  const failed = round.calls.some((call) => call.failed);
  const title = [h("span", { class: "strong" }, `Round ${number}`), ` ${names} `, h("span", { class: "soft" }, spanned(round.seconds)), failed && h("span", { class: "badge bad" }, "an error")];
  return disclosure(
    title,
    () => [
      round.reasoning && (round.reasoning.length > SHORT ? longText(round.reasoning) : h("div", { class: "reasoning", dir: "auto" }, round.reasoning)),
      round.text && markdown(round.text).element,
      round.calls.map((call) =>
        h(
          "div",
          { class: "call stack-tight" },
          h("div", { class: "row" }, h("code", { class: "strong" }, call.name), h("span", { class: "soft small" }, span(call.seconds))),
          told(call.arguments || "{}"),
          told(call.result, call.failed),
        ),
      ),
      round.record && h("p", { class: "small" }, h("a", { href: `#/inspector/${round.record}` }, "Inspect this round")),
    ],
    { class: "round" },
  );
}

/**
 * Arguments, or a result.
 * @param {string} text
 * @param {boolean} [failed]
 */
const told = (text, failed = false) => (text.length > SHORT ? longText(text) : h("pre", { class: `code small ${failed ? "failed" : ""}`, dir: "auto" }, text));

/**
 * In one line.
 * @param {string} id
 */
async function whyNoCall(id) {
  try {
    const { trace, error } = await ask(`toolspeak/requests/${encodeURIComponent(id)}`);
    const line = trace.why_no_call || error || "there was a call";
    say(line);
    return withCode(line);
  } catch (error) {
    return `The server no longer knows: ${/** @type {Error} */ (error).message}`;
  }
}
