// @ts-check
/** The frame of the page: sign-in state and navigation. Each part is a module that is loaded when it is first opened. */

import { ApiError, fetchJson, SESSION_EXPIRED, SIGNED_IN } from "./api.js";
import { h, setChildren } from "./dom.js";
import { signIn } from "./sign_in.js";
import { startTheme } from "./theme.js";

/**
 * @typedef {object} About what the server offers
 * @property {string} version
 * @property {boolean} recording
 * @property {boolean} keeping whether chats are saved in a store
 * @property {boolean} workers whether the server has several workers
 * @property {string[]} models
 * @property {string[]} modes
 * @property {string[]} plans
 * @property {string[]} policies
 * @property {string[]} dialects
 */

/** @typedef {{element: HTMLElement, show?: (rest: string) => void, hide?: () => void, end?: () => void}} Part `end` is called before the page is left for good */

/** @type {Record<string, (about: About) => Promise<Part>>} */
const MAKERS = {
  start: async (about) => (await import("./start.js")).makeStart(about),
  playground: async (about) => (await import("./playground.js")).makePlayground(about),
  import: async (about) => (await import("./import.js")).makeImport(about),
  chats: async (about) => (await import("./chat.js")).makeChat(about),
  requests: async (about) => (await import("./inspector.js")).makeInspector(about),
  models: async (about) => (await import("./models.js")).makeModels(about),
  evaluate: async (about) => (await import("./evaluate.js")).makeEvaluate(about),
  dashboard: async () => (await import("./dashboard.js")).makeDashboard(),
};
const FIRST = "start";
/** Old names in addresses, which are replaced. */
const ALIASES = /** @type {Record<string, string>} */ ({ chat: "chats", inspector: "requests", metrics: "dashboard" });
/** The part with unsaved work, which a sign-in keeps. */
const KEPT = "chats";

const signOut = /** @type {HTMLElement} */ (document.getElementById("sign-out"));
const more = /** @type {HTMLElement} */ (document.getElementById("more"));
const main = /** @type {HTMLElement} */ (document.getElementById("main"));
/** @type {Map<string, Part>} */
const parts = new Map();
/** What the server offers. All parts share this object, which is updated when a model was connected. */
const shared = /** @type {About} */ ({});
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
  const known = Object.hasOwn(ALIASES, name) ? ALIASES[name] : name;
  const chosen = Object.hasOwn(MAKERS, known) ? known : FIRST;
  if (known !== name) history.replaceState(null, "", location.hash.replace(name, known));
  openMore(false);
  for (const link of document.querySelectorAll("nav a")) {
    if (link.getAttribute("href") === `#/${chosen}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  try {
    about ??= Object.assign(shared, await fetchJson("toolspeak/about"));
    setSignedIn(true);
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
    if (error instanceof ApiError && error.status === 401) {
      setSignedIn(false);
      setChildren(main, signIn(show));
    }
    else setChildren(main, unreachable());
  }
}

/** @param {boolean} signedIn whether the navigation leads anywhere */
function setSignedIn(signedIn) {
  signOut.hidden = !signedIn;
  document.body.classList.toggle("signed-out", !signedIn);
}

/** @param {boolean} open whether the menu with the other parts is shown, on narrow screens */
function openMore(open) {
  more.setAttribute("aria-expanded", String(open));
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
  setSignedIn(false);
  current?.hide?.();
  current = undefined;
  for (const name of parts.keys()) if (name !== KEPT) parts.delete(name);
  navigations += 1;
  const back = () => show().then(() => dispatchEvent(new Event(SIGNED_IN)));
  setChildren(main, signIn(back, "Your session has expired, or the server was restarted. Sign in again."));
}

signOut.addEventListener("click", async () => {
  for (const part of parts.values()) part.end?.();
  await fetchJson("toolspeak/session", { method: "DELETE" }).catch(() => {});
  location.replace(location.pathname); // a reload clears the page before the next user sees it
});
more.addEventListener("click", () => openMore(more.getAttribute("aria-expanded") === "false"));
document.addEventListener("pointerdown", (event) => {
  if (!(/** @type {Element} */ (event.target).closest("nav"))) openMore(false);
});
more.parentElement?.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || more.getAttribute("aria-expanded") === "false") return;
  event.stopPropagation(); // elsewhere, Escape stops an answer
  openMore(false);
  more.focus();
});
startTheme(/** @type {HTMLElement} */ (document.getElementById("theme")));
addEventListener("hashchange", show);
addEventListener(SESSION_EXPIRED, showSignIn);
show();
