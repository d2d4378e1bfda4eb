// @ts-check
/**
 * One question and its answer. While the answer comes, all of its text and calls are shown; afterwards each round is one
 * line that opens to its text, calls, arguments, results and times.
 */

import { ask } from "./api.js";
import { disclosure, h, labelled, put, say } from "./dom.js";
import { counted, span } from "./format.js";
import { longText } from "./long_text.js";
import { LONGEST, markdown } from "./markdown.js";

/** What an end that is not a good one is called. */
const STATUS = /** @type {Record<string, string>} */ ({ interrupted: "Interrupted. What had come is kept.", failed: "The answer failed" });

export class ExchangeView {
  /**
   * @param {import("./conversation.js").Exchange} exchange
   * @param {(question: string) => void} resend
   */
  constructor(exchange, resend) {
    this._exchange = exchange;
    this._resend = resend;
    this._question = h("div", { class: "question" });
    this._answer = h("div", { class: "answer stack" });
    /** @type {Text | null} the text that grows */
    this._growing = null;
    this._growingKind = "";
    /** @type {Map<object, HTMLElement>} calls that are shown live */
    this._calls = new Map();
    this.element = h("article", { class: "exchange" }, this._question, this._answer);
    this._showQuestion();
    if (exchange.answer.status === "running") put(this._answer, h("p", { class: "soft waiting" }, "The model answers …"));
    else this.end();
  }

  _showQuestion() {
    const edit = h("button", { type: "button", class: "quiet small", click: () => this._editQuestion() }, "Edit");
    put(this._question, h("h2", { class: "unseen" }, "You"), h("div", { class: "bubble" }, this._exchange.question), edit);
  }

  _editQuestion() {
    const field = /** @type {HTMLTextAreaElement} */ (h("textarea", { rows: 3 }));
    field.value = this._exchange.question;
    const send = (/** @type {Event} */ event) => {
      event.preventDefault();
      if (field.value.trim()) this._resend(field.value.trim());
    };
    const back = () => {
      this._showQuestion();
      /** @type {HTMLElement | null} */ (this._question.querySelector("button"))?.focus();
    };
    const buttons = h("div", { class: "row" }, h("button", { class: "main" }, "Send again"), h("button", { type: "button", click: back }, "Leave it"));
    put(this._question, h("form", { class: "stack edit", submit: send }, labelled("Your question", field), buttons));
    field.focus();
  }

  // ---- while it comes

  /** @param {{text?: string, reasoning?: string, call?: import("./stream.js").Call}} piece */
  piece(piece) {
    this._answer.querySelector(".waiting")?.remove();
    if (piece.call) this._liveCall(piece.call);
    else if (piece.text) this._grow("text", piece.text);
    else if (piece.reasoning) this._grow("reasoning", piece.reasoning);
  }

  /**
   * @param {string} kind
   * @param {string} text
   */
  _grow(kind, text) {
    if (!this._growing || this._growingKind !== kind) {
      this._growing = document.createTextNode("");
      this._growingKind = kind;
      this._answer.append(h("div", { class: `live ${kind}` }, this._growing));
    }
    this._growing.appendData(text);
  }

  /** @param {import("./stream.js").Call} call */
  _liveCall(call) {
    let place = this._calls.get(call);
    if (!place) {
      place = h("div", { class: "call" }, h("code", { class: "strong" }, call.name), h("pre", { class: "small" }));
      this._calls.set(call, place);
      this._answer.append(place);
      this._growing = null;
    }
    const text = place.lastElementChild;
    if (text) text.textContent = call.arguments;
  }

  /** @param {import("./conversation.js").MadeCall} call has its result */
  result(call) {
    this._answer.append(h("div", { class: "call result small" }, h("span", { class: "soft" }, `${call.name} answers `), h("span", {}, call.result)));
    this._growing = null;
  }

  /** @param {import("./conversation.js").Round} round is over: one line from now on */
  round(round) {
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

  /** The answer is over: rounds as lines, then the final text. */
  end() {
    const { answer } = this._exchange;
    this._growing = null;
    put(
      this._answer,
      h("h2", { class: "unseen" }, "Answer"),
      answer.rounds.map((round, index) => drawRound(round, index + 1)),
      answer.reasoning && disclosure("Thinking", () => longText(answer.reasoning), { class: "round" }),
      answer.content && h("div", { class: "text" }, answer.content.length > LONGEST ? longText(answer.content) : markdown(answer.content)),
      answer.status in STATUS && h("p", { class: `notice ${answer.status === "failed" ? "bad" : "warn"}` }, [STATUS[answer.status], answer.error].filter(Boolean).join(": ")),
      this._about(answer),
    );
  }

  /** @param {import("./conversation.js").Answer} answer */
  _about(answer) {
    const facts = [answer.plan && `plan ${answer.plan}`, counted(answer.rounds.length + 1, "round"), answer.tokens ? `${answer.tokens} tokens` : "", span(answer.seconds)];
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
      answer.record && !answer.rounds.length && h("button", { type: "button", class: "link small", click: look }, "Why was there no call?"),
      why,
    );
  }
}

/**
 * One line that opens.
 * @param {import("./conversation.js").Round} round
 * @param {number} number
 */
function drawRound(round, number) {
  const names = round.calls.map((call) => call.name).join(", ");
  const failed = round.calls.some((call) => call.failed);
  const title = [h("span", { class: "strong" }, `Round ${number}`), ` ${names} `, h("span", { class: "soft" }, span(round.seconds)), failed && h("span", { class: "badge bad" }, "an error")];
  return disclosure(
    title,
    () => [
      round.reasoning && h("div", { class: "reasoning" }, round.reasoning),
      round.text && h("div", { class: "text" }, markdown(round.text)),
      round.calls.map((call) =>
        h(
          "div",
          { class: "call stack-tight" },
          h("div", { class: "row" }, h("code", { class: "strong" }, call.name), h("span", { class: "soft small" }, span(call.seconds))),
          h("pre", { class: "code small" }, call.arguments || "{}"),
          h("pre", { class: `code small ${call.failed ? "failed" : ""}` }, call.result),
        ),
      ),
      round.record && h("p", { class: "small" }, h("a", { href: `#/inspector/${round.record}` }, "Inspect this round")),
    ],
    { class: "round" },
  );
}

/**
 * In one line.
 * @param {string} id
 */
async function whyNoCall(id) {
  try {
    const { trace, error } = await ask(`toolspeak/requests/${encodeURIComponent(id)}`);
    const line = trace.why_no_call || error || "there was a call";
    say(line);
    return line;
  } catch (error) {
    return `The server no longer knows: ${/** @type {Error} */ (error).message}`;
  }
}
