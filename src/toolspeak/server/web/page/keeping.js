// @ts-check
/**
 * Chats are kept in the store of the server, where it has one: each question with its answer, once that is over. What
 * could not be kept is sent with what comes next, and by itself after a while, so that page and store say the same.
 */

import { ask, Refused } from "./api.js";

/** Bytes that a browser sends for a page that is being closed. */
const LAST_WORDS = 60_000;
/** Times that one save is tried where somebody else holds the session, and the first pause; each is twice as long. */
const TRIES = 6;
const PAUSE = 250;
/** Milliseconds until what could not be kept is tried again by itself: at first, and at most. */
const SOON = 5_000;
const LATE = 60_000;

/** @typedef {import("./conversation.js").Exchange} Exchange */

/** One chat as it is kept. */
export class Kept {
  /**
   * @param {boolean} keeping whether the server keeps chats
   * @param {Exchange[]} exchanges of the chat: what is added to them or cut off is kept so
   * @param {(why: string) => void} told hears why not all is kept; nothing, once all is
   * @param {string} [session] where they stand already
   */
  constructor(keeping, exchanges, told, session = "") {
    this._keeping = keeping;
    this._exchanges = exchanges;
    this._told = told;
    this._session = session;
    /** @type {Exchange[]} what the session holds */
    this._stored = session ? [...exchanges] : [];
    this._model = "";
    this._wait = SOON;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this._timer = undefined;
    /** One after the other: each goes behind the one before. */
    this._last = Promise.resolve();
  }

  /**
   * Keeps all that is over and not kept yet. What stood behind is forgotten.
   * @param {string} model
   */
  keep(model) {
    if (!this._keeping) return;
    this._model = model;
    this._last = this._last.then(async () => {
      clearTimeout(this._timer);
      const why = await this._save();
      this._told(why);
      this._wait = why ? Math.min(2 * this._wait, LATE) : SOON;
      if (why) this._timer = setTimeout(() => this.keep(this._model), this._wait / 2);
    });
  }

  /**
   * The page is closed: what has come and is not kept yet is sent, if it is short.
   * @param {string} model
   */
  keepLast(model) {
    const { keep, missing } = this._missing(true);
    if (!this._keeping || !missing.length) return;
    const body = JSON.stringify(this._body(keep, missing, model));
    if (body.length > LAST_WORDS) return;
    this._keeping = false; // the answer that breaks off now is the same one
    addEventListener("pageshow", () => (this._keeping = true), { once: true });
    fetch("toolspeak/sessions", { method: "POST", keepalive: true, headers: { "content-type": "application/json" }, body });
  }

  /** @returns {Promise<string>} why not all could be kept */
  async _save() {
    for (let tries = 1; ; tries += 1) {
      const { keep, missing } = this._missing();
      const before = this._exchanges.slice(0, keep);
      if (!missing.length) return "";
      try {
        const { id, kept } = await ask("toolspeak/sessions", { method: "POST", body: this._body(keep, missing, this._model) });
        this._session = id;
        this._stored = [...before, ...missing].slice(0, kept);
        if (kept < keep + missing.length && tries >= TRIES) return "the session holds less than it should";
      } catch (error) {
        const status = error instanceof Refused ? error.status : 0;
        const gone = status === 404 && this._session !== "";
        if (tries >= TRIES || !(gone || status === 409)) return /** @type {Error} */ (error).message;
        // Who removed it, or signed in as somebody else, has the whole chat in another session.
        if (gone) this._session = "";
        else await new Promise((resolve) => setTimeout(resolve, PAUSE * 2 ** (tries - 1)));
      }
    }
  }

  /**
   * What the session lacks, and how many stand before it.
   * @param {boolean} [running] whether an answer that still comes counts
   */
  _missing(running = false) {
    let keep = 0;
    while (this._session && keep < this._stored.length && this._stored[keep] === this._exchanges[keep]) keep += 1;
    const missing = this._exchanges.slice(keep);
    return { keep, missing: running ? missing : missing.filter((each) => each.answer.status !== "running") };
  }

  /**
   * @param {number} keep
   * @param {Exchange[]} exchanges
   * @param {string} model
   */
  _body(keep, exchanges, model) {
    return { session: this._session, keep, model, exchanges: exchanges.map(bare) };
  }
}

/**
 * What is kept of a question and its answer.
 * @param {Exchange} exchange
 */
function bare({ question, answer }) {
  const { rounds, content, reasoning, input_tokens, output_tokens, plan, error, record, seconds } = answer;
  const status = answer.status === "running" ? "interrupted" : answer.status;
  return { question, answer: { rounds, content, reasoning, status, input_tokens, output_tokens, plan, error, record, seconds } };
}
