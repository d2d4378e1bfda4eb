// @ts-check
/** Charts of evaluation results. */

import { fetchJson } from "./api.js";
import { h, setChildren } from "./dom.js";
import { drawEvaluation } from "./evaluation.js";

/** @returns {import("./app.js").Part} */
export function makeEvaluate() {
  const evaluations = h("div", { class: "stack" });
  // Opened files are separate from the server's evaluations, which are redrawn whenever they are loaded.
  const opened = h("div", { class: "stack" });
  const file = h("input", { type: "file", accept: ".json,application/json", change: (event) => open(event.target) });

  /** @param {HTMLInputElement} input */
  async function open(input) {
    for (const chosen of input.files ?? []) {
      try {
        opened.prepend(drawEvaluation(JSON.parse(await chosen.text())));
      } catch {
        opened.prepend(h("p", { class: "notice bad" }, `${chosen.name} does not contain results of \`toolspeak eval\`.`));
      }
    }
  }

  async function load() {
    const stored = await fetchJson("toolspeak/evaluations").catch(() => ({ evaluations: [] }));
    const none = h("p", { class: "notice" }, "No results yet. Run ", h("code", {}, "toolspeak eval --model NAME"), " in the working directory of this server, or open a file.");
    setChildren(evaluations, stored.evaluations.length ? stored.evaluations.map(drawEvaluation) : none);
  }

  const element = h(
    "div",
    { class: "scroll" },
    h(
      "div",
      { class: "page" },
      h("header", {}, h("h1", {}, "Evaluate"), h("p", { class: "lead" }, "How often each model makes the right calls, with each setting.")),
      h("section", { class: "stack evaluations", "aria-label": "Results" }, h("label", {}, "Open results.json", file), opened, evaluations),
    ),
  );
  return { element, show: () => void load() };
}
