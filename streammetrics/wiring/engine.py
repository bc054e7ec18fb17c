"""Builds the engine, and the rules of the loop that feeds it."""

from __future__ import annotations

from collections.abc import Sequence

from streammetrics.config import Settings
from streammetrics.config.times import epoch_ms
from streammetrics.engine.engine import Engine
from streammetrics.engine.rules import EngineRules
from streammetrics.engine.supported_time import SupportRules
from streammetrics.enrolment.rules import CovariatePeriod, ExperimentRules, Span
from streammetrics.events.event_time import DAY_MS
from streammetrics.events.grades import parse_grades
from streammetrics.metrics import TallyLayout
from streammetrics.runtime.consume.limits import WorkerRules
from streammetrics.sessions.rules import JoinRules
from streammetrics.windows.unique_users import UniqueUserRules
from streammetrics.wiring.catalogue import assessment_layout
from streammetrics.wiring.decoders import decoding_settings


def build_engine(settings: Settings, topics: Sequence[str], *, waits: bool = True) -> Engine:
    """Build the engine for these topics, in this order.

    `waits`: final lists wait up to `experiments.patience_ms`, so that users' totals are written less often. A replay that makes all lists
    final does not wait: the results are the same, and a snapshot has exactly the lists before its time.
    """
    join, windows, patience_ms = settings.join, settings.windows, settings.experiments.patience_ms if waits else 0
    rules = EngineRules(
        topics=tuple(topics),
        grades=parse_grades(join.grades),
        join=JoinRules(
            gap_ms=join.gap_ms,
            attribution_ms=join.attribution_ms,
            session_events_max=join.session_events_max,
            lists_open_max=join.lists_open_max,
            items_max=settings.events.items_max,
            absolute_positions=settings.events.first_place is not None,
            engagement=settings.engagement.rules(join.attribution_ms),
            exposures=settings.exposures.rules(settings.events.experiments_max),
        ),
        out_of_orderness_ms=join.out_of_orderness_ms,
        lateness_ms=join.lateness_ms,
        future_ms=join.future_ms,
        support=SupportRules(jump_ms=join.support_jump_ms, users=join.support_users, far_ms=join.support_far_ms),
        pane_ms=windows.pane_ms,
        retention_ms=windows.retention_ms,
        segments=tuple(windows.segments),
        groups_max=windows.groups_max,
        experiments=_experiment_rules(settings, patience_ms),
        unique_users=_unique_user_rules(settings, patience_ms),
        decoding=" ".join(f"{name}={value}" for name, value in decoding_settings(settings).items()),
    )
    return Engine(rules, TallyLayout(settings.scorer(), engagement=settings.engagement.layout(assessment_layout(settings))))


def _experiment_rules(settings: Settings, patience_ms: int) -> ExperimentRules | None:
    experiments = settings.experiments
    if not experiments.enabled:
        return None
    return ExperimentRules(
        idle_ms=experiments.idle_days * DAY_MS,
        patience_ms=patience_ms,
        variants_max=experiments.variants_max,
        metrics=experiments.metrics,
        spans={
            name: Span(None if named.start is None else epoch_ms(named.start), None if named.end is None else epoch_ms(named.end))
            for name, named in experiments.named.items()
        },
        earlier=tuple(
            CovariatePeriod(name, epoch_ms(named.start) - named.cuped_days * DAY_MS, epoch_ms(named.start))
            for name, named in sorted(experiments.named.items())
            if named.cuped_days is not None and named.start is not None
        ),
        strata={name: named.strata for name, named in experiments.named.items() if named.strata is not None},
    )


def _unique_user_rules(settings: Settings, patience_ms: int) -> UniqueUserRules | None:
    windows = settings.windows
    if windows.users == "off" or (windows.users == "auto" and not settings.experiments.enabled):
        return None
    return UniqueUserRules(panes=max(window.ms for window in windows.windows) // windows.pane_ms, patience_ms=patience_ms)


def build_worker_rules(settings: Settings) -> WorkerRules:
    """Build the limits and intervals of the consume loop."""
    worker = settings.worker
    return WorkerRules(
        commit_ms=worker.commit_ms,
        commit_behind_ms=worker.commit_behind_ms,
        commit_users_max=worker.commit_users_max,
        commit_bytes_max=worker.commit_bytes_max,
        cached_users_max=worker.cached_users_max,
        cached_bytes_max=worker.cached_bytes_max,
        idle_ms=settings.join.idle_ms,
        out_of_orderness_ms=settings.join.out_of_orderness_ms,
        skew_ms_max=settings.join.skew_ms_max,
        fenced_wait_seconds=settings.kafka.session_timeout_ms / 1_000,
        retry_seconds_max=worker.retry_seconds_max,
    )
