"""Mutated records of all encodings go through a worker, and the counts add up."""

from __future__ import annotations

from tests.bench.fuzz import run


def test_mutated_records_raise_nothing_and_their_counts_add_up() -> None:
    counts = run(6_000, seed=3)
    assert counts["records"] == 6_000
    assert counts["matched"] > 50
    assert all(counts[reason] > 100 for reason in ("bad_json", "bad_encoding", "unknown_schema", "empty"))
