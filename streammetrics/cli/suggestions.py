"""`decode --suggest`: the settings that read sample records, or else proposed mappings, as TOML with comments."""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from typing import Any, Final, NamedTuple, get_args

from streammetrics.config import Settings
from streammetrics.errors import MalformedEvent
from streammetrics.events import Event, Feedback, Impression
from streammetrics.events.advice.recognize import recognize
from streammetrics.events.advice.recognize_bytes import Recognized
from streammetrics.events.advice.suggest import suggested_mappings
from streammetrics.events.envelopes import Envelope, without_envelope
from streammetrics.events.grades import parse_grades
from streammetrics.events.mappings.rules import PRESETS
from streammetrics.events.outcomes import IGNORED
from streammetrics.reports.text import counted
from streammetrics.wiring.decoders import build_decoder
from streammetrics.wiring.encodings import json_of

CHANGES_MAX: Final = 3
"""An envelope, a format, and a setting of that format."""
REFUSED_SHARE_MAX: Final = 0.1
"""Mappings that refuse more of the records than this do not fit them."""


class SampleRecord(NamedTuple):
    """A record: its topic or file, its number or offset, and its bytes."""

    topic: str
    place: str
    value: bytes | None


class _Read(NamedTuple):
    """A record and what settings make of it."""

    record: SampleRecord
    events: Sequence[Event | MalformedEvent]

    @property
    def is_read(self) -> bool:
        """Whether the record holds events, none of which is refused. Ignored ones are read."""
        return bool(self.events) and all(not isinstance(event, MalformedEvent) or event.reason == IGNORED for event in self.events)

    @property
    def is_used(self) -> bool:
        """Whether the record holds lists or feedback, with nothing refused or ignored."""
        return bool(self.events) and not any(isinstance(event, MalformedEvent) for event in self.events)


def suggestion_lines(settings: Settings, records: Sequence[SampleRecord]) -> Generator[str, None, bool]:
    """Yield lines of TOML, with the answer as comments first. Mappings follow only for records that settings alone do not read.

    If there are several topics, the proposal is for the topic of the records alone, so that proposals can stand below each other.
    Returns whether the proposal reads lists or feedback: False for a skeleton, and if there is no record.
    """
    if not records:
        yield "# There is no record to propose anything from."
        return False
    topic = records[0].topic if len(settings.kafka.topics) > 1 and records[0].topic in settings.kafka.topics else ""
    found = _read(settings, records)
    if all(each.is_used for each in found):
        yield f"# {counted(len(records), 'record')} read, and all are lists or feedback already: no mapping is needed."
        return True
    changed, found = yield from _settings_that_read(settings, found, topic)
    if changed is not settings and any(each.is_read for each in found):
        return True
    own: list[str] = []
    if settings.events.format == "native" and any(each.is_used for each in found):
        topics = [f"topics = [{json.dumps(topic)}]"] if topic else []
        own = ["[[events.mappings]]", 'kind = "native"', *topics, 'when = { type = ["impression", "feedback"] }', ""]
    others = [each.record for each in found if not (own and each.is_used)]
    proposed = suggested_mappings(_objects(changed, others), parse_grades(settings.join.grades).table, topic)
    if own and not tomllib.loads(proposed.text):
        own += ["[[events.mappings]]", 'kind = "ignore"', *topics]
        yield from own
        return True
    text = "\n".join([*own, proposed.text.rstrip("\n")])
    yield text
    if not proposed.is_whole:
        return False
    tried = _tried(changed, records, text)
    yield from ("", *_result_lines(tried))
    return _fits(tried)


def _tried(settings: Settings, records: Sequence[SampleRecord], text: str) -> list[_Read]:
    """Return what the proposed mappings make of the records."""
    mappings = tuple(tomllib.loads(text)["events"]["mappings"])
    return _read(settings.model_copy(update={"events": settings.events.model_copy(update={"mappings": mappings})}), records)


def _fits(found: Sequence[_Read]) -> bool:
    """Return whether records became lists or feedback, few are refused, and some of the feedback, if any, is on items of the lists."""
    refused = sum(not each.is_read for each in found)
    events = [event for each in found for event in each.events]
    has_both = {Impression, Feedback} <= {type(event) for event in events}
    return any(each.is_used for each in found) and refused <= len(found) * REFUSED_SHARE_MAX and not (has_both and not _matched(events))


def _matched(events: Sequence[Event | MalformedEvent]) -> int:
    """Return how much feedback is on an item that a list of its user shows."""
    lists = [each for each in events if isinstance(each, Impression)]
    shown = {(each.user_id, of_list, item) for each in lists for of_list in (None, each.impression_id) for item in each.items}
    return sum((each.user_id, each.impression_id, each.item_id) in shown for each in events if isinstance(each, Feedback))


def _result_lines(found: Sequence[_Read]) -> Iterator[str]:
    """Yield comments: what the records became, and for how much feedback a list of its user shows the item."""
    events = [event for each in found for event in each.events]
    refused = [event for event in events if isinstance(event, MalformedEvent) and event.reason != IGNORED]
    lists = {(each.user_id, each.impression_id) for each in events if isinstance(each, Impression)}  # several records may show one list
    feedback, matched = [each for each in events if isinstance(each, Feedback)], _matched(events)
    ignored = sum(isinstance(event, MalformedEvent) and event.reason == IGNORED for event in events)
    reactions = f"{len(feedback):,} feedback, {matched:,} of it on an item that a list of its user shows"
    yield f"# Tried on these records: {counted(len(lists), 'list')}, {reactions}, {ignored:,} ignored, {len(refused):,} refused."
    if refused:
        yield f"# Refused as {refused[0].reason}: {refused[0].detail}"
    if feedback and not lists:
        yield "# Do the lists come from another topic, or from records beyond --limit?"
    elif feedback and not matched:
        yield "# No feedback is on an item of these lists: compare user_id, item_id and impression_id, or take more records (--limit)."


def _settings_that_read(settings: Settings, found: list[_Read], topic: str) -> Generator[str, None, tuple[Settings, list[_Read]]]:
    """Yield what the records seem to be and the settings for that. Returns the changed settings, and what they make of the records."""
    records, changed, lines = [each.record for each in found], settings, list[str]()
    for _ in range(CHANGES_MAX):
        seems = _most_seem(changed, found)
        change = None if seems is None else _change(seems, changed, found)
        if seems is None or change is None:
            break
        enough = " The shipped mappings may be enough:" if seems.name in PRESETS else ""
        yield f"# These seem to be {seems.what}.{enough} {seems.advice[0].upper() if not enough else seems.advice[0]}{seems.advice[1:]}."
        lines += [f'{key} = "{value}"' for key, value in change.items()]
        changed = changed.model_copy(update={"events": changed.events.model_copy(update=change)})
        found = _read(changed, records)
    if changed is settings:
        changed = settings.model_copy(update={"events": settings.events.model_copy(update={"numeric_ids": True})})
        with_numbers = _read(changed, records)
        if not all(each.is_used for each in with_numbers):
            return settings, found
        yield "# Their ids are whole numbers: set events.numeric_ids = true."
        lines, found = ["numeric_ids = true"], with_numbers
    own = topic and not any(line.startswith(("numeric_ids", "ubi_")) for line in lines)
    yield from (_read_words(found), "", f"[events.topics.{json.dumps(topic)}]" if own else "[events]", *lines)
    if any(each.is_read for each in found):
        yield from ("", *_result_lines(found))
    return changed, found


def _read_words(found: Sequence[_Read]) -> str:
    """Return a comment on what is read with the changed settings."""
    good, total = sum(each.is_read for each in found), len(found)
    are = "is" if total == 1 else "are"
    share = ("the only record" if total == 1 else f"all {total:,} records") if good == total else f"{good:,} of {counted(total, 'record')}"
    words = f"# With that, {share} {are} read."
    if good and not any(isinstance(event, Impression) for each in found for event in each.events):
        words += " None of them is a list: `replay` says what is missing."
    refused = [event for each in found for event in each.events if isinstance(event, MalformedEvent) and event.reason != IGNORED]
    return words + (f" Others are refused: {refused[0].detail}." if refused and good else "")


def _read(settings: Settings, records: Sequence[SampleRecord]) -> list[_Read]:
    decoders = {topic: build_decoder(settings, topic) for topic in dict.fromkeys(record.topic for record in records)}
    return [_Read(record, decoders[record.topic](record.value)) for record in records]


def _most_seem(settings: Settings, found: Sequence[_Read]) -> Recognized | None:
    """Return what most of the records that are not read seem to be."""
    schema, counts = settings.events.format, Counter[Recognized]()
    for each in found:
        if not each.is_read:
            counts.update(seems for value in inner_values(settings, each.record) if (seems := recognize(value, schema)) is not None)
    return counts.most_common(1)[0][0] if counts else None


def _change(seems: Recognized, settings: Settings, found: Sequence[_Read]) -> dict[str, Any] | None:
    """Return the setting of [events] that a description asks for; None if it asks for another, or if the setting is there already."""
    events = settings.events
    if seems.name in get_args(Envelope):
        return {"envelope": seems.name} if events.envelope == "none" else None
    if seems.name in (*PRESETS, "native", "ubi"):
        return {"format": seems.name} if events.format != seems.name and not events.mappings else None
    has_list = any(isinstance(event, Impression) for each in found for event in each.events)
    if seems.name == "ubi_queries" and events.ubi_lists != "hit_ids" and not has_list:
        return {"ubi_lists": "hit_ids"}
    return None


def inner_values(settings: Settings, record: SampleRecord) -> Iterator[bytes]:
    """Yield the JSON of a record as mappings see it, without encoding and envelope. What cannot be read stays as it is."""
    value = json_of(settings, record.topic)(record.value)
    inner: list[bytes] = []

    def keep(event: bytes | None) -> Sequence[Event | MalformedEvent]:
        if event is not None:
            inner.append(event)
        return ()

    refused = without_envelope(settings.events.envelope, keep)(value)
    yield from [value] if refused and value is not None else inner


def _objects(settings: Settings, records: Sequence[SampleRecord]) -> Iterator[dict[str, Any]]:
    for record in records:
        for value in inner_values(settings, record):
            try:
                found = json.loads(value)
            except (ValueError, RecursionError):
                continue
            yield from (each for each in (found if isinstance(found, list) else [found]) if isinstance(each, dict))
