"""The digest of a spec tells numbers made under different laws apart, on every machine."""

from __future__ import annotations

import itertools
import subprocess
import sys
from typing import get_args

from streammetrics.metrics import Spec
from streammetrics.metrics.spec import Discount, Gain

ALL = [
    Spec(gain=gain, discount=discount, relevance_threshold=threshold)
    for gain, discount, threshold in itertools.product(get_args(Gain), get_args(Discount), (0.5, 1, 2))
]


def test_different_specs_have_different_digests() -> None:
    assert len({spec.digest() for spec in ALL}) == len(set(ALL)) == len(ALL)


def test_equal_specs_have_equal_digests() -> None:
    assert Spec(relevance_threshold=1) == Spec(relevance_threshold=1.0)
    assert Spec(relevance_threshold=1).digest() == Spec(relevance_threshold=1.0).digest() == Spec().digest()


def test_the_digest_is_the_same_in_another_process() -> None:
    code = "from streammetrics import Spec; print(Spec(gain='exp2').digest())"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == Spec(gain="exp2").digest()


def test_the_digest_of_the_defaults_is_the_one_that_stored_tallies_carry() -> None:
    assert Spec().digest() == "a7766412094579fd"
