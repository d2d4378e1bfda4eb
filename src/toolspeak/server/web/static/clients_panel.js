// @ts-check
/** How each known client is pointed at this server, and a light that shows when its first request arrives. */

import { fetchJson, MODELS_CHANGED } from "./api.js";
import { ownRequests } from "./columns.js";
import { copyButton } from "./copy.js";
import { announce, errorText, h, labelled, setChildren } from "./dom.js";
import { clock } from "./format.js";
import { makeModelField } from "./model_fields.js";
import { makePoller } from "./polling.js";

const POLL_INTERVAL = 2000;
const FIRST_CHOICE = "codex";
/** Number of tokens that a coding agent needs at least. */
const AGENT_WINDOW = 16_000;
const NUMBER = new Intl.NumberFormat("en");

/** @typedef {{title: string, speaks: string[], install: string, program: string, env: Record<string, string>, unset: string[], arguments: string[], files: {path: string, text: string}[], note: string}} Client */

/** Quotes a text for each kind of shell, and the commands that set and remove a variable. */
const SHELLS = /** @type {Record<string, {set: (name: string, value: string) => string, unset: (name: string) => string}>} */ ({
  "bash, zsh": { set: (name, value) => `export ${name}='${value.replaceAll("'", "'\\''")}'`, unset: (name) => `unset ${name}` },
  fish: { set: (name, value) => `set -gx ${name} '${value.replace(/[\\']/g, "\\$&")}'`, unset: (name) => `set -e ${name}` },
  PowerShell: { set: (name, value) => `$env:${name} = '${value.replaceAll("'", "''")}'`, unset: (name) => `Remove-Item Env:${name} -ErrorAction Ignore` },
});

/**
 * @param {import("./app.js").About} about
 * @returns {{element: HTMLElement, show: () => void, hide: () => void}}
 */
export function makeClientsPanel(about) {
  const client = /** @type {HTMLSelectElement} */ (h("select", { change: () => draw() }));
  const shell = /** @type {HTMLSelectElement} */ (h("select", { change: () => draw() }, Object.keys(SHELLS).map((name) => h("option", {}, name))));
  const model = makeModelField(about);
  model.element.addEventListener("change", () => load());
  addEventListener(MODELS_CHANGED, () => load()); // after the field has heard of it
  const place = h("div", { class: "stack" });
  const light = h("p", { class: "light", role: "status" });
  /** @type {Record<string, Client>} */
  let clients = {};
  /** The context window of the model in tokens; 0 if it is not known. */
  let contextWindow = 0;

  async function load() {
    try {
      clients = await fetchJson(`toolspeak/clients?model=${encodeURIComponent(model.value())}`);
      const { models } = await fetchJson("toolspeak/models");
      contextWindow = models.find((/** @type {{name: string}} */ each) => each.name === model.value())?.profile?.context_window ?? 0;
      const chosen = client.value || FIRST_CHOICE;
      setChildren(client, Object.entries(clients).map(([name, each]) => h("option", { value: name, selected: name === chosen }, each.title)));
      draw();
    } catch (error) {
      setChildren(place, h("p", { class: "notice bad" }, errorText(error)));
    }
  }

  function draw() {
    const chosen = clients[client.value];
    if (!chosen) return;
    const { set, unset } = SHELLS[shell.value];
    const lines = [...chosen.unset.map(unset), ...Object.entries(chosen.env).map(([name, value]) => set(name, value))].join("\n");
    setChildren(
      place,
      contextWindow > 0 && contextWindow < AGENT_WINDOW && h("p", { class: "notice warn" }, h("span", { class: "strong" }, model.value()), ` takes ${NUMBER.format(contextWindow)} tokens at most. Coding agents send more in their first request: connect a larger model before you start one.`),
      chosen.install.split(", or ").filter(Boolean).map((command, index) => snippet(index ? "Or install" : "Install", command)),
      lines && snippet("Set in your shell", lines),
      chosen.files.map((file) => snippet(`Add to ${file.path}`, file.text)),
      chosen.program && !chosen.files.length && chosen.arguments.length > 0 && snippet("Start with", [chosen.program, ...chosen.arguments].join(" ")),
      chosen.program && snippet("Or in one step", `toolspeak launch ${client.value} --url ${location.origin} --model ${model.value()}`),
      chosen.note && h("p", { class: "small soft" }, chosen.note),
    );
  }

  let mark = "";
  let waiting = true;
  const poller = makePoller(
    async (signal) => {
      const { requests, recording, next } = await fetchJson(`toolspeak/requests?after=${encodeURIComponent(mark)}`, { signal });
      const known = mark !== "";
      mark = next;
      if (!recording) return setChildren(light, "Recording is off, so arriving requests cannot be shown.");
      const arrived = known && requests.find((/** @type {{id: string}} */ each) => !ownRequests.has(each.id));
      if (arrived) {
        waiting = false;
        setChildren(light, h("span", { class: "dot on", "aria-hidden": "true" }), h("span", {}, `Request received at ${clock(arrived.time)}: ${arrived.face.replaceAll("_", " ")}, ${arrived.model} `, h("a", { href: `#/requests/${arrived.id}` }, "Open it")));
        announce("A request was received.");
      } else if (waiting) setChildren(light, h("span", { class: "dot", "aria-hidden": "true" }), "Waiting for the first request…");
    },
    (message) => setChildren(light, message),
    () => POLL_INTERVAL,
  );

  const element = h("div", { class: "stack" }, h("div", { class: "fields" }, labelled("Client", client), model.element, labelled("Shell", shell)), place, light);
  const show = () => {
    mark = "";
    load();
    poller.start();
  };
  return { element, show, hide: poller.stop };
}

/**
 * @param {string} title
 * @param {string} text
 */
const snippet = (title, text) => h("div", { class: "snippet" }, h("div", { class: "row apart" }, h("span", { class: "small soft" }, title), copyButton(() => text, `“${title}”`)), h("pre", { class: "code small", tabindex: 0 }, text.trimEnd()));
