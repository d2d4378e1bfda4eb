// @ts-check
/** The sign-in form for the one-time link that the server printed, or for an admin key. */

import { fetchJson } from "./api.js";
import { errorText, h, labelled, setChildren, withCode } from "./dom.js";

/**
 * @param {() => void} done is called after a successful sign-in
 * @param {string} [why] a sign-in is needed again
 * @returns {HTMLElement}
 */
export function signIn(done, why) {
  const field = /** @type {HTMLInputElement} */ (h("input", { name: "code", type: "password", autocomplete: "off", spellcheck: "false", required: true }));
  const status = h("div", { role: "alert" });
  const send = async (/** @type {Event} */ event) => {
    event.preventDefault();
    // Users may paste the whole link, in which the code follows `#`. A key contains no `#`.
    const code = field.value.trim().split("#").at(-1);
    try {
      await fetchJson("toolspeak/session", { method: "POST", body: { code } });
      done();
    } catch (error) {
      setChildren(status, h("p", { class: "notice bad" }, errorText(error)));
    }
  };
  const form = h("form", { class: "stack", submit: send }, labelled("One-time link or admin key", field), h("button", { class: "main" }, "Sign in"), status);
  return h(
    "div",
    { class: "welcome stack" },
    h("h1", {}, "Sign in to toolspeak"),
    why && h("p", { class: "notice warn", role: "alert" }, why),
    h("p", { class: "soft" }, withCode("Open the one-time link that `toolspeak serve` printed in the terminal, or paste it here.")),
    h("p", { class: "soft" }, withCode("Lost it? Run `toolspeak page` on the server for a new link, or use an admin key (`toolspeak keys new NAME --admin`).")),
    form,
  );
}
