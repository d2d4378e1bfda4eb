// @ts-check
/** The chat: what to ask and how, the conversation, and a place to write. */

import { ask, Refused } from "./api.js";
import { Conversation } from "./conversation.js";
import { h, labelled, put, say, select } from "./dom.js";
import { ExchangeView } from "./exchange_view.js";
import { Kept } from "./keeping.js";
import { makeMenu } from "./menu.js";
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
  /** @param {string} question to begin with */
  const suggest = (question) => {
    field.value = question;
    field.focus();
  };
  const transcript = h("div", { class: "transcript" }, empty(suggest));
  const scroller = h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Conversation" }, transcript);
  const field = /** @type {HTMLTextAreaElement} */ (h("textarea", { rows: 2, dir: "auto", placeholder: "Ask something", "aria-label": "Your question" }));
  const button = /** @type {HTMLButtonElement} */ (h("button", { class: "main" }, "Send"));
  const form = h("form", { class: "composer" }, field, button);
  const unkept = h("div", { class: "unkept", role: "status" });
  /** @type {Map<object, string>} why chats are not kept, also those that were left */
  const troubles = new Map();
  let kept = keeper();

  const wishes = () => ({
    model: model.value,
    settings: Object.fromEntries(Object.entries(settings).map(([name, list]) => [name, list.value])),
    tools: picker.tools(),
    serverTools: picker.serverTools(),
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
    const chat = kept; // another one may be opened while the answer comes
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
    chat.keep(model.value);
    if (exchange.answer.refused === 401) known();
    say(exchange.answer.status === "complete" ? "The answer is complete." : `The answer is ${exchange.answer.status}.`);
  }

  /**
   * What keeps the conversation as it is now, and says so where it cannot.
   * @param {string} [session] where it stands already
   */
  function keeper(session) {
    const chat = {};
    return new Kept(about.keeping, conversation.exchanges, (why) => {
      if (why) troubles.set(chat, why);
      else troubles.delete(chat);
      const [said = ""] = troubles.values();
      put(unkept, said && h("p", { class: "notice warn small" }, `The server could not keep this yet: ${said}`));
    }, session);
  }

  /**
   * @param {number} index
   * @param {string} question
   * @returns {string} why it cannot be
   */
  function resend(index, question) {
    if (conversation.busy) return "An answer is still coming: cancel it first, with Escape.";
    if (!model.value.trim()) return "Say which model is to answer.";
    if (picker.trouble()) return `Your own tools: ${picker.trouble()}`;
    conversation.cut(index);
    while (transcript.children.length > index) transcript.lastElementChild?.remove();
    send(question);
    field.focus();
    return "";
  }

  /**
   * @param {string} id of a session that is gone on with
   * @param {import("./conversation.js").Exchange[]} exchanges
   */
  function open(id, exchanges) {
    conversation.cancel();
    conversation.exchanges = exchanges;
    kept = keeper(id);
    put(transcript, exchanges.map((exchange, index) => new ExchangeView(exchange, (other) => resend(index, other)).element));
    field.focus();
  }

  function clear() {
    conversation.cancel();
    conversation.exchanges = []; // those of before may still have to be kept
    kept = keeper();
    put(transcript, empty(suggest));
    field.focus();
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (conversation.busy) return conversation.cancel();
    const question = field.value.trim();
    model.value = model.value.trim();
    if (!question || !model.reportValidity()) return;
    if (picker.trouble()) return picker.complain(); // without these tools it would be another question
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
      makeHow(settings),
      picker.element,
      makeSessions(open),
      h("button", { type: "button", class: "quiet", click: clear }, "New chat"),
    ),
    scroller,
    unkept,
    form,
  );
  addEventListener("pagehide", () => kept.keepLast(model.value));
  // Wherever the focus is: who wants it to stop does not look for the right place first.
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !event.isComposing && element.isConnected) conversation.cancel();
  });
  return { element, show: () => field.focus(), end: () => kept.keepLast(model.value) };
}

/**
 * Mode, plan and dialect for this chat alone: beside each other where there is room, else behind one button.
 * @param {Record<string, HTMLSelectElement>} settings
 */
function makeHow(settings) {
  const title = h("span", {}, "Settings");
  const fields = Object.entries(settings).map(([name, list]) => labelled(`${name[0].toUpperCase()}${name.slice(1)}`, list));
  const row = h("div", { class: "how-fields" }, fields);
  const menu = makeMenu(title, h("div", { class: "picker card stack" }), { class: "how" });
  const place = h("div", { class: "how-place" }, row);
  const narrow = matchMedia("(max-width: 40rem)");
  const arrange = () => {
    const inside = /** @type {HTMLElement} */ (menu.querySelector(".picker"));
    put(narrow.matches ? inside : place, row);
    if (narrow.matches) place.replaceChildren(menu);
  };
  row.addEventListener("change", () => {
    const said = Object.values(settings).map((list) => list.value).filter(Boolean);
    put(title, said.length ? said.join(", ") : "Settings");
  });
  narrow.addEventListener("change", arrange);
  arrange();
  return place;
}

/** Questions to begin with: each needs tools of the page. */
const QUESTIONS = ["What time is it in Oslo, and what is 17 times 23?", "Throw three dice and add them up.", "How many hours are there in a leap year?"];

/**
 * What stands there before anything was asked.
 * @param {(question: string) => void} suggest
 */
function empty(suggest) {
  return h(
    "div",
    { class: "welcome" },
    h("p", { class: "strong" }, "Ask a model, with tools."),
    h("p", { class: "soft" }, "Calls and results show up as they happen. Afterwards each round is one line that opens."),
    h("div", { class: "suggestions" }, QUESTIONS.map((question) => h("button", { type: "button", click: () => suggest(question) }, question))),
  );
}
