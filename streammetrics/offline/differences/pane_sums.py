"""The integers of final panes, from the lines of `--panes`, from records of a results topic, or from rows of a Parquet file. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

from streammetrics.errors import StreammetricsError

DENOMINATOR: Final = " denominator"
"""Ends the name of the sum that a metric is divided by."""
Sums: TypeAlias = dict[str, int]
"""Integers of one group in one pane by name: lists, lists_with_feedback, and both sums of each metric."""


class GroupName(NamedTuple):
    """A group: all traffic has no name. `segments` is as in Parquet, such as "device=tv"."""

    experiment: str
    variant: str
    segments: str


@dataclass(slots=True)
class PaneSums:
    """The final panes of one side by start (epoch ms) and group. `scales` has the bits after the point of each metric's sum."""

    pane_ms: int | None = None
    panes: dict[int, dict[GroupName, Sums]] = field(default_factory=dict)
    scales: dict[str, int] = field(default_factory=dict)

    def add(self, line: Mapping[str, Any]) -> None:
        """Add one line, record or row; those of live panes and of verdicts are left out.

        Raises StreammetricsError for a second pane length. Raises KeyError, TypeError, ValueError or StopIteration if it is none of them.
        """
        if line.get("view", "final") != "final" or line.get("type") == "verdict":
            return
        if self.pane_ms not in (None, line["pane_ms"]):
            raise StreammetricsError(f"panes of {self.pane_ms} ms and of {line['pane_ms']} ms are in one file")
        self.pane_ms = int(line["pane_ms"])
        segments = line["segments"]
        if isinstance(segments, Mapping):
            segments = ",".join(f"{name}={value}" for name, value in sorted(segments.items()))
        group = GroupName(line["experiment"], line["variant"], segments)
        sums = self.panes.setdefault(int(line["pane_start_ms"]), {}).setdefault(group, {})
        sums["lists"], sums["lists_with_feedback"] = int(line["lists"]), int(line["lists_with_feedback"])
        for name, numerator, denominator, bits in _metrics(line):
            sums[name], sums[name + DENOMINATOR], self.scales[name] = numerator, denominator, bits

    def lists_of(self, starts: Iterable[int]) -> int:
        """Return the lists of all traffic in some panes."""
        return sum(self.panes[start].get(GroupName("", "", ""), {}).get("lists", 0) for start in starts)

    def metrics(self) -> set[tuple[str, int]]:
        """Return the metrics, each with its scale."""
        return set(self.scales.items())


def _metrics(line: Mapping[str, Any]) -> Iterable[tuple[str, int, int, int]]:
    """Yield name, numerator, denominator and scale of each metric. The denominator of a mean over lists is the number of lists."""
    if "metric" in line:
        yield _of_row(line)
    elif isinstance(line["metrics"], Mapping):
        for name, sums in line["metrics"].items():
            yield _of_line(name, sums, line["lists"])
    else:
        yield from map(_of_row, line["metrics"])


def _of_row(row: Mapping[str, Any]) -> tuple[str, int, int, int]:
    name = f"{row['metric']}@{row['k']}" if row["k"] else row["metric"]
    return name, int(row["numerator"]), int(row["denominator"]), int(row["scale_bits"])


def _of_line(name: str, sums: Mapping[str, int], lists: int) -> tuple[str, int, int, int]:
    if "sum_raw" in sums:
        return name, sums["sum_raw"], lists, sums["scale_bits"]
    above = next(sums[kind] for kind in ("hits", "numerator", "bucket") if kind in sums)
    return name, above, next((sums[kind] for kind in ("places", "denominator") if kind in sums), lists), sums.get("scale_bits", 0)
