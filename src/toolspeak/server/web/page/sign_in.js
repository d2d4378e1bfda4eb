// @ts-check
/** How a person shows who it is: by a code that the server printed, or by a key for admins. */

import { ask } from "./api.js";
import { h, labelled, put } from "./dom.js";

/**
 * @param {() => void} done is called once the server knows
 * @param {string} [why] it is asked again
 * @returns {HTMLElement}
 */
export function signIn(done, why) {
  const field = /** @type {HTMLInputElement} */ (h("input", { name: "code", type: "password", autocomplete: "off", spellcheck: "false", required: true }));
  const said = h("div", { role: "alert" });
  const send = async (/** @type {Event} */ event) => {
    event.preventDefault();
    // The whole link may be pasted: the code stands behind its `#`. A key has none.
    const code = field.value.trim().split("#").at(-1);
    try {
      await ask("toolspeak/session", { method: "POST", body: { code } });
      done();
    } catch (error) {
      put(said, h("p", { class: "notice bad" }, /** @type {Error} */ (error).message));
    }
  };
  const form = h("form", { class: "stack", submit: send }, labelled("Link or code, or an admin key", field), h("button", { class: "main" }, "Open"), said);
  return h(
    "div",
    { class: "welcome stack" },
    h("h1", {}, "Who are you?"),
    why && h("p", { class: "notice warn", role: "alert" }, why),
    h("p", { class: "soft" }, "This page shows what was asked of this server. Started in a terminal, it printed a link for you alone: open that link, or paste it here."),
    h("p", { class: "soft" }, "`toolspeak page`, where the server runs, prints another one. A key of `toolspeak keys new NAME --admin` does as well."),
    form,
  );
}
