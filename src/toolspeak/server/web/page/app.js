// @ts-check
/** The page as a whole: who is there, which part is shown. Each part is a module that is loaded when it is first opened. */

import { ask, Refused, UNKNOWN } from "./api.js";
import { h, put } from "./dom.js";
import { signIn } from "./sign_in.js";
import { startTheme } from "./theme.js";

/**
 * @typedef {object} About what the server can offer
 * @property {string} version
 * @property {boolean} recording
 * @property {boolean} keeping whether chats are kept in a store
 * @property {string[]} models
 * @property {string[]} modes
 * @property {string[]} plans
 * @property {string[]} policies
 * @property {string[]} dialects
 */

/** @typedef {{element: HTMLElement, show?: (rest: string) => void, hide?: () => void, end?: () => void}} Part `end`: all is left for good */

/** @type {Record<string, (about: About) => Promise<Part>>} */
const MAKERS = {
  chat: async (about) => (await import("./chat.js")).makeChat(about),
  inspector: async (about) => (await import("./inspector.js")).makeInspector(about),
  models: async (about) => (await import("./models.js")).makeModels(about),
  metrics: async (about) => (await import("./metrics.js")).makeMetrics(about),
};
const FIRST = "chat";

const signOut = /** @type {HTMLElement} */ (document.getElementById("sign-out"));
const main = /** @type {HTMLElement} */ (document.getElementById("main"));
/** @type {Map<string, Part>} */
const parts = new Map();
/** @type {About | undefined} */
let about;
/** @type {Part | undefined} */
let current;

/** Counts what was to be shown: only the last is. */
let shows = 0;

/** Shows the part that the address names. */
async function show() {
  const mine = (shows += 1);
  const [, name = "", rest = ""] = /^#\/([a-z]+)\/?(.*)$/.exec(location.hash) ?? [];
  const chosen = Object.hasOwn(MAKERS, name) ? name : FIRST;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.getAttribute("href") === `#/${chosen}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  try {
    about ??= /** @type {About} */ (await ask("toolspeak/about"));
    signOut.hidden = false;
    const part = parts.get(chosen) ?? (await MAKERS[chosen](about));
    if (mine !== shows) return;
    parts.set(chosen, part);
    if (current !== part) {
      current?.hide?.();
      current = part;
      put(main, part.element);
      document.title = `${chosen[0].toUpperCase()}${chosen.slice(1)} · toolspeak`;
    }
    part.show?.(decoded(rest));
  } catch (error) {
    if (mine !== shows) return;
    current?.hide?.();
    current = undefined;
    if (error instanceof Refused && error.status === 401) put(main, signIn(show));
    else put(main, unreached());
  }
}

/** What stands there when a part cannot be loaded. What was said in the chat is still there. */
function unreached() {
  return h(
    "div",
    { class: "welcome stack" },
    h("h1", {}, "The server cannot be reached"),
    h("p", { class: "soft", role: "alert" }, "It may have been stopped, or the network is away. Nothing that stands in the chat is lost while this page stays open."),
    h("div", {}, h("button", { type: "button", class: "main", click: show }, "Try again")),
  );
}

/** @param {string} text of an address that anybody may have typed */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** The server no longer knows who is there. What was said in the chat stays; the rest may be another server's. */
function leave() {
  if (!about) return;
  about = undefined;
  signOut.hidden = true;
  current?.hide?.();
  current = undefined;
  for (const name of parts.keys()) if (name !== FIRST) parts.delete(name);
  shows += 1;
  put(main, signIn(show, "Your session has ended: it grew too old, or the server was started again."));
}

signOut.addEventListener("click", async () => {
  for (const part of parts.values()) part.end?.();
  await ask("toolspeak/session", { method: "DELETE" }).catch(() => {});
  location.replace(location.pathname); // nothing that somebody has seen stays for the next one
});
startTheme(/** @type {HTMLElement} */ (document.getElementById("theme")));
addEventListener("hashchange", show);
addEventListener(UNKNOWN, leave);
show();
