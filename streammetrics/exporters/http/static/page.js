// The live page: asks for the report again and again, keeps what the reader chose in the address, and says how far it can be trusted.

import { act } from "./page_chart.js";
import { experimentNames, sections, spoken, statistics } from "./page_experiments.js";
import { History, segmentName } from "./page_history.js";
import { make, patchChildren } from "./page_parts.js";
import { pipeline } from "./page_pipeline.js";
import { isNumber, metricName, named, plain, segmentWords, spanText, timeText, windowText, windowWords } from "./page_words.js";

const EVERY_MS = 2000;
const PATIENCE_MS = 10000;
const AWAY_MS = 10000;
const REPORT_OLD_SECONDS = 30;
const READING = "Reading the report …";
const UNREAD = "publisher: no committed state has been read yet";
const BEHIND_MS = 300000;
const CLOCK_MS = 2000; // the Date header is in whole seconds: less apart is no difference

const history = new History();
const now = { report: null, pulse: null, trouble: null, missing: [], answeredMs: null, pulseMs: 0, unready: false, skewMs: 0, needsLogin: false, version: null };
const said = new Map();
const kept = new Map(); // path -> its last answer and the tag of that; few, because a choice is asked for once only
let timer = null;
let frame = null; // the drawing that a pointer has asked for
let asking = false;
let filled = null; // the choice whose history the server has given since it last answered anew

const find = (id) => document.getElementById(id);
const serverNow = () => Date.now() + now.skewMs;

// What the reader chose

function chosen() {
  const asked = new URLSearchParams(location.search);
  const { report } = now;
  const metrics = measured(report).map((text) => text.split("@"));
  const windows = [...new Set(report.windows.map((each) => each.window_ms))];
  const pick = (name, options, usual) => (options.includes(asked.get(name)) ? asked.get(name) : usual);
  const name = pick("metric", metrics.map(([each]) => each), metrics.some(([each]) => each === "ndcg") ? "ndcg" : metrics[0]?.[0]);
  const cutoffs = metrics.filter(([each]) => each === name).map(([, k]) => k);
  const k = pick("k", cutoffs, cutoffs.includes("10") ? "10" : cutoffs[0]);
  const usual = windows.filter((ms) => ms <= 3600000).at(-1) ?? windows[0];
  const windowMs = windows.find((ms) => windowText(ms) === asked.get("window")) ?? usual;
  const segment = pick("segment", segments(report), "");
  return {
    name, k, metric: `${name}@${k}`, windowMs, segment,
    lists: asked.get("lists") === "with_feedback" ? "values_with_feedback" : "values",
    scope: asked.get("scope") === "day" ? "day" : "start",
    experiment: pick("experiment", experimentNames(report), ""),
  };
}

function measured(report) {
  const more = (report.experiments ?? []).flatMap((each) => each.variants.flatMap((variant) => variant.measures.map((one) => `${one.metric}@${one.k}`)));
  return [...new Set([...report.settings.metrics, ...more])];
}

function segments(report) {
  return [...new Set(["", ...report.windows.flatMap((window) => window.groups.map((group) => segmentName(group.segments)))])].sort();
}

function choices(selection) {
  const { report } = now;
  const metrics = measured(report).map((text) => text.split("@"));
  const unique = (values) => [...new Set(values)];
  const names = experimentNames(report);
  const days = (report.experiments ?? []).some((each) => each.scope !== "start");
  return [
    choice("window", "Window", unique(report.windows.map((each) => each.window_ms)).map((ms) => [windowText(ms), windowWords(ms)]), windowText(selection.windowMs)),
    choice("metric", "Metric", unique(metrics.map(([name]) => name)).map((name) => [name, metricName(name)]), selection.name),
    choice("k", "Cut-off", metrics.filter(([name]) => name === selection.name).map(([, k]) => [k, `first ${k}`]), selection.k),
    choice("lists", "Lists", [["all", "all"], ["with_feedback", "with feedback"]], selection.lists === "values" ? "all" : "with_feedback"),
    segments(report).length > 1 ? choice("segment", "Segment", segments(report).map((name) => [name, name ? segmentWords(name) : "all"]), selection.segment) : null,
    days ? choice("scope", "Statistics", [["start", "since the start"], ["day", "this day (UTC)"]], selection.scope) : null,
    names.length > 1 ? choice("experiment", "Experiment", [["", "all"], ...names.map((name) => [name, named(name)])], selection.experiment) : null,
  ].filter(Boolean);
}

function choice(name, label, options, value) {
  const id = `choose-${name}`;
  return make("div", { class: "choice", id: `${id}-box` }, make("label", { for: id }, label),
    make("select", { id, name }, options.map(([each, text]) => make("option", { value: each, selected: each === value }, text))));
}

function choose(event) {
  const asked = new URLSearchParams(location.search);
  asked.set(event.target.name, event.target.value);
  globalThis.history.replaceState(null, "", `${location.pathname}?${asked}`);
  draw();
  fill();
}

// What can be said of the report

/** [kind, word, sentences]: the one thing that the reader must know first. */
function state() {
  const { report, pulse } = now;
  const last = now.answeredMs === null ? "" : ` Numbers below, if any, are of ${timeText(now.answeredMs, serverNow())}.`;
  if (now.needsLogin) return ["login", "Log in", [`The server asks who you are.${last}`]];
  if (now.trouble !== null) return ["stale", "Stale", [`The server does not answer as it should (${now.trouble}); it is asked again every ${spanText(EVERY_MS)}.${last}`]];
  if (report === null && pulse === null) return ["waiting", "Starting", []];
  if (report === null && !pulse.publishes) return ["waiting", "No numbers here", ["This process only consumes. The exporter of this namespace has the page with the numbers.", ...now.missing]];
  if (now.unready) return ["unready", "Not ready", [`The server has not read any committed state yet.${last}`, ...now.missing.filter((line) => line !== UNREAD)]];
  const patience = Math.max(REPORT_OLD_SECONDS, 3 * (pulse?.report_gap_seconds ?? 0));
  if (pulse && (pulse.report_age_seconds > patience || now.missing.some((line) => line.startsWith("publisher:")))) {
    return ["stale", "Stale", [`The newest report is ${spanText(pulse.report_age_seconds * 1000)} old: committed state is not being read.`, ...now.missing]];
  }
  if (report.ended) return ["ended", "Ended", ["The input has ended: everything is final."]];
  if (report.watermark_ms === null) return ["empty", "No data yet", [waitingFor(report), ...now.missing]];
  if (now.missing.length) return ["unready", "Not ready", ["Numbers are shown, but this process misses something:", ...now.missing]];
  if (serverNow() - report.watermark_ms > BEHIND_MS) {
    return ["behind", "Behind", [`Events are read up to ${timeText(report.watermark_ms, serverNow())}, which is ${spanText(serverNow() - report.watermark_ms)} ago. ${holding(report)}`]];
  }
  return ["live", "Live", []];
}

function waitingFor(report) {
  const silent = report.inputs.filter((each) => each.watermark_ms === null).map((each) => `${each.topic} ${each.partition}`);
  const some = silent.length ? ` No events yet on ${silent.slice(0, 5).join(", ")}${silent.length > 5 ? ` and ${silent.length - 5} more` : ""}.` : "";
  return `Numbers are shown once every task has seen events: ${report.tasks_committed} of ${report.tasks} have committed.${some}`;
}

function holding(report) {
  const last = report.inputs.filter((each) => each.watermark_ms !== null).sort((one, other) => one.watermark_ms - other.watermark_ms)[0];
  return last ? `${last.topic} ${last.partition} is the furthest behind.` : "";
}

function header([kind, word, sentences]) {
  const { report, pulse } = now;
  const age = isNumber(pulse?.report_age_seconds) ? `report ${spanText(pulse.report_age_seconds * 1000 + (Date.now() - now.pulseMs))} old` : null;
  const facts = report && report.watermark_ms !== null
    ? [`final up to ${timeText(report.final_ms, serverNow())}`, `live up to ${timeText(report.watermark_ms, serverNow())}`, age].filter(Boolean).join(" · ")
    : "";
  return [
    make("p", { class: "summary" }, make("span", { class: `pill ${kind}` }, word), make("span", { class: "fine" }, facts)),
    make("div", { class: `banner ${kind}`, hidden: !sentences.length }, sentences.map((text) => make("p", {}, text)),
      kind === "login" ? make("button", { type: "button", "data-action": "reload" }, "Log in again") : null),
  ];
}

// Drawing

function draw() {
  frame = null;
  const found = state();
  document.title = found[0] === "live" ? "streammetrics" : `${found[1]} · streammetrics`;
  document.documentElement.className = `state-${found[0]}`;
  patchChildren(find("state"), header(found));
  speak("state", found[0], found[0] === "live" ? "The numbers are live." : [`${found[1]}. `, found[2][0] ?? ""]);
  if (now.report === null) {
    waiting(found[0] === "waiting" ? READING : "There are no numbers to show yet.");
    return;
  }
  const selection = chosen();
  find("choices").hidden = false;
  patchChildren(find("choices"), choices(selection));
  for (const select of find("choices").elements) select.value = select.querySelector("[selected]")?.value ?? select.value;
  const view = { report: now.report, pulse: now.pulse, now: serverNow(), selection, tracks: history.tracks(choiceName(selection)), width: chartWidth };
  const content = () => [...sections(view), pipeline(view)];
  patchChildren(find("content"), content());
  if ([...document.querySelectorAll(".plot")].some((plot) => plot.firstChild.clientWidth !== plot.clientWidth)) patchChildren(find("content"), content());
  for (const name of experimentNames(now.report)) {
    const stats = statistics(now.report, name, selection.scope);
    if (stats) speak(`experiment ${name} ${selection.scope}`, stats.verdict.word, spoken(stats));
  }
  find("about").textContent = `Version ${now.report.version}. Times are event time in UTC. ${now.version && now.version !== now.report.version ? "The server has a new version: reload the page." : ""}`;
}

function waiting(text) {
  patchChildren(find("content"), [make("p", { class: "waiting" }, text)]);
}

function choiceName(selection) {
  return JSON.stringify([selection.windowMs, selection.metric, selection.lists, selection.segment]);
}

/** How wide a chart may be: known once its place is there. */
function chartWidth(id) {
  return document.querySelector(`#${CSS.escape(id)} .plot`)?.clientWidth ?? find("content").clientWidth - 2;
}

/** Say a change aloud, in text or parts of it, once; the first thing known of a subject is no change. */
function speak(subject, value, text) {
  const before = said.get(subject);
  said.set(subject, value);
  if (before !== undefined && before !== value) find("spoken").textContent = plain(text);
}

// Asking

/** The status and what the answer says. What is the same as last time is not sent again: the server knows it by its tag. */
async function ask(path) {
  const before = kept.get(path);
  const headers = before ? { "If-None-Match": before.tag } : {};
  const answer = await fetch(path, { cache: "no-store", headers, signal: AbortSignal.timeout(PATIENCE_MS) });
  if (answer.status === 401) throw Object.assign(new Error("login"), { needsLogin: true });
  const date = Date.parse(answer.headers.get("date") ?? "");
  if (isNumber(date)) now.skewMs = Math.abs(date - Date.now()) < CLOCK_MS ? 0 : date - Date.now();
  if (answer.status === 304) return [200, before.content];
  const content = await answer.json();
  const tag = answer.headers.get("etag");
  if (answer.ok && tag && !path.includes("?")) kept.set(path, { tag, content });
  return [answer.status, content];
}

async function refresh() {
  clearTimeout(timer);
  if (asking || now.needsLogin) return;
  asking = true;
  try {
    const [[status, report], [, pulse]] = await Promise.all([ask("/api/report"), ask("/api/pulse")]);
    // It may be another process that answers now, and this page may have slept: what it missed, the server remembers.
    if (now.trouble !== null || now.unready || Date.now() - now.pulseMs > AWAY_MS) filled = null;
    Object.assign(now, { trouble: null, pulse, pulseMs: Date.now(), missing: pulse.missing });
    now.unready = status === 503;
    if (status === 200) take(report);
    else if (!now.unready) now.trouble = `status ${status}`;
  } catch (error) {
    now.needsLogin = error.needsLogin === true;
    now.trouble = { TimeoutError: "no answer in time", SyntaxError: "its answer is no report" }[error.name] ?? "no connection";
  } finally {
    asking = false;
  }
  draw();
  fill();
  if (!document.hidden) timer = setTimeout(refresh, EVERY_MS);
}

function take(report) {
  now.answeredMs = serverNow();
  now.version ??= report.version;
  now.report = report;
  if (report.windows.length) {
    const selection = chosen();
    history.addReport(choiceName(selection), report, selection);
  }
}

/** Ask for what the server remembers of this choice, once a choice and once after it was gone. */
async function fill() {
  if (now.report === null || now.trouble !== null || now.needsLogin || !now.report.windows.length) return;
  const selection = chosen();
  const choice = choiceName(selection);
  if (filled === choice) return;
  filled = choice;
  const query = new URLSearchParams({ window_ms: selection.windowMs, metric: selection.metric, lists: selection.lists });
  try {
    const [status, answer] = await ask(`/api/curves?${query}`);
    if (status !== 200) throw new Error(answer.error);
    history.addServer(choice, answer, now.report.settings.pane_ms);
    draw();
  } catch {
    filled = null; // the next report asks again
  }
}

// What the reader does

find("choices").addEventListener("change", choose);
find("choices").addEventListener("submit", (event) => event.preventDefault());
addEventListener("popstate", () => now.report && draw());
document.addEventListener("click", (event) => event.target.closest?.("[data-action=reload]") && location.reload());
document.addEventListener("toggle", () => now.report && draw(), true);
document.addEventListener("visibilitychange", () => !document.hidden && refresh());
find("content").addEventListener("keydown", (event) => act(event) && draw());
for (const name of ["pointermove", "pointerdown", "pointerleave"]) {
  find("content").addEventListener(name, (event) => act(event) && (frame ??= requestAnimationFrame(() => draw())), true);
}
new ResizeObserver(() => now.report && draw()).observe(find("content"));
waiting(READING);
refresh();
