// @ts-check
/** One streamed answer of `/v1/chat/completions`: its pieces as they come, and the whole of it at the end. */

import { beside, Refused, refusal, sent } from "./api.js";
import { Turn } from "./turns.js";

/** @typedef {{id: string, name: string, arguments: string}} Call */
/**
 * @typedef {object} Heard
 * @property {string} text
 * @property {string} reasoning
 * @property {Call[]} calls
 * @property {string} finish
 * @property {string} record the id under which the server tells more
 * @property {string} plan
 * @property {string[]} warnings
 * @property {number} input tokens that were read
 * @property {number} output tokens that were written
 */
/** @typedef {{call?: Call, result?: {id: string, content: string, error: boolean, seconds: number}}} Ran what the server says of a tool that it runs */
/** @typedef {{text?: string, reasoning?: string, call?: Call, ran?: Ran}} Piece */

/**
 * Asks, and tells of every piece.
 * @param {object} body
 * @param {Record<string, string | string[]>} settings
 * @param {AbortSignal} signal
 * @param {(heard: Heard, piece: Piece | null) => void} told
 * @returns {Promise<Heard>}
 */
export async function listen(body, settings, signal, told) {
  const answer = await sent("v1/chat/completions", {
    method: "POST",
    signal,
    headers: { "content-type": "application/json", ...(Object.values(settings).some((value) => value.length) && { "x-toolspeak-settings": ascii(settings) }) },
    body: JSON.stringify({ ...body, stream: true, stream_options: { include_usage: true } }),
  });
  if (!answer.ok || !answer.body) throw await refusal(answer);
  /** @type {Heard} */
  const heard = { text: "", reasoning: "", calls: [], finish: "", record: "", plan: "", warnings: [], input: 0, output: 0 };
  note(heard, beside(answer));
  told(heard, null); // whoever stops it now knows what it was
  const turn = new Turn();
  for await (const data of events(answer.body)) {
    if (data !== "[DONE]") take(heard, JSON.parse(data), told);
    if (turn.over) await turn.next();
  }
  return heard;
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
 * @param {Heard} heard
 * @param {any} chunk
 * @param {(heard: Heard, piece: Piece | null) => void} told
 */
function take(heard, chunk, told) {
  note(heard, chunk.toolspeak ?? {});
  if (chunk.error) throw new Refused(200, String(chunk.error.message ?? chunk.error), heard.record);
  heard.input = chunk.usage?.prompt_tokens ?? heard.input;
  heard.output = chunk.usage?.completion_tokens ?? heard.output;
  if (chunk.toolspeak?.call || chunk.toolspeak?.result) told(heard, { ran: chunk.toolspeak });
  const [choice] = chunk.choices ?? [];
  heard.finish = choice?.finish_reason ?? heard.finish;
  const { content: text = "", reasoning_content: reasoning = "", tool_calls: calls = [] } = choice?.delta ?? {};
  if (reasoning) {
    heard.reasoning += reasoning;
    told(heard, { reasoning });
  }
  const piece = heard.text ? text : text?.replace(/^\n+/, ""); // breaks before the first word are nobody's
  if (piece) {
    heard.text += piece;
    told(heard, { text: piece });
  }
  for (const part of calls ?? []) {
    const call = (heard.calls[part.index ?? 0] ??= { id: "", name: "", arguments: "" });
    call.id ||= part.id ?? "";
    call.name ||= part.function?.name ?? "";
    call.arguments += part.function?.arguments ?? "";
    told(heard, { call });
  }
}

/**
 * A value as a header can hold it.
 * @param {object} value
 */
const ascii = (value) => JSON.stringify(value).replace(/[^ -~]/g, (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`);

/**
 * What the server says beside the answer.
 * @param {Heard} heard
 * @param {{id?: string, plan?: string, warnings?: string[]}} said
 */
function note(heard, said) {
  heard.record = said.id ?? heard.record;
  heard.plan = said.plan ?? heard.plan;
  heard.warnings = said.warnings ?? heard.warnings;
}
