"""Unknown names in a report: merged over tasks, most frequent first, with the nearest known name."""

from __future__ import annotations

from streammetrics.events.unknown_names import nearest
from streammetrics.reports.data_warnings import SHOWN_MAX, UnknownName, merge_names
from tests.support.tables import for_each

KNOWN = {"action": ("click", "purchase"), "type": ("impression", "feedback")}


@for_each(
    [
        ("CLICK", "click"),
        ("Product Clicked", "click"),
        ("item_click", "click"),
        ("itemClick", "click"),
        ("select_item", "click"),
        ("clikc", "click"),
        ("order-completed", "purchase"),
        ("Purchases", "purchase"),
        ("hover", None),
        ("page_view", None),
        ("", None),
        ("\u05d0", None),
    ]
)
def test_the_nearest_known_name_is_suggested(case: tuple[str, str | None]) -> None:
    name, meant = case
    assert nearest(name, KNOWN["action"]) == meant


def test_the_nearest_type_is_suggested() -> None:
    nearest_names = {name: nearest(name, KNOWN["type"]) for name in ("impressions", "Impression", "view", "track")}
    assert nearest_names == {"impressions": "impression", "Impression": "impression", "view": "impression", "track": None}


def test_the_counts_of_tasks_are_added() -> None:
    stored = [("action", "CLICK", 2), ("action", "hover", 5), ("action", "", 1), ("action", "CLICK", 4), ("type", "page", 1)]
    assert merge_names(stored, KNOWN) == (
        UnknownName("action", "CLICK", 6, "click"),
        UnknownName("action", "hover", 5),
        UnknownName("action", None, 1),
        UnknownName("type", "page", 1),
    )


def test_rare_names_are_counted_with_the_others() -> None:
    name_counts = merge_names([("action", f"a{number:03}", number) for number in range(1, 101)], {})
    assert len(name_counts) == SHOWN_MAX + 1
    assert name_counts[0] == UnknownName("action", "a100", 100)
    assert name_counts[-1] == UnknownName("action", None, sum(range(1, 81)))


def test_names_are_safe_to_show() -> None:
    assert str(UnknownName("action", "a\nb", 1)) == "a\ufffdb 1"
    assert str(UnknownName("action", "", 1)) == '"" 1'
