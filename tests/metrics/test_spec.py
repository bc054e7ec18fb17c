"""Digests of specs are equal exactly for equal specs, on every machine."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from dataclasses import replace
from typing import Any, get_args

import pytest

from streammetrics.metrics import MetricError, Spec
from streammetrics.metrics.spec import DiscountName, GainName
from tests.support.tables import for_each

ALL = [
    Spec(gain=gain, discount=discount, relevance_threshold=threshold)
    for gain, discount, threshold in itertools.product([*get_args(GainName), (0, 1, 3)], [*get_args(DiscountName), (1, 2)], (0.5, 1, 2))
]


def test_different_specs_have_different_digests() -> None:
    assert len({spec.digest() for spec in ALL}) == len(set(ALL)) == len(ALL)


def test_equal_specs_have_equal_digests() -> None:
    assert Spec(relevance_threshold=1) == Spec(relevance_threshold=1.0)
    assert Spec(relevance_threshold=1).digest() == Spec(relevance_threshold=1.0).digest() == Spec().digest()


def test_the_digest_is_the_same_in_another_process() -> None:
    code = "from streammetrics import Spec; print(Spec(gain='exp2').digest())"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == Spec(gain="exp2").digest()


def test_the_digest_of_the_defaults_never_changes() -> None:
    assert Spec().digest() == "a7766412094579fd"


OTHERS: dict[str, Any] = {
    "gain": "exp2",
    "discount": (1, 2),
    "relevance_threshold": 2.0,
    "ideal": "shown",
    "ap_denominator": "R",
    "recall_denominator": "min(R,k)",
    "precision_denominator": "min(n,k)",
    "no_relevant": "skip",
    "rbp_persistence": 0.5,
    "err_grade_max": 3.0,
}


def test_every_field_that_is_not_the_default_changes_the_digest() -> None:
    assert set(OTHERS) == set(Spec.__dataclass_fields__)
    digests = {replace(Spec(), **{field: other}).digest() for field, other in OTHERS.items()}
    assert len(digests | {Spec().digest()}) == len(OTHERS) + 1


@for_each(OTHERS)
def test_the_error_for_different_specs_names_the_field(field: str) -> None:
    other = replace(Spec(), **{field: OTHERS[field]})
    Spec().require_same(Spec())
    with pytest.raises(MetricError, match=re.escape(f"spec field {field}: got {getattr(other, field)!r} and {getattr(Spec(), field)!r}")):
        Spec().require_same(other)


def test_equal_tables_are_equal_whatever_their_type() -> None:
    assert Spec(gain=[0, 1, 3]) == Spec(gain=(0.0, 1.0, 3.0))  # type: ignore[arg-type]
    assert hash(Spec(gain=(0, 1))) == hash(Spec(gain=(0.0, 1.0)))
