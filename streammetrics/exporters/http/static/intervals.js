// Intervals of lifts as bars on one common axis, so that the variants of an experiment can be compared at a glance.

import { make } from "./elements.js";
import { isNumber } from "./text.js";

const HEIGHT = 22;
const TICKS_MAX = 5; // as many numbers as fit on the narrowest axis
const STEPS = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5];

/** The common axis of these measures: {low, high, step}, with 0 and the margin on it. Bounds beyond twice the largest lift are cut off. */
export function axisOf(measures, margin) {
  const lifts = measures.map((each) => each.lift).filter(isNumber);
  const limit = Math.max(2 * Math.max(0, ...lifts.map(Math.abs)), 0.05, 2 * margin);
  const values = measures.flatMap((each) => [each.lift_lower, each.lift, each.lift_upper]).filter(isNumber).map((value) => Math.max(-1, -limit, Math.min(limit, value)));
  const [least, most] = [Math.min(0, -margin, ...values), Math.max(0, margin, ...values)];
  const step = STEPS.find((each) => (most - least) / each <= 4) ?? STEPS.at(-1);
  return { low: Math.max(-1, Math.floor(least / step) * step), high: Math.ceil(most / step) * step, step };
}

const share = (axis, value) => (100 * (Math.min(axis.high, Math.max(axis.low, value)) - axis.low)) / (axis.high - axis.low);
const percent = (axis, value) => `${Math.round(100 * share(axis, value)) / 100}%`;

/** The axis with its numbers, for the head of the column. */
export function scale(axis) {
  const ticks = [];
  const every = (axis.high - axis.low) / axis.step > TICKS_MAX - 1 + 1e-9 ? 2 : 1; // 0 always has its number
  for (let at = Math.ceil(axis.low / axis.step); at * axis.step <= axis.high + 1e-9; at += 1) if (at % every === 0) ticks.push(at * axis.step);
  const digits = axis.step < 0.01 ? 1 : 0;
  const text = (value) => `${value < -1e-9 ? "−" : value > 1e-9 ? "+" : ""}${Math.abs(100 * value).toFixed(digits)}`;
  return make("svg", { class: "scale", width: "100%", height: 16, "aria-hidden": "true" },
    ticks.map((value) => make("text", { x: percent(axis, value), y: 12, "text-anchor": "middle" }, `${text(value)}${value === 0 || Math.abs(value) < 1e-9 ? "\u00a0%" : ""}`)));
}

/** One bar: the interval, the lift, no difference (solid) and the margin (dashed). The numbers are beside it as text. */
export function bar(axis, measure, margin, kind) {
  const bounds = [measure.lift_lower, measure.lift_upper];
  const hasInterval = bounds.some(isNumber);
  const [from, to] = [isNumber(bounds[0]) ? bounds[0] : axis.low, isNumber(bounds[1]) ? bounds[1] : axis.high];
  return make("svg", { class: `interval ${kind}`, width: "100%", height: HEIGHT, "aria-hidden": "true" },
    make("line", { class: "zero", x1: percent(axis, 0), x2: percent(axis, 0), y1: 0, y2: HEIGHT }),
    make("line", { class: "margin", x1: percent(axis, -margin), x2: percent(axis, -margin), y1: 0, y2: HEIGHT }),
    hasInterval ? make("rect", { x: percent(axis, from), y: 7, width: `${Math.max(0.4, share(axis, to) - share(axis, from))}%`, height: 8 }) : null,
    isNumber(measure.lift) ? make("circle", { cx: percent(axis, measure.lift), cy: 11, r: 4.5 }) : null);
}
