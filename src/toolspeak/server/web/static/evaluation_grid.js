// @ts-check
/** The grid of a run: cases by columns. It fills while the run lasts, and a cell opens to what was expected and what came. */

import { WAYS } from "./call_ways.js";
import { h, setChildren, withCode } from "./dom.js";
import { compact, duration, plural } from "./format.js";
import { labelOf } from "./evaluation_report.js";
import { categoriesOf } from "./suites.js";
import { TimeSlice } from "./time_slice.js";

/** @typedef {import("./evaluation_run.js").Run} Run */
/** @typedef {import("./evaluation_run.js").Result} Result */
/** @typedef {import("./suites.js").Round} Round */

/**
 * The sign, style and word of a cell.
 * @param {Result | null} result
 * @param {boolean} running
 */
function stateOf(result, running) {
  if (running) return ["…", "running", "running"];
  if (!result) return ["·", "open", "not asked yet"];
  if (result.error) return ["!", "error", "failed"];
  return result.correct ? ["✓", "right", "right"] : ["✗", "wrong", "wrong"];
}

/**
 * @param {Run} run
 * @returns {{element: HTMLElement, update: (column: number, index: number, running: boolean) => void}}
 */
export function makeGrid(run) {
  /** The cell that is open, with its row. @type {{column: number, index: number, row: HTMLElement} | null} */
  let opened = null;
  const width = run.columns.length + 1;
  const labels = run.columns.map((_, column) => labelOf(run, column));
  /** The buttons by column and case, as far as their rows are there. @type {HTMLElement[][]} */
  const cells = run.columns.map(() => []);
  /** The cells whose cases are running. */
  const running = new Set();

  /** @param {number} column @param {number} index @param {boolean} isRunning */
  function update(column, index, isRunning) {
    if (isRunning) running.add(`${column} ${index}`);
    else running.delete(`${column} ${index}`);
    if (cells[column][index]) draw(column, index);
  }

  /** @param {number} column @param {number} index */
  function draw(column, index) {
    const result = run.results[column][index];
    const isRunning = running.has(`${column} ${index}`);
    const [sign, style, word] = stateOf(result, isRunning);
    const cell = /** @type {HTMLButtonElement} */ (cells[column][index]);
    cell.className = `cell cell-${style}`;
    cell.disabled = !result;
    setChildren(cell, h("span", { "aria-hidden": "true" }, sign), result && !isRunning && h("span", { class: "small" }, duration(result.seconds)));
    cell.setAttribute("aria-label", `${run.suite.tasks[index].id}, ${labels[column]}: ${word}`);
    cell.setAttribute("aria-expanded", String(opened?.column === column && opened.index === index));
    if (opened?.column === column && opened.index === index && result) setChildren(opened.row.firstElementChild ?? opened.row, drawCell(run, column, index, result));
  }

  function close() {
    if (!opened) return;
    const { column, index, row } = opened;
    opened = null;
    row.remove();
    cells[column][index].setAttribute("aria-expanded", "false");
  }

  /** @param {number} column @param {number} index */
  function toggle(column, index) {
    const same = opened?.column === column && opened.index === index;
    close();
    const result = run.results[column][index];
    if (same || !result) return;
    const row = h("tr", { class: "cell-detail" }, h("td", { colspan: width }, drawCell(run, column, index, result)));
    cells[column][index].closest("tr")?.after(row);
    cells[column][index].setAttribute("aria-expanded", "true");
    opened = { column, index, row };
  }

  /** @param {number} index */
  function makeRow(index) {
    const { id, ask } = run.suite.tasks[index];
    for (const [column, each] of cells.entries()) {
      each[index] = h("button", { type: "button", class: "cell", click: () => toggle(column, index) });
      draw(column, index);
    }
    return h("tr", {}, h("th", { scope: "row" }, h("span", { class: "case-id" }, id), h("span", { class: "case-ask soft" }, ask)), cells.map((column) => h("td", {}, column[index])));
  }

  const head = h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Case"), labels.map((label) => h("th", { scope: "col" }, label))));
  const groups = new Map(categoriesOf(run.suite).map((category) => [category, h("tbody", {}, h("tr", { class: "case-group" }, h("th", { scope: "rowgroup", colspan: width }, category)))]));
  /** Adds the rows, in pieces, so that the page stays usable with thousands of cases. */
  const fill = async () => {
    const slice = new TimeSlice();
    for (const [index, task] of run.suite.tasks.entries()) {
      groups.get(task.category)?.append(makeRow(index));
      if (slice.expired) await slice.next();
    }
  };
  void fill();
  const element = h("div", { class: "wide grid-of-cases", tabindex: 0, role: "region", "aria-label": "Cases by setting" }, h("table", {}, head, [...groups.values()]));
  element.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !opened) return;
    event.stopPropagation();
    const { column, index } = opened;
    close();
    cells[column][index].focus();
  });
  return { element, update };
}

/**
 * @param {Run} run
 * @param {number} column
 * @param {number} index
 * @param {Result} result
 */
function drawCell(run, column, index, result) {
  const task = run.suite.tasks[index];
  const { model, way } = run.columns[column];
  const verdict = result.error ? h("p", { class: "notice bad" }, result.error) : result.correct ? h("p", { class: "notice good" }, "As expected.") : h("p", { class: "notice warn" }, h("span", { class: "strong" }, result.fault.replaceAll("_", " ")), ": ", withCode(result.detail));
  const rounds = task.rounds.map((round, number) => {
    const isLast = number === result.calls.length - 1;
    return h(
      "div",
      { class: "expected-and-got" },
      h("section", { class: "stack-tight", "aria-label": "Expected" }, h("h4", {}, task.rounds.length > 1 ? `Expected, round ${number + 1}` : "Expected"), drawExpected(round)),
      h("section", { class: "stack-tight", "aria-label": "Got" }, h("h4", {}, "Got"), number < result.calls.length ? drawGot(result.calls[number], isLast ? result.text : "") : h("p", { class: "soft small" }, result.error ? "No answer." : "Not asked, because the round before failed.")),
    );
  });
  const facts = [`${model}, ${WAYS[way][0]}`, result.plans.at(-1) && `plan ${result.plans.at(-1)}`, duration(result.seconds), plural(result.requests, "request"), result.output_tokens > 0 && `${compact(result.output_tokens)} tokens`].filter(Boolean).join(" · ");
  const links = result.records.map((record, number) => [" · ", h("a", { href: `#/requests/${record}` }, result.records.length > 1 ? `Details of round ${number + 1}` : "Details")]);
  return h("div", { class: "stack-tight" }, h("p", {}, h("q", {}, task.ask)), verdict, rounds, h("p", { class: "small soft" }, facts, links));
}

/** @param {Round} round */
function drawExpected(round) {
  if (!round.calls.length) return h("p", { class: "small" }, "A text answer", round.says.length > 0 && [", with ", round.says.map((text, index) => [index > 0 && " or ", h("code", {}, text)])], ".");
  return round.calls.map((call) => {
    const given = Object.entries(call.arguments).map(([name, accepted]) => `${name}: ${accepted.map((value) => (value === null ? "left out" : JSON.stringify(value))).join(" or ")}`);
    return h("pre", { class: "code small" }, `${call.name}(${given.join(", ")})`);
  });
}

/**
 * @param {import("./evaluation_run.js").GivenCall[]} calls
 * @param {string} text
 */
function drawGot(calls, text) {
  const given = (/** @type {any} */ values) => (typeof values === "string" ? values : Object.entries(values).map(([name, value]) => `${name}: ${JSON.stringify(value)}`).join(", "));
  return [calls.map((call) => h("pre", { class: "code small" }, `${call.name}(${given(call.arguments)})`)), text.trim() ? h("p", { class: "live small" }, text.trim()) : !calls.length && h("p", { class: "soft small" }, "Neither a call nor text.")];
}
