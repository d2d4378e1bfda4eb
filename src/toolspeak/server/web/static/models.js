// @ts-check
/** Model profiles and their sources, and probes on demand. */

import { fetchJson } from "./api.js";
import { disclosure, h, setChildren, announce, withCode } from "./dom.js";
import { day } from "./format.js";

/** Milliseconds between two polls of a running probe. */
const POLL_INTERVAL = 700;

/**
 * @typedef {object} Profile
 * @property {string} name
 * @property {string} [error]
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

  async function refresh() {
    try {
      const { models, left_out, probe } = await fetchJson("toolspeak/models");
      const cards = models.map((/** @type {Profile} */ model) => drawModel(model, probe, startProbe));
      setChildren(list, cards, left_out > 0 && h("p", { class: "soft" }, `${left_out} more models are not shown.`), !models.length && h("p", { class: "notice" }, "No models are configured by name. You can still use any model that the upstream serves."));
      if (probe.running && visible) setTimeout(refresh, POLL_INTERVAL);
      else if (probe.model && !probe.running) announce(probe.error || `Probe of ${probe.model} complete.`);
    } catch (error) {
      setChildren(list, h("p", { class: "notice bad" }, /** @type {Error} */ (error).message));
    }
  }

  /** @param {string} model */
  async function startProbe(model) {
    try {
      await fetchJson("toolspeak/probe", { method: "POST", body: { model } });
      announce(`Probing ${model}.`);
      await refresh();
    } catch (error) {
      list.prepend(h("p", { class: "notice bad", role: "alert" }, /** @type {Error} */ (error).message));
    }
  }

  const element = h(
    "div",
    { class: "scroll" },
    h(
      "div",
      { class: "page" },
      h("header", {}, h("h1", {}, "Models"), h("p", { class: "lead" }, "What toolspeak knows about each model. ", h("em", {}, "Probe"), " tests it with 13–25 small requests; results are kept for a week.")),
      list,
    ),
  );
  return {
    element,
    show() {
      visible = true;
      refresh();
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
 */
function drawModel(model, probe, startProbe) {
  if (model.error) return h("section", { class: "card" }, h("h2", {}, model.name), h("p", { class: "notice warn" }, model.error));
  const running = probe.running && probe.model === model.name;
  const special = model.special.map((field) => h("span", { class: "badge" }, `${field.replaceAll("_", " ")}: ${String(model.profile[field])}`));
  return h(
    "section",
    { class: "card stack model" },
    h(
      "div",
      { class: "row apart" },
      h("div", {}, h("h2", {}, model.name), h("p", { class: "soft small" }, [model.provider, model.base_url, model.protocol.replaceAll("_", " ")].filter(Boolean).join(" · "))),
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
      h("dd", {}, withCode(model.why), " ", h("code", { class: "soft" }, model.rule)),
      model.learned && [h("dt", {}, "Learned in use"), h("dd", {}, model.learned)],
      h("dt", {}, "Last probe"),
      h("dd", {}, model.measured ? day(model.measured) : "never"),
    ),
    special.length > 0 && h("div", { class: "row" }, special),
    model.findings.length > 0 && disclosure("Probe results", () => drawFindings(model)),
    disclosure("Full profile", () => h("dl", { class: "facts small" }, Object.entries(model.profile).flatMap(([name, value]) => [h("dt", {}, name.replaceAll("_", " ")), h("dd", {}, JSON.stringify(value))]))),
  );
}

/** @param {Progress} probe */
function drawProgress(probe) {
  const bar = h("progress", { max: Math.max(25, probe.requests ?? 0), value: probe.requests ?? 0, "aria-label": "Probe" });
  return h("div", { class: "stack-tight" }, bar, h("p", { class: "small soft" }, `request ${probe.requests}${probe.last ? `, ${probe.last}` : ""}`));
}

/** @param {Profile} model */
function drawFindings(model) {
  const head = h("tr", {}, ["", "result", "evidence"].map((name) => h("th", { scope: "col" }, name)));
  const rows = model.findings.map((finding) => h("tr", {}, h("th", { scope: "row" }, finding.trait.replaceAll("_", " ")), h("td", {}, finding.value), h("td", { class: "soft" }, finding.evidence)));
  return h("div", { class: "wide", tabindex: 0 }, h("table", {}, h("thead", {}, head), h("tbody", {}, rows)));
}
