// The table of an experiment: one row per variant, and one group of columns for each measure that decides.

import { fine, folded, make, table } from "./elements.js";
import { axisOf, bar, scale } from "./intervals.js";
import { confidence, linesOf, look, measureOf } from "./lookup.js";
import {
  MISSING, countText, countedText, dayText, isNumber, liftText, metricText, named, percentText, roundCountText, scopeWords, segmentWords, shareText, timeText, valueText, words,
} from "./text.js";
import { help, termButton } from "./terms.js";
import { badge, finding, gateWords, intervalText, known, measured } from "./verdicts.js";

const GROUPS = 3; // groups of columns that fit beside each other
const REASONS_OPEN = 2; // with more reasons, they are folded

/** The variants side by side, why each has its verdict, and how exact the numbers are. `end` is the time (ms) up to which lists are final. */
export function comparison(view, id, variants, order, stats, end) {
  const shown = shownMeasures(view, stats);
  const interleaved = new Set(stats.variants.filter((each) => each.role === "interleaved").map((each) => each.variant));
  const own = new Map(stats.variants.map((each) => [each.variant, each]));
  const treatments = order.filter((variant) => variant !== stats.control && !interleaved.has(variant));
  const groups = shown.map((metric) => group(stats, metric, treatments));
  const several = stats.variants.filter((each) => each.gate).length > 1;
  const rows = order.map((variant) => {
    const word = variant === stats.control ? "the control" : interleaved.has(variant) ? "both rankers in one list" : null;
    const found = own.get(variant);
    return [
      [variantHead(variant, variants.indexOf(variant), stats.control), stopped(found, view.now)],
      ...groups.flatMap(({ metric, axis }) => measureCells(stats, variant, measureOf(stats, variant, metric), axis, word)),
      usersCell(found), word ? "" : verdictCell(stats, found, measureOf(stats, variant, shown[0]), several),
    ];
  });
  const heads = ["Variant", ...groups.flatMap(({ axis }, at) => [["Mean", at ? null : help("mean")], ["Lift", at ? null : help("lift")], [fine("Interval", at ? null : help("interval")), axis ? scale(axis) : null]]), ["Users", help("users")], ["Verdict", help("verdict")]];
  const labels = [null, ...groups.flatMap(({ metric }) => [`Mean ${metricText(...metric.split("@"))}`, "Lift", null]), "Users", null];
  const above = [[""], ...groups.map(({ metric }) => [groupHead(stats, metric), 3]), ["", 2]];
  return make("div", { class: "numbers" },
    table(`Variants side by side, final lists ${scopeWords(stats.scope)} to ${timeText(end, view.now)}`, heads, rows, "rows variants", labels, above),
    apart(stats, groups, treatments),
    reasons(id, view.report, stats),
    folded(`${id}-precision`, "Standard errors and effective users", () => precision(shown, order, stats)),
    view.selection.segment ? make("p", { class: "note" }, "Verdicts, means and users cover all lists, not only ", segmentWords(view.selection.segment), ".") : null);
}

/** The name of a variant, with its look. */
export function variantHead(variant, at, control) {
  const { color, pattern } = look(at);
  return [make("span", { class: "variant" }, make("span", { class: `swatch color-${color} pattern-${pattern}`, "aria-hidden": "true" }), named(variant)),
    variant === control && variant !== "control" ? fine("control") : null];
}

/** That a variant gets no more lists; null while it gets some. */
function stopped(variant, now) {
  const word = variant?.state?.word ?? "running";
  return word === "running" ? null : fine(termButton("stopped", "", "no more lists"), isNumber(variant.last_ms) ? ` since ${timeText(variant.last_ms, now)}` : "");
}

/** The deciding measures, and the chosen one if it is another. */
function shownMeasures(view, stats) {
  const deciding = measured(stats, (one) => one.paging);
  const chosen = view.selection.metric;
  return deciding.includes(chosen) || !measured(stats, () => true).includes(chosen) && deciding.length ? deciding.slice(0, GROUPS)
    : [...deciding.slice(0, GROUPS - 1), chosen];
}

function group(stats, metric, treatments) {
  const compared = treatments.map((variant) => measureOf(stats, variant, metric)).filter(Boolean);
  return { metric, axis: compared.length ? axisOf(compared, stats.margin) : null };
}

function groupHead(stats, metric) {
  const [name] = metric.split("@");
  const decides = measured(stats, (one) => one.paging).includes(metric);
  return [make("strong", {}, metricText(...metric.split("@"))), help(name), make("span", { class: "fine" }, decides ? "" : [" does not decide", help("deciding measure"), ","], ` ${confidence(stats, metric)} interval`)];
}

function measureCells(stats, variant, measure, axis, word) {
  if (!measure) return ["", wrapped([word, tooFew(stats, variant)].filter(Boolean).join(", ")), ""];
  const mean = make("span", { class: "value" }, valueText(measure.mean));
  if (word) return [mean, fine(word), ""];
  return [mean, liftCell(measure), axis ? bar(axis, measure, stats.margin, known(measure.verdict?.word)) : ""];
}

const wrapped = (...children) => make("span", { class: "fine wrapped" }, children);

/** Why a variant has no numbers. */
function tooFew(stats, variant) {
  const users = stats.variants.find((each) => each.variant === variant)?.users ?? 0;
  if (!users) return "no final list yet";
  return users < stats.min_users ? `${countText(users)} of the ${countText(stats.min_users)} users that numbers need` : "not measured";
}

function liftCell(measure) {
  const { reduced } = measure;
  if (!isNumber(measure.lift)) return wrapped(measure.verdict ? finding(measure.verdict.parts) : "not compared yet");
  const cuped = reduced && isNumber(reduced.lift)
    ? fine("with CUPED", help("CUPED"), ` ${liftText(reduced.lift)}, ${intervalText(reduced)}; ${shareText(reduced.variance_reduction)} of the variance removed`) : null;
  const since = measure.change ? [fine(`since ${dayText(measure.change.at_ms)}: ${liftText(measure.change.since.lift)}`), fine(intervalText(measure.change.since))] : null;
  return [make("span", { class: "value" }, liftText(measure.lift)), fine(intervalText(measure)), since, cuped];
}

/** Users of a variant. If a few users dominate, it also says how many they count as. */
function usersCell(variant) {
  if (!variant) return fine("none yet");
  const effective = variant.effective_users;
  const few = isNumber(effective) && variant.users && effective < variant.users / 2;
  return [make("span", { class: "value" }, countText(variant.users)), few ? fine(`count like ${roundCountText(Math.round(effective))}`) : null];
}

function verdictCell(stats, variant, measure, several) {
  const verdict = variant?.verdict ?? measure?.verdict;
  return [verdict ? badge(verdict) : fine("no verdict yet"), several && variant?.gate ? termButton("gate", "fine", gateWords(stats, variant.gate)) : null];
}

/** Why the interval of a measure is on one side of 0 while its verdict is open; null if there is no such measure. */
function apart(stats, groups, treatments) {
  const notes = groups.flatMap(({ metric }) => treatments.map((variant) => {
    const measure = measureOf(stats, variant, metric);
    const why = measure && openAlthoughClear(stats, measure);
    return why ? make("li", {}, make("strong", {}, named(variant)), ", ", metricText(measure.metric, measure.k), ": the interval excludes 0, but the verdict is open: ", why, ".") : null;
  })).filter(Boolean);
  return notes.length ? make("ul", { class: "reasons" }, notes) : null;
}

function openAlthoughClear(stats, measure) {
  const { lift_lower: lower, lift_upper: upper, lower_is_better: lowerIsBetter } = measure;
  const rose = isNumber(lower) && lower > 0;
  if (measure.verdict?.word !== "inconclusive" || !(rose || (isNumber(upper) && upper < 0))) return null;
  const least = rose ? lower : -upper;
  if (rose === lowerIsBetter && least < stats.margin) return ["the drop may be within the margin", help("margin"), ` of ${percentText(stats.margin)}`];
  const deciding = measured(stats, (one) => one.paging).length;
  const sharing = [stats.treatments > 1 ? countedText(stats.treatments, "treatment") : null, deciding > 1 ? countedText(deciding, "deciding measure") : null].filter(Boolean);
  return sharing.length && measure.paging ? `${sharing.join(" and ")} share the error` : "a verdict asks for a little more evidence than the interval";
}

/** The reason of each variant's verdict, unless the banner has it. */
function reasons(id, report, stats) {
  const [, ...found] = linesOf(report, stats); // the banner has the reason of the worst
  if (!found.length || stats.verdict.word === "invalid") return null;
  const list = () => make("ul", { class: "reasons" }, found.map((each) =>
    make("li", {}, make("strong", {}, named(each.variant)), ": ", words(each.parts), ".")));
  return found.length > REASONS_OPEN ? folded(`${id}-reasons`, "Reasons of the verdicts", list) : list();
}

/** How exact the numbers are: standard errors of the means, and how much a few users weigh. */
function precision(shown, order, stats) {
  const texts = shown.map((metric) => metricText(...metric.split("@")));
  const rows = order.map((variant) => {
    const own = stats.variants.find((each) => each.variant === variant);
    const errors = shown.map((metric) => measureOf(stats, variant, metric)).map((one) => (isNumber(one?.error) ? valueText(one.error) : MISSING));
    const weighed = isNumber(own?.effective_users) && own.users;
    return [named(variant), ...errors, countText(own?.users), weighed ? countText(Math.round(own.effective_users)) : MISSING, weighed ? shareText(own.largest_user_share_max) : MISSING];
  });
  const heads = ["Variant", ...texts.map((text) => [`Standard error of ${text}`, help("standard error")]), "Users", ["Effective users", help("effective users")], "The busiest user has at most"];
  return table("Standard errors and effective users", heads, rows);
}
