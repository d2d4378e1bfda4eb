// @ts-check
/** The list of stored chats beside the conversation: search, open, and start a new one. */

import { fetchJson } from "./api.js";
import { errorText, h, setChildren, withCode } from "./dom.js";
import { day, plural } from "./format.js";

/** Milliseconds after the last keystroke before the search starts. */
const TYPING_PAUSE = 250;

/** @typedef {{id: string, title: string, updated: number, entries: number, about: {model?: string, from?: string}}} ChatInfo */

/**
 * @param {() => string} current id of the open chat
 * @param {boolean} keeping whether the server stores chats
 * @returns {{element: HTMLElement, refresh: () => Promise<void>, mark: () => void, title: (id: string) => string}}
 */
export function makeChatList(current, keeping) {
  const list = h("ul", { class: "chat-list" });
  const status = h("p", { class: "small soft", role: "status" });
  const field = /** @type {HTMLInputElement} */ (h("input", { type: "search", autocomplete: "off", placeholder: "Search chats", "aria-label": "Search chats" }));
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  /** @type {Map<string, string>} */
  const titles = new Map();
  let asked = 0;

  async function refresh() {
    const number = (asked += 1);
    const text = field.value.trim();
    try {
      /** @type {{sessions: ChatInfo[], why: string}} */
      const { sessions, why } = await fetchJson(`toolspeak/sessions?text=${encodeURIComponent(text)}`);
      if (number !== asked) return;
      for (const { id, title } of sessions) titles.set(id, title);
      setChildren(list, sessions.map(drawInfo));
      const nothing = text ? "No chat contains this." : "Your chats will be listed here.";
      setChildren(status, keeping ? withCode(why) : withCode("This server does not store chats. To keep them, set a `store` in its configuration."), keeping && !why && (sessions.length ? text && plural(sessions.length, "chat") : nothing));
      mark();
    } catch (error) {
      if (number === asked) setChildren(status, errorText(error));
    }
  }

  /** @param {ChatInfo} info */
  function drawInfo({ id, title, updated, about }) {
    const facts = [day(updated), about.model, about.from !== "page" && "agent"].filter(Boolean).join(" · ");
    return h("li", {}, h("a", { class: "chat-link", href: `#/chats/${id}`, "data-chat": id }, h("span", { class: "chat-title", dir: "auto" }, title || "Untitled"), h("span", { class: "soft small" }, facts)));
  }

  /** Marks the open chat. */
  function mark() {
    for (const link of list.querySelectorAll("a")) {
      if (link.dataset.chat === current()) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  }

  field.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(refresh, TYPING_PAUSE);
  });
  const element = h(
    "aside",
    { class: "chats", "aria-label": "Chats" },
    h("div", { class: "chats-head" }, h("a", { class: "button new-chat", href: "#/chats/new", title: "New chat (Ctrl+Shift+O)" }, "New chat"), field, status),
    list,
  );
  return { element, refresh, mark, title: (id) => titles.get(id) ?? "" };
}
