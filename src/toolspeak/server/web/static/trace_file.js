// @ts-check
/**
 * A request as one HTML file that can be passed on: redacted by the server, nothing loaded from elsewhere.
 * `toolspeak explain ID --html` writes the same file, from the same template and the same data.
 */

import { errorFrom, request } from "./api.js";

/** @param {string} id */
export async function traceFile(id) {
  const [template, data] = await Promise.all([read(new URL("./trace.html", import.meta.url).href), read(`toolspeak/requests/${id}`)]);
  return template.replace("{{request}}", () => data.replaceAll("<", "\\u003c"));
}

/** @param {string} address */
async function read(address) {
  const response = await request(address, { headers: { accept: "application/json" } });
  if (!response.ok) throw await errorFrom(response);
  return response.text();
}

/**
 * The title of a request: its question, or the results that it returns.
 * @param {{question?: string, results?: string[], model: string}} request
 */
export const title = ({ question, results, model }) => (results?.length ? `↳ result of ${results.join(", ")}` : question || model || "no model");
