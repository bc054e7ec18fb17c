"""How numbers are written: counts, shares and chances. Pure."""

from __future__ import annotations

import math

from streammetrics.words.sentences import Part, Words, say


def percent(share: float) -> Words:
    """Format a share with two digits, or three from 10 % on, in percent. From 95 % on, what is missing to 100 % has two digits.

    It is never rounded up to 100 %, and has at most four decimals.

    >>> percent(0.12), percent(0.0312), percent(0.964223), percent(0.998765), percent(0.00004)
    ('12 %', '3.1 %', '96.4 %', '99.87 %', '0.004 %')
    >>> percent(0.9999999), percent(1.0), percent(1.345678), percent(123.45678)
    ('99.9999 %', '100 %', '135 %', '12,300 %')
    """
    value = 100 * share
    if 95 <= value < 100:
        decimals = min(4, 1 - math.floor(math.log10(100 - value)))
        text = f"{math.floor(value * 10**decimals + 1e-6) / 10**decimals:.6g} %"
    else:
        text = f"{float(f'{value:.3g}' if abs(value) >= 10 else f'{value:.2g}'):,.10g} %"
    return Words([Part("number", text)])


def share_of(part: int, whole: int) -> Words:
    """Format a part of a whole. A whole that is counted later than its part is at least as large.

    >>> share_of(1, 8), share_of(3, 2)
    ('12.5 %', '100 %')
    """
    return percent(part / max(part, whole))


def chance(p: float) -> str:
    """Say how rare something with a p-value is.

    >>> chance(0.0123), chance(1e-14)
    ('happens by chance at most once in 80 tests', 'practically impossible by chance')
    """
    if p <= 1e-12:
        return "practically impossible by chance"
    digits = len(str(int(1 / p))) - 1
    return f"happens by chance at most once in {int(1 / p) // 10**digits * 10**digits:,} tests"


def confidence(alpha: float) -> Words:
    """Return how sure a verdict of this error is."""
    return say("{sure} confidence, safe to check at any time", sure=percent(1 - alpha))


def counted(count: int, what: str) -> Words:
    """Return a count with its noun. The plural ends in s.

    >>> counted(1, "problem"), counted(12_000, "user")
    ('1 problem', '12,000 users')
    """
    return say("{count:,} {what}", count=count, what=what if count == 1 else f"{what}s")
