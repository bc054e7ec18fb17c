"""The limit on groups: which segment groups of a list are folded. It depends on the order of arrival, so it works step by step."""

from __future__ import annotations

from collections.abc import Sequence

from tests.oracle.values import Group

Labels = tuple[tuple[str, str], ...]


def limited_groups(lists: Sequence[tuple[Labels, Labels]], segments: Sequence[str], groups_max: int) -> list[list[Group]]:
    """Return the groups of each list of (experiments, segments), in order of arrival.

    A new variant counts while there are fewer than `groups_max` groups without a segment; otherwise the list loses it. A new group with a
    segment counts while there are fewer than `groups_max` groups of any kind; otherwise `_other` counts instead.
    """
    known: list[Group] = []
    found = []
    for experiments, values in lists:
        whole = [group for group in known if not group.segments]
        own = [Group()]
        fits_wholly = len({*known, *_all_groups(experiments, values, segments)}) <= groups_max
        for experiment, variant in experiments:
            group = Group(experiment, variant)
            if fits_wholly or group in whole or len({*whole, *own}) < groups_max:
                own.append(group)
        groups: list[Group] = []
        for head in own:
            groups.append(head)
            known += [head] if head not in known else []
            for name in segments:
                group = head._replace(segments=((name, dict(values).get(name, "")),))
                if group not in known and len(known) >= groups_max:
                    group = head._replace(segments=((name, "_other"),))
                known += [group] if group not in known else []
                groups.append(group)
        found.append(groups)
    return found


def _all_groups(experiments: Labels, values: Labels, segments: Sequence[str]) -> list[Group]:
    heads = [Group(), *(Group(*label) for label in experiments)]
    return heads + [head._replace(segments=((name, dict(values).get(name, "")),)) for head in heads for name in segments]
