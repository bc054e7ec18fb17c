// The pipeline section: lag, watermarks, refused events and reasons. Counters come from committed state, lag from this process.

import { fine, folded, make, table } from "./elements.js";
import { MISSING, Name, countText, countedText, isNumber, reasonText, roundCountText, shareText, spanText, timeText } from "./text.js";

const FEEDBACK = ["matched", "orphan", "out_of_list", "too_old", "unknown_action"];
const LABELS = ["label_empty", "label_too_long", "label_bad_type", "label_bad_text", "too_many_experiments", "too_many_segments", "too_many_variants", "too_many_groups"];
const EXPOSED = ["list_exposed", "list_unexposed"];
export const LAG_LONG_SECONDS = 60;

/** Make the section. `view` has report, pulse (or null) and now. */
export function pipeline(view) {
  const { report, pulse } = view;
  const counters = report.counters;
  const dropped = Object.entries(report.refused);
  const exposed = EXPOSED.map((reason) => [reason, counters[reason] ?? 0]);
  const labels = LABELS.map((reason) => [reason, counters[reason] ?? 0]).filter(([, count]) => count);
  return make("section", { id: "pipeline", "aria-labelledby": "pipeline-title" },
    make("h2", { id: "pipeline-title" }, "Pipeline"),
    make("dl", { class: "tiles" },
      lagTile(pulse),
      ...ageTile(view, "Live up to", report.watermark_ms, "the lowest watermark"),
      ...ageTile(view, "Final up to", report.final_ms, "older lists no longer change"),
      tile("Events read", roundCountText(counters.events), isNumber(pulse?.events_per_second) ? `${roundCountText(Math.round(pulse.events_per_second))} per second now` : "in total"),
      tile("Refused", roundCountText(total(dropped)), counters.events ? `${shareText(total(dropped) / counters.events)} of all events` : "no events yet"),
      tile("Tasks", `${countText(report.tasks_committed)} of ${countText(report.tasks)}`, "have committed state"),
      tile("Open sessions", roundCountText(report.sessions_open), `of ${roundCountText(report.users_open)} ${report.users_open === 1 ? "user" : "users"}`),
      processTile(pulse)),
    make("div", { class: "pair" },
      feedback(counters),
      dropped.length ? reasons("Refused, by reason", dropped, "of events", counters.events) : make("p", { class: "note" }, "No events were refused."),
      total(exposed) ? reasons("Lists by their users' exposures", exposed, "of lists") : null,
      labels.length ? reasons("Labels left out of lists, by reason", labels, "of labels") : null),
    report.unknown_names?.length ? unknownNames(report.unknown_names) : null,
    folded("inputs", `Inputs (${countText(report.inputs.length)})`, () => inputs(view)),
    folded("by-topic", "All counters by topic", () => table("Counters by topic", ["counter", "topic", "events"],
      report.counters_by_topic.map((each) => [[reasonText(each.reason), fine(each.reason)], each.topic, countText(each.count)]))));
}

function tile(name, value, note, kind = "") {
  return make("div", { class: `tile ${kind}`.trim() }, make("dt", {}, name), make("dd", { class: "figure" }, value), make("dd", { class: "fine" }, note));
}

function lagTile(pulse) {
  if (!pulse) return tile("Lag", MISSING, "not known yet");
  if (pulse.lag === null) return tile("Lag", MISSING, "unknown here: this process does not consume");
  if (!pulse.lag.length) return tile("Lag", MISSING, "this process has no input");
  const records = pulse.lag.reduce((sum, each) => sum + each.records, 0);
  const seconds = pulse.lag.map((each) => each.seconds).filter(isNumber);
  const longest = seconds.length ? Math.max(...seconds) : null;
  const note = longest === null ? "records to read" : longest === 0 ? "records to read; at the end of all inputs" : `records to read; the last one read is ${spanText(longest * 1000)} old`;
  return tile("Lag", roundCountText(records), note, longest > LAG_LONG_SECONDS ? "warned" : "");
}

function ageTile(view, name, end, note) {
  if (view.report.ended) return [];
  if (name === "Final up to" && (view.report.first_numbers ?? []).some((each) => each.number === "final")) return [tile(name, MISSING, "no list is final yet")];
  if (!isNumber(end)) return [tile(name, MISSING, "a task has no events yet")];
  return [tile(name, `${spanText(view.now - end)} ago`, [make("time", { datetime: new Date(end).toISOString() }, timeText(end, view.now)), `; ${note}`])];
}

function processTile(pulse) {
  if (!pulse || pulse.lag === null) return null;
  const failed = Object.entries(pulse.commits).filter(([status]) => !["written", "already"].includes(status));
  const note = `${countText(total(failed))} failed or refused; ${countedText(pulse.rebalances, "rebalance")}; ${countedText(pulse.dead_letters, "dead letter")}, ${countText(pulse.dead_letters_lost)} lost`;
  return tile("Commits", roundCountText(pulse.commits.written ?? 0), note, pulse.dead_letters_lost ? "warned" : "");
}

function total(counts) {
  return counts.reduce((sum, [, count]) => sum + count, 0);
}

function feedback(counters) {
  const counts = FEEDBACK.map((reason) => [reason, counters[reason] ?? 0]);
  return total(counts) ? reasons("Feedback by outcome", counts, "of feedback")
    : make("p", { class: "note" }, "No feedback has an outcome yet. It gets one when the session of its user has ended.");
}

function reasons(caption, counts, of, all = total(counts)) {
  const rows = counts.toSorted((one, other) => other[1] - one[1]).map(([reason, count]) =>
    [[reasonText(reason), fine(reason)], countText(count), all ? shareText(count / all) : MISSING]);
  return table(caption, ["reason", "events", of], rows);
}

/** Actions and types that no rule knows. Events with these names are not used. */
function unknownNames(names) {
  const rows = names.map((each) => [each.kind, each.name === null ? "others" : new Name(each.name), countText(each.events), each.meant ? new Name(each.meant) : MISSING]);
  return table("Names that are not used: actions, types and null variants", ["field", "name", "events", "did you mean"], rows);
}

function inputs({ report, pulse, now }) {
  const lag = new Map((pulse?.lag ?? []).map((each) => [JSON.stringify([each.topic, each.partition]), each]));
  const rows = report.inputs.map((each) => {
    const own = lag.get(JSON.stringify([each.topic, each.partition]));
    return [`${each.topic} ${each.partition}`, countText(each.offset), each.watermark_ms === null ? "no events yet" : timeText(each.watermark_ms, now),
      own ? countText(own.records) : MISSING, own && isNumber(own.seconds) ? spanText(own.seconds * 1000) : MISSING];
  });
  return table("Inputs: committed positions", ["input", "next offset", "watermark", "lag, records", "lag, time"], rows);
}
