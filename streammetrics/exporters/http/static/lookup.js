// Finds things in a report: experiments and their statistics, measures, windows and groups.

import { experimentsEnd, segmentName } from "./history.js";
import { byName, isNumber, metricKey } from "./text.js";

const COLORS = 6;
const PATTERNS = 3; // of lines in plot.js and of swatches in page.css

/** Names of all experiments: those with a verdict in the server's order, the worst first, then those that have only windows. */
export function experimentNames(report) {
  if (report.experiment_names) return report.experiment_names;
  const grouped = report.windows.flatMap((window) => window.groups.map((group) => group.experiment)).filter(Boolean);
  return [...new Set([...(report.verdicts ?? []).map((each) => each.experiment), ...grouped.sort(byName)])];
}

/** The statistics of an experiment in the chosen scope: since the start, or of the newest day. */
export function statistics(report, experiment, scope) {
  return inScope(report.experiments ?? [], experiment, scope);
}

/** The verdict line of a whole experiment in the chosen scope. */
export function lineOf(report, experiment, scope) {
  return inScope((report.verdicts ?? []).filter((each) => !each.variant), experiment, scope);
}

/** The event time up to which the lists of an experiment count: at most that of its last list. */
export function endOf(report, experiment, scope) {
  return lineOf(report, experiment, scope)?.up_to_ms ?? experimentsEnd(report);
}

/** The verdict lines of the variants of an experiment, worst first. */
export function linesOf(report, stats) {
  return (report.verdicts ?? []).filter((each) => each.variant && each.verdict && each.experiment === stats?.experiment && each.scope === stats.scope);
}

function inScope(found, experiment, scope) {
  const scopes = found.filter((each) => each.experiment === experiment);
  const days = scopes.filter((each) => each.scope !== "start").sort((one, other) => (one.scope < other.scope ? 1 : -1));
  return scope === "day" ? days[0] : scopes.find((each) => each.scope === "start") ?? days[0];
}

export function windowOf(view, name) {
  return view.report.windows.find((each) => each.window_ms === view.selection.windowMs && each.view === name);
}

export function groupOf(view, window, experiment, variant) {
  return window?.groups.find((each) => each.experiment === experiment && each.variant === variant && segmentName(each.segments) === view.selection.segment);
}

export function measureOf(stats, variant, metric) {
  return stats?.variants.find((each) => each.variant === variant)?.measures.find((each) => metricKey(each.metric, each.k) === metric);
}

/** The look of a variant: the number of its color, and of its pattern. The control has its own color. Variants of one color differ in their
 * pattern: the first ones have solid lines, the next ones dashed lines. */
export function look(at) {
  return { color: at < 1 ? 0 : 1 + ((at - 1) % (COLORS - 1)), pattern: at < 1 ? 0 : Math.floor((at - 1) / (COLORS - 1)) % PATTERNS };
}

/** The confidence of the intervals of a metric. Some metrics use a higher one than the experiment. */
export function confidence(stats, metric) {
  const alphas = stats.variants.map((each) => measureOf(stats, each.variant, metric)?.alpha).filter(isNumber);
  const alpha = Math.min(stats.alpha, ...alphas);
  return `${Number((100 * (1 - alpha)).toFixed(alpha < 0.01 ? 2 : 1))}\u00a0%`;
}
