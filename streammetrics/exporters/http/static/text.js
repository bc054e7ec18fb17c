// Format numbers, times and names. A missing value is shown as missing, never as 0.

/** A name from outside. Its reading direction is isolated, so it cannot reorder the text beside it. */
export class Name {
  constructor(text) {
    this.text = text;
  }
}

const UNFIT = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]/gu; // the same rule as in words/names.py
const [ISOLATE, END] = ["\u2068", "\u2069"];
export const MISSING = "–";
export const DAY_MS = 86400000;
const UNITS = [["d", DAY_MS], ["h", 3600000], ["m", 60000], ["s", 1000], ["ms", 1]];
const REASONS = {
  events: "read", empty: "empty record", oversized: "larger than the limit", bad_json: "not JSON", reader: "not readable by its reader",
  bad_type: "the type is unknown", missing_field: "a field is missing", bad_id: "an id is not usable",
  bad_ts: "the time is not usable", bad_value: "the value is not a number", bad_position: "the positions contradict each other",
  bad_label: "a label is not usable", too_many_items: "more items than the limit",
  future: "dated in the future", late: "older than the allowed lateness", session_full: "its session has too many events",
  too_many_lists: "more open lists than the limit", matched: "counts for a list", repeated: "repeats matched feedback",
  orphan: "its list is unknown", out_of_list: "its list does not show the item", too_old: "too long after its list",
  unknown_action: "its action has no grade", duplicate: "repeats an impression of its session, or an exposure", list_id_reused: "has the id of another list of its session, but other items", place_conflict: "a list in parts with two items at one place",
  ignored: "left out by a reader, or an exposure that is not read",
  exposure: "an exposure", list_exposed: "a list with a variant", list_unexposed: "a list without a variant",
  too_many_exposures: "its user has too many exposures",
  ahead: "ahead of the other events of its input", key_mismatch: "on another partition than Kafka's default for its user id", experiment_lists_full: "its user has too many lists in an experiment",
  variant_as_text: "a variant sent as a number or a boolean, and read as text", too_many_teams: "too many teams to compare", label_empty: "an empty label", label_too_long: "a label that is too long",
  label_bad_type: "a label that is not a string", label_bad_text: "a label with control characters",
  too_many_experiments: "more experiments than the limit", too_many_segments: "more segments than the limit",
  too_many_variants: "more variants than the limit", too_many_groups: "more groups than the limit; counted under _other",
};
const whole = new Intl.NumberFormat("en");
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });

export const isNumber = (value) => typeof value === "number" && Number.isFinite(value);
/** The name of a metric in a report. One without a cut-off has k = 0, or none. */
export const metricKey = (name, k) => (Number(k) ? `${name}@${k}` : name);
let metrics = {}; // the facts of each metric by its name, from the report

/** Call metrics as the report does from now on. */
export function readMetrics(report) {
  metrics = report.metrics ?? {};
}

export const metricName = (name) => metrics[name]?.label ?? name;
export const metricText = (name, k) => metricKey(metricName(name), k);
/** The values that a metric can have; null for no bound. */
export const metricBounds = (name) => [0, metrics[name]?.ceiling ?? null];
export const reasonText = (reason) => REASONS[reason] ?? reason.replaceAll("_", " ");
export const countText = (value) => (isNumber(value) ? whole.format(value) : MISSING);
export const roundCountText = (value) => (!isNumber(value) ? MISSING : value < 100000 ? whole.format(value) : compact.format(value));
/** A count with its noun. The plural ends in s. */
export const countedText = (count, what) => `${countText(count)} ${what}${count === 1 ? "" : "s"}`;
const twoDigits = new Intl.NumberFormat("en", { maximumSignificantDigits: 2 });
export const percentText = (share) => `${twoDigits.format(100 * share)}\u00a0%`;
const WORDS_OF = { name: (text) => new Name(text), measure: (text) => metricText(...text.split("@")), number: (text) => text.replace(/ (?=%)/g, "\u00a0") };
export const valueText = (value) => (isNumber(value) ? value.toFixed(4) : MISSING);

export function windowText(ms) {
  const [unit, size] = UNITS.find(([, each]) => ms % each === 0);
  return `${ms / size}${unit}`;
}

export function windowWords(ms) {
  const [unit, size] = UNITS.find(([, each]) => ms % each === 0);
  const word = { d: "day", h: "hour", m: "minute", s: "second", ms: "millisecond" }[unit];
  return ms === size ? `1 ${word}` : `${whole.format(ms / size)} ${word}s`;
}

/** The newest span of a window: last hour, last 5 minutes. */
export function lastWords(ms) {
  return `last ${windowWords(ms).replace(/^1 /, "")}`;
}

/** The digits after the point that numbers on an axis need, so that none is rounded. `step` is the distance of two of them. */
export function tickDigits(step) {
  for (let digits = 0; digits < 6; digits += 1) if (Math.abs(step * 10 ** digits - Math.round(step * 10 ** digits)) < 1e-6) return digits;
  return 6;
}

/** A signed share, such as −12.3 %. Small shares get more digits. */
export function liftText(share) {
  if (!isNumber(share)) return MISSING;
  const percent = 100 * share;
  const text = Math.abs(percent).toFixed(Math.abs(percent) < 1 ? 2 : 1);
  return `${Number(text) === 0 ? "±" : percent < 0 ? "−" : "+"}${text}\u00a0%`;
}

export function shareText(share) {
  const percent = 100 * share;
  if (percent === 0) return "0\u00a0%";
  return percent < 0.01 ? "<\u00a00.01\u00a0%" : `${percent.toFixed(percent < 1 ? 2 : 1)}\u00a0%`;
}

/** Replace each character that breaks a line or changes the reading direction by U+FFFD. */
export function fit(text) {
  return text.replace(UNFIT, "\ufffd");
}

/** Join texts and Names into one sanitized text. Names are isolated, except in plain ASCII. */
export function plain(parts) {
  return [parts].flat(Infinity).map((part) => (part instanceof Name ? isolated(fit(part.text)) : fit(String(part)))).join("");
}

function isolated(text) {
  return /^[ -~]*$/.test(text) ? text : `${ISOLATE}${text}${END}`;
}

/** The Name of a variant or an experiment; a dash when it is empty. */
export function named(text) {
  return text ? new Name(text) : MISSING;
}

/** A sentence of the server as parts of text. It comes as [[kind, text]]; measures are called as in the tables. */
export function words(parts) {
  return (parts ?? []).map(([kind, text]) => WORDS_OF[kind]?.(text) ?? text);
}

/** A segment `name=value` as parts of text. */
export function segmentWords(segment) {
  const at = segment.indexOf("=");
  return [new Name(segment.slice(0, at)), "=", new Name(segment.slice(at + 1))];
}

/** Put text between parts. */
export function joined(parts, between) {
  return parts.flatMap((part, at) => (at ? [between, part] : [part]));
}

/** A duration: 4 s, 12 min, 3 h 20 min, 2 d 4 h. */
export function spanText(ms) {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 120) return `${seconds}\u00a0s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 120) return `${minutes}\u00a0min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours}\u00a0h ${minutes % 60}\u00a0min` : `${whole.format(Math.floor(hours / 24))}\u00a0d ${hours % 24}\u00a0h`;
}

/** The age of an experiment: in days from two days on. */
export function ageText(ms) {
  return ms < 2 * DAY_MS ? spanText(ms) : `${whole.format(Math.floor(ms / DAY_MS))}\u00a0d`;
}

let onPaper = false; // what is printed is read on another day

/** Write times with their dates, as on paper, or as on the screen. */
export function writeForPaper(isPaper) {
  onPaper = isPaper;
}

export const isPaper = () => onPaper;

/** Whether a time needs no date: it is on the day (UTC) of `now`, and not on paper. */
function isToday(ms, now) {
  return !onPaper && dayText(ms) === dayText(now);
}

export const dayText = (ms) => new Date(ms).toISOString().slice(0, 10);

/** A time in UTC, with its date unless it is the day of `now`. */
export function timeText(ms, now = Date.now()) {
  if (!isNumber(ms)) return MISSING;
  return `${isToday(ms, now) ? "" : `${dayText(ms)} `}${new Date(ms).toISOString().slice(11, 19)}\u00a0UTC`;
}

/** The times of an axis, as short as their step allows. The first one of a day that is not today's has its date below. */
export function tickTexts(times, step, now = Date.now()) {
  return times.map((ms, at) => {
    if (step >= DAY_MS) return dayText(ms).slice(5);
    const begins = at === 0 ? !times.every((each) => isToday(each, now)) : dayText(ms) !== dayText(times[at - 1]);
    return `${new Date(ms).toISOString().slice(11, step >= 60000 ? 16 : 19)}${begins ? `\n${dayText(ms)}` : ""}`;
  });
}

export function scopeWords(scope) {
  if (scope === "start") return "since the start";
  return /^\d{4}-\d\d-\d\d$/.test(scope) ? `on ${scope} (UTC)` : scope === "day" ? "this day (UTC)" : scope;
}

/** Compare names for their display: numbers in them count by their value. `words/names.py` has the same rule. */
export function byName(one, other) {
  const [ours, theirs] = [one, other].map((name) => name.split(/([0-9]+)/));
  for (let at = 0; at < ours.length && at < theirs.length; at += 1) {
    const found = at % 2 ? byNumber(ours[at], theirs[at]) : byText(ours[at], theirs[at]);
    if (found) return found;
  }
  return ours.length - theirs.length || byText(one, other);
}

function byNumber(one, other) {
  const [ours, theirs] = [one, other].map((digits) => digits.replace(/^0+/, ""));
  return ours.length - theirs.length || byText(ours, theirs);
}

function byText(one, other) {
  return one < other ? -1 : one > other ? 1 : 0;
}

/** Names of variants in display order: the control first, then by name. */
export function inOrder(variants, control) {
  return [...new Set(variants)].sort((one, other) => (other === control) - (one === control) || byName(one, other));
}
