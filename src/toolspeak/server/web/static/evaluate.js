// @ts-check
/** Evaluate: runs test cases in several settings, shows them in a grid as they are judged, and keeps the runs. */

import { fetchJson } from "./api.js";
import { makeWayField, modelIn } from "./call_ways.js";
import { download } from "./chat_export.js";
import { announce, disclosure, errorText, h, labelled, select, setChildren } from "./dom.js";
import { drawCategories, drawEvaluation, drawSuccess } from "./evaluation.js";
import { makeGrid } from "./evaluation_grid.js";
import { caseLines, labelOf, reportOf, resultsOf } from "./evaluation_report.js";
import { isComplete, isFinished, runCases } from "./evaluation_run.js";
import { loadRuns, removeRun, saveRun } from "./evaluation_store.js";
import { day, plural } from "./format.js";
import { builtinSuite, categoriesOf, checkedSuite, chosenCases, takeHanded } from "./suites.js";

/** @typedef {import("./evaluation_run.js").Run} Run */
/** @typedef {import("./suites.js").Suite} Suite */

const MAX_COLUMNS = 4;
/** The largest number of cases in a run. `toolspeak eval` has no limit. */
const MAX_CASES = 500;
/** Milliseconds between two saves of a run, and between two drawings of its numbers. */
const SAVE_INTERVAL = 2000;
const DRAW_INTERVAL = 300;

/**
 * @param {import("./app.js").About} about
 * @returns {import("./app.js").Part}
 */
export function makeEvaluate(about) {
  /** @type {Run[]} */
  let runs = [];
  /** The run that is shown. @type {Run | undefined} */
  let shown;
  /** The run that is going on. @type {{run: Run, stop: AbortController} | undefined} */
  let active;
  /** @type {ReturnType<typeof makeRunView> | undefined} */
  let view;
  const place = h("div", { class: "stack" });
  const history = h("div", {});
  const setup = makeSetup(about, (run) => {
    runs.unshift(run);
    location.hash = `#/evaluate/${run.id}`;
    void start(run);
    view?.element.scrollIntoView({ block: "start" });
  });

  /** @param {Run} run */
  const save = (run) => saveRun(run).catch(() => view?.say("This browser cannot store runs. Download the results before you leave the page."));

  /** @param {Run} run */
  async function start(run) {
    if (active) return;
    const stop = new AbortController();
    active = { run, stop };
    setup.setBusy(true);
    open(run);
    drawHistory();
    await save(run);
    const saving = setInterval(() => save(run), SAVE_INTERVAL);
    try {
      await runCases(run, stop.signal, (column, index, running) => shown === run && view?.update(column, index, running));
    } finally {
      clearInterval(saving);
      active = undefined;
      setup.setBusy(false);
    }
    await save(run);
    if (shown === run) view?.showState();
    drawHistory();
    announce(isComplete(run) ? "The evaluation is complete." : run.stopped || "The evaluation stopped.");
  }

  /** @param {Run} run */
  function open(run) {
    shown = run;
    view = makeRunView(run, about.version, { isActive: () => active?.run === run, isBusy: () => Boolean(active), start: () => start(run), stop: () => active?.stop.abort() });
    setChildren(place, view.element);
  }

  function drawHistory() {
    const rows = runs.map((run) =>
      h(
        "tr",
        {},
        h("td", {}, h("a", { href: `#/evaluate/${run.id}`, "aria-current": run === shown && "true" }, day(run.began))),
        h("td", {}, run.suite.name),
        h("td", {}, run.columns.map((_, column) => h("div", {}, labelOf(run, column), ": ", rightOf(run, column)))),
        h("td", {}, active?.run === run ? "running" : isComplete(run) ? "" : "unfinished"),
        h("td", { class: "number" }, h("button", { type: "button", class: "quiet", disabled: active?.run === run, "aria-label": `Delete the run of ${day(run.began)}`, click: () => remove(run) }, "Delete")),
      ),
    );
    const head = h("tr", {}, ["Started", "Suite", "Right", "", ""].map((name) => h("th", { scope: "col" }, name)));
    setChildren(history, runs.length > 0 && h("section", { class: "stack", "aria-label": "Runs" }, h("h2", {}, "Runs"), h("p", { class: "small soft" }, "Stored in this browser."), h("div", { class: "wide runs", tabindex: 0 }, h("table", {}, h("thead", {}, head), h("tbody", {}, rows)))));
  }

  /** @param {Run} run */
  async function remove(run) {
    runs = runs.filter((each) => each !== run);
    await removeRun(run.id).catch(() => {});
    if (shown === run) {
      shown = undefined;
      setChildren(place);
      location.hash = "#/evaluate";
    }
    drawHistory();
    announce("Deleted.");
  }

  const loaded = loadRuns()
    .then((stored) => (runs = [...runs, ...stored]))
    .catch(() => []);
  const element = h(
    "div",
    { class: "scroll" },
    h(
      "div",
      { class: "page tidy" },
      h("header", {}, h("h1", {}, "Evaluate"), h("p", { class: "lead" }, "See how often each model makes the right calls with each setting. No tools are run: the cases include their results.")),
      setup.element,
      place,
      history,
      makeResults(),
    ),
  );
  addEventListener("beforeunload", () => active && save(active.run));
  return {
    element,
    async show(rest) {
      setup.show(modelIn(rest));
      await loaded;
      const run = runs.find((each) => each.id === rest);
      if (run && run !== shown) open(run);
      drawHistory();
    },
    end: () => active?.stop.abort(),
  };
}

/** @param {Run} run @param {number} column */
function rightOf(run, column) {
  const results = resultsOf(run, column);
  return `${results.filter((result) => result.correct).length} of ${results.length}`;
}

/**
 * The form for a new run.
 * @param {import("./app.js").About} about
 * @param {(run: Run) => void} started
 */
function makeSetup(about, started) {
  /** @type {Suite | undefined} */
  let suite;
  /** @type {import("./call_ways.js").WayField[]} */
  const columns = [];
  const source = /** @type {HTMLSelectElement} */ (h("select", { change: () => chooseSource() }, [["builtin", "Built-in"], ["file", "From a file…"]].map(([value, name]) => h("option", { value }, name))));
  const file = /** @type {HTMLInputElement} */ (h("input", { type: "file", accept: ".json,application/json", change: () => openFile() }));
  const fileLabel = h("label", { hidden: true }, "Suite file", file);
  const category = select([], "All categories", { change: () => count() });
  const most = select(["1", "2", "3", "5"], "All cases", { change: () => count() });
  const parallel = select(["1", "2", "4"]);
  const size = h("p", { class: "small soft" });
  const status = h("div", { role: "status" });
  const places = h("div", { class: "columns" });
  const add = /** @type {HTMLButtonElement} */ (h("button", { type: "button", click: () => addColumn("inline") }, "Add setting"));
  const run = /** @type {HTMLButtonElement} */ (h("button", { class: "main" }, "Run"));
  for (const option of [...most.options].slice(1)) option.text = `${option.value} of each category`;

  /** @param {string} way */
  function addColumn(way) {
    const field = makeWayField(about, way, {
      removed() {
        columns.splice(columns.indexOf(field), 1);
        field.element.remove();
        count();
      },
    });
    if (columns.length) field.model.set(columns[columns.length - 1].model.value());
    columns.push(field);
    places.append(field.element);
    count();
  }

  const all = () => (suite ? chosenCases(suite, category.value, Number(most.value)) : []);
  const chosen = () => all().slice(0, MAX_CASES);

  function count() {
    add.disabled = columns.length >= MAX_COLUMNS;
    for (const field of columns) field.remove.hidden = columns.length < 2;
    const cases = chosen().length;
    setChildren(size, suite && `${plural(cases, "case")} × ${plural(columns.length, "setting")} = ${plural(cases * columns.length, "answer")}`, all().length > MAX_CASES && `. The first ${MAX_CASES} of ${all().length} cases are run; toolspeak eval runs more.`);
  }

  /** @param {Suite | undefined} given */
  function setSuite(given) {
    suite = given;
    setChildren(category, h("option", { value: "" }, "All categories"), given && categoriesOf(given).map((name) => h("option", { value: name }, name)));
    count();
  }

  /** @param {() => Promise<Suite>} load */
  async function loadSuite(load) {
    setChildren(status);
    setSuite(undefined);
    try {
      setSuite(await load());
    } catch (error) {
      setChildren(status, h("p", { class: "notice bad" }, errorText(error)));
    }
  }

  async function chooseSource() {
    fileLabel.hidden = source.value !== "file";
    if (source.value === "builtin") return loadSuite(builtinSuite);
    if (source.value !== "file") return;
    setSuite(undefined);
    if (file.files?.length) await openFile();
    else file.focus();
  }

  async function openFile() {
    const [given] = file.files ?? [];
    if (given) await loadSuite(async () => checkedSuite(given.name.replace(/\.json$/, ""), parsed(await given.text(), given.name)));
  }

  /** @param {Event} event */
  function begin(event) {
    event.preventDefault();
    if (!columns.every((field) => field.model.isValid())) return;
    if (!suite) return setChildren(status, h("p", { class: "notice bad" }, "Choose a suite file first."));
    setChildren(status);
    const tasks = chosen();
    const names = new Set(tasks.flatMap((task) => task.tools));
    started({
      id: crypto.getRandomValues(new Uint32Array(2)).join("-"),
      began: Math.floor(Date.now() / 1000),
      suite: { ...suite, tasks, tools: Object.fromEntries(Object.entries(suite.tools).filter(([name]) => names.has(name))) },
      columns: columns.map((field) => ({ model: field.model.value(), way: field.way() })),
      parallel: Number(parallel.value),
      results: columns.map(() => tasks.map(() => null)),
    });
  }

  addColumn("raw");
  addColumn("auto");
  const element = h(
    "form",
    { class: "card stack", "aria-label": "New run", submit: begin },
    h("div", { class: "fields" }, labelled("Suite", source), fileLabel, labelled("Category", category), labelled("Cases", most), labelled("At once", parallel)),
    places,
    h("div", { class: "row" }, run, add),
    size,
    status,
  );
  return {
    element,
    /** @param {boolean} busy */
    setBusy(busy) {
      run.disabled = busy;
    },
    /** @param {string} model to choose; empty for none */
    show(model) {
      const handed = takeHanded();
      if (handed) {
        if (![...source.options].some((option) => option.value === "handed")) source.append(h("option", { value: "handed" }, "From Import"));
        source.value = "handed";
        fileLabel.hidden = true;
        setSuite(handed);
      } else if (!suite && source.value === "builtin") void loadSuite(builtinSuite);
      if (model) for (const field of columns) field.model.set(model);
    },
  };
}

/** @param {string} text @param {string} name */
function parsed(text, name) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`${name} is not valid JSON: ${/** @type {Error} */ (error).message}`);
  }
}

/**
 * @param {Run} run
 * @param {string} version
 * @param {{isActive: () => boolean, isBusy: () => boolean, start: () => void, stop: () => void}} control
 */
function makeRunView(run, version, control) {
  const total = run.results.flat().length;
  // These elements stay, so that they keep the focus while the run lasts.
  const bar = /** @type {HTMLProgressElement} */ (h("progress", { max: total, "aria-label": "Answers" }));
  const done = h("p", { class: "small soft" });
  const stop = h("button", { type: "button", click: control.stop }, "Stop");
  const resume = /** @type {HTMLButtonElement} */ (h("button", { type: "button", class: "main", click: control.start }, "Resume"));
  const messages = h("div", { class: "stack-tight" });
  const numbers = h("div", { class: "stack" });
  const grid = makeGrid(run);
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let waiting;
  let said = "";

  function showState() {
    const finished = run.results.flat().filter(isFinished).length;
    const active = control.isActive();
    const hadFocus = document.activeElement === stop;
    bar.hidden = stop.hidden = !active;
    bar.value = finished;
    resume.hidden = active || finished === total;
    resume.disabled = control.isBusy();
    if (hadFocus && !resume.hidden) resume.focus();
    setChildren(done, `${finished} of ${plural(total, "answer")}`, !active && finished < total && ", unfinished");
    setChildren(messages, run.stopped && h("p", { class: "notice bad" }, run.stopped), said && h("p", { class: "notice warn" }, said));
    drawNumbers();
  }

  const files = [
    h("button", { type: "button", click: () => download("results.json", "application/json", JSON.stringify(reportOf(run, version), null, 2)) }, "Download results.json"),
    h("button", { type: "button", click: () => download("cases.jsonl", "application/jsonl", caseLines(run)) }, "Download cases.jsonl"),
  ];

  function drawNumbers() {
    const { rows } = reportOf(run, version);
    if (!rows.some((row) => row.scores.all.cases)) return setChildren(numbers);
    const isRead = numbers.querySelector("details[open]") || numbers.contains(document.activeElement);
    if (isRead && control.isActive()) return;
    setChildren(numbers, drawSuccess(rows), disclosure("By category", () => h("div", { class: "stack" }, drawCategories(rows)), { class: "small" }));
  }

  const element = h(
    "section",
    { class: "card stack evaluation", "aria-label": "Run" },
    h("div", {}, h("h2", {}, `Suite ${run.suite.name}`), h("p", { class: "small soft" }, [day(run.began), plural(run.suite.tasks.length, "case"), [...new Set(run.columns.map((column) => column.model))].join(", ")].join(" · "))),
    h("div", { class: "stack-tight" }, bar, done, messages, h("div", { class: "row" }, stop, resume, files)),
    numbers,
    h("h3", {}, "Cases"),
    h("p", { class: "small soft" }, "Select a cell to see what was expected and what the model did."),
    grid.element,
  );
  showState();
  return {
    element,
    showState,
    /** @param {string} text */
    say(text) {
      said = text;
      showState();
    },
    /** @param {number} column @param {number} index @param {boolean} running */
    update(column, index, running) {
      grid.update(column, index, running);
      waiting ??= setTimeout(() => {
        waiting = undefined;
        showState();
      }, DRAW_INTERVAL);
    },
  };
}

/** Results of `toolspeak eval`: those in the working directory of the server, and files. */
function makeResults() {
  const evaluations = h("div", { class: "stack" });
  // Opened files are separate from the server's evaluations, which are redrawn whenever they are loaded.
  const opened = h("div", { class: "stack" });
  const file = h("input", { type: "file", accept: ".json,application/json", change: (event) => open(event.target) });

  /** @param {HTMLInputElement} input */
  async function open(input) {
    for (const chosen of input.files ?? []) {
      try {
        opened.prepend(drawEvaluation(JSON.parse(await chosen.text())));
      } catch {
        opened.prepend(h("p", { class: "notice bad" }, `${chosen.name} does not contain results of \`toolspeak eval\`.`));
      }
    }
  }

  async function load() {
    const stored = await fetchJson("toolspeak/evaluations").catch(() => ({ evaluations: [] }));
    const none = h("p", { class: "notice" }, "No results yet. Run ", h("code", {}, "toolspeak eval --model NAME"), " in the working directory of this server, or open a file.");
    setChildren(evaluations, stored.evaluations.length ? stored.evaluations.map(drawEvaluation) : none);
  }
  void load();
  return h("section", { class: "stack evaluations", "aria-label": "Results" }, h("h2", {}, "Results of toolspeak eval"), h("label", {}, "Open results.json", file), opened, evaluations);
}
