// Why a variant differs from the control: sentences, contributions by segment value and rank, and one chosen segment. Exploratory.

import { fine, folded, make, table } from "./elements.js";
import { linesOf } from "./lookup.js";
import { help } from "./terms.js";
import { MISSING, countText, isNumber, joined, liftText, metricKey, metricText, named, segmentWords, shareText, timeText, valueText, words } from "./text.js";

const CLEAR = ["regressed", "improved", "mixed"]; // with another verdict there is no difference to explain

/** The explanations of an experiment, those of the chosen metric first. */
function of(view, experiment) {
  const { metric } = view.selection;
  const found = (view.report.explanations ?? []).filter((each) => each.experiment === experiment);
  return found.sort((one, other) => (nameOf(other) === metric) - (nameOf(one) === metric));
}

const nameOf = (each) => metricKey(each.metric, each.k);

/** What the difference of each variant with a clear verdict comes from; null if there is nothing to explain. */
export function why(view, id, experiment, stats) {
  if (!stats) return null;
  const clear = linesOf(view.report, stats).filter((each) => CLEAR.includes(each.verdict));
  const shown = clear.map(({ variant, metric, k }) => {
    const mine = of(view, experiment).filter((each) => each.variant === variant);
    const told = mine.filter((each) => each.summary.length);
    return [told, mine].map((found) => found.find((each) => each.metric === metric && each.k === k) ?? found[0]).find(Boolean);
  }).filter(Boolean);
  const unknown = shown.filter((each) => !each.summary.length);
  if (!shown.length) return null;
  const [{ from_ms: from, end_ms: end }] = shown;
  return make("div", { class: "why" },
    make("h3", {}, "Why?", help("contribution"), " ", make("span", { class: "kind" }, `exploratory, final lists from ${timeText(from, view.now)} to ${timeText(end, view.now)}`)),
    make("ul", { class: "reasons" }, shown.filter((each) => each.summary.length).map((each) => make("li", {}, make("strong", {}, named(each.variant)), `, ${metricText(each.metric, each.k)}: `,
      joined(each.summary_parts.map(words), "; "), ".")),
      unknown.length ? make("li", {}, unknown.flatMap((each, at) => [at ? ", " : "", make("strong", {}, named(each.variant))]), `: ${unknown[0].unknown}.`) : null),
    folded(`${id}-why`, "Contributions by segment and rank", () => shown.flatMap((each) => [bySegment(each), byRank(each)])));
}

function bySegment(each) {
  if (!each.segments.length) return make("p", { class: "note" }, "No segment is tallied. Set windows.segments to see contributions by segment.");
  const rows = each.segments.flatMap((part) => [
    ...part.values.map((one) => [
      [named(part.segment), "=", named(one.value)], contribution(each, one.contribution), signedText(one.mix),
      [make("span", { class: "value" }, liftText(one.lift)), fine(intervalText(one))],
      [countText(one.lists), fine(`control ${countText(one.control_lists)}`)],
    ]),
    ...(part.others ? [[[named(part.segment), `: ${countText(part.others)} more`], contribution(each, part.others_contribution), MISSING, MISSING, MISSING]] : []),
  ]);
  return table([`${metricText(each.metric, each.k)} of `, named(each.variant), `: contributions by segment value, ${signedText(each.difference)} in all`],
    ["Segment", "Contribution", "By share of lists", "Lift, interval for one look", "Lists"], rows, "rows", [null, "Contribution", "By share of lists", "Lift", "Lists"]);
}

function byRank(each) {
  if (!each.ranks.length) return null;
  const all = each.ranks.reduce((sum, one) => sum + one.contribution, 0);
  const rows = each.ranks.map((one) => [one.first === one.last ? `rank ${one.first}` : `ranks ${one.first} to ${one.last}`, contribution({ difference: all }, one.contribution)]);
  return table([`${metricText(each.ranks_of, each.ranks.at(-1).last)} of `, named(each.variant), `: contributions by rank, ${signedText(all)} in all`], ["Ranks", "Contribution"], rows, "rows", [null, "Contribution"]);
}

function contribution(each, value) {
  const share = each.difference ? value / each.difference : null;
  return [make("span", { class: "value" }, signedText(value)),
    isNumber(share) ? fine(`${share < 0 ? "−" : ""}${shareText(Math.abs(share))} of the difference`) : null];
}

function signedText(value) {
  return isNumber(value) ? `${value < 0 ? "−" : "+"}${valueText(Math.abs(value))}` : MISSING;
}

function intervalText({ lift_lower: lower, lift_upper: upper }) {
  if (!isNumber(lower)) return "no interval: too few lists";
  return `${liftText(lower)} to ${isNumber(upper) ? liftText(upper) : "no bound"}`;
}

/** The chosen segment of an experiment: its own means, lifts and intervals. Null without a chosen segment. */
export function chosenSegment(view, experiment, stats) {
  const { segment, metric, name, k } = view.selection;
  if (!segment || !stats) return null;
  const at = segment.indexOf("=");
  const found = of(view, experiment).filter((each) => nameOf(each) === metric).map((each) => {
    const part = each.segments.find((one) => one.segment === segment.slice(0, at));
    return [each, part, part?.values.find((one) => one.value === segment.slice(at + 1))];
  }).filter(([, , one]) => one);
  if (!found.length) {
    return make("p", { class: "note" }, "Lifts of ", segmentWords(segment), " are shown for the deciding measures, for the values with the largest contributions.");
  }
  const rows = found.map(([each, part, one]) => [
    named(each.variant), [make("span", { class: "value" }, valueText(one.mean)), fine(`control ${valueText(one.control_mean)}`)],
    [make("span", { class: "value" }, liftText(one.lift)), fine(intervalText(one)), fine(part.stands_out ? "values differ by more than noise" : "values do not differ by more than noise")],
    [countText(one.lists), fine(`control ${countText(one.control_lists)}`)],
  ]);
  const [[{ from_ms: from, end_ms: end }]] = found;
  return make("div", { class: "numbers segment" },
    table([`${metricText(name, k)} on `, segmentWords(segment), ", exploratory"], ["Variant", "Mean", "Lift, interval for one look", "Lists"], rows, "rows", [null, "Mean", "Lift", "Lists"]),
    make("p", { class: "note" }, `Final lists from ${timeText(from, view.now)} to ${timeText(end, view.now)}. The intervals share their error among all values of the segment. `
      + "They hold for one look, and take the variance per list from all lists of a variant. There is no verdict on a segment."));
}
