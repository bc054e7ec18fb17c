"""A story for the live page: one report per minute, from the real engine and from statistics of simulated users.

Windows come from events through the engine. Experiments come from simulated users through `build_report`. The story ends near a given
time, because the page shows the age of its data.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from streammetrics.config.experiments import settings_text
from streammetrics.events.model import Feedback, Impression
from streammetrics.experiments import ExperimentReport, Measures, Policy, StoredSums, add, build_report, choose_scales, of_users, zero
from streammetrics.experiments.experiment_report import verdict_of_all
from streammetrics.experiments.stored import NO_FEEDBACK, FeedbackCounts
from streammetrics.experiments.verdict import Verdict
from streammetrics.exporters.http.answers import HttpAnswers
from streammetrics.metrics import TallyLayout
from streammetrics.reports.report import Report
from streammetrics.runtime.status import ProcessStatus
from tests.support.committed_state import MINUTE_MS, Now, Pipeline
from tests.support.experiment_samples import experiment, in_one_hour

EXPERIMENT = "ranker-v7"
ITEMS = ("a", "b", "c", "d")
LISTS_PER_MINUTE = 8
MINUTES = 100
"""Length of the story. The last half hour is not final."""
USERS_PER_MINUTE = 25


def with_experiments(report: Report, *experiments: ExperimentReport) -> Report:
    """Return the report with these experiments."""
    return replace(report, experiments=experiments)


@dataclass(slots=True)
class SimulatedUsers:
    """Simulated users of an experiment. `chances` has the chance of a hit in a list, by variant."""

    layout: TallyLayout
    chances: Mapping[str, float]
    from_ms: int = 0
    seed: int = 1
    counts: dict[str, int] = field(default_factory=dict)
    moments: dict[str, list[int]] = field(default_factory=dict)
    scales: dict[str, float] = field(default_factory=dict)

    def add_users(self, count: int) -> None:
        """Add users to each variant. Each sees four lists."""
        draw = np.random.default_rng([self.seed, sum(self.counts.values())])
        measures = Measures(self.layout.scorer.columns)
        for variant, chance in self.chances.items():
            users = [[4, *(self._column(column, hits) for column in measures.columns)] for hits in draw.binomial(4, chance, count).tolist()]
            self.moments[variant] = add(self.moments.get(variant, zero(measures)), of_users(measures, users))
            self.counts[variant] = self.counts.get(variant, 0) + count

    @staticmethod
    def _column(column: Any, hits: int) -> int:
        if column.kind == "places":
            return 4 * int(column.metric.k)
        return hits if column.kind == "hits" else (hits << int(column.scale_bits)) * 3 // 4

    def report(self, policy: Policy, scope: str = "start", *, joined: FeedbackCounts = NO_FEEDBACK) -> ExperimentReport:
        """Return the statistics of all users so far."""
        measures = Measures(self.layout.scorer.columns)
        stored = StoredSums(
            experiment=EXPERIMENT,
            scope=scope,
            first_list_users=self.counts,
            joined=joined,
            from_ms=self.from_ms,
            **in_one_hour(measures, self.moments),
        )
        self.scales |= choose_scales(measures, policy, stored, self.scales)
        return build_report(measures, policy, stored, self.scales)


@dataclass(slots=True)
class Story:
    """A pipeline and simulated users that can continue minute by minute."""

    pipeline: Pipeline
    users: SimulatedUsers
    policy: Policy
    clock_ms: int
    draw: random.Random
    status: ProcessStatus = field(default_factory=lambda: ProcessStatus(started_seconds=1_000.0, ready=True))
    now: Now = field(default_factory=Now)

    def answers(self, **options: bool) -> HttpAnswers:
        """Return the answers of a new process without a report."""
        return HttpAnswers(self.pipeline.exposition(self.status), self.now, **options)

    def minute(self) -> Report:
        """Simulate one minute of lists, clicks and users. The treatment gets fewer clicks on its first item. Return the report."""
        impressions, clicks = [], []
        for at in range(LISTS_PER_MINUTE):
            variant, liked = ("control", 0.6) if at % 2 else ("treatment", 0.4)
            ts = self.clock_ms + at * MINUTE_MS // LISTS_PER_MINUTE
            name = f"u{ts}"
            surface = "search" if at % 4 == 0 else "home"  # only the treatment has lists on search
            labels = ((EXPERIMENT, variant),), (("surface", surface),)
            impressions.append(Impression(name, name, ts, ITEMS, *labels))
            item = ITEMS[0] if self.draw.random() < liked else self.draw.choice(ITEMS[1:])
            if self.draw.random() < 0.8:
                clicks.append(Feedback(user_id=name, ts=ts + 1_000, item_id=item, action="click", impression_id=name))
        self.pipeline.feed("impressions", *impressions).feed("feedback", *clicks)
        self.clock_ms += MINUTE_MS
        self.pipeline.move_on(self.clock_ms)
        self.users.add_users(USERS_PER_MINUTE)
        return self.report()

    def report(self) -> Report:
        """Return the current report, with the experiment since its start and of one day."""
        scopes = [self.users.report(self.policy, scope) for scope in ("start", "2024-11-21")]
        return with_experiments(self.pipeline.report(), *scopes)


def make_story(ends_ms: int, *, minutes: int = MINUTES, treatment: float = 0.78) -> tuple[Story, list[Report]]:
    """Return a story that ends at the last full minute before `ends_ms`, and its reports."""
    pipeline = Pipeline(segments=("surface",))
    begins_ms = ends_ms // MINUTE_MS * MINUTE_MS - minutes * MINUTE_MS
    users = SimulatedUsers(pipeline.engine.layout, {"control": 0.85, "treatment": treatment}, begins_ms)
    story = Story(pipeline, users, Policy(paging=("ndcg@10",), settings_text=settings_text), begins_ms, random.Random(7))
    return story, list(_reports(story, minutes))


def _reports(story: Story, minutes: int) -> Iterator[Report]:
    for _ in range(minutes):
        yield story.minute()


SIX = {"control": 0.5, "popularity": 0.31, "item-knn": 0.42, "gru4rec": 0.45, "sasrec": 0.5, "two-tower": 0.55}
"""Hit chances of six variants: three are worse than the control, one is better, and one is the same."""
LONG_NAME = "two-tower-with-hard-negatives-and-a-calibrated-head-" * 2 + "v12"


def many_variants(count: int = 20) -> ExperimentReport:
    """Return an experiment with a control and `count` - 1 treatments, from much worse to better. The last one has a long name."""
    names = ["control", *(f"ranker-{number:02}" for number in range(1, count - 1)), LONG_NAME]
    chances = [0.5, *(0.35 + 0.25 * at / (count - 1) for at in range(1, count))]
    return experiment(dict(zip(names, chances, strict=True)), name=EXPERIMENT, users=1_500)


def many_experiments(count: int = 10) -> list[ExperimentReport]:
    """Return experiments of different sizes and verdicts. One has a broken split and one a long name."""
    experiments = [
        experiment({"control": 0.5, "treatment": 0.38 + 0.02 * number}, name=f"surface-{number:02}", users=800 + 200 * number)
        for number in range(1, count - 2)
    ]
    broken = experiment({"control": 0.5, "treatment": 0.5}, name="broken-split", users={"control": 1_000, "treatment": 2_000})
    return [*experiments, experiment(SIX, name="six-variants"), broken, experiment({"control": 0.5, "treatment": 0.5}, name=LONG_NAME)]


def mixed_experiment() -> ExperimentReport:
    """Return an experiment with a mixed variant, a worse one and a better one."""
    experiment_report = experiment({"control": 0.5, "deep-list": 0.44, "popularity": 0.35, "two-tower": 0.58}, name=EXPERIMENT)
    reason = "12 % lower ndcg@10 than control, but 9 % higher dcg@10; the measures contradict each other: choose which one counts"
    mixed = Verdict("mixed", reason)
    variants = tuple(
        replace(variant, verdict=mixed, measures=tuple(replace(one, verdict=mixed) if one.paging else one for one in variant.measures))
        if variant.variant == "deep-list"
        else variant
        for variant in experiment_report.variants
    )
    return replace(experiment_report, variants=variants, verdict=verdict_of_all(variants) or experiment_report.verdict)
