// @ts-check
/** Model profiles and their sources, and probes on demand. */

import { fetchJson } from "./api.js";
import { announce, disclosure, errorText, h, setChildren, withCode } from "./dom.js";
import { day, percent, plural } from "./format.js";

/** Milliseconds between two polls of a running probe. */
const POLL_INTERVAL = 700;
const DAY_SECONDS = 86_400;

/**
 * @typedef {object} Profile
 * @property {string} name
 * @property {string} [error]
 * @property {string} upstream
 * @property {string} provider
 * @property {string} base_url
 * @property {string} protocol
 * @property {string} rule
 * @property {string} why
 * @property {string} plan
 * @property {string} plan_why
 * @property {string} mode
 * @property {Record<string, unknown>} profile
 * @property {string[]} special
 * @property {number} measured
 * @property {{trait: string, value: string, evidence: string}[]} findings
 * @property {string} learned
 */
/** @typedef {{model?: string, running?: boolean, requests?: number, most?: number, last?: string, error?: string}} Progress */

/**
 * @param {import("./app.js").About} about
 * @returns {import("./app.js").Part}
 */
export function makeModels(about) {
  const list = h("div", { class: "stack" }, h("p", { class: "soft" }, "Loading…"));
  let visible = false;
  /** The requests of the last day by model. @type {Map<string, Usage>} */
  let usage = new Map();

  async function refresh() {
    try {
      const { models, left_out, probe } = await fetchJson("toolspeak/models");
      const cards = models.map((/** @type {Profile} */ model) => drawModel(model, probe, startProbe, usage.get(model.name)));
      setChildren(list, cards, left_out > 0 && h("p", { class: "soft" }, `${plural(left_out, "more model is", "more models are")} not shown.`), !models.length && h("p", { class: "notice" }, "No models are configured by name. You can still use any model that the upstream serves."));
      if (probe.running && visible) setTimeout(refresh, POLL_INTERVAL);
      else if (probe.model && !probe.running) announce(probe.error || `Probe of ${probe.model} complete.`);
    } catch (error) {
      setChildren(list, h("p", { class: "notice bad" }, errorText(error)));
    }
  }

  /** @param {string} model */
  async function startProbe(model) {
    try {
      await fetchJson("toolspeak/probe", { method: "POST", body: { model } });
      announce(`Probing ${model}.`);
      await refresh();
    } catch (error) {
      list.prepend(h("p", { class: "notice bad", role: "alert" }, errorText(error)));
    }
  }

  const element = h(
    "div",
    { class: "scroll" },
    h(
      "div",
      { class: "page" },
      h("header", {}, h("h1", {}, "Models"), h("p", { class: "lead" }, "What toolspeak knows about each model. ", h("em", {}, "Probe"), " tests it, usually with 13 to 25 small requests and never with more than 64. Results are kept for a week.")),
      list,
    ),
  );
  return {
    element,
    async show() {
      visible = true;
      await refresh();
      usage = await loadUsage();
      if (visible && usage.size) await refresh();
    },
    hide() {
      visible = false;
    },
  };
}

/**
 * @param {Profile} model
 * @param {Progress} probe
 * @param {(name: string) => void} startProbe
 * @param {Usage | undefined} usage
 */
function drawModel(model, probe, startProbe, usage) {
  if (model.error) return h("section", { class: "card" }, h("h2", {}, model.name), h("p", { class: "notice warn" }, model.error));
  const running = probe.running && probe.model === model.name;
  const special = model.special.flatMap((field) => badges(field, model.profile[field]));
  return h(
    "section",
    { class: "card stack model" },
    h(
      "div",
      { class: "row apart" },
      h("div", {}, h("h2", {}, model.name), h("p", { class: "soft small" }, [...new Set([model.upstream, model.provider, model.base_url, model.protocol.replaceAll("_", " ")])].filter(Boolean).join(" · "))),
      h("button", { type: "button", disabled: Boolean(probe.running), click: () => startProbe(model.name), "aria-label": `Probe ${model.name}` }, running ? "Probing…" : "Probe"),
    ),
    running && drawProgress(probe),
    !running && probe.model === model.name && probe.error && h("p", { class: "notice bad" }, probe.error),
    h(
      "dl",
      { class: "facts" },
      h("dt", {}, "Tool calling"),
      h("dd", {}, h("span", { class: "badge good" }, model.plan), " ", withCode(model.plan_why)),
      h("dt", {}, "Source"),
      h("dd", {}, h("span", { title: model.rule }, withCode(model.why))),
      model.learned && [h("dt", {}, "Learned in use"), h("dd", {}, model.learned)],
      h("dt", {}, "Last probe"),
      h("dd", {}, model.measured ? day(model.measured) : "never"),
      h("dt", {}, "Last 24 hours"),
      h("dd", {}, usage ? describe(usage) : "no requests"),
    ),
    h("nav", { class: "row small", "aria-label": `Views of ${model.name}` }, VIEWS.map(([title, address]) => h("a", { href: address(model.name) }, title))),
    special.length > 0 && h("div", { class: "row" }, special),
    model.findings.length > 0 && disclosure("Probe results", () => drawFindings(model)),
    disclosure("Full profile", () => h("dl", { class: "facts small" }, Object.entries(model.profile).flatMap(([name, value]) => [h("dt", {}, name.replaceAll("_", " ")), h("dd", {}, JSON.stringify(value))]))),
  );
}

/**
 * A field of a profile, or each field of an object in it.
 * @param {string} name
 * @param {unknown} value
 * @returns {HTMLElement[]}
 */
function badges(name, value) {
  if (typeof value !== "object" || value === null) return [h("span", { class: "badge" }, `${name.replaceAll("_", " ")}: ${value}`)];
  if (Array.isArray(value)) return [h("span", { class: "badge" }, `${name.replaceAll("_", " ")}: ${value.join(", ") || "none"}`)];
  return Object.entries(value).flatMap(([part, each]) => badges(`${name} ${part}`, each));
}

/** The views that are opened for a model. */
const VIEWS = /** @type {[string, (name: string) => string][]} */ ([
  ["Try in Playground", (name) => `#/playground/?model=${encodeURIComponent(name)}`],
  ["Evaluate", (name) => `#/evaluate/?model=${encodeURIComponent(name)}`],
  ["Requests", (name) => `#/requests/?${encodeURIComponent(`model:${name}`)}`],
]);

/** @typedef {import("./dashboard.js").Totals} Usage */

/** @returns {Promise<Map<string, Usage>>} */
async function loadUsage() {
  const now = Math.floor(Date.now() / 1000);
  const { groups } = await fetchJson(`toolspeak/statistics?since=${now - DAY_SECONDS}&until=${now + 60}`).catch(() => ({ groups: {} }));
  return new Map(Object.entries(groups.model ?? {}));
}

/** @param {Usage} usage */
const describe = ({ requests = 0, errors = 0, calls = 0, no_call: noCall = 0 }) => [plural(requests, "request"), `${percent((requests - errors) / requests)} succeeded`, calls > 0 && plural(calls, "call"), noCall > 0 && `${noCall} with tools but without a call`].filter(Boolean).join(" · ");

/** @param {Progress} probe */
function drawProgress(probe) {
  const bar = h("progress", { max: Math.max(25, probe.requests ?? 0), value: probe.requests ?? 0, "aria-label": "Probe" });
  return h("div", { class: "stack-tight" }, bar, h("p", { class: "small soft" }, probe.requests ? `${plural(probe.requests, "request")}${probe.last ? `, ${probe.last.replaceAll("_", " ")}` : ""}` : "Starting…"));
}

/** @param {Profile} model */
function drawFindings(model) {
  const head = h("tr", {}, ["", "result", "evidence"].map((name) => h("th", { scope: "col" }, name)));
  const rows = model.findings.map((finding) => h("tr", {}, h("th", { scope: "row" }, finding.trait.replaceAll("_", " ")), h("td", {}, finding.value), h("td", { class: "soft" }, finding.evidence)));
  return h("div", { class: "wide", tabindex: 0 }, h("table", {}, h("thead", {}, head), h("tbody", {}, rows)));
}
