// @ts-check
/**
 * One question and its answer. While the answer streams, all of its text and calls are shown; afterwards each round is
 * one line that expands to its text, calls, arguments, results and times.
 */

import { fetchJson } from "./api.js";
import { disclosure, h, labelled, setChildren, announce, withCode } from "./dom.js";
import { plural, duration } from "./format.js";
import { LiveText } from "./live_text.js";
import { longText } from "./long_text.js";
import { markdown } from "./markdown.js";

/** Notices for answers that did not complete. */
const STATUS = /** @type {Record<string, string>} */ ({ interrupted: "Stopped", failed: "Request failed" });

/** Texts longer than this many characters are redrawn at this interval in milliseconds, not with each frame. */
const LONG = 50_000;
const LONG_INTERVAL = 100;
/** Arguments and results longer than this many characters get a scrollable box. */
const LONGEST_INLINE = 8000;

/** @typedef {{text?: string, reasoning?: string, call?: import("./stream.js").Call}} Piece */

export class ExchangeView {
  /**
   * @param {import("./conversation.js").Exchange} exchange
   * @param {(question: string) => string} resend returns why it cannot be resent, or an empty string
   * @param {(draw: () => void) => void} [drawing] wraps every drawing that may make the view longer
   */
  constructor(exchange, resend, drawing = (draw) => draw()) {
    this._exchange = exchange;
    this._resend = resend;
    this._drawing = drawing;
    this._question = h("div", { class: "question" });
    this._answer = h("div", { class: "answer stack" });
    /** @type {LiveText | null} the text that is being streamed */
    this._growing = null;
    this._growingKind = "";
    /** @type {Map<object, LiveText>} the arguments of calls that are being streamed */
    this._calls = new Map();
    /** @type {Piece[]} pieces since the last drawing, with adjacent texts joined */
    this._pieces = [];
    this._length = 0;
    this._frameRequested = false;
    this.element = h("article", { class: "exchange" }, this._question, this._answer);
    this._showQuestion();
    if (exchange.answer.status === "running") setChildren(this._answer, h("p", { class: "soft waiting" }, "Thinking…"));
    else this.end();
  }

  _showQuestion() {
    const edit = h("button", { type: "button", class: "quiet small", click: () => this._editQuestion() }, "Edit");
    setChildren(this._question, h("h2", { class: "visually-hidden" }, "You"), h("div", { class: "bubble", dir: "auto" }, this._exchange.question), edit);
  }

  _editQuestion() {
    const field = /** @type {HTMLTextAreaElement} */ (h("textarea", { rows: 3, dir: "auto" }));
    const status = h("p", { class: "small soft", role: "status" });
    field.value = this._exchange.question;
    const send = (/** @type {Event} */ event) => {
      event.preventDefault();
      const why = field.value.trim() && this._resend(field.value.trim());
      setChildren(status, why);
    };
    const back = () => {
      this._showQuestion();
      /** @type {HTMLElement | null} */ (this._question.querySelector("button"))?.focus();
    };
    const buttons = h("div", { class: "row" }, h("button", { class: "main" }, "Resend"), h("button", { type: "button", click: back }, "Cancel"));
    setChildren(this._question, h("form", { class: "stack edit", submit: send }, labelled("Your question", field), buttons, status));
    field.focus();
  }

  // ---- streaming answer

  /** @param {Piece} piece is drawn with the next frame, together with all pieces until then */
  piece(piece) {
    const last = this._pieces.at(-1);
    if (last?.text && piece.text) last.text += piece.text;
    else if (last?.reasoning && piece.reasoning) last.reasoning += piece.reasoning;
    else if (!last?.call || last.call !== piece.call) this._pieces.push({ ...piece });
    this._length += (piece.text ?? piece.reasoning ?? "").length;
    if (this._frameRequested) return;
    this._frameRequested = true;
    const frame = () => requestAnimationFrame(() => this._drawing(() => this._draw()));
    if (this._length > LONG) setTimeout(frame, LONG_INTERVAL);
    else frame();
  }

  /** Draws the pieces that arrived. */
  _draw() {
    this._frameRequested = false;
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
    let live = this._calls.get(call);
    if (!live) {
      live = new LiveText(h("pre", { class: "small" }));
      this._calls.set(call, live);
      this._answer.append(h("div", { class: "call" }, h("code", { class: "strong" }, call.name), live.element));
      this._growing = null;
    }
    live.add(call.arguments.slice(live.length));
  }

  /** @param {import("./conversation.js").CallRecord} call with its result */
  result(call) {
    this._draw();
    this._answer.append(h("div", { class: "call result small" }, h("span", { class: "soft" }, `${call.name} returned `), call.result.length > LONGEST_INLINE ? longText(call.result) : h("span", { dir: "auto" }, call.result)), ...(call.diffs ?? []).map(drawDiff));
    this._growing = null;
  }

  /** @param {import("./conversation.js").Round} round is complete: it collapses to one line */
  round(round) {
    this._pieces = [];
    const lines = [...this._answer.children].filter((child) => child.matches("details.round"));
    setChildren(this._answer, lines, drawRound(round, lines.length + 1));
    this._calls.clear();
    this._growing = null;
  }

  /**
   * Asks the user for the result of a tool.
   * @param {import("./conversation.js").CallRecord} call
   * @param {unknown} args
   * @param {AbortSignal} signal
   * @returns {Promise<string>}
   */
  askUser(call, args, signal) {
    const field = /** @type {HTMLTextAreaElement} */ (h("textarea", { rows: 2 }));
    return new Promise((resolve, reject) => {
      const send = (/** @type {Event} */ event) => {
        event.preventDefault();
        form.remove();
        resolve(field.value);
      };
      const form = h("form", { class: "stack card", submit: send }, labelled(`${call.name} was called with ${JSON.stringify(args)}. What should it return?`, field), h("div", {}, h("button", { class: "main" }, "Send result")));
      signal.addEventListener("abort", () => reject(new Error("interrupted")));
      this._answer.append(form);
      field.focus();
    });
  }

  // ---- complete answer

  /** Shows the complete answer: rounds as lines, then the final text. The streamed text stays until that is drawn. */
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
    setChildren(
      this._answer,
      h("h2", { class: "visually-hidden" }, "Answer"),
      answer.rounds.map((round, index) => drawRound(round, index + 1)),
      answer.reasoning && disclosure("Reasoning", () => longText(answer.reasoning), { class: "round" }),
      text,
      answer.status in STATUS && h("p", { class: `notice ${answer.status === "failed" ? "bad" : "warn"}` }, notice(answer)),
      this._footer(answer),
    );
  }

  /** @param {import("./conversation.js").Answer} answer */
  _footer(answer) {
    const facts = [answer.plan && `plan ${answer.plan}`, plural(answer.rounds.length + 1, "round"), tokens(answer), optionalDuration(answer.seconds)];
    const why = h("p", { class: "notice small", role: "status", hidden: true });
    const explain = async () => {
      why.hidden = false;
      setChildren(why, await whyNoCall(answer.record));
    };
    return h(
      "footer",
      { class: "about small soft" },
      facts.filter(Boolean).join(" · "),
      answer.record && h("a", { href: `#/inspector/${answer.record}` }, "Inspect"),
      answer.record && answer.status === "complete" && !answer.rounds.length && h("button", { type: "button", class: "link small", click: explain }, "Why was there no call?"),
      why,
    );
  }
}

/**
 * The notice below an answer that did not complete.
 * @param {import("./conversation.js").Answer} answer
 */
function notice({ status, error, content, rounds }) {
  if (error) return `${STATUS[status]}: ${error}`;
  return status === "interrupted" && (content || rounds.length) ? `${STATUS[status]}. The partial answer is kept.` : `${STATUS[status]}.`;
}

/** @param {number | null} seconds null if unknown */
const optionalDuration = (seconds) => (seconds === null ? "" : duration(seconds));

/** @param {import("./conversation.js").Answer} answer */
function tokens({ input_tokens, output_tokens }) {
  const sum = input_tokens + output_tokens;
  return sum ? plural(sum, "token") : "";
}

/**
 * A round as one line that expands.
 * @param {import("./conversation.js").Round} round
 * @param {number} number
 */
function drawRound(round, number) {
  const names = round.calls.map((call) => call.name).join(", ");
  const failed = round.calls.some((call) => call.failed);
  const title = [h("span", { class: "strong" }, `Round ${number}`), ` ${names} `, h("span", { class: "soft" }, optionalDuration(round.seconds)), failed && h("span", { class: "badge bad" }, "failed")];
  return disclosure(
    title,
    () => [
      round.reasoning && (round.reasoning.length > LONGEST_INLINE ? longText(round.reasoning) : h("div", { class: "reasoning", dir: "auto" }, round.reasoning)),
      round.text && markdown(round.text).element,
      round.calls.map((call) =>
        h(
          "div",
          { class: "call stack-tight" },
          h("div", { class: "row" }, h("code", { class: "strong" }, call.name), h("span", { class: "soft small" }, duration(call.seconds))),
          drawCode(call.arguments || "{}"),
          drawCode(call.result, call.failed),
          (call.diffs ?? []).map(drawDiff),
        ),
      ),
      round.record && h("p", { class: "small" }, h("a", { href: `#/inspector/${round.record}` }, "Inspect this round")),
    ],
    { class: "round" },
  );
}

/**
 * The arguments or the result of a call.
 * @param {string} text
 * @param {boolean} [failed]
 */
const drawCode = (text, failed = false) => (text.length > LONGEST_INLINE ? longText(text) : h("pre", { class: `code small ${failed ? "failed" : ""}`, dir: "auto" }, text));

/** Classes of the lines of a diff by their first character. */
const DIFF_CLASSES = /** @type {Record<string, string>} */ ({ "-": "removed", "+": "added" });
/** Number of lines at the beginning of a diff that name the file. */
const DIFF_HEAD = 2;

/**
 * What a call changed in a file.
 * @param {{path: string, diff: string}} change
 */
function drawDiff({ path, diff }) {
  if (diff.length > LONGEST_INLINE) return longText(diff);
  const lines = diff.replace(/\n$/, "").split("\n");
  const drawn = lines.map((line, index) => h("span", { class: index < DIFF_HEAD ? "soft" : (DIFF_CLASSES[line[0]] ?? "") }, `${line}\n`));
  return h("pre", { class: "code small diff", dir: "ltr", role: "group", "aria-label": `Changes in ${path}` }, drawn);
}

/**
 * The reason why a request led to no call, in one line.
 * @param {string} id
 */
async function whyNoCall(id) {
  try {
    const { trace, error } = await fetchJson(`toolspeak/requests/${encodeURIComponent(id)}`);
    const line = trace.why_no_call || error || "There was a call.";
    announce(line);
    return withCode(line);
  } catch (error) {
    return `The server cannot explain this request: ${/** @type {Error} */ (error).message}`;
  }
}
