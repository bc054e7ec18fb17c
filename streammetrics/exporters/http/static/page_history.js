// What this page has seen of the chosen window and metric, together with what the server remembers: points by event time, bounded.

const POINTS_MAX = 480;
const CHOICES_MAX = 12;

/** Points of one line family: [{end, lines: Map of name to numbers}], ascending by end. */
class Track {
  points = [];

  /** Take points whose ends may be known already; those said later count. A point within the grain of the last one replaces it. */
  merge(points, grain = 1) {
    const known = new Map(this.points.map((point) => [Math.floor(point.end / grain), point]));
    for (const point of points) known.set(Math.floor(point.end / grain), point);
    this.points = [...known.values()].sort((one, other) => one.end - other.end).slice(-POINTS_MAX);
  }

  /** Take the newest point: what was said of later times is void, for event time has gone back. */
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
    this.#choices.delete(choice); // the newest choice stands last
    this.#choices.set(choice, found);
    if (this.#choices.size > CHOICES_MAX) this.#choices.delete(this.#choices.keys().next().value);
    return found;
  }

  track(choice, name) {
    const tracks = this.tracks(choice);
    if (!tracks.has(name)) tracks.set(name, new Track());
    return tracks.get(name);
  }

  /** Forget everything when numbers are made by other rules: they would not be one line. */
  keepTo(rules) {
    if (this.#rules !== null && rules && this.#rules !== rules) this.#choices.clear();
    this.#rules = rules || this.#rules;
  }

  /** Take one report: the end of each window, and where its experiments stand. */
  addReport(choice, report, { windowMs, metric, lists }) {
    this.keepTo(report.rules);
    for (const window of report.windows) {
      if (window.window_ms !== windowMs || window.end_ms === null || !window.complete) continue;
      const lines = new Map(window.groups.map((group) => [groupName(group), { value: group[lists][metric] ?? null }]));
      this.track(choice, window.view).add({ end: window.end_ms, lines });
    }
    const end = experimentsEnd(report);
    for (const each of end === null ? [] : report.experiments ?? []) {
      const lines = new Map();
      for (const variant of each.variants) {
        const measure = variant.measures.find((one) => `${one.metric}@${one.k}` === metric);
        if (measure) lines.set(variant.variant, { value: measure.lift, low: measure.lift_lower, high: measure.lift_upper });
      }
      this.track(choice, trackName(each.experiment, each.scope)).add({ end, lines }, report.settings.pane_ms);
    }
  }

  /** Take what the server remembers; what this page knows already stays. */
  addServer(choice, answer, paneMs) {
    for (const window of answer.windows) {
      this.#fill(choice, window.view, window, (line) => groupName(line), (line, at) => ({ value: line.values[at] }), 1);
    }
    for (const each of answer.experiments) {
      const name = trackName(each.experiment, each.scope);
      const numbers = (line, at) => ({ value: line.lift[at], low: line.lift_lower[at], high: line.lift_upper[at] });
      this.#fill(choice, name, each, (line) => line.variant, numbers, paneMs);
    }
  }

  #fill(choice, name, columns, nameOf, numbersAt, grain) {
    const points = columns.ends_ms.map((end, at) => ({ end, lines: new Map(columns.lines.map((line) => [nameOf(line), numbersAt(line, at)])) }));
    const track = this.track(choice, name);
    const seen = track.points;
    track.merge(points, grain);
    track.merge(seen, grain);
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

/** The event time up to which experiments are told: up to which all final lists have entered them. */
export function experimentsEnd(report) {
  if (report.experiments_entered_ms !== null) return report.experiments_entered_ms;
  const ends = report.ended ? report.windows.map((window) => window.end_ms).filter((end) => end !== null) : [];
  return ends.length ? Math.max(...ends) : null;
}
