"""Proposes mappings for sample records, from the values and the names of their fields. A draft for people to check. Pure.

What lists show tells the items of reactions, and what reactions name tells the ids of lists. Names decide where values do not.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final, NamedTuple

from streammetrics.events.advice.mapping_lines import Known, mappings_of
from streammetrics.events.advice.sample_fields import (
    FieldValues,
    JsonRecord,
    are_distinct,
    are_ids,
    flat,
)
from streammetrics.events.advice.sample_kinds import (
    KINDS_SHOWN_MAX,
    RecordKind,
    array_of,
    is_reaction,
    key_text,
    kinds_of,
    selector_of,
    shown_by,
    toml_text,
    user_of,
)
from streammetrics.events.advice.sample_rows import rows_of

PATHS_SHOWN_MAX: Final = 60


class Suggestion(NamedTuple):
    """TOML text with mappings. `is_whole` is False for a skeleton, or if a required field was not found."""

    text: str
    is_whole: bool


def suggested_mappings(records: Iterable[JsonRecord], graded: Collection[str] = (), topic: str = "") -> Suggestion:
    """Return TOML text with mappings for these records. Fields that it cannot find are comments.

    `graded` are the actions that have a grade. Another action is renamed to one of them if its name says what it is. With a
    `topic`, the mappings apply to it alone, and the lists of its reactions may be in another topic.

    >>> print(suggested_mappings([{"kind": "view", "uid": "u", "t": 1, "time": 1772359200, "search": "q", "skus": ["a", "b"]}]).text)
    # Proposed from 1 record. Check every line, then try it: streammetrics decode SOURCE --config THIS_FILE
    <BLANKLINE>
    [[events.mappings]]
    kind = "impression"
    user_id = "uid"
    ts = "time"
    ts_unit = "s"
    impression_id = "search"
    items = "skus"
    <BLANKLINE>
    """
    samples = list(records)
    fields = flat(samples)
    selector = selector_of(samples, fields)
    groups = kinds_of(samples, selector)
    reactions = groups[0].reactions if groups else frozenset()
    with_lists = [group for group in groups if array_of(group) is not None and not is_reaction(group)]
    user, own = user_of(groups, fields, selector), _own_ids(groups, fields)
    known = Known(selector, user, reactions, *shown_by(groups, reactions), graded, own, bool(with_lists))
    for group in groups:
        if rows := rows_of(group, user):
            known.shown.update(map(str, group.fields[rows.item]))
            known.lists.update(map(str, group.fields[rows.list_id]))
    lines = [f"# Proposed from {_counted(len(samples))}. Check every line, then try it: streammetrics decode SOURCE --config THIS_FILE", ""]
    ignored, is_whole, has_list = list[RecordKind](), True, bool(topic)
    of_topic = [f"topics = [{toml_text(topic)}]"] if topic else []
    for group in groups[:KINDS_SHOWN_MAX]:
        mappings = mappings_of(group, known)
        if not mappings:
            ignored.append(group)
        for mapping in mappings:
            lines += [*mapping[:2], *of_topic, *mapping[2:], ""]
            is_whole = is_whole and not any(line.startswith("#") for line in mapping)
            has_list = has_list or 'kind = "impression"' in mapping
    if len(ignored) == len(groups):
        return Suggestion(_skeleton(fields), False)
    if ignored:
        lines += ["[[events.mappings]]", 'kind = "ignore"', *of_topic, *_when_any(selector, ignored), ""]
    return Suggestion("\n".join(lines), is_whole and has_list)


def _counted(records: int) -> str:
    return f"{records:,} record{'' if records == 1 else 's'}"


def _skeleton(fields: FieldValues) -> str:
    """Return the paths that exist, with an example of each, and mappings to fill in, all as comments."""
    shown = [f"#   {path}  such as {_example(values[0])}" for path, values in list(fields.items())[:PATHS_SHOWN_MAX]]
    return "\n".join(
        [
            "# No mapping can be proposed: no field of these records holds a list of items, or an item of one.",
            "# Fill in these mappings with the paths below, and leave out what does not apply.",
            "#",
            "# [[events.mappings]]",
            '# kind = "impression"          # what users were shown',
            '# when = { PATH = "a text" }   # which records these are',
            '# user_id = "PATH"',
            '# ts = "PATH"',
            '# impression_id = "PATH"',
            '# items = "PATH"',
            "#",
            "# [[events.mappings]]",
            '# kind = "feedback"            # what users did with one item',
            '# user_id = "PATH"',
            '# ts = "PATH"',
            '# item_id = "PATH"',
            '# action = { value = "click" }',
            "#",
            "# Paths of these records:",
            *shown,
            "",
        ]
    )


def _example(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=True, default=str)
    return text if len(text) <= 60 else text[:60] + "..."


def _own_ids(groups: Sequence[RecordKind], fields: FieldValues) -> set[str]:
    every = set(fields).intersection(*[group.fields for group in groups])
    return {path for path in every if len(groups) > 1 and are_ids(fields[path]) and are_distinct(fields[path])}


def _when_any(selector: str | None, groups: Sequence[RecordKind]) -> list[str]:
    texts = [group.name for group in groups if group.when]
    if selector is None or not texts:
        return []
    found = toml_text(texts[0]) if len(texts) == 1 else f"[{', '.join(map(toml_text, texts))}]"
    return [f"when = {{ {key_text(selector)} = {found} }}"]
