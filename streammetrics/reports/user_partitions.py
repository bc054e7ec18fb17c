"""Whether the events of a user meet in one task. If not, feedback misses its list, and every number is too low.

The hash function of the producers does not matter, as long as all of them use the same. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from streammetrics.words.numbers import percent
from streammetrics.words.sentences import DataWarning

SHARE_MAX: Final = 0.01
"""A larger share of users on several partitions is a problem. A few shared ids, such as "anonymous", are not."""
USERS_MIN: Final = 3
"""Fewer users than this on several partitions count as none."""
FIX: Final = (
    "set the user id as the record key in every producer, with the same partitioner; "
    "or let `streammetrics repartition` copy the topics with the user id as key"
)


@dataclass(frozen=True, slots=True)
class UserPartitions:
    """A sample of the users of all tasks: its size, and how many of them have events on several partitions."""

    users_sampled: int
    on_several: int

    @property
    def share(self) -> float:
        """The share of users on several partitions; 0 if they are fewer than USERS_MIN.

        >>> UserPartitions(200, 50).share, UserPartitions(200, 2).share
        (0.25, 0.0)
        """
        return self.on_several / self.users_sampled if self.on_several >= USERS_MIN else 0.0

    @property
    def problem(self) -> str:
        """One sentence if too many users are on several partitions, otherwise an empty string.

        >>> UserPartitions(200, 50).problem
        '25.0 % of users have events on several partitions (50 of 200 sampled users), so their feedback may miss its list'
        >>> UserPartitions(20, 2).problem, UserPartitions(1_000, 10).problem
        ('', '')
        """
        if self.share <= SHARE_MAX:
            return ""
        sample = f"{self.on_several} of {self.users_sampled} sampled users"
        return f"{percent(self.share)} of users have events on several partitions ({sample}), so their feedback may miss its list"

    def warnings(self) -> list[DataWarning]:
        """Return the problem and its fix, if there is one."""
        return [DataWarning("partitions", self.problem, FIX)] if self.problem else []
