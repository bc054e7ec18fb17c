// SVG charts: curves with bands over event time. Missing points leave a gap in the curve.

import { isOpen, make, table } from "./elements.js";
import { MISSING, isNumber, joined, tickText, timeText } from "./text.js";

const HEIGHT = 220;
const MARGIN = { top: 10, right: 26, bottom: 24, left: 58 };
const GAP_STEPS = 5; // a longer gap, in usual steps, breaks the curve
const STEPS_MS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 2592000].map((each) => each * 1000);
const charts = new Map();
const cursors = new Map(); // chart id -> event time that the reader selected; absent for the newest

/**
 * Make a figure from {id, title, note, lines, changing, references, format, width}.
 * A line is {label, color, live, points: [{end, value, low, high}]}, with points in ascending order.
 * Titles and labels are text or parts of text. `changing` is the event time after which nothing is final.
 * `references` are horizontal lines: [{value, label}].
 */
export function chart(given) {
  const all = [...new Set(given.lines.flatMap((line) => line.points.filter((point) => isNumber(point.value)).map((point) => point.end)))];
  all.sort((one, other) => one - other);
  const begins = Math.min(...given.lines.flatMap((line) => pieces(line.points).filter((piece) => piece.length > 1).map((piece) => piece[0].end)));
  const ends = all.filter((end) => end >= begins); // single points before the first curve are only in the table
  charts.set(given.id, { ...given, ends, all, lines: given.lines.map((line) => ({ ...line, drawn: line.points.filter((point) => point.end >= begins) })) });
  const body = ends.length < 2 ? make("p", { class: "waiting" }, "A curve needs at least two points. It appears with the next reports.") : plot(charts.get(given.id));
  return make("figure", { id: given.id, "aria-labelledby": `${given.id}-title` },
    make("figcaption", { id: `${given.id}-title` }, given.title),
    legend(given.lines), body,
    make("p", { class: "fine" }, given.note),
    numbers(charts.get(given.id)));
}

/** Move the cursor of the chart under the pointer or with the focus. Return true when the page must be drawn again. */
export function act(event) {
  const svg = event.target.closest?.("svg[role=slider]");
  const figure = svg?.closest("figure");
  const known = figure && charts.get(figure.id);
  if (!known || known.ends.length < 2) return false;
  const at = cursorIndex(known);
  let to = null;
  if (event.type === "keydown") {
    const steps = { ArrowLeft: at - 1, ArrowRight: at + 1, ArrowDown: at - 1, ArrowUp: at + 1, PageDown: at - 10, PageUp: at + 10, Home: 0, End: Infinity };
    if (!(event.key in steps)) return false;
    event.preventDefault();
    to = Math.min(known.ends.length - 1, Math.max(0, steps[event.key]));
  } else {
    const box = svg.getBoundingClientRect();
    const share = (event.clientX - box.left - MARGIN.left) / (box.width - MARGIN.left - MARGIN.right);
    const wanted = known.ends[0] + share * (known.ends.at(-1) - known.ends[0]);
    to = known.ends.reduce((best, end, index) => (Math.abs(end - wanted) < Math.abs(known.ends[best] - wanted) ? index : best), 0);
  }
  if (event.type === "pointerleave" || to === known.ends.length - 1) cursors.delete(figure.id);
  else cursors.set(figure.id, known.ends[to]);
  return true;
}

function cursorIndex(known) {
  const at = known.ends.indexOf(cursors.get(known.id));
  return at < 0 ? known.ends.length - 1 : at;
}

function legend(lines) {
  return make("ul", { class: "legend" }, lines.map((line) => make("li", {},
    make("svg", { class: `key ${style(line)}`, viewBox: "0 0 24 8", "aria-hidden": "true" }, make("path", { d: "M0 4H24" })), line.label)));
}

function style(line) {
  return `line color-${line.color}${line.live ? " live" : ""}`;
}

function plot(known) {
  const width = Math.max(240, Math.floor(known.width(known.id)));
  const inner = { left: MARGIN.left, right: width - MARGIN.right, top: MARGIN.top, bottom: HEIGHT - MARGIN.bottom };
  const [first, last] = [known.ends[0], known.ends.at(-1)];
  const x = (end) => round(inner.left + ((end - first) / (last - first)) * (inner.right - inner.left));
  const [low, high, step] = range(known);
  const y = (value) => round(inner.bottom - ((Math.min(high, Math.max(low, value)) - low) / (high - low)) * (inner.bottom - inner.top));
  const at = known.ends[cursorIndex(known)];
  const readout = readoutAt(known, at);
  return make("div", { class: "plot" },
    make("svg", {
      role: "slider", tabindex: "0", class: "chart", viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, "aria-label": [known.title, ", by time"],
      "aria-valuemin": 0, "aria-valuemax": known.ends.length - 1, "aria-valuenow": cursorIndex(known), "aria-valuetext": readout, "aria-describedby": `${known.id}-readout`,
    },
    changing(known, x, y, inner),
    levels(low, high, step).map((value) => make("g", { class: "level" },
      make("line", { x1: inner.left, x2: inner.right, y1: y(value), y2: y(value) }),
      make("text", { x: inner.left - 8, y: y(value) + 4, "text-anchor": "end" }, known.format(value, step)))),
    ticks(first, last, inner.right - inner.left).map(([end, text]) => make("text", { class: "tick", x: x(end), y: HEIGHT - 6, "text-anchor": "middle" }, text)),
    (known.references ?? []).filter((each) => each.value >= low && each.value <= high).map((each) =>
      make("g", { class: "reference" }, make("line", { x1: inner.left, x2: inner.right, y1: y(each.value), y2: y(each.value) }),
        make("text", { x: inner.right, y: y(each.value) + (each.below ? 14 : -5), "text-anchor": "end" }, each.label))),
    known.lines.map((line) => pieces(line.drawn).map((piece) => make("path", { class: `band color-${line.color}`, d: band(piece, x, y) }))),
    known.lines.map((line) => make("path", { class: style(line), d: pieces(line.drawn).map((piece) => curve(piece, x, y)).join("") })),
    make("line", { class: "cursor", x1: x(at), x2: x(at), y1: inner.top, y2: inner.bottom }),
    known.lines.map((line) => line.points.filter((point) => point.end === at && isNumber(point.value)).map((point) =>
      make("circle", { class: `dot color-${line.color}${line.live ? " live" : ""}`, cx: x(at), cy: y(point.value), r: 3.5 })))),
    make("p", { id: `${known.id}-readout`, class: "readout" }, readout));
}

function changing(known, x, y, inner) {
  const from = known.changing;
  if (!isNumber(from) || from >= known.ends.at(-1)) return null;
  const left = x(Math.max(from, known.ends[0]));
  return make("g", { class: "changing" },
    make("rect", { x: left, y: inner.top, width: round(inner.right - left), height: inner.bottom - inner.top }),
    inner.right - left > 84 ? make("text", { x: left + 6, y: freeBaseline(known, x, y, inner, left), "text-anchor": "start" }, "still changing") : null);
}

/** Return the lowest baseline where text from `left` on touches no curve, or the one with the most room. */
function freeBaseline(known, x, y, inner, left) {
  const near = (point) => isNumber(point.value) && x(point.end) > left - 40 && x(point.end) < left + 130;
  const curves = known.lines.flatMap((line) => line.drawn.filter(near).map((point) => y(point.value)));
  const room = (base) => Math.min(16, ...curves.map((at) => Math.abs(at - (base - 4))));
  const bases = Array.from({ length: Math.floor((inner.bottom - inner.top - 12) / 16) }, (_, step) => inner.bottom - 6 - 16 * step);
  return bases.reduce((best, base) => (room(base) > room(best) ? base : best), bases[0]);
}

/** Describe all lines at one time, as parts of text. */
function readoutAt(known, at) {
  const values = known.lines.map((line) => {
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

/** Split points into connected pieces: at missing values and at long gaps. */
function pieces(points) {
  const steps = points.slice(1).map((point, at) => point.end - points[at].end).sort((one, other) => one - other);
  const usual = steps[Math.floor(steps.length / 2)] ?? 0;
  const found = [];
  let before = null;
  for (const point of points) {
    if (!isNumber(point.value)) {
      before = null;
    } else {
      if (before === null || point.end - before > GAP_STEPS * usual) found.push([]);
      found.at(-1).push(point);
      before = point.end;
    }
  }
  return found;
}

function curve(piece, x, y) {
  const path = piece.map((point, at) => `${at ? "L" : "M"}${x(point.end)} ${y(point.value)}`).join("");
  return piece.length > 1 ? path : `${path}h0.01`;
}

/** The area between the bounds of the intervals. A missing bound reaches the edge of the chart. */
function band(piece, x, y) {
  const bounded = piece.filter((point) => isNumber(point.low) || isNumber(point.high));
  if (bounded.length < 2) return "";
  const above = bounded.map((point) => `${x(point.end)} ${y(point.high ?? Infinity)}`);
  const below = bounded.toReversed().map((point) => `${x(point.end)} ${y(point.low ?? -Infinity)}`);
  return `M${[...above, ...below].join("L")}Z`;
}

/** The values that the axis spans. Only the newest bands count, because early bands are too wide. */
function range(known) {
  const points = known.lines.flatMap((line) => line.drawn);
  const newest = known.lines.map((line) => line.points.findLast((point) => isNumber(point.value))).filter(Boolean);
  const values = [...points.map((point) => point.value), ...newest.flatMap((point) => [point.low, point.high]), ...(known.references ?? []).map((each) => each.value)];
  const numeric = values.filter(isNumber);
  let [low, high] = [Math.min(...numeric), Math.max(...numeric)];
  const minimum = Math.max(Math.abs(high) * 0.02, 1e-4);
  if (high - low < minimum) [low, high] = [low - minimum / 2, high + minimum / 2];
  [low, high] = [low - (high - low) * 0.06, high + (high - low) * 0.06];
  const step = niceStep((high - low) / 4);
  return [Math.floor(low / step) * step, Math.ceil(high / step) * step, step];
}

function niceStep(rough) {
  const power = 10 ** Math.floor(Math.log10(rough));
  return power * [1, 2, 2.5, 5, 10].find((each) => each * power >= rough * 0.999);
}

function levels(low, high, step) {
  return Array.from({ length: Math.round((high - low) / step) + 1 }, (_, at) => low + at * step);
}

function ticks(first, last, width) {
  const fits = (step) => (last - first) / step <= Math.max(2, width / (step < 60000 ? 90 : 60));
  const step = STEPS_MS.find(fits) ?? STEPS_MS.at(-1);
  const found = [];
  for (let end = Math.ceil(first / step) * step; end <= last; end += step) found.push([end, tickText(end, step)]);
  return found;
}

function round(value) {
  return Math.round(value * 10) / 10;
}
