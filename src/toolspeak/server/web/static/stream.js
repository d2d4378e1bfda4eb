// @ts-check
/** One streamed reply of `/v1/chat/completions`: its pieces as they arrive, and the complete reply at the end. */

import { metadata, ApiError, errorFrom, request } from "./api.js";
import { TimeSlice } from "./time_slice.js";

/** @typedef {{id: string, name: string, arguments: string}} Call */
/**
 * @typedef {object} StreamedReply
 * @property {string} text
 * @property {string} reasoning
 * @property {Call[]} calls
 * @property {string} finish
 * @property {string} record the id of the recorded request
 * @property {string} plan
 * @property {number} requests that were sent to the model; 0 if unknown
 * @property {string[]} warnings
 * @property {number} input input tokens
 * @property {number} output output tokens
 */
/** @typedef {{call?: Call, result?: {id: string, content: string, error: boolean, seconds: number, diffs?: {path: string, diff: string}[]}}} ServerToolEvent an event about a tool that the server runs */
/** @typedef {{text?: string, reasoning?: string, call?: Call, serverTool?: ServerToolEvent}} Piece */

/**
 * Sends a request, and reports every piece of the reply.
 * @param {object} body
 * @param {Record<string, string | number | string[]>} settings
 * @param {AbortSignal} signal
 * @param {(reply: StreamedReply, piece: Piece | null) => void} onPiece
 * @param {string} [id] by which the server recognises the request while it runs
 * @returns {Promise<StreamedReply>}
 */
export async function streamReply(body, settings, signal, onPiece, id) {
  const response = await request("v1/chat/completions", {
    method: "POST",
    signal,
    headers: { "content-type": "application/json", ...(id && { "x-request-id": id }), ...(Object.values(settings).some((value) => String(value)) && { "x-toolspeak-settings": ascii(settings) }) },
    body: JSON.stringify({ ...body, stream: true, stream_options: { include_usage: true } }),
  });
  if (!response.ok || !response.body) throw await errorFrom(response);
  /** @type {StreamedReply} */
  const reply = { text: "", reasoning: "", calls: [], finish: "", record: "", plan: "", requests: 0, warnings: [], input: 0, output: 0 };
  applyMetadata(reply, metadata(response));
  onPiece(reply, null); // report the id now, in case the request is stopped
  const slice = new TimeSlice();
  for await (const data of events(response.body)) {
    if (data !== "[DONE]") applyChunk(reply, JSON.parse(data), onPiece);
    if (slice.expired) await slice.next();
  }
  return reply;
}

/**
 * The data of server-sent events.
 * @param {ReadableStream<Uint8Array>} stream
 * @returns {AsyncGenerator<string>}
 */
async function* events(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) if (line.startsWith("data:")) yield line.slice(5).trim();
  }
}

/**
 * @param {StreamedReply} reply
 * @param {any} chunk
 * @param {(reply: StreamedReply, piece: Piece | null) => void} onPiece
 */
function applyChunk(reply, chunk, onPiece) {
  applyMetadata(reply, chunk.toolspeak ?? {});
  if (chunk.error) throw new ApiError(200, String(chunk.error.message ?? chunk.error), reply.record);
  reply.input = chunk.usage?.prompt_tokens ?? reply.input;
  reply.output = chunk.usage?.completion_tokens ?? reply.output;
  if (chunk.toolspeak?.call || chunk.toolspeak?.result) onPiece(reply, { serverTool: chunk.toolspeak });
  const [choice] = chunk.choices ?? [];
  reply.finish = choice?.finish_reason ?? reply.finish;
  const { content: text = "", reasoning_content: reasoning = "", tool_calls: calls = [] } = choice?.delta ?? {};
  if (reasoning) {
    reply.reasoning += reasoning;
    onPiece(reply, { reasoning });
  }
  const piece = reply.text ? text : text?.replace(/^\n+/, ""); // leading line breaks are dropped
  if (piece) {
    reply.text += piece;
    onPiece(reply, { text: piece });
  }
  for (const part of calls ?? []) {
    const call = (reply.calls[part.index ?? 0] ??= { id: "", name: "", arguments: "" });
    call.id ||= part.id ?? "";
    call.name ||= part.function?.name ?? "";
    call.arguments += part.function?.arguments ?? "";
    onPiece(reply, { call });
  }
}

/**
 * A value as JSON in ASCII, for use in a header.
 * @param {object} value
 */
const ascii = (value) => JSON.stringify(value).replace(/[^ -~]/g, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`);

/**
 * Applies toolspeak metadata to a reply.
 * @param {StreamedReply} reply
 * @param {{id?: string, plan?: string, requests?: number, warnings?: string[]}} data
 */
function applyMetadata(reply, data) {
  reply.record = data.id ?? reply.record;
  reply.plan = data.plan ?? reply.plan;
  reply.requests = data.requests ?? reply.requests;
  reply.warnings = data.warnings ?? reply.warnings;
}
