// Runs the protocols of `@ai-sdk-tool/parser` for `bench/accuracy.py`.
//
// Reads one case per line from standard input, as JSON, and answers with the calls of every protocol and the CPU time
// that it took. Each text goes through the package's own `wrapGenerate`, as the answer of a model that wrote just that.
import { createInterface } from "node:readline";
import * as parser from "@ai-sdk-tool/parser";

const PROTOCOLS = {
  hermes: parser.hermesProtocol(),
  morphXml: parser.morphXmlProtocol(),
  qwen3Coder: parser.qwen3CoderProtocol(),
  uiTarsXml: parser.uiTarsXmlProtocol(),
  yamlXml: parser.yamlXmlProtocol(),
};

// Only the answers may go to standard output.
for (const level of ["log", "info", "debug", "warn", "error"]) console[level] = () => {};

const write = (value) => process.stdout.write(JSON.stringify(value) + "\n");

const toolOf = ({ function: { name, description, parameters } }) => ({
  type: "function",
  name,
  description,
  inputSchema: parameters ?? { type: "object" },
});

async function callsOf(protocol, text, tools) {
  const providerOptions = { toolCallMiddleware: { originalTools: parser.encodeOriginalTools(tools) } };
  const doGenerate = async () => ({ content: [{ type: "text", text }], finishReason: "stop", usage: {}, warnings: [] });
  const { content } = await parser.wrapGenerate({ protocol, doGenerate, params: { providerOptions } });
  return content.filter((part) => part.type === "tool-call").map((part) => [part.toolName, JSON.parse(part.input)]);
}

// The calls that one protocol finds; null if it fails.
async function measured(protocol, { text, repeats }, tools) {
  let calls = null;
  let best = Infinity;
  for (let repeat = 0; repeat < repeats; repeat++) {
    const started = process.cpuUsage();
    try {
      calls = await callsOf(protocol, text, tools);
    } catch {
      calls = null;
    }
    const { user, system } = process.cpuUsage(started);
    best = Math.min(best, (user + system) / 1e6);
  }
  return { calls, seconds: best };
}

write(Object.keys(PROTOCOLS));
for await (const line of createInterface({ input: process.stdin })) {
  const given = JSON.parse(line);
  const tools = given.tools.map(toolOf);
  const answer = {};
  for (const [name, protocol] of Object.entries(PROTOCOLS)) answer[name] = await measured(protocol, given, tools);
  write(answer);
}
