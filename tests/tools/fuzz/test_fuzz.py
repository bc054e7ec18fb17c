"""Damaged records and files of all forms: every law of decoding holds."""

from __future__ import annotations

from tests.tools.fuzz.laws import Outcomes
from tests.tools.fuzz.run import run


def test_damaged_records_and_files_raise_nothing_and_their_counts_add_up() -> None:
    outcomes = Outcomes()
    part = run(outcomes, 9_000, seed=3)
    assert outcomes.total >= 9_000
    assert part.counts["matched"] > 50
    assert min(part.ends["whole"], part.ends["cut short"]) > 5
    assert all(outcomes.parts[reason] > 10 for reason in ("bad_json", "reader", "empty", "ignored", "bad_position"))
    assert all(counts["read"] for counts in outcomes.records.values()), "no form was read"
