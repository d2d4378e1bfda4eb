// @ts-check
/**
 * One question and its answer. While the answer streams, all of its text and calls are shown; afterwards each round is
 * one line that expands to its text, calls, arguments, results and times.
 */

import { isInvalid } from "./conversation.js";
import { copyButton } from "./copy.js";
import { disclosure, h, labelled, select, setChildren, withCode } from "./dom.js";
import { plural, duration } from "./format.js";
import { LiveMarkdown } from "./live_markdown.js";
import { LiveText } from "./live_text.js";
import { longText } from "./long_text.js";
import { markdown } from "./markdown.js";
import { makeWaiting } from "./waiting.js";

/** Notices for answers that did not complete. */
const STATUS = /** @type {Record<string, string>} */ ({ interrupted: "Stopped", failed: "Request failed" });

/** Texts longer than this many characters are redrawn at this interval in milliseconds, not with each frame. */
const LONG = 50_000;
const LONG_INTERVAL = 100;
/** Arguments and results longer than this many characters get a scrollable box. */
const LONGEST_INLINE = 8000;

/** @typedef {{text?: string, reasoning?: string, call?: import("./stream.js").Call}} Piece */
/**
 * @typedef {object} Actions what a person may do with an exchange; the texts say why it cannot be done, or are empty
 * @property {() => string[]} models
 * @property {(question: string) => string} resend with another question
 * @property {(model: string) => string} retry with another model; the same one if empty
 * @property {() => boolean} busy whether an answer is being written, which Escape stops
 * @property {() => void} fork continues from here in a new chat
 */

export class ExchangeView {
  /**
   * @param {import("./conversation.js").Exchange} exchange
   * @param {Actions} actions
   * @param {(draw: () => void) => void} [drawing] wraps every drawing that may make the view longer
   */
  constructor(exchange, actions, drawing = (draw) => draw()) {
    this._exchange = exchange;
    this._actions = actions;
    this._drawing = drawing;
    this._question = h("div", { class: "question" });
    this._answer = h("div", { class: "answer stack" });
    /** @type {import("./waiting.js").Waiting | null} */
    this._waiting = null;
    this._request = { id: "", tokens: 0 };
    /** @type {LiveText | LiveMarkdown | null} the text that is being streamed */
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
    if (exchange.answer.status === "running") this._wait();
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
      const why = field.value.trim() && this._actions.resend(field.value.trim());
      setChildren(status, why);
    };
    const back = () => {
      this._showQuestion();
      /** @type {HTMLElement | null} */ (this._question.querySelector("button"))?.focus();
    };
    const buttons = h("div", { class: "row" }, h("button", { class: "main" }, "Resend"), h("button", { type: "button", click: back }, "Cancel"));
    const keys = (/** @type {KeyboardEvent} */ event) => {
      if (event.key === "Escape" && !this._actions.busy()) back();
      else if (event.key === "Enter" && !event.shiftKey && !event.isComposing) send(event);
    };
    setChildren(this._question, h("form", { class: "stack edit", submit: send, keydown: keys }, labelled("Your question", field), buttons, status));
    field.focus();
  }

  // ---- streaming answer

  /**
   * @param {string} id of the request that the model is asked with
   * @param {number} tokens
   */
  asking(id, tokens) {
    this._request = { id, tokens };
  }

  /** Shows what the model does until the next piece of the answer. */
  _wait() {
    this._endWait();
    this._waiting = makeWaiting(() => this._request);
    this._answer.append(this._waiting.element);
  }

  _endWait() {
    this._waiting?.stop();
    this._waiting?.element.remove();
    this._waiting = null;
  }

  /** @param {Piece} piece is drawn with the next frame, together with all pieces until then */
  piece(piece) {
    const last = this._pieces.at(-1);
    if (last?.text && piece.text) last.text += piece.text;
    else if (last?.reasoning && piece.reasoning) last.reasoning += piece.reasoning;
    else if (!last?.call || last.call !== piece.call) this._pieces.push({ ...piece });
    this._length += (piece.text ?? piece.reasoning ?? "").length;
    this._requestFrame();
  }

  _requestFrame() {
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
    if (pieces.length) this._endWait();
    for (const piece of pieces) {
      if (piece.call) this._liveCall(piece.call);
      else if (piece.text !== undefined) this._grow("text", piece.text);
      else if (piece.reasoning) this._grow("reasoning", piece.reasoning);
    }
  }

  /**
   * @param {string} kind
   * @param {string} text
   */
  _grow(kind, text) {
    if (!this._growing || this._growingKind !== kind) {
      this._growing = kind === "text" ? new LiveMarkdown() : new LiveText(h("div", { class: `live ${kind}` }));
      this._growingKind = kind;
      this._answer.append(this._growing.element);
    }
    if (this._growing.add(text)) this.piece({ text: "" }); // the rest is drawn in the next frame
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
    this._endWait();
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
    this._wait();
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
    this._endWait();
    return new Promise((resolve, reject) => {
      const send = (/** @type {Event} */ event) => {
        event.preventDefault();
        form.remove();
        resolve(field.value);
      };
      const keys = (/** @type {KeyboardEvent} */ event) => {
        if (event.key === "Enter" && !event.shiftKey && !event.isComposing) send(event);
      };
      const form = h("form", { class: "stack card", submit: send, keydown: keys }, labelled(`${call.name} was called with ${JSON.stringify(args)}. What should it return?`, field), h("div", {}, h("button", { class: "main" }, "Send result")));
      signal.addEventListener("abort", () => reject(new Error("interrupted")));
      this._answer.append(form);
      field.focus();
    });
  }

  // ---- complete answer

  /** Shows the complete answer: rounds as lines, then the final text. The streamed text stays until that is drawn. */
  end() {
    const { answer } = this._exchange;
    this._endWait();
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
      answer.status in STATUS && h("p", { class: `notice ${answer.status === "failed" ? "bad" : "warn"}` }, withCode(notice(answer))),
      answer.why && disclosure("Why was there no call?", () => h("p", { class: "small why" }, withCode(answer.why)), { class: "round" }),
      this._footer(answer),
    );
  }

  /** @param {import("./conversation.js").Answer} answer */
  _footer(answer) {
    const rounds = answer.rounds.length && answer.status === "complete" ? plural(answer.rounds.length + 1, "round") : "";
    const facts = [answer.model, answer.plan && `plan ${answer.plan}`, rounds, tokens(answer), optionalDuration(answer.seconds)];
    const status = h("p", { class: "small", role: "status" });
    const retry = (/** @type {string} */ model) => setChildren(status, this._actions.retry(model));
    const others = select(this._actions.models(), "Retry with…", { class: "retry quiet", "aria-label": "Retry with another model" });
    others.addEventListener("change", () => others.value && retry(others.value));
    return h(
      "footer",
      { class: "about small soft" },
      h("span", { class: "answer-facts" }, facts.filter(Boolean).join(" · ")),
      answer.content && copyButton(() => answer.content, "answer"),
      h("button", { type: "button", class: "quiet retry", click: () => retry("") }, "Retry"),
      this._actions.models().length > 1 && others,
      h("button", { type: "button", class: "quiet", title: "Continue from here in a new chat", click: () => this._actions.fork() }, "Fork"),
      answer.record && h("a", { href: `#/requests/${answer.record}` }, "Details"),
      status,
    );
  }
}

/**
 * The notice below an answer that did not complete.
 * @param {import("./conversation.js").Answer} answer
 */
function notice({ status, error, content, rounds, seconds }) {
  if (error) return `${STATUS[status]}: ${error}`;
  if (status === "interrupted" && !content && !rounds.length && !seconds) return "No answer is stored. It was stopped, or it is still being written elsewhere, such as in another tab.";
  return status === "interrupted" && (content || rounds.length) ? `${STATUS[status]}. The partial answer is kept.` : `${STATUS[status]}.`;
}

/** @param {number | null} seconds null or 0 if unknown */
const optionalDuration = (seconds) => (seconds ? duration(seconds) : "");

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
  const invalid = round.calls.filter(isInvalid).length;
  const failed = round.calls.some((call) => call.failed && !isInvalid(call));
  const title = [h("span", { class: "strong" }, `Round ${number}`), ` ${names} `, h("span", { class: "soft" }, optionalDuration(round.seconds)), invalid > 0 && [" ", h("span", { class: "badge bad" }, plural(invalid, "invalid call"))], failed && [" ", h("span", { class: "badge bad" }, "failed")]];
  return disclosure(
    title,
    () => [
      round.reasoning && (round.reasoning.length > LONGEST_INLINE ? longText(round.reasoning) : h("div", { class: "reasoning", dir: "auto" }, round.reasoning)),
      round.text && markdown(round.text).element,
      round.calls.map((call) =>
        h(
          "div",
          { class: "call stack-tight" },
          h(
            "div",
            { class: "row" },
            h("code", { class: "strong" }, call.name),
            isInvalid(call) ? h("span", { class: "badge bad" }, "invalid call") : h("span", { class: "soft small" }, duration(call.seconds)),
            copyButton(() => JSON.stringify({ name: call.name, arguments: call.arguments }), "call", "Copy call"),
            copyButton(() => call.result, "result", "Copy result"),
          ),
          drawCode(call.arguments || "{}"),
          drawCode(call.result, call.failed),
          (call.diffs ?? []).map(drawDiff),
        ),
      ),
      round.record && h("p", { class: "small" }, h("a", { href: `#/requests/${round.record}` }, "Details of this round")),
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
