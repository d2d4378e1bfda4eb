// @ts-check
/**
 * Saves chats in the server's store, if it has one: each question at once, so that the chat has an address, and its answer
 * once that has ended. If a save fails, it is retried after a while or together with the next exchange. The page chooses
 * the id of a chat, so a save that is repeated never makes a second chat. A chat that was continued elsewhere, as in
 * another tab, is saved as a new one, so that nothing of either is lost. One that was deleted elsewhere stays deleted.
 */

import { fetchJson, ApiError } from "./api.js";
import { randomId } from "./conversation.js";
import { announce } from "./dom.js";

/** Maximum size in bytes of a request that browsers send while a page is being closed. */
const LARGEST_LAST_BODY = 60_000;
/** Number of attempts to save while the session is locked, and the first pause between them, which doubles each time. */
const ATTEMPTS = 6;
const PAUSE = 250;
/** First and longest delay before a failed save is retried, in milliseconds. */
const FIRST_DELAY = 5_000;
const LONGEST_DELAY = 60_000;

/** @typedef {import("./conversation.js").Exchange} Exchange */

/** Saves one chat. */
export class ChatSaver {
  /**
   * @param {boolean} enabled whether the server saves chats
   * @param {Exchange[]} exchanges of the chat: later additions and removals are saved too
   * @param {(why: string) => void} onResult is called with the reason when a save fails, and with an empty string when all is saved
   * @param {string} session in which they are already stored, or shall be; empty for a new one
   * @param {boolean} exists whether that session is known to exist
   * @param {() => void} onSaved is called after each save
   */
  constructor(enabled, exchanges, onResult, session, exists, onSaved) {
    this._enabled = enabled;
    this._exchanges = exchanges;
    this._onResult = onResult;
    this._id = session || randomId();
    this._exists = exists;
    this._onSaved = onSaved;
    /** Whether the session was deleted elsewhere, or belongs to another user by now. */
    this.gone = false;
    /** @type {{exchange: Exchange, status: string}[]} what the session contains, and the status of each answer then */
    this._stored = exists ? exchanges.map(storedState) : [];
    /** @type {number | null} number of exchanges in the session; null while nobody knows */
    this._known = this._stored.length;
    this._posting = false;
    this._model = "";
    this._delay = FIRST_DELAY;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this._timer = undefined;
    /** The last save. Each save starts after the previous one has ended. */
    this._last = Promise.resolve();
  }

  /** The id of the session; empty until the first save. */
  get session() {
    return this._exists ? this._id : "";
  }

  /**
   * Saves all exchanges that are not saved yet. They replace what the session contains from that point on.
   * @param {string} model
   */
  save(model) {
    if (!this._enabled || this.gone) return;
    this._model = model;
    this._last = this._last.then(async () => {
      clearTimeout(this._timer);
      const why = await this._post();
      this._onResult(why);
      this._delay = why ? Math.min(2 * this._delay, LONGEST_DELAY) : FIRST_DELAY;
      if (why && !this.gone) this._timer = setTimeout(() => this.save(this._model), this._delay / 2);
    });
  }

  /** The id of the session and what is not in it yet, to restore it when the page is loaded again. */
  get unsaved() {
    const { count, missing } = this._missing();
    return { session: this._id, exists: this._exists, keep: count, exchanges: this._enabled && !this.gone ? missing.map(savedFields) : [] };
  }

  /**
   * Forgets that exchanges are stored. The page that was closed may still be saving them.
   * @param {number} count of exchanges that are
   */
  forget(count) {
    this._stored.length = Math.min(this._stored.length, count);
    this._known = null;
  }

  /**
   * Saves the unsaved exchanges while the page is being closed, including a partial answer, if they are short enough.
   * @param {string} model
   */
  saveOnClose(model) {
    const { count, missing } = this._missing();
    if (!this._enabled || this.gone || !missing.length) return;
    // While a save is under way, nobody knows how many exchanges the session has.
    const body = JSON.stringify({ ...this._body(count, missing, model), ...(this._posting && { expected: null }) });
    if (body.length > LARGEST_LAST_BODY) return;
    this._enabled = false; // the answer that is being aborted is already in this body
    addEventListener("pageshow", () => (this._enabled = true), { once: true });
    fetch("toolspeak/sessions", { method: "POST", keepalive: true, headers: { "content-type": "application/json" }, body });
  }

  /** @returns {Promise<string>} why the save failed; empty if it did not */
  async _post() {
    for (let attempt = 1; ; attempt += 1) {
      const { count, missing } = this._missing();
      if (missing[0]?.answer.status === "running" && this._stored[count]?.exchange === missing[0]) return ""; // its question is stored
      const before = this._exchanges.slice(0, count);
      if (!missing.length) return "";
      try {
        const states = [...before, ...missing].map(storedState); // before the request: answers may end meanwhile
        this._posting = true;
        const { id, kept: stored } = await fetchJson("toolspeak/sessions", { method: "POST", body: this._body(count, missing, this._model) });
        this._id = id;
        this._exists = true;
        this._stored = states.slice(0, stored);
        this._known = stored;
        this._onSaved();
        if (stored < count + missing.length && attempt >= ATTEMPTS) return "the session is missing some messages";
      } catch (error) {
        const status = error instanceof ApiError ? error.status : 0;
        this.gone = status === 404 && this._exists;
        if (attempt >= ATTEMPTS || !(status === 412 || status === 409)) return /** @type {Error} */ (error).message;
        if (status === 412) {
          announce("This chat was continued elsewhere, so this copy is a chat of its own now.");
          this._id = randomId();
          this._exists = false;
        } else await new Promise((resolve) => setTimeout(resolve, PAUSE * 2 ** (attempt - 1)));
      } finally {
        this._posting = false;
      }
    }
  }

  /** The exchanges that are not in the session yet, or only in part, and the number of exchanges before them. */
  _missing() {
    let count = 0;
    while (this._exists && this._isStored(count)) count += 1;
    return { count, missing: this._exchanges.slice(count) };
  }

  /** @param {number} index of an exchange whose answer has ended before it was saved */
  _isStored(index) {
    const stored = this._stored[index];
    return stored !== undefined && stored.exchange === this._exchanges[index] && stored.status !== "running";
  }

  /**
   * @param {number} count
   * @param {Exchange[]} exchanges
   * @param {string} model
   */
  _body(count, exchanges, model) {
    // If it is not known to exist, an earlier attempt may have created it.
    return { session: this._id, create: !this._exists, keep: count, expected: this._exists ? this._known : null, model, exchanges: exchanges.map(savedFields) };
  }
}

/** @param {Exchange} exchange */
const storedState = (exchange) => ({ exchange, status: exchange.answer.status });

/**
 * The fields of an exchange that are saved.
 * @param {Exchange} exchange
 */
function savedFields({ question, answer }) {
  const { rounds, content, reasoning, input_tokens, output_tokens, plan, error, record, seconds, model, why } = answer;
  const status = answer.status === "running" ? "interrupted" : answer.status;
  return { question, answer: { rounds, content, reasoning, status, input_tokens, output_tokens, plan, error, record, seconds, model, why } };
}
