"""One family of series on `/metrics`: its name, kind, labels and help.

`origin` says where a number comes from: the committed state of all tasks (the same in every process), the loop of this process, or its
exporter.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

SeriesKind: TypeAlias = Literal["gauge", "counter", "histogram", "info"]
Origin: TypeAlias = Literal["state", "loop", "exporter"]
Unit: TypeAlias = Literal["", "seconds", "records", "bytes"]


@dataclass(frozen=True, slots=True)
class Series:
    """One family of series.

    `name` is the name to query, with `_total` or `_info`; a histogram's has no suffix. `listed` is its name in the Markdown
    table, where families that differ only by the metric or the bound share one line.
    """

    name: str
    kind: SeriesKind
    help: str
    labels: tuple[str, ...] = ()
    unit: Unit = ""
    origin: Origin = "state"
    listed: str = ""
    listed_help: str = ""

    @property
    def family(self) -> str:
        """The name without the suffix of its kind, as OpenMetrics and the client library use it.

        >>> counter("events", "Events read.").family
        'streammetrics_events'
        """
        return self.name.removesuffix({"counter": "_total", "info": "_info"}.get(self.kind, ""))


def counter(name: str, says: str, *labels: str, origin: Origin = "state") -> Series:
    return Series(f"streammetrics_{name}_total", "counter", says, labels, origin=origin)


def gauge(name: str, says: str, *labels: str, origin: Origin = "state", unit: Unit = "") -> Series:
    return Series(f"streammetrics_{name}", "gauge", says, labels, unit, origin)


def bounds(name: str, says: str, *labels: str) -> Iterator[Series]:
    """Yield the gauges of a lower and an upper bound. `says` begins with what follows "Lower bound"."""
    for bound in ("lower", "upper"):
        made = gauge(f"{name}_{bound}", f"{bound.capitalize()} bound {says}", *labels)
        yield replace(made, listed=f"streammetrics_{name}_<bound>", listed_help=f"Bound {says}")
