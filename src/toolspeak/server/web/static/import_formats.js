// @ts-check
/** Recognises what a person pastes: a curl command, a HAR file, a request, a response body, or a bare answer. */

/** @typedef {{protocol?: string, request?: any, answer?: string, reply?: string}} ImportBody what the server reads */
/** @typedef {{what: string, body: ImportBody, others: {label: string, body: ImportBody}[]}} Recognised `others` are further requests of a HAR file */

/** @type {[RegExp, string][]} */
const PATHS = [
  [/\/chat\/completions(\?|$)/, "openai_chat"],
  [/\/responses(\?|$)/, "openai_responses"],
  [/\/messages(\?|$)/, "anthropic"],
  [/:(stream)?generateContent(\?|$)/i, "gemini"],
  [/\/api\/chat(\?|$)/, "ollama"],
];
const NAMES = /** @type {Record<string, string>} */ ({ openai_chat: "OpenAI Chat", openai_responses: "OpenAI Responses", anthropic: "Anthropic", gemini: "Gemini", ollama: "Ollama" });

/**
 * @param {string} text
 * @returns {Recognised}
 * @throws {Error} if it is a format that contains no request
 */
export function recognise(text) {
  const trimmed = text.trim();
  if (/[\0\ufffd]/.test(trimmed)) throw new Error("this is not a text file");
  if (/^\$?\s*curl\s/.test(trimmed)) return fromCurl(trimmed.replace(/^\$\s*/, ""));
  /** @type {any} */
  let value;
  try {
    value = JSON.parse(trimmed);
  } catch (error) {
    if (REQUEST_START.test(trimmed)) throw new Error(`this looks like a request or a HAR file, but it is not valid JSON: ${/** @type {Error} */ (error).message}`);
    if (/^(data|event):/m.test(trimmed) && /^data:\s*[{[]/m.test(trimmed)) return found("a streamed response", { answer: streamedText(trimmed) });
    return found("a model's answer", { answer: text });
  }
  if (Array.isArray(value?.log?.entries)) return fromHar(value.log.entries);
  const request = value?.request?.messages || value?.request?.contents ? value.request : value;
  const protocol = protocolOf(request);
  if (!protocol && ["messages", "contents", "log"].some((name) => Object.hasOwn(Object(value), name))) throw new Error("this looks like a request or a HAR file, but it has no list of messages or entries");
  if (protocol) return found(`a request (${NAMES[protocol]})`, { protocol, request });
  const answer = textOf(value);
  return answer === null ? found("a model's answer", { answer: text }) : found("a response body", { answer });
}

/** How JSON begins that is no answer of a model. */
const REQUEST_START = /^\{\s*"(log|messages|contents|model)"\s*:/;

/**
 * @param {string} what
 * @param {ImportBody} body
 * @returns {Recognised}
 */
const found = (what, body) => ({ what, body, others: [] });

/**
 * The protocol of a request body; empty if it is no request.
 * @param {any} body
 */
function protocolOf(body) {
  if (typeof body !== "object" || body === null || Array.isArray(body)) return "";
  if (Array.isArray(body.contents)) return "gemini";
  if (body.input !== undefined && (body.model !== undefined || body.tools)) return "openai_responses";
  if (!Array.isArray(body.messages)) return "";
  const anthropic = body.system !== undefined || body.tools?.some?.((/** @type {any} */ tool) => tool?.input_schema) || (body.max_tokens !== undefined && body.messages.some((/** @type {any} */ each) => each?.content?.some?.((/** @type {any} */ part) => ["tool_use", "tool_result"].includes(part?.type))));
  if (anthropic) return "anthropic";
  return body.options !== undefined || body.keep_alive !== undefined ? "ollama" : "openai_chat";
}

/** @param {string} url */
const protocolAt = (url) => PATHS.find(([path]) => path.test(url))?.[1] ?? "";

const DATA = ["-d", "--data", "--data-raw", "--data-binary", "--data-ascii", "--json"];

/**
 * Headers are left out, because they contain keys.
 * @param {string} command
 */
function fromCurl(command) {
  const words = shellWords(command);
  const url = words.find((word) => /^https?:\/\//.test(word)) ?? "";
  let data = "";
  for (const [index, word] of words.entries()) {
    const joined = DATA.find((option) => option.startsWith("--") && word.startsWith(`${option}=`));
    if (DATA.includes(word)) data = words[index + 1] ?? "";
    else if (joined) data = word.slice(joined.length + 1);
  }
  if (!data) throw new Error("This curl command has no body: it needs -d or --data with JSON.");
  if (data.startsWith("@")) throw new Error(`Paste the content of ${data.slice(1)} instead: the page cannot read the file.`);
  const request = parse(data, "The body of the curl command");
  const protocol = protocolAt(url) || protocolOf(request);
  if (!protocol) throw new Error("The body of the curl command is not a request in a known protocol.");
  return found(`a curl command (${NAMES[protocol]})`, { protocol, request });
}

/**
 * The words of a shell command.
 * @param {string} command
 */
export function shellWords(command) {
  /** @type {string[]} */
  const words = [];
  const ESCAPES = /** @type {Record<string, string>} */ ({ n: "\n", t: "\t", r: "\r" });
  // One word at a time: runs of plain text, escapes and quoted parts without spaces between them.
  for (const [word] of command.matchAll(/(?:\$'(?:\\[^]|[^'\\])*'|'[^']*'|"(?:\\[^]|[^"\\])*"|\\[^]|[^\s'"\\])+/g)) {
    const plain = word.replace(/\$'((?:\\[^]|[^'\\])*)'|'([^']*)'|"((?:\\[^]|[^"\\])*)"|\\([^])/g, (whole, ansi, single, double, escaped) => {
      if (ansi !== undefined) return ansi.replace(/\\(?:u([0-9a-fA-F]{4})|([^]))/g, (/** @type {string} */ _, /** @type {string} */ code, /** @type {string} */ letter) => (code ? String.fromCharCode(parseInt(code, 16)) : ESCAPES[letter] ?? letter));
      if (single !== undefined) return single;
      if (double !== undefined) return double.replace(/\\([$`"\\\n])/g, (/** @type {string} */ _, /** @type {string} */ letter) => (letter === "\n" ? "" : letter));
      return escaped === "\n" ? "" : escaped;
    });
    if (plain) words.push(plain);
  }
  return words;
}

/** @param {any[]} entries of a HAR file */
function fromHar(entries) {
  /** @type {{label: string, body: ImportBody}[]} */
  const bodies = [];
  for (const entry of entries) {
    const url = String(entry?.request?.url ?? "");
    const protocol = protocolAt(url.split("?")[0]);
    if (!protocol || typeof entry.request.postData?.text !== "string") continue;
    try {
      const request = JSON.parse(entry.request.postData.text);
      const { text = "", encoding = "" } = entry.response?.content ?? {};
      const reply = encoding === "base64" ? decodeBase64(text) : text;
      bodies.push({ label: `${NAMES[protocol]} · ${entry.startedDateTime ?? ""} · ${entry.response?.status ?? ""}`, body: { protocol, request, reply } });
    } catch {
      // no JSON: another kind of request
    }
  }
  if (!bodies.length) throw new Error("This HAR file contains no request to a model in a known protocol.");
  return { what: `a HAR file with ${bodies.length} ${bodies.length === 1 ? "request" : "requests"} to a model`, body: bodies[0].body, others: bodies };
}

/** @param {string} text */
const decodeBase64 = (text) => new TextDecoder().decode(Uint8Array.from(atob(text), (character) => character.charCodeAt(0)));

/**
 * The text of a response in any protocol; null if it is none.
 * @param {any} value
 * @returns {string | null}
 */
function textOf(value) {
  const parts = value?.choices?.[0]?.message?.content ?? value?.candidates?.[0]?.content?.parts ?? value?.message?.content ?? value?.output?.flatMap?.((/** @type {any} */ item) => item?.content ?? []) ?? (value?.stop_reason !== undefined ? value.content : undefined);
  if (typeof parts === "string") return parts;
  return Array.isArray(parts) ? parts.map((part) => part?.text ?? "").join("") : null;
}

/**
 * The text of a stream in any protocol.
 * @param {string} stream
 */
function streamedText(stream) {
  let text = "";
  for (const [, data] of stream.matchAll(/^data:\s*(.+)$/gm)) {
    try {
      const piece = JSON.parse(data);
      const delta = piece.choices?.[0]?.delta?.content ?? piece.delta?.text ?? (typeof piece.delta === "string" ? piece.delta : undefined) ?? textOf(piece);
      text += delta ?? "";
    } catch {
      // the end of the stream, or no JSON
    }
  }
  return text;
}

/**
 * @param {string} text
 * @param {string} what
 */
function parse(text, what) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`${what} is not valid JSON: ${/** @type {Error} */ (error).message}`);
  }
}
