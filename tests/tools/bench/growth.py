"""How the cost of an event grows with experiments, variants and the length of sessions. Each case has its own process.

Users see one list a minute, and four lists of ten get a click. Each list is in every experiment, and each experiment has its own split.
Time is the processor time of the engine alone. There is one commit for each second of event time. With `redis_url`, the state goes to a
Redis, and the growth of its append-only file is measured too.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from random import Random
from zlib import crc32

import redis

from streammetrics.config import Settings
from streammetrics.config.redis import RedisSettings
from streammetrics.connectors.redis.store import RedisStore
from streammetrics.engine.batch import Batch
from streammetrics.enrolment.scopes import WHOLE
from streammetrics.events.model import Event, Feedback, Impression, Labels
from streammetrics.statistics.measures import LISTS_AT, USERS_AT
from streammetrics.wiring.engine import build_engine
from streammetrics.wiring.gc_tuning import tune_garbage_collection
from tests.tools.bench.engine_alone import ITEMS, START_MS, Timed
from tests.tools.bench.parts import WrongAnswerError, read_given, reply
from tests.tools.bench.truth import INPUTS

EVENTS_PER_LIST = 1.4
"""A list, and the clicks of four lists of ten."""
SEGMENT_VALUES = 5
MINUTE_MS = 60_000
JOIN = {"attribution_ms": MINUTE_MS, "gap_ms": 2 * MINUTE_MS, "session_events_max": 10_000, "lists_open_max": 10_000}
"""The limits are higher than the defaults, so that long sessions of busy users stay below them."""
REST_MS = 4 * MINUTE_MS
"""Between two sessions of a user: more than the gap."""


class Arms:
    """Return the variants of a user. Each experiment has its own split. Equal label sets are one object, as the decoder makes them.

    `segments` is the number of segments of each list.
    """

    def __init__(self, experiments: int, variants: int, segments: int) -> None:
        self._experiments, self._variants = experiments, variants
        self._known: dict[Labels, Labels] = {}
        self.segments = [tuple((name, f"v{value}") for name in segment_names(segments)) for value in range(SEGMENT_VALUES)]
        """The segments of lists, which take turns."""

    def of(self, user: int) -> Labels:
        labels = tuple(
            (f"e{number:02}", f"v{crc32(b'%d of %d' % (user, number)) % self._variants:02}") for number in range(self._experiments)
        )
        return self._known.setdefault(labels, labels)


def segment_names(segments: int) -> list[str]:
    return [f"s{number}" for number in range(segments)]


def events_of(
    user: int, users: int, arms: Arms, every_ms: int, per_session: int, seconds: int, random: Random
) -> Iterator[tuple[int, int, Event]]:
    """Return a user's lists and clicks: time, topic, event. `per_session` lists are one session; 0: the session never ends."""
    labels, number = arms.of(user), user % per_session if per_session else 0
    ts = START_MS + user * every_ms // users
    while ts < START_MS + seconds * 1_000:
        first = random.randrange(len(ITEMS) - 10)
        identity, items = f"r{user}-{ts - START_MS}", tuple(ITEMS[first : first + 10])
        yield ts, 0, Impression(identity, f"u{user}", ts, items, labels, arms.segments[number % SEGMENT_VALUES])
        if random.random() < 0.4:
            clicked = ts + random.randrange(50, max(51, every_ms // 3))
            yield clicked, 1, Feedback(f"u{user}", clicked, items[random.randrange(10)], "click", None, identity)
        number += 1
        ts += every_ms
        if per_session and number % per_session == 0:
            ts += REST_MS


class Spent:
    """Processor time, bytes of state, and events since `begin`."""

    def __init__(self, timed: Timed) -> None:
        self._timed = timed
        self.events = self.value_bytes = 0
        self._before = 0.0
        save = timed.engine.save

        def counted(state: object) -> object:
            save_result = save(state)  # type: ignore[arg-type]
            self.value_bytes += save_result.changes.value_bytes
            return save_result

        timed.engine.save = counted  # type: ignore[method-assign,assignment]

    def begin(self) -> None:
        self.events = self.value_bytes = 0
        self._before = self._timed.step_seconds + self._timed.save_seconds

    @property
    def us_per_event(self) -> float:
        return (self._timed.step_seconds + self._timed.save_seconds - self._before) * 1e6 / max(self.events, 1)


def main() -> None:
    given = read_given()
    settings = Settings.model_validate(
        {
            "experiments": {"enabled": given["enabled"], "patience_ms": given["patience_ms"]},
            "join": JOIN,
            "windows": {"users": "auto", "segments": segment_names(given["segments"])},
        }
    )
    engine = build_engine(settings, INPUTS)
    users, random = given["users"], Random(7)
    arms = Arms(given["experiments"], given["variants"], given["segments"])
    events = sorted(
        (
            event
            for user in range(users)
            for event in events_of(user, users, arms, given["every_ms"], given["per_session"], given["seconds"], random)
        ),
        key=lambda event: event[:2],
    )
    tune_garbage_collection()
    timed = Timed(engine, users + 10_000)
    with contextlib.ExitStack() as stack:
        aof = None
        if given.get("redis_url"):
            store = stack.enter_context(contextlib.closing(RedisStore(RedisSettings(url=given["redis_url"], namespace="growth"))))
            timed.store, timed.claim = store, store.claim(0, "bench")  # type: ignore[assignment]
            aof = stack.enter_context(redis.from_url(given["redis_url"]))
        marks = feed(timed, events, given["marks"], aof)
        timed.finish()
    checked = check(timed, events, settings)
    reply({"marks": marks, "checked": checked, "lists": sum(topic == 0 for _, topic, _ in events)})


def feed(timed: Timed, events: list[tuple[int, int, Event]], at_seconds: list[int], aof: redis.Redis | None) -> list[dict[str, float]]:
    """Take all events, with a commit each second. Returns the costs between the given seconds, and from the last of them to the end."""
    spent, offsets, marks, aof_before = Spent(timed), [0, 0], list[dict[str, float]](), 0

    def mark() -> None:
        nonlocal aof_before
        aof_now, seen = aof_bytes(aof), max(spent.events, 1)
        marks.append({"us": spent.us_per_event, "bytes": spent.value_bytes / seen, "aof_bytes": (aof_now - aof_before) / seen})
        aof_before = aof_now
        spent.begin()

    waiting = [*at_seconds]
    for second, of_second in groupby(events, key=lambda event: (event[0] - START_MS) // 1_000):
        if waiting and second >= waiting[0]:
            waiting.pop(0)
            mark()
        taken = list(of_second)
        for topic in (0, 1):
            records = [(offsets[topic] + place, -1, (event,)) for place, (_, of, event) in enumerate(taken) if of == topic]
            if records:
                offsets[topic] = records[-1][0] + 1
                timed.step(Batch(topic, records, offsets[topic]))
        spent.events += len(taken)
        timed.save()
    mark()
    return marks[1:]


def aof_bytes(client: redis.Redis | None) -> int:
    """Return the size of the append-only file after Redis has written everything to it."""
    if client is None:
        return 0
    time.sleep(0.2)
    return int(client.info("persistence")["aof_current_size"])


def check(timed: Timed, events: list[tuple[int, int, Event]], settings: Settings) -> int:
    """Compare users and lists of every variant with plain counting. Returns how many numbers are equal.

    Lists whose time for feedback is open at the end of the input do not count.
    """
    if not settings.experiments.enabled:
        return 0
    last_ms = events[-1][0] - JOIN["attribution_ms"]
    impressions = [event for ts, _, event in events if isinstance(event, Impression) and ts <= last_ms]
    lists = Counter(label for event in impressions for label in event.experiments)
    users = Counter(label for label, _ in {(label, event.user_id) for event in impressions for label in event.experiments})
    checked = 0
    for run in timed.state.runs:
        for variant, moments in run.scopes[WHOLE].moments.by_variant().items():
            key = run.experiment, variant
            if (moments[USERS_AT], moments[LISTS_AT]) != (users.pop(key), lists.pop(key)):
                raise WrongAnswerError(f"{key} has other users or lists than plain counting finds")
            checked += 2
    if users or lists:
        raise WrongAnswerError(f"{len(users)} variants were not counted")
    return checked


if __name__ == "__main__":
    main()
