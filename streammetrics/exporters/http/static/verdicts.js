// Verdicts in words: of a measure, of a variant, and of an experiment with many variants. What matters most comes first.

import { make } from "./elements.js";
import { termButton } from "./terms.js";
import { MISSING, Name, ageText, countedText, isNumber, liftText, metricKey, named, percentText, words } from "./text.js";

const WORDS = { // the glossary has what they mean
  invalid: ["!", "Invalid"], regressed: ["▼", "Regressed"], mixed: ["⇅", "Mixed"], inconclusive: ["○", "Inconclusive"], safe: ["✓", "Safe"], improved: ["▲", "Improved"],
};
const GATES = { fail: "fails", wait: "waits", pass: "passes" };
const WHOLE_LINES = 3; // with more experiments, each has one line in the overview

export const known = (word) => (word in WORDS ? word : "inconclusive");
export const markOf = (word) => WORDS[word]?.[0] ?? "?";
export const wordText = (word) => WORDS[word]?.[1] ?? word;
/** A verdict as a word with its sign. It is the button that explains it. */
export function sign(word, kind = "") {
  return termButton(word, kind, make("span", { class: "mark", "aria-hidden": "true" }, markOf(word)), " ", wordText(word));
}

/** The metrics of an experiment whose measures fit, each once. */
export function measured(stats, fits) {
  return [...new Set(stats.variants.flatMap((each) => each.measures.filter(fits).map((one) => metricKey(one.metric, one.k))))];
}

/** What the gate says of one variant. A pass says how much worse the variant may be. */
export function gateWords(stats, { word }) {
  const within = word === "pass" && isNumber(stats.gate_margin) ? `: at most ${percentText(stats.gate_margin)} worse` : "";
  return `gate ${GATES[word] ?? word}${within}`;
}

export function badge({ word }) {
  return sign(word, `badge ${known(word)}`);
}

/** The finding of a sentence, without advice about settings, as parts of text: it starts with a capital and ends with a stop. */
export function finding(parts) {
  const [first = "", ...rest] = words(parts.filter(([kind]) => kind !== "advice"));
  const last = rest.at(-1) ?? first;
  const start = first instanceof Name ? first : `${first.charAt(0).toUpperCase()}${first.slice(1)}`;
  return [start, ...rest, typeof last === "string" && /(^|[.!?])\s*$/.test(last) ? "" : "."];
}

/** The advice of a sentence about settings; empty if it has none. */
export function adviceOf(parts) {
  return parts.filter(([kind]) => kind === "advice").map(([, text]) => text.trim().replace(/\.?$/, "."));
}

/** The gate of a rollout, as parts of a sentence; null without treatments to decide about. */
export function gate(line) {
  return line.gate ? [termButton("gate", "gate-word", `Gate: ${line.gate}`), ", ", words(line.gate_parts), "."] : null;
}

/** The interval of a lift in words. */
export function intervalText({ lift_lower: lower, lift_upper: upper }) {
  if (![lower, upper].some(isNumber)) return "no interval yet";
  return [lower, upper].map((end) => (isNumber(end) ? liftText(end) : "no bound")).join(" to ");
}

/** The announcement for a new verdict, as parts of text. */
export function spoken(line) {
  return ["Experiment ", named(line.experiment), `: ${wordText(line.verdict)}. `, finding(line.parts)];
}

/** Whether an experiment gets no more lists. */
export const isOverNow = ({ state }) => state === "silent" || state === "ended";

function age(line, report, now) {
  return report.ended || isOverNow(line) ? `ran ${ageText(line.up_to_ms - line.since_ms)}` : `${ageText(now - line.since_ms)} old`;
}

/** The overview: one line for each experiment, worst first. `experiments` is [[name, line or undefined, id of its card]].
 * The card of an experiment has the reason in words. */
export function overview(experiments, { report, now }) {
  const lines = experiments.map(([name, line, id]) => {
    const hasLift = line && line.verdict !== "invalid" && line.treatment && line.metric;
    return make("li", { class: line ? known(line.verdict) : "inconclusive" },
      line ? badge({ word: line.verdict }) : make("span", { class: "badge" }, "No verdict yet"),
      make("a", { href: `#${id}` }, named(name)),
      make("span", { class: "line-lift" }, hasLift ? liftText(line.lift) : MISSING),
      make("span", { class: "fine line-interval" }, hasLift ? intervalText(line) : ""),
      make("span", { class: "line-age" }, line && isNumber(line.since_ms) ? age(line, report, now) : ""),
      make("span", { class: "line-text" }, line ? finding(line.parts) : "no user of this experiment has a final list"));
  });
  return make("section", { id: "overview", "aria-labelledby": "overview-title" },
    make("h2", { id: "overview-title" }, "Overview", make("span", { class: "kind" }, ` ${countedText(experiments.length, "experiment")}`),
      make("button", { type: "button", class: "print", name: "print" }, "Print all")),
    make("ul", { class: experiments.length > WHOLE_LINES ? "lines many" : "lines" }, lines));
}
