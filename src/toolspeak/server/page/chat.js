// @ts-check
/** The chat: what to ask and how, the conversation, and a place to write. */

import { ask, Refused } from "./api.js";
import { Conversation } from "./conversation.js";
import { h, labelled, put, say, select } from "./dom.js";
import { ExchangeView } from "./exchange_view.js";
import { makeSessions } from "./sessions.js";
import { makeToolPicker } from "./tool_picker.js";

/** Pixels from the end within which somebody reads at the end. */
const NEAR = 120;

/**
 * @param {import("./app.js").About} about
 * @returns {import("./app.js").Part}
 */
export function makeChat(about) {
  const conversation = new Conversation();
  const picker = makeToolPicker();
  const model = /** @type {HTMLInputElement} */ (h("input", { list: "known-models", value: about.models[0] ?? "", required: true, autocomplete: "off" }));
  const settings = { mode: select(about.modes, "as configured"), plan: select(about.plans, "as configured"), dialect: select(about.dialects, "as configured") };
  const transcript = h("div", { class: "transcript" }, empty());
  const scroller = h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Conversation" }, transcript);
  const field = /** @type {HTMLTextAreaElement} */ (h("textarea", { rows: 2, dir: "auto", placeholder: "Ask something", "aria-label": "Your question" }));
  const button = /** @type {HTMLButtonElement} */ (h("button", { class: "main" }, "Send"));
  const form = h("form", { class: "composer" }, field, button);

  const wishes = () => ({
    model: model.value,
    settings: Object.fromEntries(Object.entries(settings).map(([name, list]) => [name, list.value])),
    tools: picker.tools(),
  });

  const follow = () => scroller.scrollTo({ top: scroller.scrollHeight });

  /** @param {() => void} draw makes the conversation longer; who reads at its end goes on seeing the end */
  function following(draw) {
    const near = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < NEAR;
    draw();
    if (near) follow();
  }

  /** Whether the server still knows who is there: it leaves aside the settings of everybody else. */
  async function known() {
    try {
      await ask("toolspeak/about");
      return true;
    } catch (error) {
      return !(error instanceof Refused && error.status === 401);
    }
  }

  /** @param {string} question */
  async function send(question) {
    if (conversation.busy) return;
    if (Object.values(wishes().settings).some(Boolean) && !(await known())) {
      field.value ||= question;
      return;
    }
    if (conversation.busy) return;
    const index = conversation.exchanges.length;
    if (!index) put(transcript);
    const exchange = conversation.say(question);
    const view = new ExchangeView(exchange, (other) => resend(index, other), following);
    transcript.append(view.element);
    follow();
    put(button, "Cancel");
    await conversation.answer(exchange, wishes(), {
      piece: (piece) => view.piece(piece),
      result: (call) => view.result(call),
      round: (round) => view.round(round),
      person: (call, given, signal) => view.person(call, given, signal),
    });
    following(() => view.end());
    put(button, "Send");
    if (exchange.answer.refused === 401) known();
    say(exchange.answer.status === "complete" ? "The answer is complete." : `The answer is ${exchange.answer.status}.`);
  }

  /**
   * @param {number} index
   * @param {string} question
   * @returns {string} why it cannot be
   */
  function resend(index, question) {
    if (conversation.busy) return "An answer is still coming: cancel it first, with Escape.";
    conversation.cut(index);
    while (transcript.children.length > index) transcript.lastElementChild?.remove();
    send(question);
    field.focus();
    return "";
  }

  /** @param {import("./conversation.js").Exchange[]} exchanges of a session that is gone on with */
  function open(exchanges) {
    conversation.cancel();
    conversation.exchanges = exchanges;
    put(transcript, exchanges.map((exchange, index) => new ExchangeView(exchange, (other) => resend(index, other)).element));
    field.focus();
  }

  function clear() {
    conversation.cancel();
    conversation.cut(0);
    put(transcript, empty());
    field.focus();
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (conversation.busy) return conversation.cancel();
    const question = field.value.trim();
    if (!question) return;
    field.value = "";
    send(question);
  });
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || conversation.busy) return;
    event.preventDefault();
    /** @type {HTMLFormElement} */ (form).requestSubmit();
  });

  const element = h(
    "div",
    { class: "chat" },
    h("h1", { class: "unseen" }, "Chat"),
    h(
      "div",
      { class: "fields settings" },
      labelled("Model", model),
      h("datalist", { id: "known-models" }, about.models.map((name) => h("option", { value: name }))),
      labelled("Mode", settings.mode),
      labelled("Plan", settings.plan),
      labelled("Dialect", settings.dialect),
      picker.element,
      makeSessions(open),
      h("button", { type: "button", class: "quiet", click: clear }, "New chat"),
    ),
    scroller,
    form,
  );
  // Wherever the focus is: who wants it to stop does not look for the right place first.
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !event.isComposing && element.isConnected) conversation.cancel();
  });
  return { element, show: () => field.focus() };
}

/** What stands there before anything was asked. */
function empty() {
  return h(
    "div",
    { class: "welcome soft" },
    h("p", { class: "strong" }, "Ask a model, with tools."),
    h("p", {}, "Try: “What time is it in Oslo, and what is 17 times 23?” Calls and results show up as they happen, and afterwards each round is one line that opens."),
  );
}
