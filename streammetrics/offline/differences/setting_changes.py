"""Which settings that change numbers differ between two reports. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from streammetrics.offline.differences.found import ChangedSetting

LATE: Final = "which events are late"
_CHANGES: Final = {
    "metrics": "which metrics exist; only those of both sides are compared",
    "spec": "the values of metrics, not the number of lists",
    "grades": "the grade of each item, so values and lists with feedback, not the number of lists",
    "engagement": "engagement metrics",
    "assessment": "assessment metrics",
    "gap_ms": "where sessions end, so which feedback belongs to which list",
    "attribution_ms": "how long after its list feedback counts, and when a list is final",
    "out_of_orderness_ms": LATE,
    "lateness_ms": LATE,
    "idle_ms": "when a silent input is ignored, so which events are late",
    "future_ms": "which events are refused as future",
    "support_jump_ms": "how the watermark moves, so which events are late",
    "support_users": "how the watermark moves, so which events are late",
    "support_far_ms": "which events are refused as future",
    "session_events_max": "how many events of a session count",
    "lists_open_max": "how many lists of a user count",
    "pane_ms": "the length of panes; panes of different lengths cannot be compared",
    "windows_ms": "which windows are shown",
    "retention_ms": "how long panes are kept",
    "segments": "by which segments groups are split",
    "groups_max": "how many groups exist; further ones count as _other",
    "users": "whether users of windows are counted",
    "experiments": "the results of experiments, not windows and totals",
    "events": "how records are read",
}
_OF_VALUES: Final = frozenset({"spec", "grades", "engagement", "assessment", "gap_ms", "attribution_ms", "events"})
_OF_SEGMENTS: Final = frozenset({"segments", "groups_max"})
_NO_NUMBERS: Final = frozenset({"spec_digest"})


def changed_settings(online: Mapping[str, Any], offline: Mapping[str, Any]) -> tuple[ChangedSetting, ...]:
    """Return the settings that differ, in the order of the report. A setting of a section is `section.name`.

    >>> [(each.name, each.online, each.offline) for each in changed_settings({"spec": {"gain": "linear"}}, {"spec": {"gain": "exp2"}})]
    [('spec.gain', 'linear', 'exp2')]
    """
    ours, theirs = dict(_flat(online)), dict(_flat(offline))
    return tuple(
        ChangedSetting(name, ours.get(name), theirs.get(name), _CHANGES.get(_section(name), "unknown to this version"))
        for name in dict.fromkeys([*ours, *theirs])
        if name not in _NO_NUMBERS and ours.get(name) != theirs.get(name)
    )


def changes_lists(setting: ChangedSetting, segments: str) -> bool:
    """Return whether a setting may change the number of lists of a group without a counter that says by how many."""
    section = _section(setting.name)
    return section == "events" or section not in _CHANGES or (section in _OF_SEGMENTS and bool(segments))


def changes_values(setting: ChangedSetting) -> bool:
    """Return whether a setting may change values of lists that both sides have."""
    section = _section(setting.name)
    return section in _OF_VALUES or section not in _CHANGES


def _section(name: str) -> str:
    return name.partition(".")[0]


def _flat(settings: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in settings.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{before}{name}.")
        else:
            yield before + name, value
