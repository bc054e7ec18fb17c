"""Sums of an experiment's scopes over tasks. A scope is what a task stores of one experiment: since its start, or for one day. Pure.

The lists of a rollout's stages are stored in scopes of their own, the parts of a scope: see `experiment_runs.PartName`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from streammetrics.engine.task_state import ControlRecord
from streammetrics.enrolment.runs import OF_RUN, PartName
from streammetrics.enrolment.scopes import WHOLE, Scope, decode_scope, parse_scope_name
from streammetrics.events.event_time import FOREVER, NEVER
from streammetrics.experiments import Cell, ExperimentUnit, Measures, StoredStage
from streammetrics.experiments.arrivals import Arrivals, merge, merge_hours
from streammetrics.experiments.list_signs import Reactions
from streammetrics.experiments.measures import USERS_AT
from streammetrics.windows.tally_deltas import add_tallies


class StoredPart(NamedTuple):
    """A part of a run: the number of the run, its name, and the time (ms) of its latest list."""

    run: int
    name: PartName = OF_RUN
    last: int = NEVER


class ScopePart(NamedTuple):
    """One part of a scope in one task. `pairs` are its cross moments with other parts of this task, with the two cells in order."""

    name: PartName
    last: int
    sums: Scope
    pairs: tuple[tuple[Cell, Cell, list[int]], ...] = ()


ScopeParts: TypeAlias = Mapping[tuple[str, int], list[ScopePart]]
"""What one task stores of its experiments, by experiment and day."""


def parts_of(control: ControlRecord) -> dict[int, StoredPart]:
    """Return the parts of a task's runs, by number. Each run is a part of itself."""
    counted = dict(control.labels.counted)
    parts = {number: StoredPart(number, last=counted.get(number, NEVER)) for number, *_ in control.labels.runs}
    return parts | {number: StoredPart(run, PartName(*name), last) for number, run, *name, last in control.labels.parts}


def scopes_of(names: Mapping[int, str], parts: Mapping[int, StoredPart], cells: Mapping[str, bytes]) -> ScopeParts:
    """Return the stored scopes of these runs, by experiment and day. `names`: run number -> experiment."""
    found: dict[tuple[str, int], list[ScopePart]] = {}
    for cell, stored in cells.items():
        number, day = parse_scope_name(cell)
        part = parts.get(number)
        if part is not None and part.run in names:
            scope = decode_scope(stored, day)
            pairs = tuple(
                _ordered(_cell(parts[other].name, one), _cell(part.name, own), sums) for (other, one, own), sums in scope.pairs.items()
            )
            found.setdefault((names[part.run], day), []).append(ScopePart(part.name, part.last, scope, pairs))
    return found


def _cell(name: PartName, variant: str) -> Cell:
    return Cell(name.entry, name.stage, variant)


def _ordered(one: Cell, other: Cell, sums: list[int]) -> tuple[Cell, Cell, list[int]]:
    """Return a pair with its cells in order. The sums are in this order already."""
    return (one, other, sums) if one <= other else (other, one, sums)


def sum_scopes(scopes: Iterable[Scope], with_covariates: Measures | None) -> Scope:
    """Sum the scopes of several tasks.

    If some tasks have covariates and others do not, covariates are dropped. `with_covariates` is the layout with covariates.
    """
    total, scopes = Scope(), list(scopes)
    if len({len(moments) for scope in scopes for moments in scope.moments.values()}) > 1:
        assert with_covariates is not None
        scopes = [_without_covariates(scope, with_covariates) for scope in scopes]
    for scope in scopes:
        _add_scope(total, scope)
    return total


def sum_stages(parts: Iterable[ScopePart], day: int, with_covariates: Measures | None) -> tuple[StoredStage, ...]:
    """Sum the parts of several tasks by entry and stage. `day`: that of the scope."""
    by_stage: dict[tuple[str, str, ExperimentUnit], list[ScopePart]] = {}
    for part in parts:
        entry, stage, variant = part.name
        by_stage.setdefault((entry, stage, "list" if variant else "user"), []).append(part)
    stages = []
    for (entry, key, unit), own in sorted(by_stage.items()):
        total = sum_scopes([part.sums for part in own], with_covariates)
        last = max(part.last for part in own)
        stages.append(
            StoredStage(
                entry=entry,
                key=key,
                unit=unit,
                moments=total.moments,
                first_exposures=first_exposures(own),
                exposed=total.exposed.by_variant,
                multi_exposed_users=total.multi_exposed,
                last_ms=None if last == NEVER else last,
                arrivals=arrivals(own, day),
            )
        )
    return tuple(stages)


def first_exposures(parts: Iterable[ScopePart]) -> dict[str, int]:
    """Return users by the variant of their first list in each part. If users have no variant, they count in each that they saw."""
    users = Counter[str]()
    for part in parts:
        sums = part.sums
        users.update({name: each[USERS_AT] for name, each in sums.moments.items()} if part.name.variant else sums.arrivals.by_variant)
    return dict(users)


def arrivals(parts: Iterable[ScopePart], day: int) -> Arrivals:
    """Return the first exposures of users over time, or else their first lists; without users' variants, all lists. None in a day."""
    parts = [] if day != WHOLE else list(parts)
    exposed = merge(part.sums.exposed for part in parts)
    return exposed if exposed.counts else merge(part.sums.arrivals for part in parts)


def first_lists(parts: Iterable[ScopePart]) -> dict[str, int]:
    """Return the event time (ms) of the first counted list of each variant, or an earlier one."""
    first: dict[str, int] = {}
    for found in (part.sums.arrivals for part in parts):
        for variant, blocks in found.counts.items():
            first[variant] = min(first.get(variant, FOREVER), min(blocks) * found.block_ms)
    return first


def recent_lists(parts: Sequence[ScopePart]) -> dict[str, dict[int, int]]:
    """Return each variant's lists by hour, in its latest hours with lists."""
    variants = {variant for part in parts for variant in part.sums.recent}
    return {variant: merge_hours(part.sums.recent.get(variant, {}) for part in parts) for variant in variants}


def sum_reactions(parts: Iterable[ScopePart]) -> dict[str, Reactions]:
    """Sum the reactions of several tasks, by variant."""
    found: dict[str, list[int]] = {}
    for variant, more in (each for part in parts for each in part.sums.reactions.items()):
        found[variant] = add_tallies(found.get(variant, (0, 0, 0)), more)
    return {variant: Reactions(*sums) for variant, sums in found.items()}


def sum_pairs(parts: Iterable[ScopePart]) -> dict[tuple[Cell, Cell], list[int]]:
    """Sum the cross moments of several tasks, by the two cells in order."""
    found: dict[tuple[Cell, Cell], list[int]] = {}
    for one, other, sums in (pair for part in parts for pair in part.pairs):
        found[one, other] = add_tallies(found[one, other], sums) if (one, other) in found else list(sums)
    return found


def _without_covariates(scope: Scope, with_covariates: Measures) -> Scope:
    """Return a scope without covariates."""
    plain = Scope()
    plain.credits, plain.multi_exposed = scope.credits, scope.multi_exposed
    plain.exposed = scope.exposed
    plain.moments = {
        variant: with_covariates.without_covariates(moments) if len(moments) == with_covariates.moments_width else moments
        for variant, moments in scope.moments.items()
    }
    return plain


def _add_scope(total: Scope, scope: Scope) -> None:
    for variant, moments in scope.moments.items():
        known = total.moments.get(variant)
        total.moments[variant] = list(moments) if known is None else add_tallies(known, moments)
    total.exposed = merge((total.exposed, scope.exposed))
    for pair, credit in scope.credits.items():
        total.credits[pair] = add_tallies(total.credits[pair], credit) if pair in total.credits else list(credit)
    total.multi_exposed += scope.multi_exposed
