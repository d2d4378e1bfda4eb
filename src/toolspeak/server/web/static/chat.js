// @ts-check
/** The chat: model and settings, the conversation, and the input field. */

import { ApiError, fetchJson, MODELS_CHANGED, SIGNED_IN } from "./api.js";
import { Conversation } from "./conversation.js";
import { chatAsJson, chatAsMarkdown, download, fileName } from "./chat_export.js";
import { makeChatList } from "./chat_list.js";
import { announce, errorText, h, labelled, setChildren } from "./dom.js";
import { ExchangeView } from "./exchange_view.js";
import { ChatSaver } from "./chat_saver.js";
import { makeMenu } from "./menu.js";
import { isConnected, makeCallSettings, makeModelField } from "./model_fields.js";
import { SUGGESTIONS } from "./suggestions.js";
import { makeToolPicker } from "./tool_picker.js";

/** Maximum distance from the end, in pixels, at which the view follows new text. */
const FOLLOW_DISTANCE = 120;
/** Where the id of the last chat is stored in this browser. */
const LAST_CHAT = "toolspeak-chat";
const NEW = "new";
const GONE = "This chat was deleted, or it belongs to another user.";
const NOT_SAVED = `${GONE} It is no longer saved. To keep it, fork it.`;
const isGone = (/** @type {unknown} */ error) => error instanceof ApiError && error.status === 404;

/**
 * @param {import("./app.js").About} about
 * @returns {import("./app.js").Part}
 */
export function makeChat(about) {
  const conversation = new Conversation();
  const picker = makeToolPicker();
  const model = makeModelField(about);
  const calls = makeCallSettings(about, model.value);
  /** @param {string} question to ask at once */
  const suggest = (question) => {
    field.value = question;
    /** @type {HTMLFormElement} */ (form).requestSubmit();
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
  const title = h("span", { class: "chat-name", dir: "auto" });
  const list = makeChatList(() => saver.session, about.keeping);
  const header = makeHeader();

  const requestOptions = () => ({
    model: model.value(),
    settings: calls.values(),
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
    const view = new ExchangeView(exchange, actions(index), keepingEnd);
    transcript.append(view.element);
    scrollToEnd();
    setChildren(button, "Stop");
    showAddress();
    showTitle();
    chat.save(model.value());
    await conversation.answer(exchange, requestOptions(), {
      piece: (piece) => view.piece(piece),
      result: (call) => view.result(call),
      round: (round) => view.round(round),
      asking: (id, tokens) => view.asking(id, tokens),
      askUser: (call, args, signal) => view.askUser(call, args, signal),
    });
    keepingEnd(() => view.end());
    setChildren(button, "Send");
    chat.save(model.value());
    if (exchange.answer.errorStatus === 401) isSignedIn();
    announce(exchange.answer.status === "complete" ? "Answer complete." : `Answer ${exchange.answer.status}.`);
  }

  /**
   * Saves the current conversation and shows a notice if that fails.
   * @param {string} [session] in which it is already stored, or shall be
   * @param {boolean} [exists] whether that session is known to exist
   */
  function makeSaver(session = "", exists = Boolean(session)) {
    const showResult = (/** @type {string} */ why) => {
      if (why && (!chat.gone || chat === saver)) saveErrors.set(chat, chat.gone ? NOT_SAVED : `This chat is not saved yet: ${why}`);
      else saveErrors.delete(chat);
      showSaveErrors();
    };
    const chat = new ChatSaver(about.keeping, conversation.exchanges, showResult, session, exists, async () => {
      if (chat === saver) showAddress();
      await list.refresh();
      if (chat === saver) showTitle();
    });
    return chat;
  }

  function showSaveErrors() {
    const [first = ""] = saveErrors.values();
    setChildren(saveNotice, first && h("p", { class: "notice warn small" }, first));
  }

  /** Shows the address of the open chat, if the chat is what is shown, and remembers it for the next visit. */
  function showAddress() {
    // A chat that is not stored has no address of its own; that of a new one would discard it.
    const address = saver.session ? `#/chats/${saver.session}` : conversation.exchanges.length ? "#/chats" : `#/chats/${NEW}`;
    if (element.isConnected && location.hash !== address) history.replaceState(null, "", address);
    remember(saver.session);
    header.show();
    list.mark();
  }

  function showTitle() {
    const name = list.title(saver.session) || conversation.exchanges[0]?.question.replace(/^(.{79}).{2,}$/s, "$1…") || "New chat";
    setChildren(title, name);
    if (element.isConnected) document.title = `${name} · toolspeak`;
  }

  /** The title of the open chat, and what can be done with it. */
  function makeHeader() {
    const status = h("p", { class: "small soft", role: "status" });
    const content = () => conversation.exchanges;
    const name = () => title.textContent ?? "";
    const path = () => `toolspeak/sessions/${saver.session}`;
    const close = () => (menu.open = false);
    /** @param {() => Promise<void>} work */
    const attempt = async (work) => {
      try {
        await work();
        setChildren(status);
        close();
      } catch (error) {
        setChildren(status, isGone(error) ? GONE : errorText(error));
      }
    };
    const item = (/** @type {string} */ label, /** @type {() => void} */ act) => h("button", { type: "button", class: "quiet", click: act }, label);
    const remove = async () => {
      await fetchJson(path(), { method: "DELETE" });
      location.hash = `#/chats/${NEW}`;
      await list.refresh();
    };
    const confirm = h("button", { type: "button", class: "danger", hidden: true, click: () => attempt(remove) }, "Delete for good");
    const rename = async (/** @type {string} */ text) => {
      await fetchJson(path(), { method: "POST", body: { title: text } });
      await list.refresh();
      showTitle();
    };
    const field = /** @type {HTMLInputElement} */ (h("input", { autocomplete: "off", maxlength: 80 }));
    const form = h("form", { class: "row", submit: (/** @type {Event} */ event) => (event.preventDefault(), attempt(() => rename(field.value))) }, labelled("Title", field), h("button", {}, "Rename"));
    const stored = h("div", { class: "stack-tight" }, form, item("Delete…", () => (confirm.hidden = false)), confirm);
    const inside = h(
      "div",
      { class: "picker card stack-tight chat-menu" },
      item("Fork", () => attempt(() => fork(content().length))),
      item("Export as Markdown", () => (download(`${fileName(name())}.md`, "text/markdown", chatAsMarkdown(name(), content())), close())),
      item("Export as JSON", () => (download(`${fileName(name())}.json`, "application/json", chatAsJson(name(), content())), close())),
      stored,
      status,
    );
    const opened = () => {
      field.value = name();
      confirm.hidden = true;
      setChildren(status);
    };
    const menu = makeMenu("Manage", inside, { class: "chat-more", opened });
    const drawer = h("button", { type: "button", class: "drawer-button", "aria-expanded": "false", click: () => showDrawer(!element.classList.contains("drawer-open")) }, "All chats");
    return {
      element: h("div", { class: "chat-header row" }, drawer, title, menu),
      drawer,
      show() {
        menu.hidden = !content().length;
        stored.hidden = !saver.session;
      },
    };
  }

  /** @param {boolean} open whether the list of chats is shown on a narrow screen */
  function showDrawer(open) {
    element.classList.toggle("drawer-open", open);
    header.drawer.setAttribute("aria-expanded", String(open));
    if (open) /** @type {HTMLElement} */ (list.element.querySelector("a")).focus();
  }

  /**
   * Continues in a copy of this chat.
   * @param {number} count of exchanges to copy
   */
  async function fork(count) {
    const copied = conversation.exchanges.slice(0, count).filter((each) => each.answer.status !== "running").map((each) => structuredClone(each));
    load("", copied);
    showTitle();
    saver.save(model.value());
    announce("Forked: this is a copy.");
  }

  /**
   * @param {number} index of an exchange
   * @returns {import("./exchange_view.js").Actions}
   */
  const actions = (index) => ({
    models: () => about.models,
    resend: (question) => resend(index, question),
    retry(name) {
      const before = model.value();
      if (name) model.set(name);
      const why = resend(index, conversation.exchanges[index].question);
      if (why) model.set(before);
      return why;
    },
    busy: () => conversation.busy,
    fork: () => fork(index + 1),
  });

  /**
   * @param {number} index
   * @param {string} question
   * @returns {string} why it cannot be resent; empty if it was
   */
  function resend(index, question) {
    if (conversation.busy) return "Wait for the current answer, or press Escape to stop it.";
    if (!model.value()) return "Choose a model first.";
    if (picker.error()) return `Your own tools: ${picker.error()}`;
    conversation.truncate(index);
    while (transcript.children.length > index) transcript.lastElementChild?.remove();
    send(question);
    field.focus();
    return "";
  }

  /**
   * @param {string} id of the session in which the chat is stored; empty if it is not
   * @param {import("./conversation.js").Exchange[]} exchanges a new list, because the old one may still have to be saved
   * @param {boolean} [ownModel] whether to choose the model of the chat
   * @param {boolean} [exists] whether that session is known to exist
   */
  function load(id, exchanges, ownModel = true, exists = Boolean(id)) {
    conversation.cancel();
    conversation.exchanges = exchanges;
    if (saver.gone) saveErrors.delete(saver); // there is nothing left to save
    showSaveErrors();
    saver = makeSaver(id, exists);
    const name = exchanges.at(-1)?.answer.model;
    if (name && ownModel) model.set(name);
    draw();
    showAddress();
    showTitle();
    field.focus();
  }

  const draw = () => setChildren(transcript, conversation.exchanges.length ? conversation.exchanges.map((exchange, index) => new ExchangeView(exchange, actions(index)).element) : empty(suggest));

  /** The id of the chat that is being opened; late responses for others are ignored. */
  let opening = "";

  /**
   * @param {string} id
   * @param {boolean} ownModel whether to choose the model of the chat
   */
  async function open(id, ownModel) {
    opening = id;
    setChildren(transcript, h("p", { class: "soft", role: "status" }, "Loading…"));
    const unsaved = unsavedChat(id);
    // Its first save may not have reached the server before the page was left.
    const mayBeMissing = (/** @type {unknown} */ error) => isGone(error) && unsaved !== null && !unsaved.exists;
    try {
      let exists = true;
      const { exchanges } = await fetchJson(`toolspeak/sessions/${encodeURIComponent(id)}`).catch((error) => {
        if (!mayBeMissing(error)) throw error;
        exists = false;
        return { exchanges: [] };
      });
      if (opening !== id) return;
      forgetUnsaved();
      load(id, unsaved ? [...exchanges.slice(0, unsaved.keep), ...unsaved.exchanges] : exchanges, ownModel, exists);
      if (unsaved) {
        saver.forget(unsaved.keep);
        saver.save(model.value());
      }
      scrollToEnd();
    } catch (error) {
      if (opening !== id) return;
      load("", []);
      remember("");
      if (isGone(error)) forgetUnsaved();
      transcript.prepend(h("p", { class: "notice warn", role: "status" }, !about.keeping ? "This server does not store chats, so there is none at this address." : isGone(error) ? GONE : errorText(error)));
    }
    opening = "";
  }

  /** Lets the server's own model read the tools before the first question. If that fails, the question says why. */
  const prepare = () => {
    const tools = picker.tools().map((tool) => tool.definition);
    const body = { model: model.value(), messages: [{ role: "user", content: "?" }], tools };
    if (tools.length && model.value()) fetchJson("toolspeak/prepare", { method: "POST", body }).catch(() => {});
  };

  /** @param {string} rest of the address: the id of a chat, `new`, or nothing for the last chat */
  function show(rest) {
    showDrawer(false);
    prepare();
    const id = rest || saver.session || (conversation.exchanges.length ? "" : unsavedChat()?.session || lastChat());
    if (id === NEW) {
      opening = "";
      if (saver.session || conversation.exchanges.length) load("", []);
    } else if (id && id !== saver.session) {
      open(id, Boolean(rest) || !isConnected()); // the last chat continues with a model that was just connected
    }
    if (!opening) showAddress();
    showTitle();
    list.refresh().then(showTitle);
    field.focus();
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (conversation.busy) return conversation.cancel();
    const question = field.value.trim();
    if (!question || !model.isValid()) return;
    if (picker.error()) return picker.showError(); // do not send the question without the tools that the user entered
    field.value = "";
    send(question);
  });
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    if (conversation.busy) return announce("Wait for the current answer, or press Escape to stop it.");
    /** @type {HTMLFormElement} */ (form).requestSubmit();
  });

  const element = h(
    "div",
    { class: "chat" },
    list.element,
    h("button", { type: "button", class: "drawer-shade", "aria-label": "Close the list of chats", click: () => showDrawer(false) }),
    h(
      "div",
      { class: "chat-main" },
      h("h1", { class: "visually-hidden" }, "Chat"),
      header.element,
      h("div", { class: "fields settings" }, model.element, calls.element, picker.element),
      scroller,
      saveNotice,
      form,
    ),
  );
  addEventListener(MODELS_CHANGED, () => {
    if (!conversation.busy && !opening) draw(); // each answer can be retried with any model
  });
  addEventListener(SIGNED_IN, () => saver.save(model.value())); // what could not be saved without a session
  addEventListener("pagehide", () => {
    if (ended) return;
    storeUnsaved(saver.unsaved);
    saver.saveOnClose(model.value());
  });
  // On the document, so Escape stops an answer wherever the focus is.
  document.addEventListener("keydown", (event) => {
    if (!element.isConnected || event.isComposing) return;
    if (event.key === "Escape" && element.classList.contains("drawer-open")) showDrawer(false);
    else if (event.key === "Escape") conversation.cancel();
    else if (event.ctrlKey && event.shiftKey && event.key.toLowerCase() === "o") {
      event.preventDefault();
      location.hash = `#/chats/${NEW}`;
    }
  });
  /** Whether the user has signed out. The next one must not find anything of this chat. */
  let ended = false;
  const end = () => {
    ended = true;
    remember("");
    saver.saveOnClose(model.value());
  };
  return { element, show, end };
}

/** @typedef {{session: string, exists: boolean, keep: number, exchanges: import("./conversation.js").Exchange[]}} Unsaved `exists`: whether the session is known to exist */

/**
 * Stores what may be saved too late for a page that is loaded again. It is for this tab only.
 * @param {Unsaved} unsaved
 */
function storeUnsaved(unsaved) {
  try {
    if (unsaved.exchanges.length) sessionStorage.setItem(LAST_CHAT, JSON.stringify(unsaved));
  } catch {
    // Storage is disabled, or the answer is too large: what was saved is shown.
  }
}

/**
 * @param {string} [id] of a session; any if empty
 * @returns {Unsaved | null} what was not in it when this page was left
 */
function unsavedChat(id = "") {
  try {
    const unsaved = /** @type {Unsaved | null} */ (JSON.parse(sessionStorage.getItem(LAST_CHAT) ?? "null"));
    return !id || unsaved?.session === id ? unsaved : null;
  } catch {
    return null;
  }
}

function forgetUnsaved() {
  try {
    sessionStorage.removeItem(LAST_CHAT);
  } catch {
    // Storage is disabled, so nothing is stored.
  }
}

/** The id of the last chat in this browser. */
function lastChat() {
  try {
    return localStorage.getItem(LAST_CHAT) ?? "";
  } catch {
    return "";
  }
}

/** @param {string} id of a chat */
function remember(id) {
  try {
    if (id) localStorage.setItem(LAST_CHAT, id);
    else localStorage.removeItem(LAST_CHAT);
  } catch {
    // If storage is disabled, the address alone tells the chat.
  }
}

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
    h("div", { class: "suggestions" }, SUGGESTIONS.map((question) => h("button", { type: "button", click: () => suggest(question) }, question))),
  );
}
