"""The stages, starts and ends that a report proposes, as settings for a second replay."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from streammetrics.config import Settings
from streammetrics.config.experiments import NamedExperiment
from streammetrics.config.stages import StageSettings
from streammetrics.config.times import EPOCH
from streammetrics.config.toml_text import experiment_table, setting_lines
from streammetrics.experiments import SINCE_START
from streammetrics.experiments.proposed_settings import Proposal
from streammetrics.reports.report import Report


def proposals_of(report: Report) -> dict[str, Proposal]:
    """Return the settings that the report proposes, by experiment."""
    return {each.experiment: each.proposal for each in report.experiments if each.scope == SINCE_START and each.proposal is not None}


def with_proposals(settings: Settings, proposals: Mapping[str, Proposal]) -> Settings:
    """Return the settings with the proposed ones in place."""
    named = dict(settings.experiments.named)
    for experiment, proposal in proposals.items():
        changes: dict[str, object] = {}
        if proposal.start_ms is not None:
            changes["start"] = _moment(proposal.start_ms)
        if proposal.end_ms is not None:
            changes["end"] = _moment(proposal.end_ms)
        if proposal.stages:
            changes["shares"] = None
            changes["stages"] = tuple(
                StageSettings(name=each.name, shares=each.shares, start=None if each.start_ms is None else _moment(each.start_ms))
                for each in proposal.stages
            )
        named[experiment] = named.get(experiment, NamedExperiment()).model_copy(update=changes)
    return settings.model_copy(update={"experiments": settings.experiments.model_copy(update={"named": named})})


def proposal_lines(proposals: Mapping[str, Proposal]) -> Iterator[str]:
    """Yield what was counted again, as TOML to copy."""
    if not proposals:
        yield "# no share of an arm changed in a way that stages, a start or an end would settle"
        return
    yield "# counted again with these settings, which fit how the shares of the arms changed:"
    for experiment, proposal in proposals.items():
        yield experiment_table(experiment)
        yield from setting_lines(proposal.settings)


def _moment(at_ms: int) -> datetime:
    return EPOCH + timedelta(milliseconds=at_ms)
