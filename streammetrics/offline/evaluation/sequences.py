"""Lists that come as mappings or sequences: their ids, their sizes and their offsets."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from streammetrics.metrics.arrays import Ints
from streammetrics.metrics.names import MetricError


def with_list_ids(lists: Mapping[Any, Any] | Sequence[Any]) -> Mapping[Any, Any]:
    """Return lists by id. Those of a sequence get the ids 0, 1, ... Raises MetricError for anything else."""
    if isinstance(lists, str | bytes) or not hasattr(lists, "__len__"):
        raise MetricError("lists", f"got {lists!r}; allowed is a mapping by list id, or a sequence of lists")
    return lists if isinstance(lists, Mapping) else dict(enumerate(lists))


def require_sized(what: str, values: Any, name: Hashable) -> Any:
    """Return the values of a list, which must have a length. Raises MetricError that names the list."""
    if isinstance(values, str | bytes) or not hasattr(values, "__len__"):
        raise MetricError(what, f"got {values!r} for list {name!r}; allowed is a sequence")
    return values


def offsets_of(lengths: Iterable[int]) -> Ints:
    """Return the offsets of concatenated lists: int64, shape (L + 1,)."""
    return np.cumsum([0, *lengths], dtype=np.int64)
