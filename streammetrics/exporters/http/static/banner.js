// The head of an experiment's card: what is decided, why, since when and over whom.

import { make } from "./elements.js";
import { endOf } from "./lookup.js";
import { countText, countedText, isNumber, joined, named, scopeWords, spanText, timeText } from "./text.js";
import { runbookLink, termButton } from "./terms.js";
import { adviceOf, finding, gate, isOverNow, known, sign } from "./verdicts.js";

const ARMS_COUNTED = 3; // with more arms, their users are only in the table

/** The verdict of an experiment, with its reason, its gate and what bends it, since when, and over how many users. */
export function banner(view, experiment, line, stats) {
  if (!line) {
    const awaited = (view.report.awaited ?? []).find((each) => each.experiment === experiment)?.sentences ?? [];
    const told = ["No verdict yet: no user of this experiment has a final list. The values below come from the windows.", ...awaited];
    return make("div", { class: "note" }, told.map((sentence) => make("p", {}, sentence)));
  }
  const { verdict: kind, parts, needed } = line;
  return make("div", { class: `verdict ${known(kind)}` },
    make("div", {}, make("p", { class: "word" }, sign(kind)), decided(line, view.now)),
    make("div", {}, make("p", { class: "reason" }, finding(parts)),
      gate(line) ? make("p", { class: "gate" }, gate(line)) : null, warnings(line), needed.map((sentence) => make("p", { class: "needs" }, finding(sentence))),
      kind === "invalid" ? make("p", {}, runbookLink("StreammetricsExperimentInvalid")) : null,
      make("p", { class: "fine facts" }, span(view, line), " ", counts(line, stats))));
}

/** That a verdict is decided, and since when; null while further lists may change it. */
function decided({ decided_ms: at }, now) {
  return isNumber(at) ? make("p", { class: "fine" }, termButton("decided", "", "decided"), ` ${timeText(at, now)}`) : null;
}

/** When the lists of a verdict began, how long ago, and up to when they count. */
function span({ report, now }, line) {
  const { scope, since_ms: since } = line;
  const isOver = report.ended || isOverNow(line);
  const end = endOf(report, line.experiment, scope);
  const upTo = isNumber(end) ? `, up to ${timeText(end, now)}` : "";
  if (scope !== "start" || !isNumber(since)) return `Final lists ${scopeWords(scope)}${upTo}.`;
  const age = isOver ? "" : `, ${spanText(now - since)} ago`;
  return `Started ${timeText(since, now)}${age}. Final lists${upTo}${isOver && isNumber(end) ? `: ${spanText(end - since)}` : ""}.`;
}

/** The users of all arms. */
function counts(line, stats) {
  const arms = (stats?.variants ?? []).filter((each) => each.users);
  const shown = arms.length && arms.length <= ARMS_COUNTED ? [": ", joined(arms.map((each) => [named(each.variant), ` ${countText(each.users)}`]), ", ")] : "";
  return [countedText(line.users, "user"), shown, "."];
}

/** What bends the numbers of a verdict, without what its reason says already (see `further_warnings`). */
function warnings(line) {
  return line.warnings.filter((each) => !line.reason.includes(each.text)).map((each) => {
    const unnamed = each.text.split(": ").slice(1).join(": ");
    const fix = each.fix ? [" ", finding([["text", each.fix]])] : null;
    if (unnamed && line.reason.includes(unnamed)) return fix && make("p", { class: "doubt" }, fix);
    return make("p", { class: "doubt" }, make("strong", {}, "Warning: "), finding(each.parts), adviceOf(each.parts).map((text) => ` ${text}`), fix);
  });
}
