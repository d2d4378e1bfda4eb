// @ts-check
/** The inspector: a live list of the server's requests, filters, and the details of one request beside it. */

import { ApiError, fetchJson } from "./api.js";
import { grouped } from "./conversations.js";
import { makeBackLink, makeDetail } from "./detail.js";
import { h, select, setChildren, withCode } from "./dom.js";
import { clock, compact, plural, duration } from "./format.js";
import { makePoller } from "./polling.js";
import { addShortcuts } from "./shortcuts.js";
import { title } from "./trace_file.js";
import { VirtualList } from "./virtual_list.js";

/** Milliseconds between two polls, maximum number of requests in the list, and height of a row in pixels. */
const POLL_INTERVAL = 1500;
const MAX_REQUESTS = 2000;
const ROW_HEIGHT = 76;
/** Milliseconds after the last keystroke before the search starts. */
const TYPING_PAUSE = 250;

/**
 * @typedef {object} Line one request
 * @property {number} number
 * @property {string} id
 * @property {number} time
 * @property {string} face
 * @property {string} question the beginning of the last user message
 * @property {string[]} results names of the tools whose results the request returns
 * @property {string} conversation the same for all requests of a conversation
 * @property {number} messages
 * @property {string} user_agent
 * @property {string} [tenant]
 * @property {string[]} called names of the tools
 * @property {number} invalid number of calls that cannot be run
 * @property {boolean} call_likely whether a call is missing
 * @property {string} model
 * @property {string} plan
 * @property {string} tools
 * @property {number} status
 * @property {number} requests
 * @property {number} retries
 * @property {number} calls
 * @property {number} candidates
 * @property {number} repairs
 * @property {string[]} warnings
 * @property {"answered" | "error" | "left"} outcome how it ended; `left`: the client disconnected before the end
 * @property {string} error
 * @property {string} why_no_call
 * @property {string} replay_of
 * @property {{whole: number, first: number, waited: number, added: number, first_token: number, held: number, tooled: number}} timing seconds
 * @property {number} input_tokens
 * @property {number} output_tokens
 * @property {boolean} [running] whether it is still running
 */

/** @typedef {{id: string, time: number, seconds: number, face: string, model: string, question: string, results: string[], conversation: string, messages: number, user_agent: string}} Running one request that is still running */
/** @typedef {{request: Line, follows: boolean, size: number}} Item a row of the list */

/** Placeholder values for fields that are unknown until a request has ended. */
const RUNNING_DEFAULTS = { number: 0, plan: "", tools: "", status: 0, requests: 0, retries: 0, calls: 0, candidates: 0, repairs: 0, called: [], invalid: 0, call_likely: false, warnings: [], outcome: /** @type {const} */ ("answered"), error: "", why_no_call: "", replay_of: "", input_tokens: 0, output_tokens: 0 };
const NO_TIMES = { first: 0, waited: 0, added: 0, first_token: 0, held: 0, tooled: 0 };

/**
 * @param {Running} one
 * @returns {Line} in the form of a completed request
 */
const runningLine = ({ seconds, ...one }) => ({ ...RUNNING_DEFAULTS, ...one, timing: { ...NO_TIMES, whole: seconds }, running: true });

/** @param {Line} line its end time, by which the list is sorted */
const endTime = (line) => line.time + line.timing.whole;

/**
 * @param {import("./app.js").About} about
 * @returns {import("./app.js").Part}
 */
export function makeInspector(about) {
  /** @type {Line[]} */
  let lines = [];
  /** Opaque position of the newest listed request, assigned by the server. */
  let cursor = "";
  /** @type {Line[]} requests that are still running */
  let running = [];
  /** Number of workers that did not respond in time. */
  let late = 0;
  /** @type {string[]} terms of the search that the server does not know */
  let unread = [];
  /** The id of the open request; late responses for other requests are ignored. */
  let openId = "";
  let failed = false;
  /** Whether the list was loaded since the search has changed. */
  let loaded = false;
  /** Whether the list is loaded once and then stays as it is. */
  let stopAfterOne = false;
  /** @type {Item[]} */
  let items = [];
  /** Whether the open request was still running when it was opened. */
  let openedWhileRunning = false;

  const filters = makeFilters(reload, () => update(), (live) => (live ? poller.start() : poller.stop()));
  const rows = new VirtualList({
    label: "Requests, newest first",
    height: ROW_HEIGHT,
    key: (/** @type {Item} */ item) => item.request.id,
    draw: drawItem,
    open({ request }, moved) {
      const address = `#/requests/${request.id}`;
      if (!moved && location.hash === address) return detail.focus();
      if (!moved) return void (location.hash = address);
      history.replaceState(null, "", address); // one step back leaves the list, even after moving through it with arrow keys
      open(request.id);
    },
  });
  const summary = h("p", { class: "small soft rows-summary" });
  const hint = h("p", { class: "small search-hint", role: "status" });
  const nothing = h("div", { class: "nothing soft", hidden: true });
  const detail = h("section", { class: "detail", "aria-label": "Request details", tabindex: -1 });
  const element = h(
    "div",
    { class: "inspector" },
    h("section", { class: "requests", "aria-label": "Requests" }, filters.element, summary, hint, nothing, rows.element),
    detail,
  );

  function update() {
    const all = [...running, ...lines];
    items = reuse(items, filters.isGrouped() ? grouped(all) : all.map((request) => ({ request, follows: false, size: 1 })));
    rows.items = items;
    const found = filters.query() ? "match" : "";
    summary.textContent = about.recording
      ? `${plural(lines.length, "request")}${found && ` ${lines.length === 1 ? "matches" : "match"}`}${running.length ? `, ${running.length} running` : ""}${late ? `. ${plural(late, "worker")} did not respond in time; missing requests will appear later.` : ""}`
      : "Recording is off on this server, so there are no requests to show.";
    nothing.hidden = all.length > 0 || !about.recording || !loaded;
    rows.element.hidden = !nothing.hidden;
    setChildren(hint, unread.length > 0 && withCode(`${unread.map((term) => `\`${term}\``).join(", ")} ${unread.length > 1 ? "are not search terms, so their text is" : "is not a search term, so its text is"} searched for.`));
    if (!nothing.hidden) setChildren(nothing, filters.query() ? noMatch() : h("p", {}, "No requests yet. Point a client at ", h("code", {}, `${location.origin}/v1`), ", or ask something in the ", h("a", { href: "#/chats" }, "chat"), "."));
  }

  const noMatch = () => [h("p", {}, "No recorded request matches. Only the latest requests are searched; if the server stores requests, since: also finds older ones."), h("button", { type: "button", click: () => filters.clear() }, "Clear the search")];

  /** Loads the whole list again, because another search selects other requests. */
  function reload() {
    lines = running = [];
    cursor = "";
    loaded = false;
    poller.start();
    if (!filters.isLive()) stopAfterOne = true;
  }

  const poller = makePoller(
    async (signal) => {
      /** @type {{requests: Line[], running: Running[], next: string, late: number, unread?: string[]}} */
      const answer = await fetchJson(`toolspeak/requests?after=${encodeURIComponent(cursor)}&query=${encodeURIComponent(filters.query())}`, { signal });
      if (signal.aborted) return;
      if (stopAfterOne) poller.stop();
      stopAfterOne = false;
      const { requests } = answer;
      const same = loaded && !requests.length && !failed && !running.length && !answer.running.length && late === answer.late;
      ({ next: cursor, late, unread = [] } = answer);
      running = answer.running.map(runningLine);
      if (same) return;
      failed = false;
      loaded = true;
      const ids = new Set(requests.map((line) => line.id));
      lines = [...requests, ...lines.filter((line) => !ids.has(line.id))].slice(0, MAX_REQUESTS);
      lines.sort((one, two) => endTime(two) - endTime(one)); // a late worker may report older requests
      update();
      if (openedWhileRunning && ids.has(openId)) open(openId); // the open request has ended
    },
    (message) => {
      failed = true;
      summary.textContent = `The list could not be refreshed: ${message}`;
    },
    () => (document.hidden ? POLL_INTERVAL * 8 : POLL_INTERVAL),
  );

  /** @param {string} id */
  async function open(id) {
    openId = id;
    openedWhileRunning = false;
    rows.select(id);
    element.classList.toggle("has-one", Boolean(id));
    detail.ariaBusy = String(Boolean(id));
    if (!id) {
      setChildren(detail, h("div", { class: "nothing soft" }, h("p", {}, "Select a request to see what was sent, what the model answered, and how toolspeak read the answer.")));
      return;
    }
    // Remove the previous request at once, so it cannot be re-run by mistake.
    setChildren(detail, makeBackLink(), h("p", { class: "soft", role: "status" }, "Loading…"));
    try {
      const one = await fetchJson(`toolspeak/requests/${encodeURIComponent(id)}`);
      if (openId !== id) return;
      setChildren(detail, makeDetail(one, about));
      detail.scrollTop = 0;
    } catch (error) {
      if (openId !== id) return;
      openedWhileRunning = running.some((line) => line.id === id);
      if (openedWhileRunning) setChildren(detail, makeBackLink(), h("p", { class: "notice", role: "status" }, "This request is still running. It appears here when it ends."));
      else setChildren(detail, makeBackLink(), h("p", { class: "notice bad" }, loadError(error)));
    }
    detail.ariaBusy = "false";
  }

  const showShortcuts = addShortcuts(element, [
    { keys: ["j"], label: "Next request", run: () => rows.move(1) },
    { keys: ["k"], label: "Previous request", run: () => rows.move(-1) },
    { keys: ["Enter"], label: "Go to the details", run: () => detail.focus() },
    { keys: ["/"], label: "Search", run: () => filters.focus() },
  ]);
  filters.element.append(h("button", { type: "button", class: "quiet", title: "Keyboard shortcuts (?)", "aria-label": "Keyboard shortcuts", click: showShortcuts }, "?"));
  update();
  return {
    element,
    show(rest) {
      const wanted = rest.startsWith(QUERY) ? rest.slice(QUERY.length) : "";
      if (wanted) filters.set(wanted);
      open(wanted ? "" : rest);
      if (filters.isLive() || !loaded) poller.start();
    },
    hide: poller.stop,
  };
}

/**
 * The reason why a request cannot be shown.
 * @param {unknown} error
 */
const loadError = (error) => (error instanceof ApiError && error.status === 404 ? "This request is no longer stored, or it belongs to another user." : /** @type {Error} */ (error).message);

/** The beginning of an address that contains a search. */
const QUERY = "?";
/** What can be listed alone, and its search term. */
const KINDS = /** @type {Record<string, string>} */ ({ Call: "status:call", "Invalid call": "status:invalid", "Missing call": "status:nocall", Retried: "status:retry", Repaired: "status:repair", Warning: "status:warning", Error: "status:error", "Client disconnected": "status:disconnected" });

/**
 * The search and the switches of the list.
 * @param {() => void} searched
 * @param {() => void} arranged
 * @param {(live: boolean) => void} toggled
 */
function makeFilters(searched, arranged, toggled) {
  const field = /** @type {HTMLInputElement} */ (h("input", { type: "search", autocomplete: "off", spellcheck: "false", maxlength: 300, placeholder: "Search, e.g. tool:shell status:retry", "aria-label": "Search requests", title: "Enter words, or tool:, status:, model:, client:, key:, plan:, id:, since: or until: with a value. A minus sign excludes." }));
  const kind = select(Object.keys(KINDS), "All requests", { "aria-label": "Show" });
  const live = checkbox("Live", true, () => toggled(live.box.checked));
  const groups = checkbox("Group", true, arranged);
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  field.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(searched, TYPING_PAUSE);
  });
  kind.addEventListener("change", searched);
  return {
    element: h("div", { class: "filters" }, field, kind, live.element, groups.element),
    query: () => [KINDS[kind.value], field.value.trim()].filter(Boolean).join(" "),
    isLive: () => live.box.checked,
    isGrouped: () => groups.box.checked,
    focus: () => field.focus(),
    /** @param {string} text to search for */
    set(text) {
      if (field.value === text) return;
      field.value = text;
      searched();
    },
    clear() {
      field.value = kind.value = "";
      searched();
      field.focus();
    },
  };
}

/**
 * @param {string} label
 * @param {boolean} checked
 * @param {() => void} change
 */
function checkbox(label, checked, change) {
  const box = /** @type {HTMLInputElement} */ (h("input", { type: "checkbox", checked, change }));
  return { box, element: h("label", { class: "check" }, box, label) };
}

/**
 * Keeps the items that have not changed, whose rows then stay as they are.
 * @param {Item[]} before
 * @param {Item[]} items
 */
function reuse(before, items) {
  const known = new Map(before.map((item) => [item.request.id, item]));
  return items.map((item) => {
    const old = known.get(item.request.id);
    return old && old.request === item.request && old.follows === item.follows && old.size === item.size ? old : item;
  });
}

/**
 * The name of a client: the first word of its user agent.
 * @param {string} agent
 */
export const clientName = (agent) => (/Mozilla/.test(agent) ? "browser" : agent.split(/[\s/]/)[0]);

/**
 * @param {Item} item
 * @returns {(Node | string)[]}
 */
function drawItem({ request: line, follows, size }) {
  // The most telling first: a narrow list cuts the rest.
  const facts = [
    clock(line.time),
    duration(line.timing.whole),
    line.called.length > 0 && `→ ${line.called.join(", ")}`,
    line.model || "no model",
    line.retries > 0 && plural(line.retries, "retry", "retries"),
    line.repairs > 0 && plural(line.repairs, "repair"),
    line.replay_of && "re-run",
    clientName(line.user_agent),
    line.output_tokens > 0 && `${compact(line.input_tokens + line.output_tokens)} tokens`,
  ];
  const indent = follows ? "row-follows" : "";
  return [
    h("div", { class: `row-top ${indent}` }, h("span", { class: "row-model", title: line.question, dir: "auto" }, title(line)), !follows && size > 1 && h("span", { class: "badge" }, `${size} rounds`), outcome(line)),
    h("div", { class: `row-bottom ${indent}` }, facts.filter(Boolean).join(" · ")),
  ];
}

/** @param {Line} line */
function outcome(line) {
  if (line.running) return h("span", { class: "badge warn" }, "running");
  if (line.outcome === "left") return h("span", { class: "badge", title: "The client disconnected early" }, "client disconnected");
  if (line.status >= 400) return h("span", { class: "badge bad" }, `error ${line.status}`);
  if (line.error) return h("span", { class: "badge bad" }, "interrupted"); // the error occurred after the response had started
  if (line.calls) return h("span", { class: "badge good" }, plural(line.calls, "call"));
  if (line.invalid) return h("span", { class: "badge bad" }, plural(line.invalid, "invalid call"));
  if (line.call_likely) return h("span", { class: "badge warn" }, "no call");
  return h("span", { class: "badge" }, line.tools === "none" ? "no tools" : "text");
}
