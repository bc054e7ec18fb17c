"""The partition of a record, by hashes that Kafka itself is tested with and by the client's own murmur2."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2

from streammetrics.connectors.kafka.partitioner import (
    BATCH_KEY_BYTES_MAX,
    BATCH_MIN,
    misplaced_keys,
    partition_of,
    partitions_of,
)

USER_IDS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
    st.text("abcdefgh", max_size=2 * BATCH_KEY_BYTES_MAX),
    st.integers(0, 99_999).map("u{}".format),
)


def client_partition(user_id: str, partitions: int) -> int:
    """Return the partition by the client's own hash."""
    return int(murmur2(user_id.encode()) & 0x7FFFFFFF) % partitions


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        ("21", -973932308),
        ("foobar", -790332482),
        ("a-little-bit-long-string", -985981536),
        ("a-little-bit-longer-string", -1486304829),
        ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        ("abc", 479470107),
    ],
)
def test_a_key_is_on_the_partition_that_kafka_chooses(key: str, hashed: int) -> None:
    """The hashes are those of Kafka's `UtilsTest`; its partitioner takes them without their sign bit."""
    expected = [(hashed & 0x7FFFFFFF) % partitions for partitions in (1, 6, 12, 1_000)]
    assert [partition_of(key, partitions) for partitions in (1, 6, 12, 1_000)] == expected
    assert [partitions_of([key] * BATCH_MIN, partitions)[-1] for partitions in (1, 6, 12, 1_000)] == expected


@given(st.lists(USER_IDS, max_size=3 * BATCH_MIN), st.integers(1, 10_000))
def test_every_key_is_on_the_partition_that_the_client_chooses(user_ids: list[str], partitions: int) -> None:
    expected = [client_partition(user_id, partitions) for user_id in user_ids]
    assert partitions_of(user_ids, partitions) == expected
    assert [partition_of(user_id, partitions) for user_id in user_ids] == expected


@given(st.lists(st.text("abcdefghijklmnop", max_size=BATCH_KEY_BYTES_MAX), min_size=BATCH_MIN, max_size=3 * BATCH_MIN))
def test_a_batch_of_keys_of_all_lengths_is_hashed_like_single_keys(user_ids: list[str]) -> None:
    assert partitions_of(user_ids, 997) == [client_partition(user_id, 997) for user_id in user_ids]


@given(st.lists(USER_IDS, max_size=2 * BATCH_MIN), st.integers(0, 3))
def test_misplaced_keys_belong_to_another_partition(user_ids: list[str], partition: int) -> None:
    assert misplaced_keys(user_ids, partition, 4) == {user_id for user_id in user_ids if client_partition(user_id, 4) != partition}
