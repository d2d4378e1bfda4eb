// @ts-check
/** The chat: model and settings, the conversation, and the input field. */

import { fetchJson, ApiError } from "./api.js";
import { Conversation } from "./conversation.js";
import { h, labelled, setChildren, announce, select } from "./dom.js";
import { ExchangeView } from "./exchange_view.js";
import { ChatSaver } from "./chat_saver.js";
import { makeMenu } from "./menu.js";
import { makeSessions } from "./sessions.js";
import { makeToolPicker } from "./tool_picker.js";

/** Maximum distance from the end, in pixels, at which the view follows new text. */
const FOLLOW_DISTANCE = 120;

/**
 * @param {import("./app.js").About} about
 * @returns {import("./app.js").Part}
 */
export function makeChat(about) {
  const conversation = new Conversation();
  const picker = makeToolPicker();
  const model = /** @type {HTMLInputElement} */ (h("input", { list: "model-names", value: about.models[0] ?? "", required: true, autocomplete: "off" }));
  const settings = { mode: select(about.modes, "Default"), plan: select(about.plans, "Default"), dialect: select(about.dialects, "Default") };
  /** @param {string} question to put into the input field */
  const suggest = (question) => {
    field.value = question;
    field.focus();
  };
  const transcript = h("div", { class: "transcript" }, empty(suggest));
  const scroller = h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Conversation" }, transcript);
  const field = /** @type {HTMLTextAreaElement} */ (h("textarea", { rows: 2, dir: "auto", placeholder: "Ask something", "aria-label": "Your question" }));
  const button = /** @type {HTMLButtonElement} */ (h("button", { class: "main" }, "Send"));
  const form = h("form", { class: "composer" }, field, button);
  const saveNotice = h("div", { class: "save-notice", role: "status" });
  /** @type {Map<object, string>} why chats are not saved, including chats that are no longer open */
  const saveErrors = new Map();
  let saver = makeSaver();

  const requestOptions = () => ({
    model: model.value,
    settings: Object.fromEntries(Object.entries(settings).map(([name, list]) => [name, list.value])),
    tools: picker.tools(),
    serverTools: picker.serverTools(),
  });

  const scrollToEnd = () => scroller.scrollTo({ top: scroller.scrollHeight });

  /** @param {() => void} draw makes the conversation longer; a view at its end stays at the end */
  function keepingEnd(draw) {
    const near = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < FOLLOW_DISTANCE;
    draw();
    if (near) scrollToEnd();
  }

  /** Whether the session is still valid. Without one, the server ignores the settings of a request. */
  async function isSignedIn() {
    try {
      await fetchJson("toolspeak/about");
      return true;
    } catch (error) {
      return !(error instanceof ApiError && error.status === 401);
    }
  }

  /** @param {string} question */
  async function send(question) {
    if (conversation.busy) return;
    if (Object.values(requestOptions().settings).some(Boolean) && !(await isSignedIn())) {
      field.value ||= question;
      return;
    }
    if (conversation.busy) return;
    const index = conversation.exchanges.length;
    const chat = saver; // another chat may be opened while the answer streams
    if (!index) setChildren(transcript);
    const exchange = conversation.add(question);
    const view = new ExchangeView(exchange, (other) => resend(index, other), keepingEnd);
    transcript.append(view.element);
    scrollToEnd();
    setChildren(button, "Cancel");
    await conversation.answer(exchange, requestOptions(), {
      piece: (piece) => view.piece(piece),
      result: (call) => view.result(call),
      round: (round) => view.round(round),
      askUser: (call, args, signal) => view.askUser(call, args, signal),
    });
    keepingEnd(() => view.end());
    setChildren(button, "Send");
    chat.save(model.value);
    if (exchange.answer.errorStatus === 401) isSignedIn();
    announce(exchange.answer.status === "complete" ? "Answer complete." : `Answer ${exchange.answer.status}.`);
  }

  /**
   * Saves the current conversation and shows a notice if that fails.
   * @param {string} [session] in which it is already stored
   */
  function makeSaver(session) {
    const chat = {};
    return new ChatSaver(about.keeping, conversation.exchanges, (why) => {
      if (why) saveErrors.set(chat, why);
      else saveErrors.delete(chat);
      const [reason = ""] = saveErrors.values();
      setChildren(saveNotice, reason && h("p", { class: "notice warn small" }, `This chat is not saved yet: ${reason}`));
    }, session);
  }

  /**
   * @param {number} index
   * @param {string} question
   * @returns {string} why it cannot be resent; empty if it was
   */
  function resend(index, question) {
    if (conversation.busy) return "Wait for the current answer, or press Escape to stop it.";
    if (!model.value.trim()) return "Choose a model first.";
    if (picker.error()) return `Your own tools: ${picker.error()}`;
    conversation.truncate(index);
    while (transcript.children.length > index) transcript.lastElementChild?.remove();
    send(question);
    field.focus();
    return "";
  }

  /**
   * @param {string} id of the session to continue
   * @param {import("./conversation.js").Exchange[]} exchanges
   */
  function open(id, exchanges) {
    conversation.cancel();
    conversation.exchanges = exchanges;
    saver = makeSaver(id);
    setChildren(transcript, exchanges.map((exchange, index) => new ExchangeView(exchange, (other) => resend(index, other)).element));
    field.focus();
  }

  function clear() {
    conversation.cancel();
    conversation.exchanges = []; // a new list, because the old one may still have to be saved
    saver = makeSaver();
    setChildren(transcript, empty(suggest));
    field.focus();
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (conversation.busy) return conversation.cancel();
    const question = field.value.trim();
    model.value = model.value.trim();
    if (!question || !model.reportValidity()) return;
    if (picker.error()) return picker.showError(); // do not send the question without the tools that the user entered
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
    h("h1", { class: "visually-hidden" }, "Chat"),
    h(
      "div",
      { class: "fields settings" },
      labelled("Model", model),
      h("datalist", { id: "model-names" }, about.models.map((name) => h("option", { value: name }))),
      makeSettings(settings),
      picker.element,
      makeSessions(open),
      h("button", { type: "button", class: "quiet", click: clear }, "New chat"),
    ),
    scroller,
    saveNotice,
    form,
  );
  addEventListener("pagehide", () => saver.saveOnClose(model.value));
  // On the document, so Escape stops an answer wherever the focus is.
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !event.isComposing && element.isConnected) conversation.cancel();
  });
  return { element, show: () => field.focus(), end: () => saver.saveOnClose(model.value) };
}

/**
 * Mode, plan and dialect of this chat, shown side by side if there is room, else in a menu.
 * @param {Record<string, HTMLSelectElement>} settings
 */
function makeSettings(settings) {
  const title = h("span", {}, "Settings");
  const fields = Object.entries(settings).map(([name, list]) => labelled(`${name[0].toUpperCase()}${name.slice(1)}`, list));
  const row = h("div", { class: "settings-fields" }, fields);
  const menu = makeMenu(title, h("div", { class: "picker card stack" }), { class: "settings-menu" });
  const place = h("div", { class: "settings-place" }, row);
  const narrow = matchMedia("(max-width: 40rem)");
  const arrange = () => {
    const inside = /** @type {HTMLElement} */ (menu.querySelector(".picker"));
    setChildren(narrow.matches ? inside : place, row);
    if (narrow.matches) place.replaceChildren(menu);
  };
  row.addEventListener("change", () => {
    const chosen = Object.values(settings).map((list) => list.value).filter(Boolean);
    setChildren(title, chosen.length ? chosen.join(", ") : "Settings");
  });
  narrow.addEventListener("change", arrange);
  arrange();
  return place;
}

/** Example questions that need the demo tools. */
const QUESTIONS = ["What time is it in Oslo, and what is 17 times 23?", "Roll three dice and add them up.", "How many hours are there in a leap year?"];

/**
 * The content of an empty chat.
 * @param {(question: string) => void} suggest
 */
function empty(suggest) {
  return h(
    "div",
    { class: "welcome" },
    h("p", { class: "strong" }, "Try tool calling."),
    h("p", { class: "soft" }, "You see every call and result as it happens; click a step to expand it."),
    h("div", { class: "suggestions" }, QUESTIONS.map((question) => h("button", { type: "button", click: () => suggest(question) }, question))),
  );
}
