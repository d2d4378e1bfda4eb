// @ts-check
/** A searchable list of stored sessions, which can be opened and continued. */

import { fetchJson } from "./api.js";
import { h, labelled, setChildren } from "./dom.js";
import { plural, day } from "./format.js";
import { makeMenu } from "./menu.js";

/** Milliseconds after the last keystroke before the search starts. */
const TYPING_PAUSE = 250;

/** @typedef {{id: string, title: string, updated: number, entries: number, about: {model?: string}}} Info */

/**
 * @param {(id: string, exchanges: import("./conversation.js").Exchange[]) => void} opened is called with the content of a session
 * @returns {HTMLElement}
 */
export function makeSessions(opened) {
  const list = h("ul", { class: "sessions-list" });
  const status = h("p", { class: "small soft", role: "status" });
  const searchField = /** @type {HTMLInputElement} */ (h("input", { type: "search", autocomplete: "off" }));
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;

  async function refresh() {
    try {
      const { sessions, why } = await fetchJson(`toolspeak/sessions?text=${encodeURIComponent(searchField.value.trim())}`);
      setChildren(list, sessions.map(drawInfo));
      setChildren(status, why || (sessions.length ? plural(sessions.length, "session") : "No sessions."));
    } catch (error) {
      setChildren(status, /** @type {Error} */ (error).message);
    }
  }

  /** @param {Info} info */
  function drawInfo(info) {
    const open = async () => {
      try {
        opened(info.id, (await fetchJson(`toolspeak/sessions/${encodeURIComponent(info.id)}`)).exchanges);
        details.open = false;
      } catch (error) {
        setChildren(status, /** @type {Error} */ (error).message);
      }
    };
    return h("li", {}, h("button", { type: "button", class: "session", click: open }, h("span", { class: "strong" }, info.title || "Untitled"), h("span", { class: "soft small" }, [day(info.updated), plural(info.entries, "entry", "entries"), info.about.model].filter(Boolean).join(" · "))));
  }

  searchField.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(refresh, TYPING_PAUSE);
  });
  const inside = h("div", { class: "picker card stack" }, labelled("Search", searchField), status, list);
  const details = makeMenu("Sessions", inside, { class: "sessions", opened: refresh });
  return details;
}
