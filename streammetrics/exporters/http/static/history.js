// Points of the charts by event time: those this page received, and the recent ones of the server. Bounded.

import { metricKey } from "./text.js";

const POINTS_MAX = 480;
const CHOICES_MAX = 12;

/** Points of one line family: [{end, lines: Map of name to numbers}], ascending by end. */
class Track {
  points = [];

  /** Add points. A point replaces an earlier one whose end lies in the same step of `grain` ms. */
  merge(points, grain = 1) {
    const known = new Map(this.points.map((point) => [Math.floor(point.end / grain), point]));
    for (const point of points) known.set(Math.floor(point.end / grain), point);
    this.points = [...known.values()].sort((one, other) => one.end - other.end).slice(-POINTS_MAX);
  }

  /** Add the newest point. Points with later ends are dropped, because event time has gone back. */
  add(point, grain = 1) {
    this.points = this.points.filter((each) => each.end <= point.end);
    this.merge([point], grain);
  }
}

export class History {
  #choices = new Map();
  #rules = null;

  /** The tracks of a choice, by name. */
  tracks(choice) {
    const found = this.#choices.get(choice) ?? new Map();
    this.#choices.delete(choice); // keep the newest choice last
    this.#choices.set(choice, found);
    if (this.#choices.size > CHOICES_MAX) this.#choices.delete(this.#choices.keys().next().value);
    return found;
  }

  track(choice, name) {
    const tracks = this.tracks(choice);
    if (!tracks.has(name)) tracks.set(name, new Track());
    return tracks.get(name);
  }

  /** Drop all points when the rules change, because old and new numbers are not comparable. */
  setRules(rules) {
    if (this.#rules !== null && rules && this.#rules !== rules) this.#choices.clear();
    this.#rules = rules || this.#rules;
  }

  /** Add one report: the values of each window and the lifts of its experiments. */
  addReport(choice, report, { windowMs, metric, lists }) {
    this.setRules(report.rules);
    for (const window of report.windows) {
      if (window.window_ms !== windowMs || window.end_ms === null || !window.complete) continue;
      const lines = new Map(window.groups.map((group) => [groupName(group), { value: group[lists][metric] ?? null }]));
      this.track(choice, window.view).add({ end: window.end_ms, lines });
    }
    const end = experimentsEnd(report);
    for (const each of end === null ? [] : report.experiments ?? []) {
      const lines = new Map();
      for (const variant of each.variants) {
        const measure = variant.measures.find((one) => metricKey(one.metric, one.k) === metric);
        if (measure) lines.set(variant.variant, { value: measure.lift, low: measure.lift_lower, high: measure.lift_upper });
      }
      this.track(choice, trackName(each.experiment, each.scope)).add({ end, lines }, report.settings?.pane_ms ?? 1);
    }
  }

  /** Add the recent points of the server. Points that this page already has stay. */
  addServer(choice, recent, paneMs) {
    for (const window of recent.windows) {
      this.#fill(choice, window.view, window, (line) => groupName(line), (line, at) => ({ value: line.values[at] }), 1);
    }
    for (const each of recent.experiments) {
      const name = trackName(each.experiment, each.scope);
      const numbers = (line, at) => ({ value: line.lift[at], low: line.lift_lower[at], high: line.lift_upper[at] });
      this.#fill(choice, name, each, (line) => line.variant, numbers, paneMs);
    }
  }

  #fill(choice, name, columns, nameOf, numbersAt, grain) {
    const points = columns.ends_ms.map((end, at) => ({ end, lines: new Map(columns.lines.map((line) => [nameOf(line), numbersAt(line, at)])) }));
    const track = this.track(choice, name);
    const own = track.points;
    track.merge(points, grain);
    track.merge(own, grain);
  }
}

export function groupName(group) {
  return JSON.stringify([group.experiment, group.variant, segmentName(group.segments)]);
}

export function segmentName(segments) {
  return Object.entries(segments).map(([name, value]) => `${name}=${value}`).join(" ");
}

export function trackName(experiment, scope) {
  return JSON.stringify([experiment, scope]);
}

/** The event time up to which all final lists count in the experiments; null when unknown. */
export function experimentsEnd(report) {
  if (report.experiments_entered_ms !== null) return report.experiments_entered_ms;
  const ends = report.ended ? report.windows.map((window) => window.end_ms).filter((end) => end !== null) : [];
  return ends.length ? Math.max(...ends) : null;
}
