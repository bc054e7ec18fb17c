"""The harness of ramps through the engine, in small: crashes change no sum, it falls behind, and it would see a pass while stale."""

from __future__ import annotations

import numpy as np
import pytest

from streammetrics.config import Settings
from streammetrics.experiments import Stored
from streammetrics.reports.gate_answer import answer_gate
from streammetrics.runtime.publish.committed_state import read_committed
from streammetrics.wiring.engine import build_engine
from streammetrics.wiring.reports import build_report_builder
from tests.bench import gate_engine
from tests.bench.gate_engine import TOPICS, CrashingTask, Log, events_of, one_log, rate, settings_of

SMALL = Log(400, 1, 1, looks=12)


def with_margin(log: Log) -> Settings:
    settings = settings_of(log)
    return settings.model_copy(update={"experiments": settings.experiments.model_copy(update={"gate_margin": 0.4})})


def sums(crash_rate: float) -> tuple[dict[tuple[str, int], Stored], int]:
    """Read a log to its end with crashes, and return the stored sums and the number of crashes."""
    settings = settings_of(SMALL)
    engine = build_engine(settings, TOPICS)
    events, _ = events_of(np.random.default_rng(5), SMALL)
    task, builder = CrashingTask(engine, events, np.random.default_rng(6), crash_rate), build_report_builder(settings, engine)
    for end in range(200, len(events) + 200, 200):
        task.read_to(min(end, len(events)))
    read_committed(task.store, builder, 1)
    return builder.experiments.stored(1), task.crashes


def test_crashes_change_no_sum() -> None:
    calm, none = sums(0.0)
    wild, many = sums(0.3)
    assert (none, many > 5) == (0, True)
    assert calm == wild
    assert all(len({each.key for each in stored.stages}) == 3 for (name, day), stored in calm.items() if day < 0)


def test_every_ramp_is_asked_and_it_falls_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate_engine, "OUTAGE_RATE", 0.3)
    found, counts = one_log(1, SMALL)
    assert set(found) == {"no difference 0", "20 % worse 0"}
    assert all(each.words == {"wait"} for each in found.values())  # too few users for more
    assert counts["looks"] == SMALL.looks
    assert 0 < counts["looks behind"] < SMALL.looks


@pytest.mark.parametrize("is_checked", [True, False])
def test_it_would_see_a_pass_while_stale(monkeypatch: pytest.MonkeyPatch, is_checked: bool) -> None:
    """Halves and a wide margin, so that few users pass. Without the check of staleness, each such question passes."""
    monkeypatch.setattr(gate_engine, "SHARES", (0.5, 0.49, 0.48))
    monkeypatch.setattr(gate_engine, "OUTAGE_RATE", 0.5)
    monkeypatch.setattr(gate_engine, "settings_of", with_margin)
    if not is_checked:
        monkeypatch.setattr(gate_engine, "answer_gate", lambda report, **given: answer_gate(report, **{**given, "stale": ()}))
    result = one_log(1, Log(1_500, 1, looks=12))[0]["no difference 0"]
    assert "pass" in result.words
    assert result.held_back > 0
    assert result.stale_passes == (0 if is_checked else result.held_back)


def test_a_rate_has_its_binomial_interval() -> None:
    assert (rate(1, 20), rate(20, 20), rate(0, 0)) == ("5.0 % (0.9 to 23.6)", "100.0 % (83.9 to 100.0)", "-")
