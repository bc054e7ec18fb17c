"""Events of users who see lists and click, at set times."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

T0_MS = 1_772_323_200_000
HOUR_MS = 3_600_000


def visit(user: str, ts: int, variant: str | None, *, clicked: bool, country: str = "") -> Iterator[dict[str, Any]]:
    impression = {"type": "impression", "impression_id": f"{user}-{ts}", "user_id": user, "ts": ts, "items": list("abc")}
    labels = {"experiments": {"ranker": variant}} if variant else {}
    yield impression | labels | ({"segments": {"country": country}} if country else {})
    if clicked:
        yield click(user, f"{user}-{ts}", ts + 5_000)


def click(user: str, list_id: str, ts: int) -> dict[str, Any]:
    return {"type": "feedback", "impression_id": list_id, "user_id": user, "ts": ts, "item_id": "a", "action": "click"}


def visits(name: str, variant: str, users: int, hours: range, clicks: int, country: str = "") -> Iterator[dict[str, Any]]:
    """Yield one list of each user, evenly over some hours. Of 10 users who follow each other, so many click."""
    for user in range(users):
        ts = T0_MS + hours.start * HOUR_MS + user * len(hours) * HOUR_MS // users
        yield from visit(f"{name}{user}", ts, variant, clicked=user % 10 < clicks, country=country)
