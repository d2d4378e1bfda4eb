// @ts-check
/** Demo tools, which run in this page without access to data and without side effects. */

import { calculate } from "./calculator.js";

/**
 * @typedef {object} DemoTool
 * @property {string} name
 * @property {string} description
 * @property {object} parameters
 * @property {Record<string, string>} [aliases] names of parameters that models write instead of the declared ones
 * @property {boolean} strict a call with any other parameter is invalid
 * @property {(args: any) => string} run
 */

const MAX_DICE = 100;
/** Cities that no time zone is named after, or not in every browser, by the zone that they are in. */
const CITIES = {
  "America/Chicago": ["houston", "dallas", "austin"],
  "America/Los_Angeles": ["san_francisco", "seattle", "san_diego", "las_vegas"],
  "America/New_York": ["boston", "miami", "nyc", "washington", "washington_dc", "philadelphia", "atlanta"],
  "America/Sao_Paulo": ["rio_de_janeiro", "brasilia"],
  "America/Toronto": ["montreal", "ottawa"],
  "Asia/Ho_Chi_Minh": ["ho_chi_minh", "ho_chi_minh_city", "hanoi"],
  "Asia/Jerusalem": ["tel_aviv"],
  "Asia/Kathmandu": ["kathmandu"],
  "Asia/Kolkata": ["bangalore", "chennai", "delhi", "kolkata", "mumbai", "new_delhi"],
  "Asia/Shanghai": ["beijing", "shenzhen"],
  "Asia/Tokyo": ["kyoto", "osaka"],
  "Asia/Yangon": ["yangon"],
  "Europe/Berlin": ["cologne", "frankfurt", "hamburg", "munich"],
  "Europe/Kyiv": ["kyiv"],
  "Europe/Madrid": ["barcelona"],
  "Europe/Moscow": ["st_petersburg"],
  "Europe/Paris": ["lyon", "marseille"],
  "Europe/Rome": ["milan", "naples"],
  "Europe/Zurich": ["geneva", "basel", "bern"],
  "Pacific/Auckland": ["wellington"],
};

/**
 * Finds a time zone by its name, or by a city in it.
 * @param {string} text
 * @returns {string}
 */
function findZone(text) {
  try {
    return new Intl.DateTimeFormat("en", { timeZone: text.trim() }).resolvedOptions().timeZone;
  } catch {
    // not the name of a zone
  }
  const place = text.split(",")[0].normalize("NFKD").replace(/[^\w\s/-]/g, "").trim().replace(/[\s-]+/g, "_").toLowerCase();
  const zones = Intl.supportedValuesOf("timeZone");
  const found = zones.find((zone) => zone.toLowerCase().endsWith(`/${place}`)) ?? Object.entries(CITIES).find(([, cities]) => cities.includes(place))?.[0];
  if (found) return found;
  const similar = zones.filter((zone) => place.length > 2 && zone.toLowerCase().includes(place.slice(0, 4))).slice(0, 5);
  throw new Error(`unknown time zone \`${text}\`; ${similar.length ? `similar: ${similar.join(", ")}` : "write a name such as Europe/Oslo"}`);
}

/** @type {DemoTool[]} */
export const DEMO_TOOLS = [
  {
    name: "clock",
    description: "Returns the current date and time in a time zone or city.",
    parameters: { type: "object", properties: { zone: { type: "string", description: "such as Europe/Oslo; default: the user's own" } } },
    aliases: Object.fromEntries(["city", "location", "place", "time_zone", "timezone", "timeZone", "tz"].map((name) => [name, "zone"])),
    strict: true,
    run: ({ zone }) => new Intl.DateTimeFormat("en-GB", { dateStyle: "full", timeStyle: "long", timeZone: zone ? findZone(String(zone)) : undefined }).format(),
  },
  {
    name: "calculator",
    description: "Evaluates an arithmetic expression with + - * / % ^ and brackets.",
    parameters: { type: "object", properties: { expression: { type: "string", description: "such as (3 + 4) * 2" } }, required: ["expression"] },
    aliases: { sum: "expression" },
    strict: true,
    run: ({ expression }) => String(calculate(expression)),
  },
  {
    name: "dice",
    description: "Rolls dice and returns the results.",
    parameters: {
      type: "object",
      properties: { count: { type: "integer", minimum: 1, maximum: MAX_DICE }, sides: { type: "integer", minimum: 2, maximum: 1000 } },
    },
    aliases: { number: "count", rolls: "count" },
    strict: true,
    run: ({ count = 1, sides = 6 }) => {
      const many = Math.max(1, Math.min(MAX_DICE, Math.trunc(count)));
      const rolled = Array.from({ length: many }, () => 1 + Math.floor(Math.random() * Math.max(2, Math.trunc(sides))));
      return rolled.join(", ") + (many > 1 ? ` (total ${rolled.reduce((total, each) => total + each, 0)})` : "");
    },
  },
];
