// The moments that the curves of an experiment show: its stages, changes of its verdict, deploys, and alerts that others have posted.

import { named } from "./text.js";

/** Return [{at, end, text}] for an experiment; without one, what concerns all. `stats` are its statistics, or null. `end` is null for an
 * alert without a known end, and absent for what takes no time. */
export function marksFor(view, experiment, stats) {
  const posted = (view.pulse?.marks ?? []).filter((mark) => !experiment || !mark.experiment || mark.experiment === experiment)
    .map((mark) => ({ at: mark.at_ms, text: [`${mark.kind}: `, named(mark.text)], ...(mark.kind === "alert" ? { end: mark.ended_ms ?? null } : {}) }));
  const stages = (stats?.stages ?? []).filter((stage) => stage.start_ms !== null).map((stage) => ({ at: stage.start_ms, text: ["stage ", named(stage.stage)] }));
  return [...posted, ...stages, ...verdicts(view, stats)];
}

/** The times at which the stored verdict of an experiment changed, after its first one. An alert fires for some of these words. */
function verdicts(view, stats) {
  const series = (view.report.history ?? []).find((each) => each.experiment === stats?.experiment && each.scope === stats?.scope);
  const kept = series?.looks.kept ?? [];
  return kept.slice(1).flatMap(([at, [word]], index) => (word === kept[index][1][0] ? [] : [{ at, text: `verdict: ${word}` }]));
}
