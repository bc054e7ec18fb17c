"""Measures as trec_eval's -m names them: `official`, `P`, `ndcg_cut.5,10`, `iprec_at_recall..1,.5`, `set_F.4`, `rbp.p=0.95`.

This module needs no files and computes nothing. It turns each such text into requests with the labels that trec_eval prints.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from streammetrics.metrics.names import Metric, MetricError, parse_metric
from streammetrics.metrics.spec import Spec
from streammetrics.offline.evaluation.requests import Request, request_of, trec_request

RUN_ID: Final = "runid"
"""The measure of trec_eval that is no number: the tag of the run."""

_DEEP: Final = (5, 10, 15, 20, 30, 100, 200, 500, 1000)
_CUTOFFS: Final[Mapping[str, tuple[int, ...]]] = {
    "P": _DEEP,
    "recall": _DEEP,
    "ndcg_cut": _DEEP,
    "map_cut": _DEEP,
    "success": (1, 5, 10),
    "unj": (5, 10, 20),
}
"""The cut-offs of trec_eval for names without any."""

_LEVELS: Final = tuple(level / 10 for level in range(11))

_COUNTS: Final = (RUN_ID, "num_q", "num_ret", "num_rel", "num_rel_ret")
_OFFICIAL: Final = (*_COUNTS, "map", "gm_map", "Rprec", "bpref", "recip_rank", "iprec_at_recall", "P")
_SET: Final = ("set_P", "set_recall", "set_map", "set_F")
NICKNAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "official": _OFFICIAL,
    "set": (*_COUNTS, *_SET),
    "all_trec": (*_OFFICIAL, "recall", "11pt_avg", "ndcg", "success", "map_cut", "ndcg_cut", *_SET, "rbp", "unj"),
}
"""Sets of measures. `set` and `all_trec` have those of trec_eval's that are offered here; see `NOT_OFFERED`."""

NOT_OFFERED: Final = (
    *("relstring", "infAP", "gm_bpref", "Rprec_mult", "utility", "binG", "G", "ndcg_rel", "Rndcg", "relative_P"),
    *("set_relative_P", "num_nonrel_judged_ret", "rbp_resid", "yaap"),
)
"""The measures of trec_eval's `all_trec` that are not offered."""

_WITH_PARAMETERS: Final = re.compile(r"([A-Za-z0-9_-]+?)\.([0-9.,=a-z-]+)", re.ASCII)


class Asked(NamedTuple):
    """A measure to print: its label, and what to compute; None for the run's tag."""

    label: str
    request: Request | None


def asked_for(text: str, spec: Spec | None) -> Iterator[Asked]:
    """The measures that one value of -m asks for: names of this library separated by commas, or one measure of trec_eval.

    spec: the definitions of all metrics, or None: trec_eval's for its names and the defaults for others.
    Raises MetricError for unknown names, parameters that are not offered, and a spec that gives a trec_eval name another meaning.

    >>> [asked.label for asked in asked_for("ndcg_cut.5,10", None)], [asked.label for asked in asked_for("ndcg@5,map", None)]
    (['ndcg_cut_5', 'ndcg_cut_10'], ['ndcg@5', 'map'])
    >>> len(list(asked_for("official", None)))
    30
    """
    if text in NICKNAMES:
        for name in NICKNAMES[text]:
            yield from _measure(name, spec)
    elif parameters := _WITH_PARAMETERS.fullmatch(text):
        yield from _with_parameters(parameters[1], parameters[2], spec)
    elif text in _CUTOFFS or text in ("iprec_at_recall", RUN_ID):
        yield from _measure(text, spec)
    else:
        for name in text.split(","):
            if name in NOT_OFFERED:
                raise MetricError("metric", f"got {name}, a measure of trec_eval that is not offered; allowed are {', '.join(NICKNAMES)}")
            yield Asked(name, request_of(name, spec))


def _measure(name: str, spec: Spec | None) -> Iterator[Asked]:
    """A measure with trec_eval's default parameters."""
    if name == RUN_ID:
        yield Asked(RUN_ID, None)
    elif name in _CUTOFFS:
        yield from (_trec(f"{name}_{k}", parse_metric(f"{name}_{k}"), spec) for k in _CUTOFFS[name])
    elif name == "iprec_at_recall":
        yield from (_at_recall(level, spec) for level in _LEVELS)
    else:
        yield _trec(name, parse_metric(name), spec)


def _with_parameters(name: str, parameters: str, spec: Spec | None) -> Iterator[Asked]:
    given = parameters.split(",")
    if name == "iprec_at_recall":
        yield from (_at_recall(_number(name, level), spec) for level in given)
    elif name == "set_F" and len(given) == 1:  # trec_eval's parameter is the square of beta
        yield _trec(f"set_F.{given[0]}", Metric("set_f", parameter=math.sqrt(_number(name, given[0]))), spec)
    elif name == "rbp" and len(given) == 1 and given[0].startswith("p="):
        persistence = _number(name, given[0][2:])
        yield Asked(f"rbp.{given[0]}", trec_request(Metric("rbp"), "rbp", spec, persistence))
    else:
        make: Callable[[str, Metric, Spec | None], Asked] = _trec if name in _CUTOFFS else _here
        for k in given:
            if not k.isdecimal():
                raise MetricError("metric", f"got {name}.{parameters}; allowed are cut-offs, as in ndcg_cut.5,10")
            yield make(f"{name}_{k}", parse_metric(f"{name}_{k}"), spec)


def _at_recall(level: float, spec: Spec | None) -> Asked:
    return _trec(f"iprec_at_recall_{level:.2f}", Metric("iprec_at_recall", parameter=level), spec)


def _trec(label: str, metric: Metric, spec: Spec | None) -> Asked:
    return Asked(label, trec_request(metric, label, spec))


def _here(label: str, metric: Metric, spec: Spec | None) -> Asked:
    return Asked(label, request_of(metric, spec))


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise MetricError("metric", f"got {name}.{text}; allowed is a number") from None
