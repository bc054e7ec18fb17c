// The page. It polls the report, keeps the choices of the reader in the address, and shows how current the numbers are.

import { act, drawCharts } from "./chart.js";
import { opened, sections, summary, unfold, unfoldAll, unfoldLinked } from "./experiments.js";
import { History, segmentName } from "./history.js";
import { make, patchChildren } from "./elements.js";
import { experimentNames, lineOf, statistics } from "./lookup.js";
import { pipeline } from "./pipeline.js";
import { POLL_MS, header, stateOf } from "./state.js";
import { explain, help } from "./terms.js";
import { byName, isNumber, metricKey, metricName, named, plain, readMetrics, segmentWords, spanText, windowText, windowWords, writeForPaper } from "./text.js";
import { spoken } from "./verdicts.js";

const CHOICES_KNOWN = 1000;
const TIMEOUT_MS = 10000;
const PAUSE_MS = 10000; // after a longer pause the page loads the recent points again
const PROBLEMS = {
  TimeoutError: `does not respond within ${spanText(TIMEOUT_MS)}`,
  SyntaxError: "sent something else than a report",
  TypeError: "does not respond (no connection)",
};
const READING = "Reading the report …";
const ASKED = ["window", "segment", "scope", "experiment"]; // choices that another part of the report is read for
const CLOCK_MS = 2000; // the Date header has whole seconds, so smaller differences are ignored

const history = new History();
const now = { report: null, pulse: null, problem: null, missing: [], answeredMs: null, pulseMs: 0, unready: false, skewMs: 0, needsLogin: false, version: null };
const announced = new Map();
const cached = new Map(); // path -> last response and its tag, for the paths that are polled
let timer = null;
let frame = null; // the animation frame that a pointer event requested
let polling = false;
let lastAsked = null; // the query of the last request for the report
let query = new URLSearchParams(location.search); // the choices of the reader
let filled = null; // the choice with loaded recent points; null to load them again
const tried = new Set(); // choices whose recent points came, or failed to come: until then a curve would have only its last points
let printing = false; // whether the reader waits for all cards to be read and printed
let linked = location.hash; // the card that a link leads to, until it is shown

const find = (id) => document.getElementById(id);
const serverNow = () => Date.now() + now.skewMs;

// Choices of the reader

function chosen() {
  const { report } = now;
  const metrics = measured(report).map((text) => text.split("@"));
  const windows = [...new Set(report.windows.map((each) => each.window_ms))];
  const pick = (name, options, fallback) => (options.includes(query.get(name)) ? query.get(name) : fallback);
  const name = pick("metric", metrics.map(([each]) => each), metrics.some(([each]) => each === "ndcg") ? "ndcg" : metrics[0]?.[0]);
  const cutoffs = metrics.filter(([each]) => each === name).map(([, k]) => k);
  const k = pick("k", cutoffs, cutoffs.includes("10") ? "10" : cutoffs[0]);
  const defaultMs = windows.filter((ms) => ms <= 3600000).at(-1) ?? windows[0];
  const windowMs = windows.find((ms) => windowText(ms) === query.get("window")) ?? defaultMs ?? null;
  const segment = pick("segment", segments(report), "");
  return {
    name, k, metric: metricKey(name, k), windowMs, segment,
    lists: query.get("lists") === "with_feedback" ? "values_with_feedback" : "values",
    scope: query.get("scope") === "day" ? "day" : "start",
    experiment: pick("experiment", experimentNames(report), ""),
  };
}

function measured(report) {
  const more = (report.experiments ?? []).flatMap((each) => each.variants.flatMap((variant) => variant.measures.map((one) => metricKey(one.metric, one.k))));
  return [...new Set([...(report.settings?.metrics ?? []), ...more])];
}

function segments(report) {
  if (report.segments) return report.segments.sort(byName);
  return [...new Set(["", ...report.windows.flatMap((window) => window.groups.map((group) => segmentName(group.segments)))])].sort(byName);
}

function choices(selection) {
  const { report } = now;
  const metrics = measured(report).map((text) => text.split("@"));
  const unique = (values) => [...new Set(values)];
  const names = experimentNames(report);
  const days = (report.scopes ?? (report.verdicts ?? []).map((each) => each.scope)).some((each) => each !== "start");
  return [
    !report.windows.length ? null : choice("window", "Window", unique(report.windows.map((each) => each.window_ms)).map((ms) => [windowText(ms), windowWords(ms)]), windowText(selection.windowMs)),
    choice("metric", "Metric", unique(metrics.map(([name]) => name)).map((name) => [name, metricName(name)]), selection.name),
    !selection.k ? null : choice("k", "Cut-off", metrics.filter(([name]) => name === selection.name).map(([, k]) => [k, `first ${k}`]), selection.k),
    !report.windows.length ? null : choice("lists", "Lists", [["all", "all"], ["with_feedback", "with feedback"]], selection.lists === "values" ? "all" : "with_feedback"),
    segments(report).length > 1 ? choice("segment", "Segment", segments(report).map((name) => [name, name ? segmentWords(name) : "all"]), selection.segment) : null,
    days ? choice("scope", "Statistics", [["start", "since the start"], ["day", "this day (UTC)"]], selection.scope) : null,
    names.length > 1 ? choice("experiment", "Experiment", [["", "all"], ...names.map((name) => [name, named(name)])], selection.experiment) : null,
  ].filter(Boolean);
}

function choice(name, label, options, value) {
  const id = `choose-${name}`;
  return make("div", { class: "choice", id: `${id}-box` }, make("span", {}, make("label", { for: id }, label), name === "metric" ? help(value) : null),
    make("select", { id, name }, options.map(([each, text]) => make("option", { value: each, selected: each === value }, text))));
}

function choose(event) {
  query.set(event.target.name, event.target.value);
  globalThis.history.replaceState(null, "", `${location.pathname}?${query}${location.hash}`);
  draw();
  fill();
  askAgain();
}

// Drawing

function draw() {
  frame = null;
  const found = stateOf(now, serverNow());
  document.title = found[0] === "live" ? "streammetrics" : `${found[1]} · streammetrics`;
  document.documentElement.className = `state-${found[0]}`;
  patchChildren(find("state"), header(found, now, serverNow()));
  announce("state", found[0], found[0] === "live" ? "The numbers are live." : [`${found[1]}. `, found[2][0] ?? ""]);
  if (now.report === null) {
    showWaiting(found[0] === "waiting" ? READING : "No numbers yet.");
    return;
  }
  const view = viewOf();
  const { selection } = view;
  patchChildren(find("summary"), [summary(view)].filter(Boolean));
  find("choices").hidden = false;
  patchChildren(find("choices"), choices(selection));
  for (const select of find("choices").elements) select.value = select.querySelector("[selected]")?.value ?? select.value;
  patchChildren(find("cards"), [...sections(view), pipeline(view)]);
  drawCharts(later);
  show();
  for (const name of experimentNames(now.report)) {
    const line = lineOf(now.report, name, selection.scope);
    if (line) announce(`experiment ${name} ${selection.scope}`, line.verdict, spoken(line));
  }
  find("about").textContent = `Version ${now.report.version}. Times are event time in UTC. ${now.version && now.version !== now.report.version ? "The server runs a new version. Reload the page." : ""}`;
}

function viewOf() {
  const selection = chosen();
  const choice = choiceName(selection);
  return { report: now.report, pulse: now.pulse, now: serverNow(), selection, tracks: history.tracks(choice), readsCurves: !tried.has(choice) };
}

/** Open the card that a link leads to, and scroll to it once. */
function show() {
  if (!linked) return;
  const id = unfoldLinked(linked, experimentNames(now.report));
  linked = "";
  if (!id) return;
  later();
  requestAnimationFrame(() => requestAnimationFrame(() => find(id)?.scrollIntoView()));
}

function showWaiting(text) {
  patchChildren(find("cards"), [make("p", { class: "waiting" }, text)]);
}

function choiceName(selection) {
  return JSON.stringify([selection.windowMs, selection.metric, selection.lists, selection.segment]);
}

function printed(isPrinting) {
  unfoldAll(isPrinting);
  writeForPaper(isPrinting);
  draw();
}

/** Read all cards, and print when they are there: a browser does not wait for what a page asks for while it prints. */
function printAll() {
  printing = true;
  printed(true);
  askAgain();
  printWhenRead();
}

function printWhenRead() {
  if (!printing || polling) return; // an answer that is on its way may lack cards
  const { scope } = chosen();
  const isRead = experimentNames(now.report).every((name) => !lineOf(now.report, name, scope) || statistics(now.report, name, scope));
  if (!isRead) return;
  printing = false;
  requestAnimationFrame(() => requestAnimationFrame(() => print())); // the charts are drawn by then
}

/** Draw with the next frame, once for all events until then. */
function later() {
  frame ??= requestAnimationFrame(draw);
}

/** Announce a change to screen readers, once. The first value of a subject is not a change. */
function announce(subject, value, text) {
  const before = announced.get(subject);
  announced.set(subject, value);
  if (before !== undefined && before !== value) find("spoken").textContent = plain(text);
}

// Requests

/** Return the status and the JSON content. The server does not send unchanged content again: the tag identifies it. */
async function request(path) {
  const before = cached.get(path);
  const headers = before ? { "If-None-Match": before.tag } : {};
  const response = await fetch(path, { cache: "no-store", headers, signal: AbortSignal.timeout(TIMEOUT_MS) });
  if (response.status === 401) throw Object.assign(new Error("login"), { needsLogin: true });
  const date = Date.parse(response.headers.get("date") ?? "");
  if (isNumber(date)) now.skewMs = Math.abs(date - Date.now()) < CLOCK_MS ? 0 : date - Date.now();
  if (response.status === 304) return [200, before.content];
  const content = response.ok || isJson(response) ? await response.json() : null;
  const tag = response.headers.get("etag");
  if (response.ok && tag) keep(path, { tag, content });
  return [response.status, content];
}

/** Keep a response for the next request of the same path. Of one resource, only the newest query is kept. */
function keep(path, response) {
  const resource = path.split("?")[0];
  for (const known of cached.keys()) if (known.split("?")[0] === resource) cached.delete(known);
  cached.set(path, response);
}

function isJson(response) {
  return (response.headers.get("content-type") ?? "").startsWith("application/json");
}

async function refresh() {
  clearTimeout(timer);
  if (polling || now.needsLogin) return;
  polling = true;
  try {
    const asked = reportQuery();
    lastAsked = asked;
    const [[status, state], [experimentsStatus, experiments], [pulseStatus, pulse]] = await Promise.all([
      request("/api/report/state"), request(`/api/report/experiments${asked}`), request("/api/pulse")]);
    const report = { ...state, ...experiments };
    const failed = pulseStatus !== 200 ? pulseStatus : ![200, 503].includes(status) ? status : experimentsStatus !== status ? experimentsStatus : null;
    if (failed !== null) throw new Error(`failed (status ${failed})`);
    // After an error or a pause the page may have missed points. The server still has them.
    if (now.problem !== null || now.unready || Date.now() - now.pulseMs > PAUSE_MS) filled = null;
    Object.assign(now, { problem: null, pulse, pulseMs: Date.now(), missing: pulse.missing });
    now.unready = status === 503;
    if (status === 200) take(report);
    if (!asked && !ASKED.some((name) => query.has(name))) lastAsked = reportQuery(); // the server has chosen what the page shows first
  } catch (error) {
    now.needsLogin = error.needsLogin === true;
    now.problem = PROBLEMS[error.name] ?? error.message;
  } finally {
    polling = false;
  }
  draw();
  fill();
  if (!document.hidden) timer = setTimeout(refresh, POLL_MS);
  askAgain();
  printWhenRead();
}

/** What the page shows of the report: the experiments of open cards, one window and one segment. Before the first report the server chooses. */
function reportQuery() {
  if (now.report === null) return "";
  const { windowMs, segment, scope } = chosen();
  const asked = new URLSearchParams(opened(viewOf()).map((name) => ["experiment", name]));
  if (windowMs !== null) asked.set("window_ms", windowMs);
  if (segment) asked.set("segment", segment);
  if (scope !== "start") asked.set("scope", scope);
  return `?${asked}`;
}

/** Ask at once for what the reader has chosen since the last request. */
function askAgain() {
  if (polling || now.report === null || now.problem !== null || reportQuery() === lastAsked) return;
  lastAsked = reportQuery();
  refresh();
}

function take(report) {
  now.answeredMs = serverNow();
  now.version ??= report.version;
  now.report = report;
  readMetrics(report);
  if (report.windows.length) {
    const selection = chosen();
    history.addReport(choiceName(selection), report, selection);
  }
}

/** Load the recent points of this choice: once per choice, and again after an error or a pause. */
async function fill() {
  if (now.report === null || now.problem !== null || now.needsLogin || !now.report.windows.length) return;
  const selection = chosen();
  const choice = choiceName(selection);
  if (filled === choice) return;
  filled = choice;
  const query = new URLSearchParams({ window_ms: selection.windowMs, metric: selection.metric, lists: selection.lists });
  try {
    const [status, recent] = await request(`/api/curves?${query}`);
    if (status !== 200) throw new Error(`status ${status}`);
    history.addServer(choice, recent, now.report.settings.pane_ms);
  } catch {
    filled = null; // try again with the next report
  }
  if (tried.size > CHOICES_KNOWN) tried.clear();
  tried.add(choice);
  draw();
}

// Events

find("choices").addEventListener("change", choose);
find("choices").addEventListener("submit", (event) => event.preventDefault());
// On paper all cards are open. Drawing needs one more turn after a change of the colors.
addEventListener("beforeprint", () => now.report && printed(true));
addEventListener("afterprint", () => now.report && printed(false));
addEventListener("popstate", () => {
  query = new URLSearchParams(location.search);
  if (now.report) draw();
});
document.addEventListener("click", (event) => event.target.closest?.("[data-action=reload]") && location.reload());
document.addEventListener("toggle", () => now.report && draw(), true);
document.addEventListener("visibilitychange", () => !document.hidden && refresh());
find("content").addEventListener("keydown", (event) => act(event) && draw());
addEventListener("hashchange", () => {
  linked = location.hash;
  if (now.report) draw();
  askAgain();
});
find("content").addEventListener("click", (event) => event.target.closest("button[name=print]") && printAll());
find("content").addEventListener("click", (event) => explain(event) || ((unfold(event) || act(event)) && (draw(), askAgain())));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => now.report && later());
new ResizeObserver(() => now.report && draw()).observe(find("content"));
showWaiting(READING);
refresh();
