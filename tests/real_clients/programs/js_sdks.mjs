// The vendors' own JavaScript SDKs with two tools and rounds until the answer, once whole and once streamed.
// Where an SDK runs the rounds itself, it is let do so.
import { appendFileSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

// The packages are not beside this file.
const require = createRequire(`${process.env.CLIENT_PACKAGES}/index.js`);
const load = (name) => import(pathToFileURL(require.resolve(name)));
const errand = process.argv[3];

const functions = {
  read_text: ({ path }) => readFileSync(path, "utf8"),
  write_text: ({ path, text }) => {
    appendFileSync(path, text);
    return `wrote ${text.length} characters`;
  },
};
const text = { type: "string" };
const schemas = {
  read_text: { type: "object", properties: { path: text }, required: ["path"] },
  write_text: { type: "object", properties: { path: text, text }, required: ["path", "text"] },
};
const names = Object.keys(functions);

const speakers = {
  async openai(stream) {
    const { default: OpenAI } = await load("openai");
    const client = new OpenAI({ maxRetries: 0 });
    const tools = names.map((name) => ({
      type: "function",
      function: { name, description: name, parameters: schemas[name], function: functions[name], parse: JSON.parse },
    }));
    const messages = [{ role: "user", content: errand }];
    const runner = client.chat.completions.runTools({ model: "m", messages, tools, stream });
    return await runner.finalContent();
  },
  async responses(stream) {
    const { default: OpenAI } = await load("openai");
    const client = new OpenAI({ maxRetries: 0 });
    const tools = names.map((name) => ({ type: "function", name, parameters: schemas[name], strict: false }));
    const input = [{ role: "user", content: errand }];
    for (let round = 0; round < 5; round++) {
      const asked = { model: "m", input, tools };
      const answer = stream
        ? await client.responses.stream(asked).finalResponse()
        : await client.responses.create(asked);
      const calls = answer.output.filter((item) => item.type === "function_call");
      if (!calls.length) return answer.output_text;
      input.push(...answer.output);
      for (const { call_id, name, arguments: given } of calls) {
        input.push({ type: "function_call_output", call_id, output: functions[name](JSON.parse(given)) });
      }
    }
  },
  async anthropic(stream) {
    const { default: Anthropic } = await load("@anthropic-ai/sdk");
    const client = new Anthropic({ maxRetries: 0 });
    const tools = names.map((name) => ({
      name, description: name, input_schema: schemas[name], run: functions[name], parse: (given) => given,
    }));
    const messages = [{ role: "user", content: errand }];
    const runner = client.beta.messages.toolRunner({ model: "m", max_tokens: 500, messages, tools, stream });
    const answer = await runner.runUntilDone();
    return answer.content.map((block) => block.text ?? "").join("");
  },
  async google(stream) {
    const { GoogleGenAI } = await load("@google/genai");
    const client = new GoogleGenAI({ apiKey: "any", httpOptions: { baseUrl: process.env.SERVER_URL } });
    const functionDeclarations = names.map((name) => ({ name, parametersJsonSchema: schemas[name] }));
    const contents = [{ role: "user", parts: [{ text: errand }] }];
    for (let round = 0; round < 5; round++) {
      const asked = { model: "m", contents, config: { tools: [{ functionDeclarations }] } };
      const answers = [];
      if (stream) for await (const piece of await client.models.generateContentStream(asked)) answers.push(piece);
      else answers.push(await client.models.generateContent(asked));
      const parts = answers.flatMap((answer) => answer.candidates?.[0]?.content?.parts ?? []);
      const calls = parts.flatMap((part) => part.functionCall ?? []);
      if (!calls.length) return parts.map((part) => part.text ?? "").join("");
      contents.push({ role: "model", parts });
      contents.push({
        role: "user",
        parts: calls.map(({ id, name, args }) => ({
          functionResponse: { id, name, response: { output: functions[name](args) } },
        })),
      });
    }
  },
  async ollama(stream) {
    const { Ollama } = await load("ollama");
    const client = new Ollama({ host: process.env.OLLAMA_HOST });
    const tools = names.map((name) => ({ type: "function", function: { name, parameters: schemas[name] } }));
    const messages = [{ role: "user", content: errand }];
    for (let round = 0; round < 5; round++) {
      const message = { role: "assistant", content: "", tool_calls: [] };
      const add = (part) => {
        message.content += part.message.content;
        message.tool_calls.push(...(part.message.tool_calls ?? []));
      };
      const answer = await client.chat({ model: "m", messages, tools, stream });
      if (stream) for await (const part of answer) add(part);
      else add(answer);
      if (!message.tool_calls.length) return message.content;
      messages.push(message);
      for (const { function: { name, arguments: given } } of message.tool_calls) {
        messages.push({ role: "tool", tool_name: name, content: functions[name](given) });
      }
    }
  },
  async agents(stream) {
    const { Agent, run, setTracingDisabled, tool } = await load("@openai/agents");
    const { z } = await load("zod");
    setTracingDisabled(true);
    const shapes = { read_text: z.object({ path: z.string() }), write_text: z.object({ path: z.string(), text: z.string() }) };
    const tools = names.map((name) =>
      tool({ name, description: name, parameters: shapes[name], execute: async (given) => functions[name](given) }),
    );
    const agent = new Agent({ name: "Errands", model: "m", tools });
    const result = await run(agent, errand, { stream });
    if (stream) await result.completed;
    return result.finalOutput;
  },
};

for (const stream of [false, true]) {
  console.log(`${stream ? "streamed" : "whole"}: ${await speakers[process.argv[2]](stream)}`);
}
