"""The cases of `growth`, in turns with and without experiments, and their tables."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Mapping
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

from rich.table import Table

from tests.tools.bench import parts
from tests.tools.bench.growth import EVENTS_PER_LIST
from tests.tools.servers.redis import DeployedRedis

ONE, SIXTEEN = "1 experiment", "16 experiments"
SHORT, SHORT_SIXTEEN = "sessions of 8 lists", "16 experiments, sessions of 8 lists"
ENTERING = {"sessions of 1 list": {"per_session": 1}, SHORT: {"per_session": 8}, "each final list alone": {"patience_ms": 0}}
"""Few lists of a user enter an experiment together."""
CASES: Mapping[str, Mapping[str, int]] = {
    ONE: {},
    "4 experiments": {"experiments": 4},
    SIXTEEN: {"experiments": 16},
    "10 variants": {"variants": 10},
    "50 variants": {"variants": 50},
    "3 segments of 5 values": {"segments": 3},
    **ENTERING,
    SHORT_SIXTEEN: {"experiments": 16, "per_session": 8},
}
"""Sessions never end unless a case says otherwise."""
MINUTES = 10
"""How long the sessions of busy users are."""


class CaseCosts(NamedTuple):
    """Microseconds per event with and without experiments, and bytes of state per event."""

    on_us: float
    off_us: float
    state_bytes: float

    @property
    def enter_us(self) -> float:
        """Microseconds per list that experiments add."""
        return (self.on_us - self.off_us) * EVENTS_PER_LIST


class Growth(NamedTuple):
    """The median of each case, and bytes per event minute by minute."""

    cases: Mapping[str, CaseCosts]
    minutes: list[dict[str, float]]
    checked: int

    def goals(self) -> list[tuple[bool, str]]:
        """Return whether each goal is reached, in words."""
        on_off = self.cases[ONE].on_us / self.cases[ONE].off_us
        times = [(few, many, self.cases[many].on_us / self.cases[few].on_us) for few, many in ((ONE, SIXTEEN), (SHORT, SHORT_SIXTEEN))]
        flat = f"a session of {MINUTES} minutes writes {self.aof_growth:.2f} times the bytes per event of its first half"
        return [
            *[_entering(name, self.cases[name].enter_us, 12) for name in ENTERING],
            _entering(ONE, self.cases[ONE].enter_us, 8),
            (on_off <= 1.25, f"one experiment costs {on_off:.2f} times as much as none, wanted at most 1.25"),
            *[(ratio <= 1.5, f"{many} cost {ratio:.2f} times as much as {few}, wanted at most 1.5") for few, many, ratio in times],
            (self.aof_bytes <= 600, f"{self.aof_bytes:,.0f} bytes per event in the append-only file, wanted at most 600"),
            (self.aof_growth <= 1.25, f"{flat}, wanted at most 1.25"),
        ]

    @property
    def aof_bytes(self) -> float:
        """The most bytes per event in the append-only file, from the start of the sessions to some minute."""
        return max(self.aof_means())

    @property
    def aof_growth(self) -> float:
        """The bytes per event of the whole sessions, times those of their first half. A state that is written again whole has a minute
        with more bytes, so only means over many minutes can be compared."""
        means = self.aof_means()
        return means[-1] / means[len(means) // 2 - 1]

    def aof_means(self) -> list[float]:
        """Return the mean bytes per event from the start of the sessions to each minute."""
        sums = accumulate(minute["aof_bytes"] for minute in self.minutes)
        return [total / minutes for minutes, total in enumerate(sums, 1)]

    def costs(self) -> Table:
        table = Table("", "µs per event", "experiments off", "µs per list to enter", "times 1 experiment", "bytes written per event")
        for name, case in self.cases.items():
            times = case.on_us / self.cases[ONE].on_us
            costs = (f"{number:.1f}" for number in (case.on_us, case.off_us, case.enter_us))
            table.add_row(name, *costs, f"{times:.2f}", f"{case.state_bytes:,.0f}")
        return table

    def bytes_by_minute(self) -> Table:
        table = Table("minute of the session", "values, bytes per event", "append-only file of Redis", "the same since the start")
        for number, (minute, mean) in enumerate(zip(self.minutes, self.aof_means(), strict=True), 1):
            table.add_row(str(number), f"{minute['bytes']:,.0f}", f"{minute['aof_bytes']:,.0f}", f"{mean:,.0f}")
        return table


def _entering(case: str, us: float, most: int) -> tuple[bool, str]:
    return us <= most, f"{us:.1f} µs per list to enter one experiment ({case}), wanted at most {most}"


def measure(quick: bool, rounds: int, say: Callable[[str], None]) -> Growth:
    seconds = 1_000 if quick else 1_320
    base: dict[str, Any] = {"experiments": 1, "variants": 2, "segments": 0, "per_session": 0}
    base |= {"patience_ms": 600_000, "every_ms": 60_000, "users": 600 if quick else 6_000, "seconds": seconds}
    base |= {"marks": [seconds // 2 + 150]}
    costs: dict[str, list[CaseCosts]] = {name: [] for name in CASES}
    checked = 0
    with tempfile.TemporaryDirectory(prefix="streammetrics-bench-") as directory:
        log = Path(directory) / "log"
        for number in range(rounds):
            for name, changed in CASES.items():
                say(f"growth: {name}, round {number + 1} of {rounds}")
                on, off = (parts.measure("growth", {**base, **changed, "enabled": enabled}, log) for enabled in (True, False))
                checked += on["checked"]
                costs[name].append(CaseCosts(on["marks"][0]["us"], off["marks"][0]["us"], on["marks"][0]["bytes"]))
        say("growth: bytes per event")
        minutes = _busy_users(quick, base, log)
    medians = {name: CaseCosts(*(statistics.median(column) for column in zip(*of, strict=True))) for name, of in costs.items()}
    return Growth(medians, minutes, checked)


def _busy_users(quick: bool, base: Mapping[str, Any], log: Path) -> list[dict[str, float]]:
    """Measure the bytes that users with four events a second write in each minute of their sessions, with a real Redis."""
    busy = {"users": 50 if quick else 200, "every_ms": 350, "seconds": 60 * MINUTES, "marks": [60 * at for at in range(MINUTES)]}
    with DeployedRedis() as server:
        given = {**base, **busy, "enabled": True, "redis_url": server.fresh_url()}
        marks: list[dict[str, float]] = parts.measure("growth", given, log)["marks"]
    return marks
