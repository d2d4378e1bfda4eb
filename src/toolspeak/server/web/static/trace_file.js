// @ts-check
/** A request as one HTML file that can be passed on: redacted by the server, without scripts, nothing loaded from elsewhere. */

import { h } from "./dom.js";
import { day, duration } from "./format.js";

const STYLE = `
  :root { color-scheme: light dark; }
  body { font: 16px/1.6 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
  pre { white-space: pre-wrap; overflow-wrap: anywhere; background: color-mix(in srgb, currentColor 7%, transparent); padding: 0.75rem 1rem; border-radius: 8px; font-size: 0.875em; }
  table { border-collapse: collapse; } th, td { text-align: start; padding: 0.2rem 1.5rem 0.2rem 0; vertical-align: top; }
  section { border-top: 1px solid color-mix(in srgb, currentColor 25%, transparent); margin-top: 2rem; }
`;
/** Such a file may be opened from anywhere, so it may load and run nothing. */
const POLICY = "default-src 'none'; style-src 'unsafe-inline'";

/**
 * @param {import("./detail.js").RequestDetail} one
 * @returns {string}
 */
export function traceFile(one) {
  const facts = [
    ["Model", one.model],
    ["Plan", `${one.plan} – ${one.trace.why}`],
    ["Time", `${day(one.time)}, ${duration(one.timing.whole)}`],
    ["Client", one.user_agent],
    ["Calls", one.called.join(", ")],
    ["Retries", String(one.retries)],
    ["Tokens", `${one.input_tokens} in, ${one.output_tokens} out`],
    ["Why no call", one.trace.why_no_call],
    ["Error", one.error],
    ["Warnings", one.warnings.join(", ")],
    ["Request", one.id],
  ].filter(([, value]) => value);
  const body = h(
    "body",
    {},
    h("h1", {}, title(one)),
    h("table", {}, facts.map(([name, value]) => h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, value)))),
    one.trace.attempts.map(drawAttempt),
    h("section", {}, h("h2", {}, "Request from the client"), json(one.client.body)),
  );
  const head = h("head", {}, h("meta", { charset: "utf-8" }), h("meta", { "http-equiv": "content-security-policy", content: POLICY }), h("title", {}, `${title(one)} – toolspeak`), h("style", {}, STYLE));
  return `<!doctype html>\n${h("html", { lang: "en" }, head, body).outerHTML}\n`;
}

/**
 * The title of a request: its question, or the results that it returns.
 * @param {{question?: string, results?: string[], model: string}} request
 */
export const title = ({ question, results, model }) => (results?.length ? `↳ result of ${results.join(", ")}` : question || model || "no model");

/**
 * @param {import("./detail.js").Attempt} attempt
 * @param {number} index
 */
function drawAttempt(attempt, index) {
  return h(
    "section",
    {},
    h("h2", {}, `Attempt ${index + 1}`),
    attempt.fault && h("p", {}, `Not accepted: ${attempt.fault.why}`),
    attempt.reasoning && h("details", {}, h("summary", {}, "Reasoning"), h("pre", {}, attempt.reasoning)),
    h("h3", {}, "Answer of the model"),
    h("pre", {}, attempt.raw || "(no text)"),
    attempt.candidates.length > 0 && h("ol", {}, attempt.candidates.map((each) => h("li", {}, h("code", {}, `${each.name}(${JSON.stringify(each.arguments)})`), ` – ${each.verdict}: ${each.why}`, each.notes.map((note) => ` (${note.code} ${note.detail})`)))),
    h("details", {}, h("summary", {}, "Sent to the model"), json(attempt.request)),
  );
}

/** @param {unknown} value */
const json = (value) => h("pre", {}, typeof value === "string" ? value : (JSON.stringify(value, null, 2) ?? ""));
