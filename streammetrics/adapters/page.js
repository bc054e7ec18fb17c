// Shows /api/report as tables, again and again. Everything that events name is set as text, never as markup.
"use strict";

const EVERY_MS = 2000;
const UNITS = [["d", 86400000], ["h", 3600000], ["m", 60000], ["s", 1000], ["ms", 1]];
let report = null;

const find = (id) => document.getElementById(id);

function spanText(ms) {
  const [unit, size] = UNITS.find(([, each]) => ms % each === 0);
  return `${ms / size}${unit}`;
}

function timeText(ms) {
  return ms === null ? "–" : new Date(ms).toISOString().replace("T", " ").replace(/\.\d+Z$/, " UTC");
}

function numberText(value) {
  return value === undefined ? "–" : value.toFixed(6);
}

function row(kind, cells, names) {
  const line = document.createElement("tr");
  cells.forEach((text, index) => {
    const cell = document.createElement(kind);
    cell.textContent = text;
    if (index < names) cell.className = "name";
    line.append(cell);
  });
  return line;
}

function fill(id, heads, rows, names) {
  const table = find(id);
  table.tHead.replaceChildren(row("th", heads, names));
  table.tBodies[0].replaceChildren(...rows.map((cells) => row("td", cells, names)));
}

function offer(id, options) {
  const select = find(id);
  if (select.options.length === options.length) return;
  const chosen = select.value;
  select.replaceChildren(...options.map(([value, text]) => new Option(text, value, false, value === chosen)));
}

function groupName(group) {
  const segments = Object.entries(group.segments).map(([name, value]) => `${name}=${value}`).join(" ");
  return [group.experiment || "(all traffic)", group.variant, segments];
}

function draw() {
  if (report === null) return;
  const metrics = report.settings.metrics.map((text) => text.split("@"));
  offer("window", [...new Set(report.windows.map((each) => each.window_ms))].map((ms) => [String(ms), spanText(ms)]));
  offer("k", [...new Set(metrics.map(([, k]) => k))].map((k) => [k, k]));
  const shown = report.windows.find((each) => String(each.window_ms) === find("window").value && each.view === find("view").value);
  const names = metrics.filter(([, k]) => k === find("k").value).map(([name, k]) => `${name}@${k}`);
  const values = find("lists").value;
  find("window-state").textContent = !shown || shown.end_ms === null ? "This window has not begun yet."
    : shown.complete ? `The window ends at ${timeText(shown.end_ms)}.`
    : `The window that ends at ${timeText(shown.end_ms)} is withheld: not all of its panes are held any more.`;
  fill("groups", ["experiment", "variant", "segments", "lists", "with feedback", ...names],
    (shown ? shown.groups : []).map((group) => [...groupName(group), String(group.lists), String(group.lists_with_feedback),
      ...names.map((name) => numberText(group[values][name]))]), 3);
  fill("counters", ["counter", "topic", "events"],
    report.counters_by_topic.map((each) => [each.reason, each.topic, String(each.count)]), 2);
}

function say(text, isTrouble) {
  find("state").textContent = text;
  find("state").className = isTrouble ? "trouble" : "";
}

async function refresh() {
  try {
    const answer = await fetch("/api/report", { cache: "no-store" });
    const content = await answer.json();
    if (!answer.ok) throw new Error(content.error);
    report = content;
    draw();
    const upTo = report.ended ? "the input has ended" : `read up to ${timeText(report.watermark_ms)}, final up to ${timeText(report.final_ms)}`;
    say(`version ${report.version}: ${report.tasks_committed} of ${report.tasks} tasks have committed; ${upTo}`, false);
  } catch (error) {
    say(`No new report: ${error.message}. Numbers below, if any, are the last ones known.`, true);
  }
  setTimeout(refresh, EVERY_MS);
}

find("choices").addEventListener("change", draw);
find("choices").addEventListener("submit", (event) => event.preventDefault());
refresh();
