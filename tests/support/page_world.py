"""What the live page is shown: reports of the real engine and statistics of simulated users, minute after minute.

The windows' values come from events through the product's engine; the experiments from whole numbers of drawn users through
`build_report`. Everything ends near a given time, because the page tells how old it is.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from streammetrics.events.model import Feedback, Impression
from streammetrics.experiments import ExperimentReport, Measures, Policy, Stored, add, build_report, choose_scales, of_users, zero
from streammetrics.exporters.http.views import HttpViews
from streammetrics.metrics import TallyLayout
from streammetrics.reports.report import Report
from streammetrics.runtime.status import ProcessStatus
from tests.support.committed_state import MINUTE_MS, Now, Pipeline

EXPERIMENT = "ranker-v7"
ITEMS = ("a", "b", "c", "d")
LISTS_A_MINUTE = 8
MINUTES = 100
"""How long the story is: half an hour of it is not final in the end."""
USERS_A_MINUTE = 25


def telling(report: Report, *experiments: ExperimentReport) -> Report:
    """The same report with these experiments."""
    return replace(report, experiments=experiments)


@dataclass(slots=True)
class People:
    """Users of an experiment: by variant the chance of a hit in a list. They come one after the other, drawn from a seed."""

    layout: TallyLayout
    chances: Mapping[str, float]
    seed: int = 1
    counts: dict[str, int] = field(default_factory=dict)
    moments: dict[str, list[int]] = field(default_factory=dict)
    scales: dict[str, float] = field(default_factory=dict)

    def come(self, count: int) -> None:
        """So many more users of each variant, who see four lists each."""
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

    def report(self, policy: Policy, scope: str = "start", *, multi_exposed_users: int = 2) -> ExperimentReport:
        """What the statistics say of all who came so far."""
        measures = Measures(self.layout.scorer.columns)
        self.scales |= choose_scales(measures, policy, self.moments, self.scales)
        stored = Stored(
            experiment=EXPERIMENT,
            scope=scope,
            moments=self.moments,
            first_exposures=self.counts,
            multi_exposed_users=multi_exposed_users,
        )
        return build_report(measures, policy, stored, self.scales)


@dataclass(slots=True)
class World:
    """Views with a story behind them, that can go on."""

    pipeline: Pipeline
    people: People
    policy: Policy
    clock_ms: int
    draw: random.Random
    status: ProcessStatus = field(default_factory=lambda: ProcessStatus(started_seconds=1_000.0, ready=True))
    now: Now = field(default_factory=Now)

    def views(self, **options: bool) -> HttpViews:
        """A new process that shows nothing yet."""
        return HttpViews(self.pipeline.exposition(self.status), self.now, **options)

    def minute(self) -> Report:
        """A minute passes: lists, clicks (the treatment's first item is wanted less often), users. Returns the report at its end."""
        shown, clicks = [], []
        for at in range(LISTS_A_MINUTE):
            variant, liked = ("control", 0.6) if at % 2 else ("treatment", 0.4)
            ts = self.clock_ms + at * MINUTE_MS // LISTS_A_MINUTE
            name = f"u{ts}"
            surface = "search" if at % 4 == 0 else "home"  # only the treatment is on search
            labels = ((EXPERIMENT, variant),), (("surface", surface),)
            shown.append(Impression(name, name, ts, ITEMS, *labels))
            item = ITEMS[0] if self.draw.random() < liked else self.draw.choice(ITEMS[1:])
            if self.draw.random() < 0.8:
                clicks.append(Feedback(user_id=name, ts=ts + 1_000, item_id=item, action="click", impression_id=name))
        self.pipeline.feed("impressions", *shown).feed("feedback", *clicks)
        self.clock_ms += MINUTE_MS
        self.pipeline.move_on(self.clock_ms)
        self.people.come(USERS_A_MINUTE)
        return self.message()

    def message(self) -> Report:
        """The report of now, with the experiment since its start and of a day."""
        scopes = [self.people.report(self.policy, scope) for scope in ("start", "2024-11-21")]
        return telling(self.pipeline.report(), *scopes)


def world(ends_ms: int, *, minutes: int = MINUTES, treatment: float = 0.78) -> tuple[World, list[Report]]:
    """A story that ends at the last full minute before `ends_ms`, and its reports."""
    pipeline = Pipeline(segments=("surface",))
    people = People(pipeline.engine.layout, {"control": 0.85, "treatment": treatment})
    begins_ms = ends_ms // MINUTE_MS * MINUTE_MS - minutes * MINUTE_MS
    story = World(pipeline, people, Policy(paging=("ndcg@10",)), begins_ms, random.Random(7))
    return story, list(_reports(story, minutes))


def _reports(story: World, minutes: int) -> Iterator[Report]:
    for _ in range(minutes):
        yield story.minute()
