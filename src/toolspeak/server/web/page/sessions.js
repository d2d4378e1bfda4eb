// @ts-check
/** The sessions of the store: a list with a search, from which one is opened and gone on with. */

import { ask } from "./api.js";
import { h, labelled, put } from "./dom.js";
import { counted, day } from "./format.js";
import { makeMenu } from "./menu.js";

/** Milliseconds of rest in typing after which it is searched. */
const REST = 250;

/** @typedef {{id: string, title: string, updated: number, entries: number, about: {model?: string}}} Info */

/**
 * @param {(id: string, exchanges: import("./conversation.js").Exchange[]) => void} opened is told what a session holds
 * @returns {HTMLElement}
 */
export function makeSessions(opened) {
  const list = h("ul", { class: "sessions-list" });
  const said = h("p", { class: "small soft", role: "status" });
  const search = /** @type {HTMLInputElement} */ (h("input", { type: "search", autocomplete: "off" }));
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;

  async function look() {
    try {
      const { sessions, why } = await ask(`toolspeak/sessions?text=${encodeURIComponent(search.value.trim())}`);
      put(list, sessions.map(drawInfo));
      put(said, why || (sessions.length ? counted(sessions.length, "session") : "No session."));
    } catch (error) {
      put(said, /** @type {Error} */ (error).message);
    }
  }

  /** @param {Info} info */
  function drawInfo(info) {
    const open = async () => {
      try {
        opened(info.id, (await ask(`toolspeak/sessions/${encodeURIComponent(info.id)}`)).exchanges);
        details.open = false;
      } catch (error) {
        put(said, /** @type {Error} */ (error).message);
      }
    };
    return h("li", {}, h("button", { type: "button", class: "session", click: open }, h("span", { class: "strong" }, info.title || "without a title"), h("span", { class: "soft small" }, [day(info.updated), counted(info.entries, "entry", "entries"), info.about.model].filter(Boolean).join(" · "))));
  }

  search.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(look, REST);
  });
  const inside = h("div", { class: "picker card stack" }, labelled("Search", search), said, list);
  const details = makeMenu("Sessions", inside, { class: "sessions", opened: look });
  return details;
}
