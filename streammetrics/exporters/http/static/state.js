// The state of the page: whether its numbers are current, what is missing, and what comes next.

import { make } from "./elements.js";
import { runbookLink } from "./terms.js";
import { isNumber, roundCountText, spanText, timeText } from "./text.js";

export const POLL_MS = 2000;
const REPORT_OLD_SECONDS = 30;
const COMMIT_OLD_SECONDS = 50;
const BEHIND_MS = 300000;

/** Return [kind, word, sentences, name of a runbook if the server can serve one] for the most important state. */
export function stateOf(now, at) {
  const { report, pulse } = now;
  const last = now.answeredMs === null ? "" : ` The numbers below are from ${timeText(now.answeredMs, at)}.`;
  if (now.needsLogin) return ["login", "Log in", [`The server needs your login.${last}`]];
  if (now.problem !== null) return ["stale", now.answeredMs === null ? "No answer" : "Stale", [`The server ${now.problem}. The page retries every ${spanText(POLL_MS)}.${last}`]];
  if (report === null && pulse === null) return ["waiting", "Starting", []];
  if (report === null && !pulse.publishes) return ["waiting", "No numbers here", ["This process only consumes events. Open the page of the exporter of this namespace.", ...now.missing]];
  if (now.unready) return ["unready", "Not ready", [`The server shows no numbers yet.${last}`, ...now.missing], pulse?.runbook];
  const oldSeconds = Math.max(REPORT_OLD_SECONDS, 3 * (pulse?.report_gap_seconds ?? 0));
  if (pulse && (pulse.report_age_seconds > oldSeconds || now.missing.some((line) => line.startsWith("publisher:")))) {
    return ["stale", "Stale", [`The newest report is ${spanText(pulse.report_age_seconds * 1000)} old. The server does not read committed state.`, ...now.missing], "StreammetricsRedisDown"];
  }
  if (report.ended) return ["ended", "Ended", ["The input has ended. All numbers are final."]];
  const first = firstNumber(now, at, "live");
  if (report.watermark_ms === null) return [...(first ? ["starting", "Starting"] : ["empty", "No data yet"]), [...(pulse?.waiting.length ? pulse.waiting : [waitingFor(report)]), ...now.missing]];
  if (now.missing.length) return ["unready", "Not ready", ["The page shows numbers, but this process has problems:", ...now.missing], pulse?.runbook];
  if (pulse?.outages.length) return ["behind", "Behind", ["Workers cannot read or commit, so the numbers stand still. Nothing is lost while Kafka keeps the records.", ...pulse.outages],
    pulse.outages[0].startsWith("Redis") ? "StreammetricsRedisDown" : "StreammetricsKafkaDown"];
  if (pulse && pulse.commit_age_seconds > COMMIT_OLD_SECONDS) {
    return ["behind", "Behind", [`No worker has committed anything for ${spanText(pulse.commit_age_seconds * 1000)}: no worker runs, or nothing is sent.`, whatIsRead(pulse)].filter(Boolean), "StreammetricsLagGrowing"];
  }
  if (at - report.watermark_ms > BEHIND_MS) {
    return ["behind", "Behind", [`The watermark is ${timeText(report.watermark_ms, at)}, ${spanText(at - report.watermark_ms)} ago. ${slowestInput(report)}`, whatIsRead(pulse)].filter(Boolean), "StreammetricsLagGrowing"];
  }
  if (first) return ["starting", "Starting", [`Events arrive. The first whole live window comes ${first}; until then the page has the lists so far.`]];
  return ["live", "Live", []];
}

/** When the first number of a kind comes, by the clock, which the page counts down to in the first minutes; null if it is there. */
function firstNumber(now, at, kind) {
  const awaited = (now.report?.first_numbers ?? []).find((each) => each.number === kind);
  if (!awaited) return null;
  const left = 1000 * awaited.seconds - (ageMs(now) ?? 0);
  return left > 0 ? `in ${spanText(left)} (${timeText(at + left, at)})` : "any moment now";
}

/** The age of the report now; null if it is unknown. */
const ageMs = ({ pulse, pulseMs }) => (isNumber(pulse?.report_age_seconds) ? 1000 * pulse.report_age_seconds + (Date.now() - pulseMs) : null);

function waitingFor(report) {
  const empty = report.inputs.filter((each) => each.watermark_ms === null && each.known_ms === null).map((each) => `${each.topic} ${each.partition}`);
  const names = empty.length ? ` No events yet on ${empty.slice(0, 5).join(", ")}${empty.length > 5 ? ` and ${empty.length - 5} more` : ""}.` : "";
  return `Numbers appear when every task has read events. ${report.tasks_committed} of ${report.tasks} tasks have committed.${names}`;
}

function slowestInput(report) {
  const slowest = report.inputs.filter((each) => each.watermark_ms !== null).sort((one, other) => one.watermark_ms - other.watermark_ms)[0];
  return slowest ? `The slowest input is ${slowest.topic} ${slowest.partition}.` : "";
}

/** Whether events are still read, which tells a backlog from an outage; empty while it is not known. */
function whatIsRead(pulse) {
  const rate = pulse?.events_per_second;
  if (!isNumber(rate)) return "";
  return rate > 0 ? `${roundCountText(Math.ceil(rate))} events per second are read, so the workers run.`
    : "No events are read now: no worker runs, Kafka or Redis does not answer the workers, or nothing is sent. /readyz of a worker says which.";
}

/** The state in a word, the times of the numbers, and the sentences of the state. */
export function header([kind, word, sentences, runbook], now, at) {
  const { report, pulse } = now;
  const problems = report?.warnings ?? []; // of the input, which make numbers wrong or late although everything runs
  const age = ageMs(now) === null ? null : `report ${spanText(ageMs(now))} old`;
  const [final, verdict] = ["final", "verdict"].map((kind) => firstNumber(now, at, kind));
  const times = report && report.watermark_ms !== null
    ? [final ? `first final numbers ${final}` : `final up to ${timeText(report.final_ms, at)}`, verdict ? `first verdict ${verdict} at the earliest` : null, `live up to ${timeText(report.watermark_ms, at)}`, age].filter(Boolean).join(" · ")
    : "";
  return [
    make("p", { class: "summary" }, make("span", { class: `pill ${kind}` }, word), make("span", { class: "fine" }, times)),
    make("div", { class: `banner ${kind}`, hidden: !sentences.length }, sentences.map((text) => make(text.startsWith("{") ? "pre" : "p", {}, text)),
      runbook ? make("p", {}, runbookLink(runbook)) : null,
      kind === "login" ? make("button", { type: "button", "data-action": "reload" }, "Log in again") : null),
    problems.length ? make("div", { class: "banner input-problem" }, problems.map((text) => make("p", {}, text))) : null,
  ].filter(Boolean);
}
