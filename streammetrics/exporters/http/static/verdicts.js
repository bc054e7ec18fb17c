// Verdicts in words: of a measure, of a variant, and of an experiment with many variants. What matters most comes first.

import { make } from "./elements.js";
import { MISSING, Name, byName, countedText, hoursText, isNumber, joined, liftText, metricKey, metricText, named, percentText, roundedText, withMetrics, withNames } from "./text.js";

const WORDS = {
  invalid: ["!", "Invalid", "the experiment is broken; do not use its numbers"],
  mixed: ["⇅", "Mixed", "one measure is better and another worse; choose which one counts"],
  regressed: ["▼", "Regressed", "worse than the control by more than the margin"],
  inconclusive: ["○", "Inconclusive", "no clear result yet"],
  safe: ["✓", "Safe", "not worse than the control by more than the margin"],
  improved: ["▲", "Improved", "better than the control"],
};
const ORDER = Object.keys(WORDS);
const GATES = { fail: ["fails", "fail"], wait: ["waits", "wait"], pass: ["passes", "pass"] };
const GATE_MEANS = { fail: "stop the rollout", wait: "give it no more traffic yet", pass: "it may get more traffic" };
const COUNTED = { invalid: "invalid", mixed: "mixed", regressed: "regressed", improved: "improved", safe: "safe", inconclusive: "undecided" };
const WHOLE_LINES = 3; // with more experiments, each has one line in the overview
const MIXED = "Mixed means that one measure is better and another is worse. Choose which one counts, with experiments.paging.";

export const known = (word) => (word in WORDS ? word : "inconclusive");
export const meaning = (word) => WORDS[word]?.[2];
export const wordText = (word) => WORDS[word]?.[1] ?? word;
/** The place of a word in the order of what matters; unknown words count as undecided. */
export const place = (word) => ORDER.indexOf(known(word));

/** A word with its sign, as children of an element. */
export function sign(word) {
  const [mark, text] = WORDS[word] ?? ["?", word];
  return [make("span", { class: "mark", "aria-hidden": "true" }, mark), " ", text];
}

/** The metrics of an experiment whose measures fit, each once. */
export function measured(stats, fits) {
  return [...new Set(stats.variants.flatMap((each) => each.measures.filter(fits).map((one) => metricKey(one.metric, one.k))))];
}

/** What the gate says of one variant. A pass says how much worse the variant may be. */
export function gateWords(stats, { word }) {
  const within = word === "pass" && isNumber(stats.gate_margin) ? `: at most ${percentText(stats.gate_margin)} worse` : "";
  return `gate ${GATES[word]?.[0] ?? word}${within}`;
}

/** The largest effect among the variants that give an experiment its verdict; -1 if it is unknown. */
export function effect(stats) {
  const [first] = judged(stats);
  return first ? strength(first) : -1;
}

export function badge({ word }) {
  return make("span", { class: `badge ${known(word)}`, title: meaning(word) }, sign(word));
}

/** The variants that have a verdict, with the measure that decides: worst first, and within a word the largest effect first. */
export function judged(stats) {
  return (stats?.variants ?? []).filter((each) => each.variant !== stats.control && wordOf(each) !== null)
    .map((each) => ({ variant: each.variant, word: wordOf(each), measure: deciding(each) }))
    .sort((one, other) => place(one.word) - place(other.word) || strength(other) - strength(one) || byName(one.variant, other.variant));
}

function wordOf(variant) {
  return variant.verdict?.word ?? variant.measures.find((one) => one.paging && one.verdict)?.verdict.word ?? null;
}

/** The measure that a variant's verdict is about: the first deciding one with the same word. */
function deciding(variant) {
  const deciders = variant.measures.filter((one) => one.paging && one.verdict);
  return deciders.find((one) => one.verdict.word === wordOf(variant)) ?? deciders[0] ?? null;
}

function strength({ measure }) {
  return isNumber(measure?.lift) ? Math.abs(measure.lift) : -1;
}

/** The banner of an experiment, as parts of text: the reason with one treatment, and counts by verdict with several. */
export function banner(stats) {
  const variants = judged(stats);
  if (stats.verdict.word === "invalid" || variants.length < 2) return sentence(stats);
  return [...counted(stats, example), "."];
}

/** The number of variants with each verdict, each with an example. */
function counted(stats, exampleOf) {
  const variants = judged(stats);
  const counts = ["mixed", "regressed", "improved", "safe", "inconclusive"].map((word) => [word, variants.filter((each) => each.word === word)]).filter(([, found]) => found.length);
  return joined(counts.map(([word, found], at) => [`${found.length}${at ? "" : ` of ${variants.length}`} ${COUNTED[word]}`, exampleOf(word, found)]), ", ");
}

/** The variant that stands for a count, with its lift: the worst of those that fell, the best of those that rose. */
function example(word, found) {
  const [{ variant, measure }] = found;
  if (!["mixed", "regressed", "improved"].includes(word)) return "";
  const which = found.length === 1 ? "" : { regressed: "worst: ", improved: "best: ", mixed: "first: " }[word];
  return [` (${which}`, named(variant), measure && isNumber(measure.lift) ? ` ${liftText(measure.lift)} ${metricText(measure.metric, measure.k)}` : "", ")"];
}

/** What a reader must know about the words of the banner; null if they are clear. */
export function explanation(stats) {
  return [stats.verdict.word, ...judged(stats).map((each) => each.word)].includes("mixed") ? MIXED : null;
}

/** What undecided variants still need until their most likely verdict: one list of parts of text for each variant. */
export function needs(stats) {
  const undecided = stats.variants.filter((each) => each.needed?.length);
  return undecided.map(({ variant, needed: [first] }) => [
    named(variant), ` needs about ${roundedText(first.users)} more users (${roundedText(first.users_low)} ${isNumber(first.users_high) ? `to ${roundedText(first.users_high)}` : "or more"})`,
    isNumber(first.hours) ? `, about ${hoursText(first.hours)},` : "", ` ${aim(first, stats.margin)}.`,
  ]);
}

/** The gate of a rollout, as parts of a sentence, with the users that it still waits for; null without treatments to decide about.
 * A reason that the verdict has given already is not repeated, and several treatments are counted. */
export function gate(stats) {
  if (!stats.gate) return null;
  const { word, reason } = stats.gate;
  const decided = stats.variants.filter((each) => each.gate);
  const counts = Object.entries(GATES).map(([each, verbs]) => [verbs, decided.filter((variant) => variant.gate.word === each).length]).filter(([, count]) => count);
  const counted = joined(counts.map(([verbs, count], at) => `${count}${at ? "" : ` of ${decided.length}`} ${verbs[count === 1 ? 0 : 1]}`), ", ");
  const rest = decided.length > 1 ? "" : newIn(reason, stats.verdict.reason);
  const why = decided.length > 1 ? [" (", counted, ")"] : rest === "" ? [`, ${GATE_MEANS[word]}`] : [" (", reasonParts(stats, rest), ")"];
  const waiting = stats.variants.map((each) => each.gate_needed).filter(Boolean).sort((one, other) => other.users - one.users)[0];
  const more = word === "wait" && waiting ? `. It passes after about ${roundedText(waiting.users)} more users, if there is no difference` : "";
  return [make("strong", {}, `Gate: ${word}`), why, more, "."];
}

/** What a reason of the gate says that the reason of the verdict does not say. It may name the variant, and go on after the same words. */
function newIn(reason, said) {
  const at = reason.indexOf(said);
  const isRepeated = said !== "" && at >= 0 && (at === 0 || reason.slice(0, at).endsWith(": "));
  return isRepeated ? reason.slice(at + said.length).replace(/^; /, "") : reason;
}

function aim({ verdict, lift }, margin) {
  return verdict === "safe" ? `to be safe (at most ${percentText(margin)} worse), if there is no difference` : `to find a ${lift < 0 ? "drop" : "rise"} of ${percentText(Math.abs(lift))}`;
}

/** The announcement for a new verdict, as parts of text. */
export function spoken(stats) {
  return ["Experiment ", named(stats.experiment), `: ${wordText(stats.verdict.word)}. `, banner(stats)];
}

/** The verdict's reason as a sentence. A name at its start keeps its case. */
function sentence(stats) {
  const { reason } = stats.verdict;
  const [first = "", ...rest] = reasonParts(stats, reason);
  const start = first instanceof Name ? first : `${first.charAt(0).toUpperCase()}${first.slice(1)}`;
  return [start, ...rest, reason === "" || /[.!?]$/.test(reason) ? "" : "."];
}

/** A reason from the server, split so that names of variants and teams are Name objects. Metrics are called as in the tables. */
export function reasonParts(stats, reason) {
  const teams = (stats.preferences ?? []).flatMap((each) => [each.team, each.against]);
  const metrics = stats.variants.flatMap((each) => each.measures);
  return withMetrics(withNames(reason, [...stats.variants.map((each) => each.variant), ...teams, stats.control]), metrics);
}

/** The overview: one line for each experiment, worst first. `experiments` is [[name, statistics or undefined, id of its card]].
 * The card of an experiment has the reason in words. With `isWhole` no line is cut off. */
export function overview(experiments, isWhole) {
  const lines = experiments.map(([name, stats, id]) => {
    const [first] = stats && stats.verdict.word !== "invalid" ? judged(stats) : [];
    return make("li", { class: stats ? known(stats.verdict.word) : "inconclusive" },
      stats ? badge(stats.verdict) : make("span", { class: "badge" }, "No verdict yet"),
      make("a", { href: `#${id}` }, named(name)),
      make("span", { class: "line-lift" }, first?.measure ? liftText(first.measure.lift) : MISSING),
      make("span", { class: "line-text" }, lineText(stats, first)));
  });
  return make("section", { id: "overview", "aria-labelledby": "overview-title" },
    make("h2", { id: "overview-title" }, "Overview", make("span", { class: "kind" }, ` ${countedText(experiments.length, "experiment")}`)),
    make("ul", { class: experiments.length > WHOLE_LINES && !isWhole ? "lines many" : "lines" }, lines));
}

/** Which variant and measure the lift of a line is of, and how many variants have each verdict. */
function lineText(stats, first) {
  if (!stats) return "no user of this experiment has a final list";
  if (stats.verdict.word === "invalid") return meaning("invalid");
  if (!first) return "nothing is compared yet";
  const of = [named(first.variant), first.measure ? ` ${metricText(first.measure.metric, first.measure.k)}` : ""];
  return judged(stats).length > 1 ? [...of, "; ", ...counted(stats, () => "")] : of;
}
