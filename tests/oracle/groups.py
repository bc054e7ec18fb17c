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
    groups_so_far: list[Group] = []
    groups_of_lists = []
    for experiments, values in lists:
        whole = [group for group in groups_so_far if not group.segments]
        groups_of_list = [Group()]
        fits_wholly = len({*groups_so_far, *_all_groups(experiments, values, segments)}) <= groups_max
        for experiment, variant in experiments:
            group = Group(experiment, variant)
            if fits_wholly or group in whole or len({*whole, *groups_of_list}) < groups_max:
                groups_of_list.append(group)
        groups: list[Group] = []
        for head in groups_of_list:
            groups.append(head)
            groups_so_far += [head] if head not in groups_so_far else []
            for name in segments:
                group = head._replace(segments=((name, dict(values).get(name, "")),))
                if group not in groups_so_far and len(groups_so_far) >= groups_max:
                    group = head._replace(segments=((name, "_other"),))
                groups_so_far += [group] if group not in groups_so_far else []
                groups.append(group)
        groups_of_lists.append(groups)
    return groups_of_lists


def _all_groups(experiments: Labels, values: Labels, segments: Sequence[str]) -> list[Group]:
    heads = [Group(), *(Group(*label) for label in experiments)]
    return heads + [head._replace(segments=((name, dict(values).get(name, "")),)) for head in heads for name in segments]
