"""Builds the report builder, and the settings and names that a report shows."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection
from typing import Any

from streammetrics.config import Settings
from streammetrics.engine.engine import Engine
from streammetrics.events.event_time import DAY_MS
from streammetrics.events.grades import parse_grades
from streammetrics.events.native import KINDS
from streammetrics.events.unknown_names import ACTION, TYPE
from streammetrics.reports.builder import ReportBuilder
from streammetrics.reports.first_numbers import FirstVerdictWait
from streammetrics.reports.rules import ReportRules
from streammetrics.reports.samples import SampleRules
from streammetrics.windows.panes import WindowRules
from streammetrics.wiring.decoders import decoding_settings


def build_report_builder(settings: Settings, engine: Engine) -> ReportBuilder:
    """Build the report builder for the state that the engine writes."""
    rules = WindowRules(
        pane_ms=settings.windows.pane_ms,
        windows_ms=tuple(window.ms for window in settings.windows.windows),
        lateness_ms=settings.join.lateness_ms,
        attribution_ms=settings.join.attribution_ms,
        live_wait_ms=settings.join.lateness_ms if settings.exposures.enabled else None,
    )
    report_rules = None
    if engine.user_totals is not None:
        experiments = settings.experiments
        report_rules = ReportRules(
            engine.user_totals.measures,
            experiments.policy,
            experiments.idle_days * DAY_MS,
            experiments.patience_ms,
            _credit_actions(engine),
            tuple(settings.windows.segments),
        )
    names = {ACTION: (*engine.rules.grades.table,), TYPE: KINDS if settings.exposures.enabled else KINDS[:2]}
    printed_settings = result_settings(settings, engine)
    wait = first_verdict_wait(settings)
    return ReportBuilder(engine.layout, rules, printed_settings, engine.signature, report_rules, names, verdict_wait=wait)


def _credit_actions(engine: Engine) -> tuple[str, ...]:
    """Return the action from which on an item counts, for each level of the credit of interleaved lists."""
    assert engine.user_totals is not None
    grades, thresholds = engine.rules.grades, engine.user_totals.credit_thresholds
    least = [min((grade for grade in grades.grades if grade >= threshold), default=threshold) for threshold in thresholds]
    return tuple(" or ".join(grades.conditions(grade)) for grade in least)


def result_settings(settings: Settings, engine: Engine) -> dict[str, Any]:
    """Return the settings that change results, as the report shows them."""
    join, windows = settings.join, settings.windows
    return {
        "metrics": [str(metric) for metric in engine.layout.metrics],
        "spec": dataclasses.asdict(engine.layout.scorer.spec),
        "spec_digest": engine.layout.scorer.spec.digest(),
        "grades": engine.rules.grades.text,
        **({"engagement": settings.engagement.model_dump(mode="json")} if settings.engagement.names else {}),
        **(_assessment_settings(settings, engine) if settings.assessment.names else {}),
        "gap_ms": join.gap_ms,
        "attribution_ms": join.attribution_ms,
        "out_of_orderness_ms": join.out_of_orderness_ms,
        "lateness_ms": join.lateness_ms,
        "idle_ms": join.idle_ms,
        "future_ms": join.future_ms,
        "support_jump_ms": join.support_jump_ms,
        "support_users": join.support_users,
        "support_far_ms": join.support_far_ms,
        "session_events_max": join.session_events_max,
        "lists_open_max": join.lists_open_max,
        "pane_ms": windows.pane_ms,
        "windows_ms": [window.ms for window in windows.windows],
        "retention_ms": windows.retention_ms,
        "segments": list(windows.segments),
        "groups_max": windows.groups_max,
        "users": engine.rules.unique_users is not None,
        **({"exposures": settings.exposures.model_dump(mode="json")} if settings.exposures.enabled else {}),
        "experiments": settings.experiments.model_dump(mode="json"),
        "events": decoding_settings(settings),
    }


def first_verdict_wait(settings: Settings) -> FirstVerdictWait | None:
    """Return how long a first verdict takes; None without experiments."""
    if not settings.experiments.enabled:
        return None
    join = settings.join
    return FirstVerdictWait(join.attribution_ms + join.lateness_ms + join.out_of_orderness_ms, settings.experiments.patience_ms)


def sample_rules(settings: Settings, *, is_whole: bool) -> SampleRules:
    """Return what sentences about a sample of events need of the settings. is_whole: the sample is all that there is."""
    printed_settings: dict[str, Any] = {"experiments": settings.experiments.model_dump(mode="json"), "future_ms": settings.join.future_ms}
    if settings.exposures.enabled:
        printed_settings["exposures"] = {}
    return SampleRules([*parse_grades(settings.join.grades).table], printed_settings, is_whole)


def window_names(settings: Settings) -> dict[int, str]:
    """Return the label value of each window by its length in ms."""
    return {window.ms: window.text for window in settings.windows.windows}


def control_of(settings: Settings) -> Callable[[str, Collection[str]], str | None]:
    """Return a function from an experiment and its variants to its control variant, if it has one."""
    return lambda experiment, variants: settings.experiments.policy(experiment).control_of(variants)


def _assessment_settings(settings: Settings, engine: Engine) -> dict[str, Any]:
    """Return the settings of assessment metrics, with the digest of the catalogue in place of its path."""
    assert engine.layout.engagement is not None
    digest = engine.layout.engagement.assessment.catalogue.digest()
    return {"assessment": {**settings.assessment.model_dump(mode="json", exclude={"catalogue_file"}), "catalogue": digest}}
