// @ts-check
/** Demo tools, which run in this page without access to data and without side effects. */

import { calculate } from "./calculator.js";

/**
 * @typedef {object} DemoTool
 * @property {string} name
 * @property {string} description
 * @property {object} parameters
 * @property {(args: any) => string} run
 */

const MAX_DICE = 100;

/** @type {DemoTool[]} */
export const DEMO_TOOLS = [
  {
    name: "clock",
    description: "Tells the current date and time in a time zone.",
    parameters: { type: "object", properties: { zone: { type: "string", description: "such as Europe/Oslo; the user's own if left out" } } },
    run: ({ zone }) => new Intl.DateTimeFormat("en-GB", { dateStyle: "full", timeStyle: "long", timeZone: zone || undefined }).format(),
  },
  {
    name: "calculator",
    description: "Works out a sum with + - * / % ^ and brackets.",
    parameters: { type: "object", properties: { sum: { type: "string", description: "such as (3 + 4) * 2" } }, required: ["sum"] },
    run: ({ sum }) => String(calculate(String(sum))),
  },
  {
    name: "dice",
    description: "Throws dice and tells what they show.",
    parameters: {
      type: "object",
      properties: { count: { type: "integer", minimum: 1, maximum: MAX_DICE }, sides: { type: "integer", minimum: 2, maximum: 1000 } },
    },
    run: ({ count = 1, sides = 6 }) => {
      const many = Math.max(1, Math.min(MAX_DICE, Math.trunc(count)));
      return Array.from({ length: many }, () => 1 + Math.floor(Math.random() * Math.max(2, Math.trunc(sides)))).join(", ");
    },
  },
];
