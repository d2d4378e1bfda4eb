// @ts-check
/** What is known of each model, how that was learned, a probe on demand, and results of evaluations as charts. */

import { ask } from "./api.js";
import { disclosure, h, put, say, withCode } from "./dom.js";
import { drawEvaluation } from "./evaluation.js";
import { day } from "./format.js";

/** Milliseconds between two looks at a probe that runs. */
const EVERY = 700;

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
  const list = h("div", { class: "stack" }, h("p", { class: "soft" }, "One moment."));
  const evaluations = h("div", { class: "stack" });
  // Apart from what the server knows, which is looked up anew and drawn over.
  const opened = h("div", { class: "stack" });
  let shown = false;

  async function look() {
    try {
      const { models, left_out, probe } = await ask("toolspeak/models");
      const cards = models.map((/** @type {Profile} */ model) => drawModel(model, probe, begin));
      put(list, cards, left_out > 0 && h("p", { class: "soft" }, `${left_out} more are not shown.`), !models.length && h("p", { class: "notice" }, "No model is known by name. Requests may still name any model that the upstream serves."));
      if (probe.running && shown) setTimeout(look, EVERY);
      else if (probe.model && !probe.running) say(probe.error || `The probe of ${probe.model} is finished.`);
    } catch (error) {
      put(list, h("p", { class: "notice bad" }, /** @type {Error} */ (error).message));
    }
  }

  /** @param {string} model */
  async function begin(model) {
    try {
      await ask("toolspeak/probe", { method: "POST", body: { model } });
      say(`${model} is being probed.`);
      await look();
    } catch (error) {
      list.prepend(h("p", { class: "notice bad", role: "alert" }, /** @type {Error} */ (error).message));
    }
  }

  const file = h("input", { type: "file", accept: ".json,application/json", change: (event) => open(event.target) });
  /** @param {HTMLInputElement} input */
  async function open(input) {
    for (const chosen of input.files ?? []) {
      try {
        opened.prepend(drawEvaluation(JSON.parse(await chosen.text())));
      } catch {
        opened.prepend(h("p", { class: "notice bad" }, `${chosen.name} holds no results of \`toolspeak eval\`.`));
      }
    }
  }

  async function lookForEvaluations() {
    const found = await ask("toolspeak/evaluations").catch(() => ({ evaluations: [] }));
    put(evaluations, found.evaluations.map(drawEvaluation));
  }

  const element = h(
    "div",
    { class: "scroll" },
    h(
      "div",
      { class: "page" },
      h("header", {}, h("h1", {}, "Models"), h("p", { class: "lead" }, "What each model is known to do, and which rule says so. A probe asks the model itself: some 13 to 25 small requests, kept for a week.")),
      list,
      h("section", { class: "stack evaluations", "aria-label": "Evaluations" }, h("h2", {}, "Evaluations"), h("p", { class: "soft" }, "Results of ", h("code", {}, "toolspeak eval"), " in the working directory of the server, or from a file."), h("label", {}, "Open a results.json", file), opened, evaluations),
    ),
  );
  return {
    element,
    show() {
      shown = true;
      look();
      lookForEvaluations();
    },
    hide() {
      shown = false;
    },
  };
}

/**
 * @param {Profile} model
 * @param {Progress} probe
 * @param {(name: string) => void} begin
 */
function drawModel(model, probe, begin) {
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
      h("button", { type: "button", disabled: Boolean(probe.running), click: () => begin(model.name), "aria-label": `Probe ${model.name}` }, running ? "Probing …" : "Probe"),
    ),
    running && drawProgress(probe),
    !running && probe.model === model.name && probe.error && h("p", { class: "notice bad" }, probe.error),
    h(
      "dl",
      { class: "facts" },
      h("dt", {}, "With tools"),
      h("dd", {}, h("span", { class: "badge good" }, model.plan), " ", withCode(model.plan_why)),
      h("dt", {}, "Known because"),
      h("dd", {}, withCode(model.why), " ", h("code", { class: "soft" }, model.rule)),
      model.learned && [h("dt", {}, "Learned since"), h("dd", {}, model.learned)],
      h("dt", {}, "Probed"),
      h("dd", {}, model.measured ? day(model.measured) : "never"),
    ),
    special.length > 0 && h("div", { class: "row" }, special),
    model.findings.length > 0 && disclosure("What the probe found", () => drawFindings(model)),
    disclosure("The whole profile", () => h("dl", { class: "facts small" }, Object.entries(model.profile).flatMap(([name, value]) => [h("dt", {}, name.replaceAll("_", " ")), h("dd", {}, JSON.stringify(value))]))),
  );
}

/** @param {Progress} probe */
function drawProgress(probe) {
  const bar = h("progress", { max: Math.max(25, probe.requests ?? 0), value: probe.requests ?? 0, "aria-label": "Probe" });
  return h("div", { class: "stack-tight" }, bar, h("p", { class: "small soft" }, `request ${probe.requests}${probe.last ? `, ${probe.last}` : ""}`));
}

/** @param {Profile} model */
function drawFindings(model) {
  const head = h("tr", {}, ["", "found", "evidence"].map((name) => h("th", { scope: "col" }, name)));
  const rows = model.findings.map((found) => h("tr", {}, h("th", { scope: "row" }, found.trait.replaceAll("_", " ")), h("td", {}, found.value), h("td", { class: "soft" }, found.evidence)));
  return h("div", { class: "wide", tabindex: 0 }, h("table", {}, h("thead", {}, head), h("tbody", {}, rows)));
}
