// @ts-check
/** Connects a model: address and key, the checks as they are done, and the use of the model on this server. */

import { fetchJson } from "./api.js";
import { announce, disclosure, errorText, h, labelled, setChildren, withCode } from "./dom.js";
import { plural } from "./format.js";
import { preferModel } from "./model_fields.js";
import { addToConfiguration, tomlTable } from "./toml.js";

/** Milliseconds between two polls of a running check. */
const POLL_INTERVAL = 250;
/** The checks, in the order in which they are done. */
const CHECKS = ["configuration", "reachable", "key", "model", "answer", "streaming", "native tools", "tool calls"];
/** Maximum number of models in a configuration to copy. */
const MOST_KEPT = 50;
const SIGNS = /** @type {Record<string, string>} */ ({ ok: "✓", note: "!", fail: "✗", skipped: "–" });
const PROVIDERS = /** @type {Record<string, string>} */ ({ ollama: "Ollama", lmstudio: "LM Studio", llamacpp: "llama.cpp", vllm: "vLLM" });
const PROTOCOLS = /** @type {Record<string, string>} */ ({ openai_chat: "OpenAI-compatible", openai_responses: "OpenAI Responses", anthropic: "Anthropic", gemini: "Gemini", ollama: "Ollama" });
/** What to do on this page, where the advice of a check is for the command line. */
const ADVICE = /** @type {Record<string, (state: State) => string>} */ ({
  key: () => "Enter a valid API key above, and connect again.",
  model: ({ models }) => (models?.length ? "Choose another model below." : "Enter the name of a model below."),
});

/** @typedef {{check: string, status: string, says: string, fix: string}} Check */
/** @typedef {{running?: boolean, checking?: string, checks?: Check[], url?: string, protocol?: string, provider?: string, finding?: string, model?: string, models?: string[], probes?: boolean}} State */

/**
 * @param {import("./app.js").About} about
 * @param {() => void} connected is called when the model can be used
 * @returns {{element: HTMLElement, show: () => void}}
 */
export function makeConnect(about, connected) {
  const url = /** @type {HTMLInputElement} */ (h("input", { type: "text", inputmode: "url", name: "url", required: true, autocomplete: "off", spellcheck: "false", placeholder: "http://127.0.0.1:11434" }));
  const key = /** @type {HTMLInputElement} */ (h("input", { type: "password", name: "key", autocomplete: "off", spellcheck: "false", placeholder: "optional" }));
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
    if (about.workers) return drawWorkers({ url: wish.url, provider: wish.provider });
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
      const failed = state.checks?.find((each) => each.status === "fail");
      announce(failed ? `The check failed: ${failed.check}.` : "All checks passed.");
    } catch (error) {
      if (number === checkNumber) setChildren(progress, h("p", { class: "notice bad", role: "alert" }, errorText(error)));
    }
  }

  /**
   * How to add a model to a server whose workers would not all hear of it.
   * @param {State} state
   */
  function drawWorkers(state) {
    setChildren(progress, workersNotice(), keep(state), h("p", { class: "small" }, "Then restart the server."));
  }

  /** @param {State} state */
  function draw(state) {
    const done = state.checks ?? [];
    const usable = !state.running && done.some((each) => each.check === "answer" && each.status !== "fail" && each.status !== "skipped");
    const failed = done.find((each) => each.status === "fail")?.check;
    const shown = state.running || !done.length ? CHECKS : done.filter((each) => each.status !== "skipped").map((each) => each.check);
    const rows = shown.map((name) => {
      const check = done.find((each) => each.check === name);
      const running = !check && state.running && state.checking === name;
      const advice = check?.status === "fail" ? ADVICE[name]?.(state) ?? check.fix : check?.fix;
      return h(
        "li",
        { class: `check-${check?.status ?? (running ? "running" : "open")}` },
        h("span", { class: "check-sign", "aria-hidden": "true" }, check ? SIGNS[check.status] : running ? "…" : "·"),
        h("div", {}, h("span", { class: "strong" }, name), check && [h("span", { class: "visually-hidden" }, ` ${check.status}`), " ", h("span", { class: "soft" }, withCode(check.says))], advice && check?.status !== "ok" && h("p", { class: "small" }, withCode(`→ ${advice}`))),
      );
    });
    const models = state.models ?? [];
    const use = h("button", { type: "button", class: "main", click: () => useNow(use, state) }, "Use it now");
    setChildren(
      progress,
      state.finding !== undefined && h("p", { class: "small" }, describe(state)),
      h("ol", { class: "checks", "aria-label": "Checks" }, rows),
      failed && !state.running && done.some((each) => each.status === "skipped") && h("p", { class: "small soft" }, `The other checks need “${failed}” to pass first.`),
      !state.running && state.finding && chooseModel(state),
      usable && state.probes && h("p", { class: "small soft" }, withCode("After the first request with tools, toolspeak sends this model about twenty short requests in the background, to find out what it can do. Set `probe = \"off\"` to prevent that.")),
      usable && h("div", {}, use),
    );
  }

  /**
   * The choice of the model to check: from the list, or by name if the server does not list its models.
   * @param {State} state
   */
  function chooseModel({ model, models = [] }) {
    if (models.length === 1) return null;
    if (models.length) {
      const list = /** @type {HTMLSelectElement} */ (h("select", { change: () => check({ model: list.value }) }, !models.includes(model ?? "") && h("option", { value: "" }, model), models.map((name) => h("option", { value: name, selected: name === model }, name))));
      return h("div", { class: "fields" }, labelled("Checked model", list));
    }
    const name = /** @type {HTMLInputElement} */ (h("input", { name: "model", required: true, autocomplete: "off", spellcheck: "false", maxlength: 256, value: model ?? "" }));
    const send = (/** @type {Event} */ event) => {
      event.preventDefault();
      if (name.value.trim()) check({ model: name.value.trim() });
    };
    return h("form", { class: "fields", submit: send }, labelled("Model name", name), h("button", {}, "Check this model"));
  }

  /**
   * @param {HTMLElement} button
   * @param {State} state
   */
  async function useNow(button, state) {
    /** @type {HTMLButtonElement} */ (button).disabled = true;
    try {
      const { model, upstream } = await fetchJson("toolspeak/connection/use", { method: "POST", body: {} });
      key.value = "";
      await preferModel(about, model);
      setChildren(
        progress,
        h("p", { class: "notice good", role: "status" }, h("span", { class: "strong" }, model), " is ready: choose it anywhere on this page, or request it by this name. It stays until the server stops.", model !== state.model && withCode(` Another server already has the name \`${state.model}\`, which keeps its meaning.`)),
        disclosure("Keep it", () => keep(state, upstream)),
      );
      connected();
    } catch (error) {
      progress.append(h("p", { class: "notice bad", role: "alert" }, errorText(error)));
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
  if (about.workers) setChildren(progress, workersNotice());
  return { element, show: () => void find() };
}

/**
 * What was found at an address.
 * @param {State} state
 */
function describe({ finding, provider = "", protocol = "", url, models = [] }) {
  if (!finding) return `No server answered at ${url}.`;
  if (finding === "server") return `A server answers at ${url}, but it does not list its models.`;
  return ["Found ", h("span", { class: "badge good" }, PROVIDERS[provider] ?? PROTOCOLS[protocol]), ` at ${url}`, models.length > 0 && ` · ${plural(models.length, "model")}`];
}

/**
 * The configuration that keeps the models of a server, under the names that they have now.
 * @param {State} state
 * @param {string} [name] of the upstream
 */
function keep(state, name = (state.provider || "mine").replace(/[^a-z0-9_-]/g, "-")) {
  const protocol = state.protocol?.replace("openai_chat", "openai");
  const models = [...new Set([state.model ?? "", ...(state.models ?? [])])].filter(Boolean).slice(0, MOST_KEPT);
  const upstream = { base_url: state.url, ...(protocol && { protocol }), ...(models.length && { models }) };
  return addToConfiguration(`${tomlTable(["upstreams", name], upstream)}# if the service needs a key:\n# api_key_env = "NAME_OF_A_VARIABLE"\n`);
}

const workersNotice = () => h("p", { class: "notice warn", role: "status" }, "This server has several workers, so a model cannot be connected while it runs. Enter its address to see what to add to the configuration.");

/**
 * The likely scheme of an address without one: local servers have no certificate.
 * @param {string} address
 */
const guessScheme = (address) => (/^(localhost|\[|[\d.]+(:|\/|$)|[^.]+(:|\/|$))/.test(address) ? "http" : "https");
