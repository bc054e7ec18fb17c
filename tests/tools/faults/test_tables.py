"""When the numbers count as on time again, what the graph shows, and what counts as flat."""

from __future__ import annotations

import pytest

from tests.tools.faults.schedule import Fault
from tests.tools.faults.tables import graph, recovery_line, require_flat, require_recovered
from tests.tools.faults.watch import LAG_SECONDS_MAX, FaultError, Held, Sample, Suffered, on_time

LATE = LAG_SECONDS_MAX + 1


def samples(*lags: float) -> list[Sample]:
    return [Sample(float(second), lag, {}) for second, lag in enumerate(lags)]


def test_numbers_are_on_time_when_the_lag_stays_below_the_bound() -> None:
    assert on_time(samples(LATE, 1, 1, 1)) == 1.0
    assert on_time(samples(LATE, 1, 1)) is None
    assert on_time(samples(1, 1, 1, LATE)) is None
    assert on_time(samples(1, LATE, LAG_SECONDS_MAX, 1, 1)) == 2.0
    assert on_time([]) is None


def test_a_fault_without_recovery_is_a_failure() -> None:
    outcome = Suffered(Fault(20, 9, "kill redis"), 20.0, 29.0, 200.0, None)
    with pytest.raises(FaultError, match="after 'kill redis' the numbers were late for 120 s"):
        require_recovered(outcome)
    require_recovered(outcome._replace(recovered=7.0))
    assert "1 fault; 1 raised the lag above 5 s; none recovered" in recovery_line([outcome])
    assert "recovered after 3.5 s (median), 7.0 s (longest)" in recovery_line([outcome._replace(recovered=back) for back in (0.0, 7.0)])


def test_the_graph_marks_the_faults_below_the_greatest_lags() -> None:
    lines = graph(samples(*[1] * 10, *[8] * 5, *[1] * 10), [Suffered(Fault(10, 5, "kill redis"), 10.0, 14.0, 8.0, 1.0)])
    bars = [line.partition("|")[2] for line in lines if "|" in line]
    assert bars[0] == " " * 10 + "█" * 5 + " " * 10
    assert bars[-1] == "█" * 25
    assert lines[-1].strip() == "1" * 5
    assert lines[-1].index("1") == lines[1].index("█")
    assert graph([], []) == []


def test_memory_and_descriptors_that_grow_are_a_failure() -> None:
    def run(resident_mb: list[float], descriptors: int = 20) -> list[Sample]:
        steady, last = Held(1, 100.0, 20), len(resident_mb) - 1
        held = [Held(2, megabytes, descriptors if number == last else 20) for number, megabytes in enumerate(resident_mb)]
        return [Sample(float(second), 1.0, {"worker-1": megabytes, "exporter": steady}) for second, megabytes in enumerate(held)]

    assert "are flat" in require_flat(run([100.0, 300.0, 114.0]))
    with pytest.raises(FaultError, match="worker-1 holds more and more"):
        require_flat(run([100.0, 100.0, 116.0]))
    with pytest.raises(FaultError, match="worker-1 holds more and more"):
        require_flat(run([100.0, 100.0, 100.0], descriptors=24))
