// The cards of experiments and of all traffic: verdict, one row per variant, windows, charts, all metrics.

import { banner } from "./banner.js";
import { dayChart, liftChart, windowChart } from "./curves.js";
import { fine, folded, make, table } from "./elements.js";
import { endOf, experimentNames, groupOf, lineOf, linesOf, measureOf, statistics, windowOf } from "./lookup.js";
import {
  MISSING, countText, countedText, inOrder, isNumber, joined, lastWords, liftText, metricKey, metricText, named, roundCountText, segmentWords, shareText,
  timeText, valueText,
} from "./text.js";
import { adviceOf, badge, finding, intervalText, overview } from "./verdicts.js";
import { help } from "./terms.js";
import { comparison, variantHead } from "./variants.js";
import { chosenSegment, why } from "./why.js";

const CARDS_OPEN = 3; // with more experiments, only the first card is open
const CONTROLS = ["control", "baseline"];
const unfolded = new Map(); // id of a card -> whether the reader opened it
let allUnfolded = false;

/** The experiments to show: [[name, line or undefined, id of its card]]. What matters most comes first. */
function ranked(view) {
  return experimentNames(view.report).filter((name) => !view.selection.experiment || name === view.selection.experiment)
    .map((name) => [name, lineOf(view.report, name, view.selection.scope), cardId(name)]);
}

/** The overview of several experiments; null for one, whose card says it all. */
export function summary(view) {
  const found = ranked(view);
  return found.length > 1 ? overview(found, view) : null;
}

/** Make all cards. `view` has report, selection, tracks (of the history) and now. */
export function sections(view) {
  const found = ranked(view);
  const cards = found.map(([name, line], at) => card(view, name, line, found.length <= CARDS_OPEN || at === 0));
  const everything = view.report.windows.length > 0 && !view.selection.experiment;
  return [...cards, everything ? card(view, "", undefined, found.length <= CARDS_OPEN) : null].filter(Boolean);
}

/** The names of the experiments whose cards are open. */
export function opened(view) {
  const found = ranked(view);
  return found.filter(([, , id], at) => isUnfolded(id, found.length <= CARDS_OPEN || at === 0)).map(([name]) => name);
}

function isUnfolded(id, isOpen) {
  return allUnfolded || (unfolded.get(id) ?? isOpen);
}

function cardId(experiment) {
  return experiment ? `experiment-${encodeURIComponent(experiment)}` : "all-traffic";
}

/** Open all cards, as for paper, or show again what the reader chose. */
export function unfoldAll(all) {
  allUnfolded = all;
}

/** Open or fold the card of a button, or open the card that a link leads to. Return true when the page must be drawn again. */
export function unfold(event) {
  const button = event.target.closest?.("button[name=card]");
  if (button) unfolded.set(button.value, button.getAttribute("aria-expanded") !== "true");
  const link = event.target.closest?.("#overview a");
  if (link) unfolded.set(link.getAttribute("href").slice(1), true);
  return Boolean(button || link);
}

/** Open the card that the fragment of an address leads to, such as #experiment-ranker-v7. Return its id; null if there is no such card. */
export function unfoldLinked(fragment, names) {
  const name = names.find((each) => `#experiment-${each}` === decoded(fragment));
  if (name === undefined) return null;
  unfolded.set(cardId(name), true);
  return cardId(name);
}

function decoded(text) {
  try {
    return decodeURIComponent(text.replaceAll("+", " ")); // links in alerts have a plus for a space
  } catch {
    return text;
  }
}

function card(view, experiment, line, isOpen) {
  const id = cardId(experiment);
  const open = isUnfolded(id, isOpen);
  const stats = statistics(view.report, experiment, view.selection.scope);
  const title = experiment ? [make("span", { class: "kind" }, "Experiment "), named(experiment)] : "All traffic";
  return make("section", { id, "aria-labelledby": `${id}-title`, class: open ? "card" : "card closed" },
    make("h2", { id: `${id}-title` }, make("button", { type: "button", class: "fold", name: "card", value: id, "aria-expanded": String(open) }, title)),
    experiment ? banner(view, experiment, line, stats) : null,
    !open ? null : line && !stats ? make("p", { class: "note" }, "The page reads the numbers of an experiment when its card is opened. To print all cards, use the button of the overview.")
      : body(view, id, experiment, stats));
}

function body(view, id, experiment, stats) {
  const control = stats?.control ?? null;
  const variants = variantsOf(view, experiment, stats, control);
  const order = byWeight(view.report, variants, stats, control);
  const lifted = stats ? treatments(order, stats, control) : [];
  return [
    stats ? comparison(view, id, variants, order, stats, endOf(view.report, experiment, view.selection.scope)) : null,
    advice(stats),
    experiment ? chosenSegment(view, experiment, stats) : null,
    experiment ? why(view, id, experiment, stats) : null,
    preferences(stats),
    make("div", { class: "charts" },
      ...(lifted.length ? [liftChart(view, id, stats, variants, lifted), dayChart(view, id, stats, variants, lifted)] : []),
      view.report.windows.length ? windowChart(view, id, experiment, variants, order, stats) : null),
    view.report.windows.length || view.report.user_windows.length ? windows(view, experiment, variants, order, stats, control) : null,
    folded(`${id}-every`, "All metrics", () => everyMetric(view, experiment, order, stats, control)),
  ];
}

/** Variants in the order of what matters: the control, then by verdict and effect, then those without a verdict. */
function byWeight(report, variants, stats, control) {
  const weights = linesOf(report, stats).map((each) => each.variant);
  const rest = variants.filter((variant) => variant !== control && !weights.includes(variant));
  return [...variants.filter((variant) => variant === control), ...weights.filter((variant) => variants.includes(variant)), ...rest];
}

/** The variants that are compared with the control. */
function treatments(order, stats, control) {
  const interleaved = new Set(stats.variants.filter((each) => each.role === "interleaved").map((each) => each.variant));
  return order.filter((variant) => variant !== control && !interleaved.has(variant));
}

function variantsOf(view, experiment, stats, control) {
  if (!experiment) return [""];
  const grouped = view.report.windows.flatMap((window) => window.groups.filter((group) => group.experiment === experiment).map((group) => group.variant));
  const named = [...(stats?.variants ?? []).map((each) => each.variant), ...grouped];
  return inOrder(named, control ?? named.find((name) => CONTROLS.includes(name.toLowerCase())));
}

/** The settings that settle what the verdict says, and what was not checked, such as a split without configured shares. */
function advice(stats) {
  const notes = (stats?.health?.note_parts ?? []).map((parts) => [finding(parts), adviceOf(parts).map((text) => ` ${text}`)]);
  const told = [...(stats ? adviceOf(stats.verdict.parts) : []), ...notes];
  return told.length ? make("p", { class: "note advice" }, joined(told, " ")) : null;
}

/** One row per variant: the chosen window, final and live, and its users. */
function windows(view, experiment, variants, order, stats, control) {
  const { selection } = view;
  const users = view.report.user_windows.find((each) => each.window_ms === selection.windowMs);
  const heads = [
    [selection.lists === "values" ? "Over all lists" : "Over lists with feedback"],
    ...["final", "live"].map((kind) => windowHead(view, kind)), ...(users ? [usersHead(view, users)] : []),
  ];
  const rows = order.map((variant) => [
    rowHead(experiment, variant, variants.indexOf(variant), control),
    ...["final", "live"].map((kind) => windowCell(view, kind, experiment, variant)),
    ...(users ? [usersCell(view, users, experiment, variant)] : []),
  ]);
  return make("div", { class: "numbers" },
    table(`${metricText(selection.name, selection.k)} over the ${lastWords(selection.windowMs)}`, heads, rows, "rows", [null, "Final", "Live", "Users"]),
    selection.segment && users && !stats ? make("p", { class: "note" }, "Users cover all lists, not only ", segmentWords(selection.segment), ".") : null);
}

function rowHead(experiment, variant, at, control) {
  return experiment ? variantHead(variant, at, control) : "All traffic";
}

function windowHead(view, kind) {
  const first = kind === "final" ? firstFinal(view) : null;
  const end = first ? `first ones at ${timeText(first.at_ms, view.now)}` : endText(view, windowOf(view, kind), "a task no longer has all panes");
  return [make("span", { class: `view ${kind}` }, kind === "final" ? "Final" : "Live"), help(kind), ` ${lastWords(view.selection.windowMs)}`, fine(end)];
}

/** The first final number while it is still to come. */
const firstFinal = ({ report }) => (report.first_numbers ?? []).find((each) => each.number === "final");

function endText(view, window, problem) {
  if (!window || window.end_ms === null) return "not started";
  if (!window.complete) return `not shown: ${problem}`;
  return window.end_ms > view.report.watermark_ms && !view.report.ended ? `so far; ends ${timeText(window.end_ms, view.now)}` : `to ${timeText(window.end_ms, view.now)}`;
}

function windowCell(view, kind, experiment, variant) {
  const group = groupOf(view, windowOf(view, kind), experiment, variant);
  if (!group) return [make("span", { class: "value missing" }, MISSING), fine("no lists")];
  const value = group[view.selection.lists][view.selection.metric];
  const lists = view.selection.lists === "values" ? group.lists : group.lists_with_feedback;
  return [make("span", { class: `value ${kind}` }, valueText(value)), fine(isNumber(value) ? `${roundCountText(lists)} ${lists === 1 ? "list" : "lists"}` : "not measured")];
}

/** Users are counted after their sessions end, so this window ends before the final one. */
function usersHead(view, users) {
  return [`Users of the ${lastWords(users.window_ms)}`, fine(firstFinal(view) ? "not started" : endText(view, users, "users were not counted all the time"))];
}

function usersCell(view, users, experiment, variant) {
  const group = users.groups.find((each) => each.experiment === experiment && each.variant === variant);
  const hit = group?.values[`user_hit_rate@${view.selection.k}`];
  return [make("span", { class: group ? "value" : "value missing" }, countText(group?.users)),
    group && isNumber(hit) ? fine(`${shareText(hit)} with a hit in the first ${view.selection.k}`) : null];
}

/** The table of teams in interleaved lists; null without interleaved lists. */
function preferences(stats) {
  if (!stats?.preferences?.length) return null;
  const rows = [...stats.preferences, ...(stats.preferences_by_action ?? [])].map((each, at) => [
    [named(each.team), " against ", named(each.against), each.action ? fine("by ", each.action, at < stats.preferences.length ? ", decides" : "") : null],
    [make("span", { class: "value" }, creditText(each.credit)),
      fine(isNumber(each.credit_lower) ? `${creditText(each.credit_lower)} to ${creditText(each.credit_upper)}` : "no interval yet"),
      isNumber(each.plain_credit) && each.action ? fine(`${creditText(each.plain_credit)} without correction for draft bias; drafts first in ${shareText(each.first_share)} of the lists`) : null],
    [badge(each.verdict), fine(finding(each.verdict.parts))],
    [countText(each.users), fine(countedText(each.lists, "list"))],
  ]);
  return table("Interleaved lists: which team users prefer", ["Teams", "Credit (share won − share lost)", "Verdict", "Users"], rows, "preferences");
}

function creditText(credit) {
  return `${credit < 0 ? "−" : "+"}${valueText(Math.abs(credit))}`;
}

function everyMetric(view, experiment, variants, stats, control) {
  const [final, live] = [windowOf(view, "final"), windowOf(view, "live")];
  const measured = (stats?.variants ?? []).flatMap((each) => each.measures.map((one) => metricKey(one.metric, one.k)));
  const metrics = [...new Set([...(view.report.settings?.metrics ?? []), ...measured])];
  const of = (window, variant, metric) => valueText(groupOf(view, window, experiment, variant)?.[view.selection.lists][metric]);
  const end = timeText(endOf(view.report, experiment, view.selection.scope), view.now);
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
  return table(`All metrics over the ${lastWords(view.selection.windowMs)}`, heads, rows);
}
