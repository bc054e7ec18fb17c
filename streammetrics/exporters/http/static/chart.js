// Charts: curves with bands over event time, with a legend that switches curves on and off, a cursor, zoom, and the numbers as a table.
// plot.js draws the curves.

import { isOpen, make, table } from "./elements.js";
import { dashOf, draw, sweep } from "./plot.js";
import { help } from "./terms.js";
import { MISSING, isNumber, joined, timeText } from "./text.js";

const READING = "Reading the curve …";
const ZOOM_FACTOR = 2;
const MARKS_SHOWN = 12;
const charts = new Map(); // chart id -> what it shows
const cursors = new Map(); // chart id -> event time that the reader selected; absent for the newest
const zooms = new Map(); // chart id -> [from, to] that the reader selected; absent for the whole time
const switched = new Map(); // chart id -> keys of the lines that the reader switched on or off

/**
 * Make a figure from {id, title, note, waiting, lines, changing, references, bounds, format}. `waiting` stands for a curve without two points.
 * With `isReading` the points are being read, so nothing is drawn.
 * A line is {key, label, color, pattern, live, off, stepped, points: [{end, value, low, high, stored}]}, with points in ascending order. Lines that are `off`
 * are hidden until the reader switches them on. The values of `stepped` ones hold since the point before. Titles and labels are text or parts of text. `changing` is the event time after which
 * nothing is final. `marks` are moments: [{at, sign, text}]. `references` are horizontal lines: [{value, label, dash, term}], with a term of the glossary or none. `bounds` are the least and greatest possible value, or null.
 */
export function chart(given) {
  const all = [...new Set(given.lines.flatMap((line) => line.points.filter((point) => isNumber(point.value)).map((point) => point.end)))];
  all.sort((one, other) => one - other);
  const known = { bounds: [null, null], ...given, all, ends: all, cursor: null, zoom: null };
  known.lines = given.lines.map((line) => ({ ...line, drawn: line.points, hidden: (switched.get(given.id)?.has(line.key) ?? false) !== (line.off ?? false) }));
  if (all.includes(cursors.get(given.id))) known.cursor = cursors.get(given.id);
  known.zoom = zoomOf(known);
  known.marks = drawnMarks(given.marks ?? [], all);
  charts.set(given.id, known);
  const drawable = all.length >= 2 && !given.isReading;
  return make("figure", { id: given.id, "aria-labelledby": `${given.id}-title` },
    make("figcaption", { id: `${given.id}-title` }, given.title),
    legend(known),
    drawable ? plot(known) : make("p", { class: "waiting" }, given.isReading ? READING : given.waiting),
    markList(known.marks),
    make("p", { class: "fine" }, given.note),
    known.lines.length ? numbers(known) : null);
}

/** The newest MARKS_SHOWN marks between the first and the last point of a chart. */
function drawnMarks(marks, ends) {
  return marks.filter(({ at }) => at >= ends[0] && at <= ends.at(-1)).sort((one, other) => one.at - other.at).slice(-MARKS_SHOWN);
}

function markList(marks) {
  return marks.length ? make("ul", { class: "marks fine", "aria-label": "Marks" }, marks.map((mark) => make("li", {},
    make("strong", {}, mark.sign), ` ${timeText(mark.at)}: `, mark.text))) : [];
}

/** Draw the charts that are on the page. `redraw` is called when the reader moved the cursor or zoomed. */
export function drawCharts(redraw) {
  for (const [id, known] of charts) {
    if (document.getElementById(`${id}-plot`) === null) charts.delete(id);
    else draw(known, (at, end, zoom) => (moved(at, end, zoom) ? redraw() : null));
  }
  sweep();
}

function moved(id, end, zoom) {
  if (zoom !== undefined) {
    zoom === null ? zooms.delete(id) : zooms.set(id, zoom);
    return true;
  }
  if (end === null || end === charts.get(id)?.ends.at(-1)) return cursors.delete(id);
  if (cursors.get(id) === end) return false;
  cursors.set(id, end);
  return true;
}

function zoomOf({ id, ends }) {
  const zoom = zooms.get(id);
  if (!zoom) return null;
  const [from, to] = [Math.max(zoom[0], ends[0] ?? Infinity), Math.min(zoom[1], ends.at(-1) ?? -Infinity)];
  return from < to ? [from, to] : null;
}

/** Handle a key on a chart, or a click on a button of a chart. Return true when the page must be drawn again. */
export function act(event) {
  const figure = event.target.closest?.("figure");
  const known = figure && charts.get(figure.id);
  if (!known) return false;
  if (event.type === "click") return pressed(known, event.target.closest("button"));
  if (!event.target.closest("[role=slider]") || known.ends.length < 2) return false;
  if (["+", "=", "-", "0", "Escape"].includes(event.key)) {
    event.preventDefault();
    return zoomed(known, { "+": ZOOM_FACTOR, "=": ZOOM_FACTOR, "-": 1 / ZOOM_FACTOR }[event.key] ?? 0);
  }
  const at = cursorIndex(known);
  const steps = { ArrowLeft: at - 1, ArrowRight: at + 1, ArrowDown: at - 1, ArrowUp: at + 1, PageDown: at - 10, PageUp: at + 10, Home: 0, End: Infinity };
  if (!(event.key in steps)) return false;
  event.preventDefault();
  moved(figure.id, known.ends[Math.min(known.ends.length - 1, Math.max(0, steps[event.key]))]);
  return true;
}

function pressed(known, button) {
  if (button?.name === "line") {
    const keys = switched.get(known.id) ?? new Set();
    if (!keys.delete(button.value)) keys.add(button.value);
    switched.set(known.id, keys);
    return true;
  }
  return button?.name === "zoom" ? zoomed(known, Number(button.value)) : false;
}

/** Zoom in by a factor around the cursor; 0 for the whole time. */
function zoomed(known, factor) {
  const [first, last] = [known.ends[0], known.ends.at(-1)];
  const [from, to] = known.zoom ?? [first, last];
  const span = factor ? (to - from) / factor : Infinity;
  if (span >= last - first) return zooms.delete(known.id);
  const middle = known.cursor ?? (known.zoom ? (from + to) / 2 : last);
  const begin = Math.min(Math.max(first, middle - span / 2), last - span);
  zooms.set(known.id, [begin, begin + span]);
  return true;
}

function cursorIndex(known) {
  return known.cursor === null ? known.ends.length - 1 : known.ends.indexOf(known.cursor);
}

function legend(known) {
  const items = known.lines.map((line) => make("li", {},
    make("button", { type: "button", class: "switch", name: "line", value: line.key, "aria-pressed": String(!line.hidden) }, key(`line color-${line.color}${line.live ? " live" : ""}`, dashOf(line).join(" ") || null), make("span", {}, line.label))));
  const references = (known.references ?? []).map((each) => make("li", {}, key("reference", each.dash.join(" ")), each.label, each.term ? help(each.term) : null));
  const changing = isNumber(known.changing) && known.changing < known.ends.at(-1)
    ? make("li", {}, make("span", { class: "key changing", "aria-hidden": "true" }), "still changing") : [];
  return make("ul", { class: "legend" }, items, references, changing);
}

function key(kind, dash = null) {
  return make("svg", { class: `key ${kind}`, viewBox: "0 0 24 8", "aria-hidden": "true" }, make("path", { d: "M0 4H24", "stroke-dasharray": dash }));
}

function plot(known) {
  const readout = readoutAt(known, known.ends[cursorIndex(known)]);
  return [
    make("div", {
      id: `${known.id}-plot`, class: "plot", role: "slider", tabindex: "0", "aria-label": [known.title, ", by time"],
      "aria-valuemin": 0, "aria-valuemax": known.ends.length - 1, "aria-valuenow": cursorIndex(known), "aria-valuetext": readout,
      "aria-describedby": `${known.id}-readout`,
    }),
    make("div", { class: "under" },
      make("p", { id: `${known.id}-readout`, class: "readout" }, readout),
      make("p", { class: "zoom" },
        make("button", { type: "button", name: "zoom", value: "2" }, "Zoom in"),
        known.zoom ? make("button", { type: "button", name: "zoom", value: "0" }, "Whole time") : null)),
  ];
}

/** Describe all visible lines at one time, as parts of text. */
function readoutAt(known, at) {
  const values = known.lines.filter((line) => !line.hidden).map((line) => {
    const point = line.points.find((each) => each.end === at);
    return point && isNumber(point.value) ? [line.label, ` ${pointText(known, point)}`] : null;
  });
  return [`To ${timeText(at)}: `, joined(values.filter((each) => each !== null), "; ")];
}

function pointText(known, point) {
  if (!point || !isNumber(point.value)) return MISSING;
  const ends = [point.low, point.high].some(isNumber) ? ` (${known.format(point.low)} to ${known.format(point.high)})` : "";
  return `${known.format(point.value)}${ends}`;
}

function numbers(known) {
  const id = `${known.id}-numbers`;
  const row = (end) => [timeText(end), ...known.lines.map((line) => pointText(known, line.points.find((point) => point.end === end)))];
  return make("details", { id }, make("summary", {}, "Curves as numbers"),
    isOpen(id) ? table([known.title, ", newest first"], ["up to", ...known.lines.map((line) => line.label)], known.all.toReversed().map(row), "tall") : []);
}
