// The charts of an experiment: lifts since the start or of the day, and values of the chosen window.

import { chart } from "./chart.js";
import { trackName } from "./history.js";
import { confidence, look, measureOf, windowOf } from "./lookup.js";
import { isNumber, lastWords, liftText, metricBounds, metricKey, metricText, named, scopeWords, tickDigits, valueText } from "./text.js";
import { markOf } from "./verdicts.js";

const LINES_SHOWN = 6; // variants with a curve; the legend switches on the others
const WAITING = "A curve needs at least two points. It appears with the next reports.";
const WITHOUT_CURVE = "This report has one point in time, so there is no curve.";

export function windowChart(view, id, experiment, variants, order, stats = null) {
  const { selection } = view;
  const lines = order.flatMap((variant, weight) => ["final", "live"].map((kind) => {
    const name = JSON.stringify([experiment, variant, selection.segment]);
    const points = (view.tracks.get(kind)?.points ?? []).map((point) => ({ end: point.end, value: point.lines.get(name)?.value }));
    const label = experiment ? [named(variant), `, ${kind}`] : kind === "final" ? "Final" : "Live";
    return { key: JSON.stringify([variant, kind]), label, ...look(variants.indexOf(variant)), live: kind === "live", off: weight >= LINES_SHOWN, points };
  }));
  return chart({
    id: `${id}-window`,
    title: `${metricText(selection.name, selection.k)} over the ${lastWords(selection.windowMs)}`,
    note: "Each point is one whole window, drawn at its end. Strong: final. Finely dotted: live, which still changes when feedback arrives. Values of windows are exact, so they have no band.",
    lines: lines.filter((line) => line.points.some((point) => isNumber(point.value))),
    changing: windowOf(view, "final")?.end_ms,
    marks: marksOf(view.report, stats),
    isReading: view.readsCurves,
    waiting: view.report.ended ? WITHOUT_CURVE : WAITING,
    bounds: metricBounds(selection.name),
    format: (value, step) => (step === undefined ? valueText(value) : value.toFixed(Math.max(2, tickDigits(step)))),
  });
}

export function liftChart(view, id, stats, variants, order) {
  const { metric, name, k } = view.selection;
  const recent = view.tracks.get(trackName(stats.experiment, stats.scope))?.points ?? [];
  const lines = order.map((variant, weight) => {
    const newer = recent.map((point) => ({ end: point.end, ...point.lines.get(variant) })).filter((point) => isNumber(point.value));
    const byEnd = new Map([...storedLifts(view.report, stats, variant, metric), ...newer].map((point) => [point.end, point]));
    // A lift covers all time since the start, so a silence between two of them is no gap.
    const points = [...byEnd.values()].sort((one, other) => one.end - other.end).map((point) => ({ ...point, stored: true }));
    return { key: variant, label: named(variant), ...look(variants.indexOf(variant)), live: false, off: weight >= LINES_SHOWN - 1, points };
  });
  return chart({
    id: `${id}-lift`,
    title: [`Lift of ${metricText(name, k)} against `, stats.control === null ? "the control" : named(stats.control), `, ${scopeWords(stats.scope)}`],
    note: `Final lists only. The band is the interval of the lift: ${confidence(stats, metric)} confidence, safe to check at any time. The chart cuts off wide bands.`,
    lines: lines.filter((line) => line.points.some((point) => isNumber(point.value))),
    marks: [...marksOf(view.report, stats), ...changesOf(stats, metric)],
    references: liftReferences(stats),
    isReading: view.readsCurves,
    waiting: view.report.ended ? WITHOUT_CURVE : WAITING,
    bounds: [-1, null],
    format: liftFormat,
  });
}

/** The lifts of each UTC day by itself; null without two of them. */
export function dayChart(view, id, stats, variants, order) {
  const { metric, name, k } = view.selection;
  const lines = order.map((variant, weight) => {
    const days = measureOf(stats, variant, metric)?.days ?? [];
    const points = days.map((day) => ({ end: day.end_ms, value: day.lift, low: day.lift_lower, high: day.lift_upper, stored: true }));
    if (days.length) points.unshift({ ...points[0], end: days[0].from_ms }); // so that the first day has its length
    return { key: variant, label: named(variant), ...look(variants.indexOf(variant)), live: false, stepped: true, off: weight >= LINES_SHOWN - 1, points };
  }).filter((line) => line.points.some((point) => isNumber(point.value)));
  if (!lines.some((line) => line.points.length > 2)) return null;
  return chart({
    id: `${id}-days`,
    title: [`Lift of ${metricText(name, k)} against `, stats.control === null ? "the control" : named(stats.control), ", of each day (UTC)"],
    note: "Final lists of each day alone. A day has fewer lists than the whole time, so its band is wider.",
    lines,
    marks: changesOf(stats, metric),
    references: liftReferences(stats),
    isReading: false,
    waiting: WITHOUT_CURVE,
    bounds: [-1, null],
    format: liftFormat,
  });
}

const liftFormat = (value, step) => (step === undefined ? liftText(value) : `${value < 0 ? "−" : ""}${Math.abs(value * 100).toFixed(tickDigits(100 * step))}\u00a0%`);

function liftReferences({ margin }) {
  return [{ value: 0, label: "no difference", dash: [1, 3] }, { value: -margin, label: `margin ${liftText(-margin)}`, dash: [6, 4], term: "margin" }];
}

/** The stored lifts of a variant. */
function storedLifts(report, stats, variant, metric) {
  return looksOf(report, stats).flatMap(([end, [, , points]]) => {
    const found = points.find(([name, measure, k]) => name === variant && metricKey(measure, k) === metric);
    return found ? [{ end, value: found[3], low: found[4], high: found[5] }] : [];
  });
}

/** The moments that the curves of an experiment show: the times at which its stored verdict changed, with the sign of the new one. */
function marksOf(report, stats) {
  const kept = looksOf(report, stats).filter(([, [word]]) => word !== null); // there is no verdict on what was read late
  return kept.slice(1).flatMap(([at, [word]], index) => (word === kept[index][1][0] ? [] : [{ at, sign: markOf(word), text: `verdict ${word}` }]));
}

/** The days from which on the effect of a variant is certainly another one. */
function changesOf(stats, metric) {
  return stats.variants.flatMap(({ variant }) => {
    const change = measureOf(stats, variant, metric)?.change;
    return change ? [{ at: change.at_ms, sign: "Δ", text: [named(variant), `: ${liftText(change.before.lift)} before, ${liftText(change.since.lift)} since`] }] : [];
  });
}

/** The stored history of an experiment: [[time, [verdict, …]]]. It is thinned. */
function looksOf(report, stats) {
  return (report.history ?? []).find((each) => each.experiment === stats?.experiment && each.scope === stats?.scope)?.looks.kept ?? [];
}
