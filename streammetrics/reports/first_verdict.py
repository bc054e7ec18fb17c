"""When a new installation has its first verdict, and which settings move that. Pure."""

from __future__ import annotations

from typing import NamedTuple

from streammetrics.words.times import minute_text, span_text


class FirstVerdictWait(NamedTuple):
    """How long lists wait until they are final, and how much longer until their users are counted in experiments (ms)."""

    final_ms: int
    users_ms: int

    @property
    def total_ms(self) -> int:
        return self.final_ms + self.users_ms

    def sentence(self) -> str:
        """Return what is waited for, for a log or a page.

        >>> print(FirstVerdictWait(1_865_000, 600_000).sentence())
        A first verdict comes 31 min to 41 min after the first lists, or later if users are few: lists are final 31 min after they \
were shown (join.attribution_ms, lateness_ms and out_of_orderness_ms), and users are counted up to 10 min later (experiments.patience_ms).
        """
        spans = f"{span_text(self.final_ms)} to {span_text(self.total_ms)}"
        return f"A first verdict comes {spans} after the first lists, or later if users are few: {self.reason}."

    @property
    def reason(self) -> str:
        final = (
            f"lists are final {span_text(self.final_ms)} after they were shown (join.attribution_ms, lateness_ms and out_of_orderness_ms)"
        )
        return f"{final}, and users are counted up to {span_text(self.users_ms)} later (experiments.patience_ms)"

    def at_text(self, shown_ms: int) -> str:
        """Return the times (UTC) between which the first verdict comes, if the first lists were shown at `shown_ms` and users suffice.

        >>> FirstVerdictWait(1_865_000, 600_000).at_text(1_772_366_400_000)
        '2026-03-01 12:31 UTC and 2026-03-01 12:41 UTC'
        """
        return f"{minute_text(shown_ms + self.final_ms)} and {minute_text(shown_ms + self.total_ms)}"
