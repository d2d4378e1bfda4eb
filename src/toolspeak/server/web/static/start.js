// @ts-check
/** The first view: connect a model, see a failure being repaired, point a client here. */

import { fetchJson } from "./api.js";
import { makeClientsPanel } from "./clients_panel.js";
import { makeComparison } from "./comparison.js";
import { makeConnect } from "./connect.js";
import { h, setChildren } from "./dom.js";
import { makeRepairDemo } from "./repair_demo.js";

/**
 * @param {import("./app.js").About} about
 * @returns {import("./app.js").Part}
 */
export function makeStart(about) {
  const comparison = makeComparison(about);
  const connect = makeConnect(about, () => {
    compareCard.scrollIntoView({ block: "start" });
    comparison.run();
  });
  const clients = makeClientsPanel(about);
  const demo = h("div", {});
  const compareCard = card("Compare", "Ask the same question with and without toolspeak.", comparison.element);

  /** Says once what the demo model is. */
  const showDemo = async () => {
    const { models } = await fetchJson("toolspeak/models").catch(() => ({ models: [] }));
    const only = models.length === 1 && models[0].provider === "embedded" ? models[0] : null;
    setChildren(demo, only && h("p", { class: "notice" }, h("span", { class: "strong" }, only.name), " is a demo model that runs on this machine's processor. It shows how tool calls work, not how capable a model can be. Connect your own model below."));
  };

  const element = h(
    "div",
    { class: "scroll" },
    h(
      "div",
      { class: "page tidy start" },
      h("header", {}, h("h1", {}, "Tool calling for any model"), h("p", { class: "lead" }, "Enter the address of a model and see whether it calls tools, with and without toolspeak.")),
      demo,
      card("Connect a model", "Enter the address of a model server. toolspeak detects the protocol and keeps the key only in memory.", connect.element),
      compareCard,
      card("See it work", "Watch toolspeak repair real answers that failed. You need no model for this.", makeRepairDemo()),
      card("Point a client here", "Choose your client and copy its settings.", clients.element),
      card("Import a failed request", "Paste a curl command, a HAR file, a request, or a model's answer, and see what would fix it.", h("p", {}, h("a", { class: "button", href: "#/import" }, "Open Import"))),
    ),
  );
  return {
    element,
    show() {
      showDemo();
      connect.show();
      clients.show();
    },
    hide: clients.hide,
  };
}

/**
 * @param {string} title
 * @param {string} about
 * @param {HTMLElement} content
 */
const card = (title, about, content) => h("section", { class: "card stack", "aria-label": title }, h("div", {}, h("h2", {}, title), h("p", { class: "soft small lead" }, about)), content);
