// @ts-check
/** Connects a model: address and key, the checks as they are done, and the use of the model on this server. */

import { fetchJson } from "./api.js";
import { copyButton } from "./copy.js";
import { announce, disclosure, h, labelled, setChildren, withCode } from "./dom.js";
import { plural } from "./format.js";
import { preferModel } from "./model_fields.js";

/** Milliseconds between two polls of a running check. */
const POLL_INTERVAL = 250;
/** The checks, in the order in which they are done. */
const CHECKS = ["configuration", "reachable", "key", "model", "answer", "streaming", "native tools", "tool calls"];
const SIGNS = /** @type {Record<string, string>} */ ({ ok: "✓", note: "!", fail: "✗", skipped: "–" });
const PROVIDERS = /** @type {Record<string, string>} */ ({ ollama: "Ollama", lmstudio: "LM Studio", llamacpp: "llama.cpp", vllm: "vLLM" });
const PROTOCOLS = /** @type {Record<string, string>} */ ({ openai_chat: "OpenAI-compatible", openai_responses: "OpenAI Responses", anthropic: "Anthropic", gemini: "Gemini", ollama: "Ollama" });
/** What to do on this page, where the advice of a check is for the command line. */
const ADVICE = /** @type {Record<string, string>} */ ({ key: "Enter a valid API key above.", model: "Choose another model." });

/** @typedef {{check: string, status: string, says: string, fix: string}} Check */
/** @typedef {{running?: boolean, checking?: string, checks?: Check[], url?: string, protocol?: string, provider?: string, model?: string, models?: string[]}} State */

/**
 * @param {import("./app.js").About} about
 * @param {() => void} connected is called when the model can be used
 * @returns {{element: HTMLElement, show: () => void}}
 */
export function makeConnect(about, connected) {
  const url = /** @type {HTMLInputElement} */ (h("input", { type: "text", inputmode: "url", name: "url", required: true, autocomplete: "off", spellcheck: "false", placeholder: "http://127.0.0.1:11434 or https://api.example.com/v1" }));
  const key = /** @type {HTMLInputElement} */ (h("input", { type: "password", name: "key", autocomplete: "off", spellcheck: "false", placeholder: "only if the service needs one" }));
  const found = h("div", { class: "row", role: "status" });
  const progress = h("div", { class: "stack" });
  let checkNumber = 0;

  const send = (/** @type {Event} */ event) => {
    event.preventDefault();
    const address = url.value.trim();
    if (address) check({ url: address.includes("://") ? address : `${guessScheme(address)}://${address}`, key: key.value });
  };

  /** @param {{url?: string, key?: string, provider?: string, model?: string}} wish */
  async function check(wish) {
    const number = (checkNumber += 1);
    try {
      /** @type {State} */
      let state = await fetchJson("toolspeak/connection", { method: "POST", body: wish });
      for (;;) {
        if (number !== checkNumber) return;
        draw(state);
        if (!state.running) break;
        await new Promise((resolve) => setTimeout(resolve, POLL_INTERVAL));
        state = await fetchJson("toolspeak/connection");
      }
      const failed = state.checks?.some((each) => each.status === "fail");
      announce(failed ? "The model cannot be used yet." : "All checks passed.");
    } catch (error) {
      if (number === checkNumber) setChildren(progress, h("p", { class: "notice bad", role: "alert" }, /** @type {Error} */ (error).message));
    }
  }

  /** @param {State} state */
  function draw(state) {
    const done = state.checks ?? [];
    const usable = !state.running && done.some((each) => each.check === "answer" && each.status !== "fail" && each.status !== "skipped");
    const rows = CHECKS.map((name) => {
      const check = done.find((each) => each.check === name);
      const running = !check && state.running && state.checking === name;
      const advice = check?.status === "fail" ? ADVICE[name] ?? check.fix : check?.fix;
      return h(
        "li",
        { class: `check-${check?.status ?? (running ? "running" : "open")}` },
        h("span", { class: "check-sign", "aria-hidden": "true" }, check ? SIGNS[check.status] : running ? "…" : "·"),
        h("div", {}, h("span", { class: "strong" }, name), check && [h("span", { class: "visually-hidden" }, ` ${check.status}`), " ", h("span", { class: "soft" }, withCode(check.says))], advice && check?.status !== "ok" && h("p", { class: "small" }, withCode(`→ ${advice}`))),
      );
    });
    const models = state.models ?? [];
    const model = /** @type {HTMLSelectElement} */ (h("select", { disabled: Boolean(state.running), change: () => check({ model: model.value }) }, models.map((name) => h("option", { value: name, selected: name === state.model }, name))));
    const use = h("button", { type: "button", class: "main", click: () => useNow(use, state) }, "Use it now");
    setChildren(
      progress,
      state.protocol && h("p", { class: "small" }, "Found ", h("span", { class: "badge good" }, PROVIDERS[state.provider ?? ""] ?? PROTOCOLS[state.protocol]), ` at ${state.url}`, models.length > 0 && ` · ${plural(models.length, "model")}`),
      h("ol", { class: "checks", "aria-label": "Checks" }, rows),
      h("div", { class: "fields" }, models.length > 1 && labelled("Checked model", model), usable && use),
    );
  }

  /**
   * @param {HTMLElement} button
   * @param {State} state
   */
  async function useNow(button, state) {
    /** @type {HTMLButtonElement} */ (button).disabled = true;
    try {
      const { model } = await fetchJson("toolspeak/connection/use", { method: "POST", body: {} });
      key.value = "";
      await preferModel(about, model);
      setChildren(
        progress,
        h("p", { class: "notice good", role: "status" }, h("span", { class: "strong" }, model), " is ready: choose it anywhere on this page, or request it by this name. It stays until the server stops."),
        disclosure("Keep it", () => keep(state)),
      );
      connected();
    } catch (error) {
      progress.append(h("p", { class: "notice bad", role: "alert" }, /** @type {Error} */ (error).message));
      /** @type {HTMLButtonElement} */ (button).disabled = false;
    }
  }

  /** Looks for servers on this machine. */
  async function find() {
    const { local } = await fetchJson("toolspeak/connection?find=1").catch(() => ({ local: [] }));
    const buttons = local.map((/** @type {{provider: string, url: string, models: string[]}} */ server) =>
      h("button", { type: "button", click: () => ((url.value = server.url), check({ url: server.url, provider: server.provider, key: key.value })) }, `${PROVIDERS[server.provider] ?? server.provider} `, h("span", { class: "soft small" }, server.models.join(", ") || "no model loaded")),
    );
    setChildren(found, buttons.length ? [h("span", { class: "small soft" }, "Found on this machine:"), buttons] : h("span", { class: "small soft" }, "No Ollama, LM Studio, llama.cpp or vLLM was found on this machine."));
  }

  const element = h(
    "div",
    { class: "stack" },
    found,
    h("form", { class: "fields connect-form", submit: send }, labelled("Address", url), labelled("API key", key), h("button", { class: "main" }, "Connect")),
    progress,
  );
  return { element, show: () => void find() };
}

/**
 * The configuration that keeps a connected model.
 * @param {State} state
 */
function keep(state) {
  const name = (state.provider || "mine").replace(/[^a-z0-9_-]/g, "-");
  const text = `[upstreams.${name}]\nbase_url = ${JSON.stringify(state.url)}\nprotocol = "${(state.protocol ?? "").replace("openai_chat", "openai")}"\nmodels = ${JSON.stringify([state.model])}\n# if the service needs a key:\n# api_key_env = "NAME_OF_A_VARIABLE"\n`;
  return [h("p", { class: "small" }, withCode("Add this to `~/.config/toolspeak/config.toml`:")), h("pre", { class: "code small" }, text), copyButton(() => text, "configuration")];
}

/**
 * The likely scheme of an address without one: local servers have no certificate.
 * @param {string} address
 */
const guessScheme = (address) => (/^(localhost|\[|[\d.]+(:|\/|$)|[^.]+(:|\/|$))/.test(address) ? "http" : "https");
