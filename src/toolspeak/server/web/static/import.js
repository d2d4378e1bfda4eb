// @ts-check
/** Import: reads a pasted request or answer, shows it as in the inspector, says what would fix it, exports a test case. */

import { fetchJson } from "./api.js";
import { drawAttempts } from "./attempts.js";
import { download as saveFile } from "./chat_export.js";
import { copyButton } from "./copy.js";
import { announce, errorText, h, labelled, select, setChildren, withCode } from "./dom.js";
import { plural, sentence } from "./format.js";
import { recognise } from "./import_formats.js";
import { checkedSuite, handOver } from "./suites.js";

/** The policies, from the most careful one. */
const POLICIES = ["strict", "standard", "eager"];
const DEFAULT_POLICY = "standard";

/** @typedef {{name: string, description: string, parameters: any}} Tool */
/** @typedef {{question: string, tools: Tool[], views: Record<string, any>}} Imported */

/**
 * @param {import("./app.js").About} about
 * @returns {import("./app.js").Part}
 */
export function makeImport(about) {
  const source = /** @type {HTMLTextAreaElement} */ (h("textarea", { rows: 10, class: "mono wide-text", spellcheck: "false", placeholder: "curl https://api.example.com/v1/chat/completions -d '{…}'\n\nor a HAR file, a request, or a model's answer" }));
  const answer = /** @type {HTMLTextAreaElement} */ (h("textarea", { rows: 4, class: "mono wide-text", spellcheck: "false", placeholder: "what the model wrote" }));
  const file = h("input", { type: "file", accept: ".har,.json,.txt,application/json,text/plain", change: (event) => open(event.target.files[0]) });
  const result = h("div", { class: "stack" });

  /** @param {File | undefined} chosen */
  async function open(chosen) {
    if (!chosen) return;
    source.value = await chosen.text();
    read();
  }

  async function read() {
    if (!source.value.trim()) {
      setChildren(result, h("p", { class: "notice warn", role: "alert" }, "Paste something first, or open a file."));
      return source.focus();
    }
    try {
      const recognised = recognise(source.value);
      const choice = select(recognised.others.map((_, index) => String(index)));
      for (const [index, option] of [...choice.options].entries()) option.text = recognised.others[index].label;
      const place = h("div", { class: "stack" });
      choice.addEventListener("change", () => show(recognised.others[Number(choice.value)].body, place));
      setChildren(result, h("p", { class: "notice" }, "Recognised: ", h("span", { class: "strong" }, recognised.what), "."), recognised.others.length > 1 && labelled("Request", choice), place);
      await show(recognised.body, place);
    } catch (error) {
      setChildren(result, h("p", { class: "notice bad", role: "alert" }, errorText(error)));
    }
  }

  /**
   * @param {import("./import_formats.js").ImportBody} body
   * @param {HTMLElement} place
   */
  async function show(body, place) {
    const complete = body.answer || body.reply ? body : { ...body, answer: answer.value };
    try {
      /** @type {Imported} */
      const imported = await fetchJson("toolspeak/import", { method: "POST", body: complete });
      const hasAnswer = Boolean(complete.answer || complete.reply);
      setChildren(place, draw(imported, hasAnswer));
      announce(hasAnswer ? verdict(imported)[1] : "The request was read.");
    } catch (error) {
      setChildren(place, h("p", { class: "notice bad", role: "alert" }, errorText(error)));
    }
  }

  const form = h(
    "form",
    { class: "card stack", submit: (/** @type {Event} */ event) => (event.preventDefault(), read()) },
    labelled("Request or answer", source),
    labelled("The model's answer, if it is not included", answer),
    h("div", { class: "fields" }, h("button", { class: "main" }, "Analyse"), h("label", {}, "Open a file", file)),
    h("p", { class: "small soft" }, "Headers stay in your browser, so no key is sent. No model is called."),
  );
  const element = h("div", { class: "scroll" }, h("div", { class: "page tidy" }, h("header", {}, h("h1", {}, "Import"), h("p", { class: "lead" }, "Paste a request that failed. See what toolspeak finds in the answer and what would fix it, and save it as a test case.")), form, result));
  return { element };
}

/**
 * @param {Imported} imported
 * @param {boolean} hasAnswer
 * @returns {import("./dom.js").Child}
 */
function draw(imported, hasAnswer) {
  const [policy, words, good] = verdict(imported);
  const view = imported.views[policy];
  return [
    h("section", { class: "card stack", "aria-label": "Request" }, h("h2", {}, "Request"), imported.question && h("p", {}, h("q", {}, imported.question.slice(0, 500))), h("p", { class: "small soft" }, imported.tools.length ? [plural(imported.tools.length, "tool"), ": ", imported.tools.map((tool) => [h("code", {}, tool.name), " "])] : "No tools.")),
    hasAnswer
      ? [h("p", { class: `notice ${good ? "good" : "warn"}` }, h("span", { class: "strong" }, "What would fix it: "), withCode(words)), h("section", { class: "stack", "aria-label": "Answer" }, h("h2", {}, "Answer"), drawAttempts(view, false))]
      : h("p", { class: "notice warn" }, "There is no answer to read. Paste what the model wrote into the second field."),
    makeExport(imported, hasAnswer ? acceptedCalls(view) : []),
  ];
}

/** @param {any} view */
const acceptedCalls = (view) => view.trace.attempts.flatMap((/** @type {any} */ attempt) => attempt.candidates.filter((/** @type {any} */ each) => each.verdict === "call").map((/** @type {any} */ each) => ({ name: each.name, arguments: each.arguments })));

/**
 * The policy with the best view, what would fix the answer, and whether toolspeak can.
 * @param {Imported} imported
 * @returns {[string, string, boolean]}
 */
function verdict(imported) {
  const standard = imported.views[DEFAULT_POLICY];
  const first = POLICIES.find((policy) => imported.views[policy].calls > 0);
  if (!imported.tools.length) return [DEFAULT_POLICY, "The request offers no tools, so no call is possible. Send `tools` with it.", false];
  if (standard.calls > 0) {
    const repairs = standard.repairs ? ` It repairs ${plural(standard.repairs, "mistake")}.` : "";
    return [DEFAULT_POLICY, `toolspeak reads ${plural(standard.calls, "call")} from this answer with its default settings.${repairs} Point the client at this server.`, true];
  }
  if (first) return [first, `With \`policy = "${first}"\`, toolspeak reads ${plural(imported.views[first].calls, "call")} from this answer. By default, it does not. ${sentence(standard.why_no_call)}`, true];
  const retried = standard.trace.attempts.some((/** @type {any} */ attempt) => attempt.fault);
  if (retried) return [DEFAULT_POLICY, `${sentence(standard.why_no_call)} toolspeak sees that and asks the model again, up to \`retries\` times.`, true];
  return [DEFAULT_POLICY, `${sentence(standard.why_no_call)} If a call was expected, try \`plan = "decision"\`, which asks the model to choose a tool first, or a stronger model.`, false];
}

/**
 * The case for `toolspeak eval`.
 * @param {Imported} imported
 * @param {{name: string, arguments: any}[]} calls
 */
function makeExport(imported, calls) {
  const expected = /** @type {HTMLTextAreaElement} */ (h("textarea", { rows: 4, class: "mono wide-text", spellcheck: "false" }));
  expected.value = JSON.stringify(calls, null, 1);
  const status = h("p", { class: "small", role: "status" });
  const text = () => {
    try {
      setChildren(status);
      return JSON.stringify(caseOf(imported, JSON.parse(expected.value || "[]")), null, 1);
    } catch (error) {
      setChildren(status, h("span", { class: "failed" }, `The expected calls are not valid: ${/** @type {Error} */ (error).message}`));
      return "";
    }
  };
  const download = () => {
    const content = text();
    if (content) saveFile("imported.json", "application/json", content);
  };
  const evaluate = async () => {
    const content = text();
    if (!content) return;
    try {
      handOver(await checkedSuite("imported", JSON.parse(content)));
      location.hash = "#/evaluate";
    } catch (error) {
      setChildren(status, h("span", { class: "failed" }, errorText(error)));
    }
  };
  return h(
    "section",
    { class: "card stack", "aria-label": "Test case" },
    h("h2", {}, "Test case"),
    h("p", { class: "small soft" }, withCode("Run it with `toolspeak eval --suite imported.json --model NAME`. It asks the last question with these tools and expects these calls; with none, it expects a text answer.")),
    labelled("Expected calls", expected),
    h("div", { class: "row" }, h("button", { type: "button", click: download }, "Download"), h("button", { type: "button", click: evaluate }, "Evaluate"), copyButton(text, "test case")),
    status,
  );
}

/**
 * @param {Imported} imported
 * @param {{name: string, arguments?: Record<string, unknown>}[]} calls
 */
export function caseOf(imported, calls) {
  if (!Array.isArray(calls)) throw new Error("write a list");
  const expected = calls.map(({ name, arguments: given = {} }) => {
    if (!imported.tools.some((tool) => tool.name === name)) throw new Error(`there is no tool ${JSON.stringify(name)}`);
    return { name, arguments: Object.fromEntries(Object.entries(given).map(([key, value]) => [key, [value]])) };
  });
  const tools = Object.fromEntries(imported.tools.map((tool) => [tool.name, { description: tool.description, parameters: tool.parameters ?? { type: "object" } }]));
  return { version: "1", tools, tasks: [{ id: "imported-1", category: "imported", ask: imported.question, tools: imported.tools.map((tool) => tool.name), rounds: [{ calls: expected }] }] };
}
