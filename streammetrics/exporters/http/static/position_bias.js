// The examination curve: how likely users look at each rank, and DCG corrected by it. Estimates, and shown as such.

import { folded, make, table } from "./elements.js";
import { MISSING, Name, countText, isNumber } from "./text.js";

/** Make the folded part; null if position bias is not estimated. */
export function positionBias(report) {
  const found = report.position_bias;
  return found ? make("section", {}, folded("position-bias", "Position bias (estimate)", () => content(found))) : null;
}

function content(found) {
  if (found.withheld) return make("p", { class: "note" }, `No estimate, because ${found.withheld}.`);
  if (!found.ranks.length) return make("p", { class: "note" }, "No final lists of experiments yet.");
  const band = Math.round(found.confidence * 100);
  const sample = found.sampled_share < 1 ? ` The limit position_bias.items_max is reached: a sample of ${share(found.sampled_share)} of all items is counted.` : "";
  const rows = found.ranks.map((each) => [String(each.rank), share(each.examination),
    each.rank === 1 && each.lower === each.upper ? "the reference" : isNumber(each.lower) ? `${share(each.lower)} to ${share(each.upper)}` : each.why_not, countText(each.shared_clicks), countText(each.clicks)]);
  const variants = found.variants.flatMap((each) => Object.entries(each.corrected_dcg).map(([metric, value]) =>
    [[new Name(each.experiment), " ", new Name(each.variant)], metric, value.toFixed(4), each.dcg[metric].toFixed(4), countText(each.lists)]));
  return [
    make("p", { class: "note" }, `How likely users look at a rank, relative to rank 1. Estimated from ${countText(found.shared_items)} of ${countText(found.items)} items, which experiments showed at several ranks. It is right only as far as users look at ranks independently of what stands above.${sample}`),
    found.caution ? make("p", {}, make("strong", {}, "Caution: "), `${found.caution}.`) : null,
    table("Examination by rank (estimate)", ["rank", "examination", `${band} % band, for one look`, "clicks that count", "all clicks"], rows),
    variants.length ? table("dcg corrected for position bias (estimate)", ["variant", "metric", "corrected", "plain, same lists", "lists"], variants) : null,
  ];
}

function share(value) {
  return isNumber(value) ? `${(value * 100).toFixed(1)}\u00a0%` : MISSING;
}
