// @ts-check
/** The frame of the page: sign-in state and navigation. Each part is a module that is loaded when it is first opened. */

import { fetchJson, ApiError, SESSION_EXPIRED } from "./api.js";
import { h, setChildren } from "./dom.js";
import { signIn } from "./sign_in.js";
import { startTheme } from "./theme.js";

/**
 * @typedef {object} About what the server offers
 * @property {string} version
 * @property {boolean} recording
 * @property {boolean} keeping whether chats are saved in a store
 * @property {string[]} models
 * @property {string[]} modes
 * @property {string[]} plans
 * @property {string[]} policies
 * @property {string[]} dialects
 */

/** @typedef {{element: HTMLElement, show?: (rest: string) => void, hide?: () => void, end?: () => void}} Part `end` is called before the page is left for good */

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

/** Number of the latest navigation; results of older ones are discarded. */
let navigations = 0;

/** Shows the part that the address selects. */
async function show() {
  const number = (navigations += 1);
  const [, name = "", rest = ""] = /^#\/([a-z]+)\/?(.*)$/.exec(location.hash) ?? [];
  const chosen = Object.hasOwn(MAKERS, name) ? name : FIRST;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.getAttribute("href") === `#/${chosen}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  try {
    about ??= /** @type {About} */ (await fetchJson("toolspeak/about"));
    signOut.hidden = false;
    const part = parts.get(chosen) ?? (await MAKERS[chosen](about));
    if (number !== navigations) return;
    parts.set(chosen, part);
    if (current !== part) {
      current?.hide?.();
      current = part;
      setChildren(main, part.element);
      document.title = `${chosen[0].toUpperCase()}${chosen.slice(1)} · toolspeak`;
    }
    part.show?.(decode(rest));
  } catch (error) {
    if (number !== navigations) return;
    current?.hide?.();
    current = undefined;
    if (error instanceof ApiError && error.status === 401) setChildren(main, signIn(show));
    else setChildren(main, unreachable());
  }
}

/** The message for a part that cannot be loaded. The chat is not lost. */
function unreachable() {
  return h(
    "div",
    { class: "welcome stack" },
    h("h1", {}, "The server cannot be reached"),
    h("p", { class: "soft", role: "alert" }, "The server may be stopped or unreachable. Your chat stays here until you close this tab."),
    h("div", {}, h("button", { type: "button", class: "main", click: show }, "Try again")),
  );
}

/** @param {string} text from an address, which may be malformed */
function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Shows the sign-in form after the session expired. The chat stays; the other parts may show another server's data. */
function showSignIn() {
  if (!about) return;
  about = undefined;
  signOut.hidden = true;
  current?.hide?.();
  current = undefined;
  for (const name of parts.keys()) if (name !== FIRST) parts.delete(name);
  navigations += 1;
  setChildren(main, signIn(show, "Your session has expired, or the server was restarted. Sign in again."));
}

signOut.addEventListener("click", async () => {
  for (const part of parts.values()) part.end?.();
  await fetchJson("toolspeak/session", { method: "DELETE" }).catch(() => {});
  location.replace(location.pathname); // a reload clears the page before the next user sees it
});
startTheme(/** @type {HTMLElement} */ (document.getElementById("theme")));
addEventListener("hashchange", show);
addEventListener(SESSION_EXPIRED, showSignIn);
show();
