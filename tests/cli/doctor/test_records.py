"""What `doctor` says about recent records: form, events, actions, times, keys, and the settings of a topic."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable

import pytest

from streammetrics.cli.doctor.data import key_findings, reader_findings
from streammetrics.cli.doctor.findings import DoctorFinding
from streammetrics.cli.doctor.records import decoded_topic, record_findings, sample_findings, settings_findings
from streammetrics.config import Settings
from streammetrics.connectors.kafka.partitioner import partition_of
from streammetrics.connectors.kafka.recent_records import RecentRecord
from streammetrics.connectors.kafka.topics import TopicSettings
from streammetrics.events.reader import reader_decoder
from streammetrics.events.record import ignore
from streammetrics.wiring.decoders import build_decoder

NOW_MS = 1_732_183_200_000
SETTINGS = Settings()
DECODE = build_decoder(SETTINGS)


def shown(user: str = "u", ts: int = NOW_MS) -> bytes:
    return json.dumps({"type": "impression", "impression_id": "r", "user_id": user, "ts": ts, "items": ["a"]}).encode()


def clicked(action: str = "click", ts: int = NOW_MS) -> bytes:
    return json.dumps({"type": "feedback", "user_id": "u", "ts": ts, "item_id": "a", "action": action}).encode()


def found_in(values: Iterable[bytes | None], settings: Settings = SETTINGS, record_ts: int | None = None) -> list[DoctorFinding]:
    records = [RecentRecord(0, offset, NOW_MS if record_ts is None else record_ts, b"u", value) for offset, value in enumerate(values)]
    decoded = decoded_topic("shown", records, build_decoder(settings))
    return [*record_findings(decoded, settings, NOW_MS), *sample_findings([decoded], settings)]


def problems(findings: Iterable[DoctorFinding]) -> list[tuple[str, str]]:
    return [(level, text) for level, text, _ in findings if level != "ok"]


class TestForm:
    def test_records_that_are_no_events_ask_for_a_reader(self) -> None:
        (finding,) = found_in([b'{"who":"u","what":"seen"}'] * 20)
        assert finding.level == "fail"
        assert finding.text.startswith("topic shown: 20 of 20 recent records are refused (missing_field 20)")
        assert finding.fix.endswith("this is no native event: type is missing; write a reader: streammetrics config --reader")

    def test_readers_of_topics_that_are_not_read_are_named(self) -> None:
        def found_with(table: dict[str, str], *topics: str) -> list[DoctorFinding]:
            return [*reader_findings(Settings.model_validate({"events": {"reader": table}, "kafka": {"topics": topics}}))]

        table = {"searches": "ubi", "clicks": "ubi"}
        text = "events.reader has a reader for clicks, which kafka.topics does not name"
        fix = "correct the names in events.reader; these topics have no reader: clicks-by-user"
        assert found_with(table, "searches", "clicks-by-user") == [("warn", text, fix)]
        assert found_with(table, "searches") == [("warn", text, "correct the names in events.reader")]
        assert found_with(table, "searches", "clicks", "orders") == [], "orders are native"

    def test_usable_records_are_counted_by_kind(self) -> None:
        findings = found_in([shown(), shown(), clicked()])
        assert problems(findings) == []
        assert findings[0].text == "topic shown: 3 of 3 recent records usable: 2 lists, 1 feedback"

    def test_a_topic_without_records_is_no_problem(self) -> None:
        assert found_in([]) == [("ok", "topic shown: no records yet, so its data was not checked", "")]

    def test_a_few_refused_records_are_a_warning_with_the_first_place_and_reason(self) -> None:
        findings = found_in([shown(), clicked(), b'{"type":"impression","user_id":7}'])
        assert [finding.level for finding in findings] == ["warn", "ok", "ok"]
        assert "1 of 3 recent records is refused (" in findings[0].text
        assert "partition 0 offset 2: " in findings[0].fix

    def test_records_that_their_reader_ignores_are_a_failure(self) -> None:
        decode = reader_decoder(lambda record: [ignore("page")], DECODE, SETTINGS.event_limits)
        records = [RecentRecord(0, offset, NOW_MS, b"u", b"{}") for offset in range(3)]
        (finding,) = record_findings(decoded_topic("shown", records, decode), SETTINGS, NOW_MS)
        assert (finding.level, finding.text) == ("fail", "topic shown: none of 3 recent records holds an event")


class TestActions:
    def test_actions_without_a_grade_are_named_with_the_nearest_known_one(self) -> None:
        texts = [text for _, text in problems(found_in([clicked("clik"), clicked("clik"), clicked("share"), clicked()]))]
        assert texts == [
            "50 % of the feedback, 2 of 4, has the action clik, which has no grade (did you mean click?)",
            "25 % of the feedback, 1 of 4, has the action share, which has no grade",
        ]


class TestTimes:
    def test_events_in_the_future_are_reported_by_their_record_or_else_by_the_clock(self) -> None:
        year_ms = 365 * 86_400_000
        [(_, by_record)] = problems(found_in([shown(), shown(ts=NOW_MS + year_ms)]))
        assert by_record.startswith("50 % of the events of shown are dated too long after their records, 1 of 2")
        by_clock = problems(found_in([shown(), shown(ts=NOW_MS + year_ms)], record_ts=-1))
        assert by_clock == [("warn", "topic shown: 1 of 2 events dated in the future, by up to 365 days")]

    def test_events_after_their_record_are_reported(self) -> None:
        settings = Settings.model_validate({"join": {"future_ms": 60_000}})
        assert problems(found_in([shown()], settings, record_ts=NOW_MS - 60_000)) == []
        [(level, text)] = problems(found_in([shown()], settings, record_ts=NOW_MS - 7_200_000))
        assert level == "warn"
        assert text.startswith("100 % of the events of shown are dated too long after their records, 1 of 1, so they are refused as future")

    def test_events_that_would_be_late_are_reported(self) -> None:
        allowed_ms = SETTINGS.join.lateness_ms + SETTINGS.join.out_of_orderness_ms
        assert problems(found_in([shown(), shown(ts=NOW_MS - allowed_ms)])) == []
        assert problems(found_in([shown(), shown(ts=NOW_MS - allowed_ms - 90_000)])) == [
            ("warn", "topic shown: 1 of 2 events would be late, by up to 90 s")
        ]

    def test_the_usual_delay_of_records_is_shown(self) -> None:
        text = found_in([shown(ts=NOW_MS - 4_000)])[-1].text
        assert text == "topic shown: the newest event is 4 s old; records are written 4 s after their events (median)"


class TestTopicSettings:
    @pytest.mark.parametrize("policy", ["compact", "compact,delete"])
    def test_a_compacted_topic_is_a_warning(self, policy: str) -> None:
        [finding] = settings_findings("shown", TopicSettings(policy, "CreateTime", -1), SETTINGS)
        assert finding.level == "warn"
        assert f"cleanup.policy is {policy}" in finding.text
        assert "cleanup.policy=delete" in finding.fix

    def test_a_retention_shorter_than_a_session_is_a_warning(self) -> None:
        [finding] = settings_findings("shown", TopicSettings("delete", "CreateTime", 600_000), SETTINGS)
        assert finding.level == "warn"
        assert "retention.ms is 600,000, so records are gone after 10 min" in finding.text

    def test_usual_settings_are_shown(self) -> None:
        assert list(settings_findings("shown", TopicSettings("delete", "LogAppendTime", 604_800_000), SETTINGS)) == [
            ("ok", "topic shown: records are kept for 7 days, timestamps are LogAppendTime", "")
        ]


def keyed(
    place: Callable[[str], int], key: Callable[[str], bytes | None] = str.encode, users: int = 40, topic: str = "shown", partitions: int = 4
) -> list[DoctorFinding]:
    records = [RecentRecord(place(f"u{number}"), number, NOW_MS, key(f"u{number}"), shown(f"u{number}")) for number in range(users)]
    return list(key_findings([decoded_topic(topic, records, DECODE)], partitions))


def murmur2(user: str) -> int:
    return partition_of(user, 4)


def crc32(user: str) -> int:
    return zlib.crc32(user.encode()) % 4


class TestKeys:
    @pytest.mark.parametrize(("place", "name"), [(murmur2, "murmur2"), (crc32, "CRC32 (librdkafka)")])
    def test_one_partitioner_for_all_is_fine(self, place: Callable[[str], int], name: str) -> None:
        findings = keyed(place)
        assert problems(findings) == []
        assert findings[-1].text == f"all topics are partitioned by {name}"

    def test_with_one_partition_keys_do_not_matter(self) -> None:
        assert keyed(lambda _: 0, lambda _: None, partitions=1) == []

    def test_records_without_a_key_are_a_warning_while_no_user_is_seen_twice(self) -> None:
        [finding] = keyed(murmur2, lambda _: None)
        assert finding.level == "warn"
        assert finding.text == "topic shown: 40 of 40 usable records have no key"
        assert "streammetrics repartition" in finding.fix

    def test_users_on_several_partitions_are_a_failure(self) -> None:
        topics = [
            decoded_topic(
                topic, [RecentRecord(place(f"u{number}"), number, NOW_MS, None, shown(f"u{number}")) for number in range(40)], DECODE
            )
            for topic, place in (("shown", murmur2), ("clicked", crc32))
        ]
        findings = list(key_findings(topics, 4))
        assert findings[0].level == "fail"
        assert " of 40 users in the sample have events on several partitions, such as 'u" in findings[0].text
        assert "streammetrics repartition" in findings[0].fix
        assert [finding.level for finding in findings[1:]] == ["warn", "warn"]

    def test_topics_with_different_partitioners_are_a_failure_even_without_common_users(self) -> None:
        topics = [
            decoded_topic(
                topic,
                [RecentRecord(place(f"{topic}{n}"), n, NOW_MS, f"{topic}{n}".encode(), shown(f"{topic}{n}")) for n in range(40)],
                DECODE,
            )
            for topic, place in (("shown", murmur2), ("clicked", crc32))
        ]
        assert problems(key_findings(topics, 4)) == [
            ("fail", "the topics are partitioned by different partitioners: shown by murmur2, clicked by CRC32 (librdkafka)")
        ]

    def test_an_unknown_partitioner_is_a_warning(self) -> None:
        assert problems(keyed(lambda user: int(user[1:]) % 4)) == [
            ("warn", "the partitioner of shown is unknown, or producers use several")
        ]

    def test_a_key_that_is_not_the_user_id_is_a_warning_with_an_example(self) -> None:
        [finding] = [
            finding
            for finding in keyed(lambda user: partition_of(f'"{user}"', 4), lambda user: f'"{user}"'.encode())
            if finding.level == "warn"
        ]
        assert finding.text == "topic shown: the key of 40 of 40 usable records is not the user id, such as '\"u0\"' for user 'u0'"
