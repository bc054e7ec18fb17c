// The sections of experiments and of all traffic: verdict, variants side by side, charts, all metrics.

import { chart } from "./chart.js";
import { experimentsEnd, groupName, segmentName, trackName } from "./history.js";
import { fine, folded, make, table } from "./elements.js";
import {
  MISSING, Name, countText, inOrder, isNumber, joined, liftText, metricText, named, roundCountText, scopeWords, segmentWords, shareText, timeText, valueText,
  windowWords, withNames,
} from "./text.js";

const SECTIONS_MAX = 8;
const COLORS = 6;
const CONTROLS = ["control", "baseline"];
const WORDS = {
  regressed: ["▼", "Regressed", "worse than the control by more than the margin"],
  safe: ["✓", "Safe", "not worse than the control by more than the margin"],
  improved: ["▲", "Improved", "better than the control"],
  inconclusive: ["○", "Inconclusive", "no clear result yet"],
  mixed: ["⇅", "Mixed", "one measure is better and another worse; choose which one counts"],
  invalid: ["!", "Invalid", "the experiment is broken; do not use its numbers"],
};

/** Names of all experiments in the windows and statistics of a report. */
export function experimentNames(report) {
  const grouped = report.windows.flatMap((window) => window.groups.map((group) => group.experiment)).filter(Boolean);
  return [...new Set([...grouped, ...(report.experiments ?? []).map((each) => each.experiment)])].sort();
}

/** The statistics of an experiment in the chosen scope: since the start, or of the newest day. */
export function statistics(report, experiment, scope) {
  const scopes = (report.experiments ?? []).filter((each) => each.experiment === experiment);
  const days = scopes.filter((each) => each.scope !== "start").sort((one, other) => (one.scope < other.scope ? 1 : -1));
  return scope === "day" ? days[0] : scopes.find((each) => each.scope === "start") ?? days[0];
}

/** Make all sections. `view` has report, selection, tracks (of the history), width and now. */
export function sections(view) {
  const names = experimentNames(view.report).filter((name) => !view.selection.experiment || name === view.selection.experiment);
  const shown = names.slice(0, SECTIONS_MAX).map((name) => section(view, name));
  const more = names.length > SECTIONS_MAX ? make("p", { class: "note" }, `${names.length - SECTIONS_MAX} more experiments. Choose one above.`) : null;
  return [...shown, more, view.selection.experiment ? null : section(view, "")].filter(Boolean);
}

function section(view, experiment) {
  const id = experiment ? `experiment-${encodeURIComponent(experiment)}` : "all-traffic";
  const stats = experiment ? statistics(view.report, experiment, view.selection.scope) : undefined;
  const control = stats?.control ?? null;
  const variants = variantsOf(view, experiment, stats, control);
  const title = experiment ? [make("span", { class: "kind" }, "Experiment "), named(experiment)] : "All traffic";
  return make("section", { id, "aria-labelledby": `${id}-title` },
    make("h2", { id: `${id}-title` }, title),
    experiment ? verdict(view, stats) : null,
    make("div", { class: "body" },
      make("div", { class: "numbers" }, sideBySide(view, experiment, variants, stats, control), preferences(stats)),
      stats ? liftChart(view, id, stats, variants) : null,
      windowChart(view, id, experiment, variants)),
    folded(`${id}-every`, "All metrics", () => everyMetric(view, experiment, variants, stats, control)));
}

function variantsOf(view, experiment, stats, control) {
  if (!experiment) return [""];
  const grouped = view.report.windows.flatMap((window) => window.groups.filter((group) => group.experiment === experiment).map((group) => group.variant));
  const named = [...(stats?.variants ?? []).map((each) => each.variant), ...grouped];
  return inOrder(named, control ?? named.find((name) => CONTROLS.includes(name.toLowerCase())));
}

function verdict(view, stats) {
  if (!stats) {
    return make("p", { class: "note" }, "No verdict yet: no user of this experiment has a final list. The values below come from the windows.");
  }
  const end = experimentsEnd(view.report);
  const arms = joined(stats.variants.map((each) => [named(each.variant), ` ${roundCountText(each.users)}`]), ", ");
  const shared = [`Final lists ${scopeWords(stats.scope)}${isNumber(end) ? `, up to ${timeText(end, view.now)}` : ""}. Users: `, arms, "."];
  const excluded = stats.multi_exposed_users ? ` ${countText(stats.multi_exposed_users)} users who saw several variants are excluded.` : "";
  return make("div", { class: `verdict ${known(stats.verdict.word)}` },
    make("p", { class: "word" }, sign(stats.verdict.word)),
    make("div", {}, make("p", { class: "reason" }, sentence(stats)), make("p", { class: "fine" }, shared, excluded), notes(stats)));
}

/** What was not checked, such as a split without configured shares. */
function notes(stats) {
  const text = (stats.health?.notes ?? []).join(". ");
  return text ? make("p", { class: "fine" }, reasonParts(stats, `${text.charAt(0).toUpperCase()}${text.slice(1)}.`)) : null;
}

function known(word) {
  return word in WORDS ? word : "inconclusive";
}

function sign(word) {
  const [mark, text] = WORDS[word] ?? ["?", word];
  return [make("span", { class: "mark", "aria-hidden": "true" }, mark), " ", text];
}

/** The announcement for a new verdict, as parts of text. */
export function spoken(stats) {
  return ["Experiment ", named(stats.experiment), `: ${WORDS[stats.verdict.word]?.[1] ?? stats.verdict.word}. `, sentence(stats)];
}

/** The verdict's reason as a sentence. A name at its start keeps its case. */
function sentence(stats) {
  const { reason } = stats.verdict;
  const [first = "", ...rest] = reasonParts(stats, reason);
  const start = first instanceof Name ? first : `${first.charAt(0).toUpperCase()}${first.slice(1)}`;
  return [start, ...rest, reason === "" || /[.!?]$/.test(reason) ? "" : "."];
}

/** The reason from the server, split so that names of variants and teams are Name objects. */
function reasonParts(stats, reason) {
  const teams = (stats.preferences ?? []).flatMap((each) => [each.team, each.against]);
  return withNames(reason, [...stats.variants.map((each) => each.variant), ...teams, stats.control]);
}

function windowOf(view, name) {
  return view.report.windows.find((each) => each.window_ms === view.selection.windowMs && each.view === name);
}

function groupOf(view, window, experiment, variant) {
  return window?.groups.find((each) => each.experiment === experiment && each.variant === variant && segmentName(each.segments) === view.selection.segment);
}

function measureOf(stats, variant, metric) {
  return stats?.variants.find((each) => each.variant === variant)?.measures.find((each) => `${each.metric}@${each.k}` === metric);
}

function sideBySide(view, experiment, variants, stats, control) {
  const { selection } = view;
  const name = metricText(selection.name, selection.k);
  const rows = ["final", "live"].map((kind) => [windowHead(view, kind), ...variants.map((variant) => windowCell(view, kind, experiment, variant))]);
  const users = view.report.user_windows.find((each) => each.window_ms === selection.windowMs);
  if (users) rows.push([usersHead(view, users), ...variants.map((variant) => usersCell(view, users, experiment, variant))]);
  if (stats) {
    const compared = (shown) => variants.map((variant) => shown(measureOf(stats, variant, selection.metric), variant));
    const interleaved = new Set(stats.variants.filter((each) => each.role === "interleaved").map((each) => each.variant));
    const treated = (shown) => compared((measure, variant) => (
      variant === control ? fine("the control") : interleaved.has(variant) ? fine("both rankers in one list") : measure ? shown(measure) : MISSING));
    rows.push([["Mean ", scopeWords(stats.scope), fine(`final, to ${timeText(experimentsEnd(view.report), view.now)}`)], ...compared(meanCell)]);
    rows.push([["Against the control", fine(`${confidence(stats, selection.metric)} interval, safe to check at any time`)], ...treated(liftCell)]);
    rows.push([["Verdict on ", name], ...treated((measure) => (measure.verdict ? badge(measure.verdict) : MISSING))]);
    rows.push([["Users ", scopeWords(stats.scope)], ...variants.map((variant) => variantUsersCell(stats.variants.find((each) => each.variant === variant)))]);
  }
  const heads = [fine(selection.lists === "values" ? "over all lists" : "over lists with feedback"), ...variants.map((variant, at) => variantHead(experiment, variant, at, control))];
  const reasons = variants.map((variant) => [variant, measureOf(stats, variant, selection.metric)])
    .filter(([variant, measure]) => measure?.verdict && stats.verdict.reason !== `${variant}: ${measure.verdict.reason}`);
  return [
    table(experiment ? `${name}: variants side by side` : name, heads, rows, "sides"),
    reasons.length && stats.verdict.word !== "invalid"
      ? make("ul", { class: "reasons" }, reasons.map(([variant, measure]) => make("li", {}, make("strong", {}, named(variant)), ": ", reasonParts(stats, measure.verdict.reason), ".")))
      : null,
    selection.segment && (stats || users)
      ? make("p", { class: "note" }, `${stats ? "Verdicts, means and users cover" : "Users cover"} all lists, not only `, segmentWords(selection.segment), ".")
      : null,
  ];
}

function variantHead(experiment, variant, at, control) {
  if (!experiment) return "All traffic";
  return [make("span", { class: "variant" }, make("span", { class: `swatch color-${color(at)}`, "aria-hidden": "true" }), named(variant)), variant === control && variant !== "control" ? fine("control") : null];
}

function color(at) {
  return at < COLORS ? at : COLORS - 1;
}

function windowHead(view, kind) {
  const end = endText(view, windowOf(view, kind), "a task no longer has all panes");
  return [make("span", { class: `view ${kind}` }, kind === "final" ? "Final" : "Live"), ` last ${windowWords(view.selection.windowMs)}`, fine(end)];
}

function endText(view, window, problem) {
  if (!window || window.end_ms === null) return "not started";
  return window.complete ? `to ${timeText(window.end_ms, view.now)}` : `not shown: ${problem}`;
}

function windowCell(view, kind, experiment, variant) {
  const group = groupOf(view, windowOf(view, kind), experiment, variant);
  if (!group) return [make("span", { class: "value missing" }, MISSING), fine("no lists")];
  const value = group[view.selection.lists][view.selection.metric];
  const lists = view.selection.lists === "values" ? group.lists : group.lists_with_feedback;
  return [make("span", { class: `value ${kind}` }, valueText(value)), fine(isNumber(value) ? `${roundCountText(lists)} lists` : "not measured")];
}

/** Users are counted after their sessions end, so this window ends before the final one. */
function usersHead(view, users) {
  return [`Users of ${windowWords(users.window_ms)}`, fine(endText(view, users, "users were not counted all the time"))];
}

function usersCell(view, users, experiment, variant) {
  const group = users.groups.find((each) => each.experiment === experiment && each.variant === variant);
  const hit = group?.values[`user_hit_rate@${view.selection.k}`];
  return [make("span", { class: group ? "value" : "value missing" }, countText(group?.users)),
    group && isNumber(hit) ? fine(`${shareText(hit)} with a hit in the first ${view.selection.k}`) : null];
}

/** Users of a variant and, with dominant users in mind, how many they count as. */
function variantUsersCell(variant) {
  if (!isNumber(variant?.effective_users) || !variant.users) return countText(variant?.users);
  const share = shareText(variant.largest_user_share_max);
  return [make("span", { class: "value" }, countText(variant.users)), fine(`${roundCountText(Math.round(variant.effective_users))} effective; one user has at most ${share} of the lists`)];
}

function meanCell(measure) {
  if (!measure) return MISSING;
  return [make("span", { class: "value" }, valueText(measure.mean)), isNumber(measure.error) ? fine(`standard error ${valueText(measure.error)}`) : null];
}

function liftCell(measure) {
  const parts = [make("span", { class: "value" }, liftText(measure.lift)), fine(intervalText(measure))];
  const { reduced } = measure;
  if (reduced && isNumber(reduced.lift)) {
    parts.push(fine(`with CUPED ${liftText(reduced.lift)}, ${intervalText(reduced)}; ${shareText(reduced.variance_reduction)} of the variance removed`));
  }
  return parts;
}

/** The table of teams in interleaved lists; null without interleaved lists. */
function preferences(stats) {
  if (!stats?.preferences?.length) return null;
  const rows = stats.preferences.map((each) => [
    [named(each.team), " against ", named(each.against)],
    [make("span", { class: "value" }, creditText(each.credit)),
      fine(isNumber(each.credit_lower) ? `${creditText(each.credit_lower)} to ${creditText(each.credit_upper)}` : "no interval yet")],
    [badge(each.verdict), fine(reasonParts(stats, each.verdict.reason))],
    [countText(each.users), fine(`${countText(each.lists)} lists`)],
  ]);
  return table("Interleaved lists: which team users prefer", ["Teams", "Credit (share won − share lost)", "Verdict", "Users"], rows, "preferences");
}

function creditText(credit) {
  return `${credit < 0 ? "−" : "+"}${valueText(Math.abs(credit))}`;
}

function intervalText(measure) {
  const ends = [measure.lift_lower, measure.lift_upper];
  if (!ends.some(isNumber)) return "no interval yet";
  return ends.map((end) => (isNumber(end) ? liftText(end) : "no bound")).join(" to ");
}

/** The confidence of the intervals of a metric. Some metrics use a higher one than the experiment. */
function confidence(stats, metric) {
  const alphas = stats.variants.map((each) => measureOf(stats, each.variant, metric)?.alpha).filter(isNumber);
  return `${Number((100 * (1 - Math.min(stats.alpha, ...alphas))).toFixed(4))} %`;
}

function badge({ word }) {
  return make("span", { class: `badge ${known(word)}`, title: WORDS[word]?.[2] }, sign(word));
}

function windowChart(view, id, experiment, variants) {
  const { selection } = view;
  const lines = variants.flatMap((variant, at) => ["final", "live"].map((kind) => {
    const name = JSON.stringify([experiment, variant, selection.segment]);
    const points = (view.tracks.get(kind)?.points ?? []).map((point) => ({ end: point.end, value: point.lines.get(name)?.value }));
    return { label: experiment ? [named(variant), `, ${kind}`] : kind === "final" ? "Final" : "Live", color: color(at), live: kind === "live", points };
  }));
  return chart({
    id: `${id}-window`,
    title: `${metricText(selection.name, selection.k)} over the last ${windowWords(selection.windowMs)}`,
    note: "Each point is one whole window, drawn at its end. Solid: final. Dashed: live, which still changes when feedback arrives. Values of windows are exact, so they have no band.",
    lines: lines.filter((line) => line.points.some((point) => isNumber(point.value))),
    changing: windowOf(view, "final")?.end_ms,
    format: (value, step) => (step === undefined ? valueText(value) : value.toFixed(step < 0.001 ? 4 : step < 0.01 ? 3 : 2)),
    width: view.width,
  });
}

function liftChart(view, id, stats, variants) {
  const track = view.tracks.get(trackName(stats.experiment, stats.scope));
  const lines = variants.map((variant, at) => ({
    label: named(variant),
    color: color(at),
    live: false,
    points: (track?.points ?? []).map((point) => ({ end: point.end, ...(point.lines.get(variant) ?? { value: null }) })),
  }));
  return chart({
    id: `${id}-lift`,
    title: [`Lift of ${metricText(view.selection.name, view.selection.k)} against `, stats.control === null ? "the control" : named(stats.control), `, ${scopeWords(stats.scope)}`],
    note: `Final lists only. The band is the interval of the lift: ${confidence(stats, view.selection.metric)} confidence, safe to check at any time. The chart cuts off wide bands.`,
    lines: lines.filter((line) => line.points.some((point) => isNumber(point.value))),
    references: [{ value: 0, label: "no difference" }, { value: -stats.margin, label: "margin", below: true }],
    format: (value, step) => (step === undefined ? liftText(value) : `${value < 0 ? "−" : ""}${Math.abs(value * 100).toFixed(step < 0.01 ? 1 : 0)}\u00a0%`),
    width: view.width,
  });
}

function everyMetric(view, experiment, variants, stats, control) {
  const [final, live] = [windowOf(view, "final"), windowOf(view, "live")];
  const measured = (stats?.variants ?? []).flatMap((each) => each.measures.map((one) => `${one.metric}@${one.k}`));
  const metrics = [...new Set([...view.report.settings.metrics, ...measured])];
  const of = (window, variant, metric) => valueText(groupOf(view, window, experiment, variant)?.[view.selection.lists][metric]);
  const end = timeText(experimentsEnd(view.report), view.now);
  const heads = ["Metric", ...variants.flatMap((variant) => {
    const head = experiment ? named(variant) : "";
    return [
      [head, fine(`final, to ${timeText(final?.end_ms, view.now)}`)], [head, fine(`live, to ${timeText(live?.end_ms, view.now)}`)],
      ...(stats && variant !== control ? [[head, fine(`against the control, to ${end}`)], [head, fine(`verdict, to ${end}`)]] : []),
    ];
  })];
  const rows = metrics.map((metric) => [metricText(...metric.split("@")), ...variants.flatMap((variant) => {
    const measure = measureOf(stats, variant, metric);
    const compared = [measure ? [liftText(measure.lift), fine(intervalText(measure))] : MISSING, measure?.verdict ? badge(measure.verdict) : MISSING];
    return [of(final, variant, metric), make("span", { class: "live" }, of(live, variant, metric)), ...(stats && variant !== control ? compared : [])];
  })]);
  return table(`All metrics over the last ${windowWords(view.selection.windowMs)}`, heads, rows);
}
