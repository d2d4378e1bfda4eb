// The AI SDK with one of its providers: two tools, rounds until the answer, once whole and once streamed.
import { appendFileSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

// The packages are not beside this file.
const require = createRequire(`${process.env.CLIENT_PACKAGES}/index.js`);
const load = (name) => import(pathToFileURL(require.resolve(name)));
const { generateText, streamText, tool, stepCountIs } = await load("ai");
const { z } = await load("zod");
const errand = process.argv[3];

const models = {
  openai: async () => (await load("@ai-sdk/openai")).openai("m"),
  chat: async () => (await load("@ai-sdk/openai")).openai.chat("m"),
  anthropic: async () => (await load("@ai-sdk/anthropic")).anthropic("m"),
  google: async () => {
    const google = await load("@ai-sdk/google");
    const create = google.createGoogle ?? google.createGoogleGenerativeAI;
    return create({ baseURL: `${process.env.SERVER_URL}/v1beta` })("m");
  },
};

const tools = {
  read_text: tool({
    description: "Read a text file.",
    inputSchema: z.object({ path: z.string() }),
    execute: async ({ path }) => readFileSync(path, "utf8"),
  }),
  write_text: tool({
    description: "Write a text file.",
    inputSchema: z.object({ path: z.string(), text: z.string() }),
    execute: async ({ path, text }) => {
      appendFileSync(path, text);
      return `wrote ${text.length} characters`;
    },
  }),
};

const model = await models[process.argv[2]]();
const asked = { model, tools, prompt: errand, stopWhen: stepCountIs(5), maxRetries: 0 };
const whole = await generateText(asked);
console.log(`whole: ${whole.text} (${whole.finishReason}, ${whole.steps.length} steps)`);

const streamed = streamText({ ...asked, onError: ({ error }) => { console.error(error); process.exitCode = 1; } });
let text = "";
for await (const part of streamed.textStream) text += part;
console.log(`streamed: ${text} (${await streamed.finishReason}, ${(await streamed.steps).length} steps)`);
