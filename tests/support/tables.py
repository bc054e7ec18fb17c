"""Rules that hold for every row of a table, as one test for each rule."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

Rule = Callable[[Any], None]


def for_each(rows: Iterable[Any], name: Callable[[Any], str] = str) -> Callable[[Rule], Callable[[], None]]:
    """Make one test of a rule and all rows. It fails with the name of every row that breaks the rule, and why."""
    table = list(rows)
    assert table, "a rule without a row cannot fail"

    def of(rule: Rule) -> Callable[[], None]:
        def test() -> None:
            broken = []
            for row in table:
                try:
                    rule(row)
                except Exception as error:
                    broken.append(f"{name(row)}: {type(error).__name__} {error}")
            assert not broken, f"{len(broken)} of {len(table)} break the rule:\n" + "\n".join(broken)

        test.__name__, test.__doc__, test.__module__ = rule.__name__, rule.__doc__, rule.__module__
        return test

    return of
