// @ts-check
/** One streamed answer of `/v1/chat/completions`: its pieces as they come, and the whole of it at the end. */

import { beside, Refused, refusal } from "./api.js";
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
 * @property {number} tokens
 */

/**
 * Asks, and tells of every piece.
 * @param {object} body
 * @param {Record<string, string>} settings
 * @param {AbortSignal} signal
 * @param {(heard: Heard, piece: {text?: string, reasoning?: string, call?: Call} | null) => void} told
 * @returns {Promise<Heard>}
 */
export async function listen(body, settings, signal, told) {
  const answer = await fetch("v1/chat/completions", {
    method: "POST",
    signal,
    headers: { "content-type": "application/json", ...(Object.values(settings).some(Boolean) && { "x-toolspeak-settings": JSON.stringify(settings) }) },
    body: JSON.stringify({ ...body, stream: true, stream_options: { include_usage: true } }),
  });
  if (!answer.ok || !answer.body) throw await refusal(answer);
  /** @type {Heard} */
  const heard = { text: "", reasoning: "", calls: [], finish: "", record: "", plan: "", warnings: [], tokens: 0 };
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
 * @param {(heard: Heard, piece: {text?: string, reasoning?: string, call?: Call} | null) => void} told
 */
function take(heard, chunk, told) {
  note(heard, chunk.toolspeak ?? {});
  if (chunk.error) throw new Refused(200, String(chunk.error.message ?? chunk.error), heard.record);
  heard.tokens = chunk.usage?.total_tokens ?? heard.tokens;
  const [choice] = chunk.choices ?? [];
  heard.finish = choice?.finish_reason ?? heard.finish;
  const { content: text = "", reasoning_content: reasoning = "", tool_calls: calls = [] } = choice?.delta ?? {};
  if (reasoning) {
    heard.reasoning += reasoning;
    told(heard, { reasoning });
  }
  if (text) {
    heard.text += text;
    told(heard, { text });
  }
  for (const piece of calls ?? []) {
    const call = (heard.calls[piece.index ?? 0] ??= { id: "", name: "", arguments: "" });
    call.id ||= piece.id ?? "";
    call.name ||= piece.function?.name ?? "";
    call.arguments += piece.function?.arguments ?? "";
    told(heard, { call });
  }
}

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
