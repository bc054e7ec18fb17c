"""The example of the docs is valid, and its records become what the docs say."""

from __future__ import annotations

import tomllib

from streammetrics.events import EventLimits, Feedback, Impression, topic_decoder
from streammetrics.events.mappings.rules import parse_mappings
from tests.support.paths import ROOT

NOON = 1772366400000


def test_the_example_of_the_docs_reads_its_records() -> None:
    page = (ROOT / "streammetrics" / "events" / "README.md").read_text(encoding="utf-8")
    section = page[page.index("## Events in other formats") :]
    rules = parse_mappings(tomllib.loads(section.partition("```toml\n")[2].partition("```")[0])["events"]["mappings"])
    shown, viewed, ordered = section.partition("```json\n")[2].partition("```")[0].encode().splitlines()
    searches, shop = (topic_decoder(topic, "native", rules, EventLimits()) for topic in ("searches", "shop"))
    assert list(searches(shown)) == [
        Impression("v1/1772366400", "v1", NOON, ("a", "b"), (("ranker-v7", "treatment"),), (("surface", "home"),)),
    ]
    assert list(shop(viewed)) == [Feedback("v1", NOON + 5_000, "a", "click")]
    assert list(shop(ordered)) == [Feedback("v1", NOON + 60_000, item, "purchase", price) for item, price in (("a", 9.9), ("c", 1.0))]
