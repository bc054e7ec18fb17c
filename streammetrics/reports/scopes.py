"""Sums of an experiment's scopes over tasks. A scope is what a task stores of one experiment: since its start, or for one day. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from streammetrics.engine.codec import decode_scope, parse_scope_name
from streammetrics.engine.experiment_runs import Scope
from streammetrics.experiments import Measures
from streammetrics.windows.tally_deltas import add_tallies


def scopes_of(names: Mapping[int, str], cells: Mapping[str, bytes]) -> Iterator[tuple[tuple[str, int], Scope]]:
    """Return the stored scopes of these runs, by experiment and day. `names`: run number -> experiment."""
    for cell, stored in cells.items():
        run, day = parse_scope_name(cell)
        if run in names:
            yield (names[run], day), decode_scope(stored)


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


def _without_covariates(scope: Scope, with_covariates: Measures) -> Scope:
    """Return a scope without covariates."""
    plain = Scope()
    plain.credits, plain.first_exposures, plain.multi_exposed = scope.credits, scope.first_exposures, scope.multi_exposed
    plain.moments = {
        variant: with_covariates.without_covariates(moments) if len(moments) == with_covariates.moments_width else moments
        for variant, moments in scope.moments.items()
    }
    return plain


def _add_scope(total: Scope, scope: Scope) -> None:
    for variant, moments in scope.moments.items():
        known = total.moments.get(variant)
        total.moments[variant] = list(moments) if known is None else add_tallies(known, moments)
    for variant, users in scope.first_exposures.items():
        total.first_exposures[variant] = total.first_exposures.get(variant, 0) + users
    for pair, credit in scope.credits.items():
        total.credits[pair] = add_tallies(total.credits[pair], credit) if pair in total.credits else list(credit)
    total.multi_exposed += scope.multi_exposed
