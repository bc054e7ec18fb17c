// Draws the curves of a chart with uPlot on a canvas: scales, bands, cursor and zoom. Text is only on the axes, never over a curve.

import { isNumber, isPaper, tickTexts } from "./text.js";

const HEIGHT = 230;
const GAP_STEPS = 5; // a longer gap, in usual steps, breaks the curve
const FONT = "12px system-ui, sans-serif";
const DASHES = [[], [10, 4], [10, 3, 2, 3]]; // of the patterns of final lines
const LIVE_DASHES = [[2, 3], [2, 7], [2, 3, 2, 9]];
const plots = new Map(); // chart id -> {key, u, holder}

/** Draw a chart into its element, or update it. `known` is a chart of chart.js; `moved(id, end, zoom)` gets the event time under the
 * pointer, or null, and the times that the reader selected to zoom in; null for the whole time. */
export function draw(known, moved) {
  const holder = document.getElementById(`${known.id}-plot`);
  if (holder === null) return remove(known.id);
  const width = Math.max(240, Math.floor(holder.clientWidth));
  const data = columns(known);
  let shown = plots.get(known.id);
  const key = JSON.stringify([known.lines.map((line) => [line.key, line.color, line.pattern, line.live, line.hidden]), colors(holder), isPaper()]);
  if (shown?.key !== key || shown.holder !== holder) {
    remove(known.id);
    shown = null;
    const u = new globalThis.uPlot(options(known, holder, width, moved), data, holder);
    u.known = known;
    plots.set(known.id, { key, u, holder });
  } else {
    shown.u.known = known;
    if (shown.u.width !== width) shown.u.setSize({ width, height: HEIGHT });
  }
  const { u } = plots.get(known.id);
  const [min, max] = known.zoom ?? [known.ends[0], known.ends.at(-1)];
  u.placing = true; // what follows moves the cursor, but the reader does not
  u.batch(() => {
    if (shown) u.setData(data, false);
    u.setScale("x", { min, max });
  });
  const left = known.cursor === null ? -10 : u.valToPos(known.cursor, "x");
  u.setCursor({ left, top: left < 0 ? -10 : 10 }, false);
  u.placing = false;
}

/** The dashes of a line, in pixels. */
export function dashOf({ live, pattern }) {
  return (live ? LIVE_DASHES : DASHES)[pattern];
}

/** Remove the charts that are no longer on the page. */
export function sweep() {
  for (const [id, { holder }] of plots) if (!holder.isConnected) remove(id);
}

/** What is drawn, for tests: the data by series, the scales, and the area of the curves in CSS pixels. */
export function drawn(id) {
  const { u } = plots.get(id);
  const { x, y } = u.scales;
  const ratio = globalThis.devicePixelRatio;
  const box = Object.fromEntries(Object.entries(u.bbox).map(([name, value]) => [name, value / ratio]));
  return { marks: u.known.marks.map(({ at, sign }) => [sign, at]), ends: [...u.data[0]], series: u.data.slice(1).map((column) => [...column].map((value) => value ?? null)), x: [x.min, x.max], y: [y.min, y.max], box, known: u.known.id };
}

function remove(id) {
  plots.get(id)?.u.destroy();
  plots.delete(id);
}

function colors(holder) {
  const style = getComputedStyle(holder);
  const of = (name) => style.getPropertyValue(name).trim();
  return { soft: of("--soft"), rule: of("--rule"), changing: of("--changing"), lines: [0, 1, 2, 3, 4, 5].map((at) => of(`--color-${at}`)) };
}

/** Columns for uPlot: the times, then each line with its bounds. null breaks a curve, undefined does not. */
function columns(known) {
  const breaks = known.lines.map((line) => gaps(line.drawn));
  const ends = [...new Set([...known.ends, ...breaks.flat()])].sort((one, other) => one - other);
  const place = new Map(ends.map((end, at) => [end, at]));
  const [low, high] = range(known, known.ends[0], known.ends.at(-1));
  const beyond = 10 * (high - low); // an interval without a bound reaches the edge of the chart
  return [ends, ...known.lines.flatMap((line, at) => {
    const [value, lower, upper] = [0, 1, 2].map(() => Array(ends.length));
    for (const end of breaks[at]) value[place.get(end)] = lower[place.get(end)] = upper[place.get(end)] = null;
    for (const point of line.drawn) {
      const index = place.get(point.end);
      if (index === undefined) continue;
      value[index] = isNumber(point.value) ? point.value : null;
      const bounded = isNumber(point.value) && (isNumber(point.low) || isNumber(point.high));
      lower[index] = bounded ? point.low ?? low - beyond : null;
      upper[index] = bounded ? point.high ?? high + beyond : null;
    }
    return [value, lower, upper];
  })];
}

/** Times in the middle of long gaps. Stored points are thinned, so their distances are no gaps. */
function gaps(points) {
  const own = points.filter((point) => isNumber(point.value));
  const steps = own.slice(1).map((point, at) => (point.stored || own[at].stored ? null : point.end - own[at].end));
  const usual = steps.filter(isNumber).sort((one, other) => one - other);
  const limit = GAP_STEPS * (usual[Math.floor(usual.length / 2)] ?? Infinity);
  return steps.flatMap((step, at) => (isNumber(step) && step > limit ? [own[at].end + step / 2] : []));
}

/** The values that the axis spans between two times, within the range of the metric. Only the newest bands count, because early bands are too wide. */
export function range(known, from, to) {
  const lines = known.lines.filter((line) => !line.hidden);
  const inside = (point) => point.end >= from && point.end <= to && isNumber(point.value);
  const newest = lines.map((line) => line.drawn.findLast(inside)).filter(Boolean);
  const values = [
    ...lines.flatMap((line) => line.drawn.filter(inside).map((point) => point.value)), ...newest.flatMap((point) => [point.low, point.high]),
    ...(known.references ?? []).map((each) => each.value),
  ].filter(isNumber);
  if (!values.length) return known.bounds.every(isNumber) ? known.bounds : [0, 1];
  const [least, most] = [known.bounds[0] ?? -Infinity, known.bounds[1] ?? Infinity];
  let [low, high] = [Math.min(...values), Math.max(...values)];
  const minimum = Math.max(Math.abs(high) * 0.02, 1e-4);
  if (high - low < minimum) [low, high] = [low - minimum / 2, high + minimum / 2];
  const margin = (high - low) * 0.08;
  return [Math.max(least, low - margin), Math.min(most, high + margin)];
}

function options(known, holder, width, moved) {
  const paint = colors(holder);
  const line = paint.lines;
  const series = known.lines.flatMap((each) => {
    const steps = each.stepped ? { paths: globalThis.uPlot.paths.stepped({ align: -1 }) } : {}; // a value holds for the time before it
    const common = { show: !each.hidden, points: { show: false }, ...steps };
    const stroke = line[each.color];
    const edge = { ...common, stroke: "transparent", width: 0 };
    return [{ ...common, stroke, width: each.live ? 1.5 : 2, dash: dashOf(each), points: { show: true, filter: lonely, size: 5, fill: stroke, stroke } }, edge, edge];
  });
  const bands = known.lines.flatMap((each, at) => (each.hidden ? [] : [{ series: [3 * at + 3, 3 * at + 2], fill: `${line[each.color]}29` }]));
  const axis = { stroke: paint.soft, font: FONT, grid: { stroke: paint.rule, width: 1 }, ticks: { show: false } };
  return {
    width, height: HEIGHT, ms: 1, legend: { show: false }, padding: [18, 28, 0, 0],
    tzDate: (ms) => globalThis.uPlot.tzDate(new Date(ms), "Etc/UTC"),
    scales: {
      x: { time: true, auto: false },
      y: { range: (u) => range(u.known, ...(u.known.zoom ?? [-Infinity, Infinity])) },
    },
    series: [{}, ...series],
    bands,
    axes: [
      { ...axis, size: (_, texts) => (texts?.some((text) => text.includes("\n")) ? 42 : 28), space: 70, values: (u, ticks, _, __, step) => tickTexts(ticks, step) },
      { ...axis, size: 58, space: 36, values: (u, ticks, _, __, step) => ticks.map((value) => u.known.format(value, step)) },
    ],
    cursor: { y: false, drag: { x: true, y: false, setScale: false }, points: { size: 7 }, bind: { dblclick: (u) => () => moved(u.known.id, null, null) } },
    hooks: {
      drawClear: [(u) => shade(u, paint)],
      draw: [(u) => levels(u, paint), (u) => markers(u, paint)],
      setCursor: [(u) => u.placing || moved(u.known.id, isNumber(u.cursor.idx) && u.cursor.left >= 0 ? nearest(u) : null)],
      setSelect: [(u) => select(u, moved)],
    },
  };
}

/** The points that no curve joins to another one. Only they are drawn as points. null breaks a curve, undefined does not. */
export function lonely(u, at) {
  const found = [];
  let run = [];
  for (const [index, value] of [...u.data[at], null].entries()) {
    if (isNumber(value)) run.push(index);
    if (value !== null) continue;
    if (run.length === 1) found.push(run[0]);
    run = [];
  }
  return found;
}

/** The time of a chart that is nearest to the pointer. */
function nearest(u) {
  const at = u.posToVal(u.cursor.left, "x");
  return u.known.ends.reduce((best, end) => (Math.abs(end - at) < Math.abs(best - at) ? end : best));
}

function select(u, moved) {
  const { left, width } = u.select;
  if (width < 5) return;
  const zoom = [u.posToVal(left, "x"), u.posToVal(left + width, "x")];
  u.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
  moved(u.known.id, null, zoom);
}

/** Shade the time after which values still change. */
function shade(u, paint) {
  const { changing, ends } = u.known;
  if (!isNumber(changing) || changing >= ends.at(-1)) return;
  const { left, top, width, height } = u.bbox;
  const from = Math.min(left + width, Math.max(left, u.valToPos(changing, "x", true)));
  u.ctx.fillStyle = paint.changing;
  u.ctx.fillRect(from, top, left + width - from, height);
}

/** Draw a vertical line for each mark, with its sign above the curves. The list under the chart has their texts. */
function markers(u, paint) {
  const { left, top, width, height } = u.bbox;
  const ratio = globalThis.devicePixelRatio;
  u.ctx.save();
  u.ctx.strokeStyle = u.ctx.fillStyle = paint.soft;
  u.ctx.lineWidth = ratio;
  u.ctx.font = `${12 * ratio}px system-ui, sans-serif`;
  u.ctx.textAlign = "center";
  u.ctx.textBaseline = "bottom";
  u.ctx.setLineDash([2 * ratio, 3 * ratio]);
  for (const { at, sign } of u.known.marks) {
    const x = u.valToPos(at, "x", true);
    if (x < left || x > left + width) continue;
    u.ctx.beginPath();
    u.ctx.moveTo(x, top);
    u.ctx.lineTo(x, top + height);
    u.ctx.stroke();
    u.ctx.fillText(sign, x, top - 2 * ratio);
  }
  u.ctx.restore();
}

/** Draw the dashed horizontal lines. The legend has their names. */
function levels(u, paint) {
  const { left, width } = u.bbox;
  u.ctx.save();
  u.ctx.strokeStyle = paint.soft;
  u.ctx.lineWidth = globalThis.devicePixelRatio;
  for (const { value, dash } of u.known.references ?? []) {
    if (value < u.scales.y.min || value > u.scales.y.max) continue;
    const y = u.valToPos(value, "y", true);
    u.ctx.setLineDash(dash.map((each) => each * globalThis.devicePixelRatio));
    u.ctx.beginPath();
    u.ctx.moveTo(left, y);
    u.ctx.lineTo(left + width, y);
    u.ctx.stroke();
  }
  u.ctx.restore();
}
