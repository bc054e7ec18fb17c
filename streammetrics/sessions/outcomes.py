"""The outcomes of a session's feedback and fragments, counted when the session closes."""

from __future__ import annotations

from collections import Counter

from streammetrics.sessions.session import Session


def count_outcomes(session: Session, attribution_ms: int, counts: Counter[tuple[str, int]]) -> tuple[int, int]:
    """Add the outcomes of a closed session to `counts`, by (outcome, topic index).

    Returns the number of matched and of unmatched feedback.
    """
    matched: dict[int, int] = {}
    distinct: dict[tuple[str | None, str, str], int] = {}
    answers, lists = session.feedback, session.lists
    if len({feedback.topic for feedback in answers}) > 1:  # of equal feedback from two topics, the later one is `repeated`
        answers = sorted(answers, key=lambda feedback: (feedback.ts, feedback.topic))
    for feedback in answers:
        topic, identity, item_id = feedback.topic, feedback.impression_id, feedback.item_id
        shown = None if identity is None else lists.get(identity)
        if shown is None or item_id not in shown.items or feedback.ts - shown.ts > attribution_ms:  # `find`, inlined for its common case
            found = session.find(feedback, attribution_ms)
            if type(found) is not tuple:
                counts[str(found), topic] += 1
                continue
            identity = found[0].impression.impression_id
        matched[topic] = matched.get(topic, 0) + 1
        distinct.setdefault((identity, item_id, feedback.action), topic)
    for topic, count in matched.items():
        counts["matched", topic] += count
        repeated = count - (len(distinct) if len(matched) == 1 else sum(first == topic for first in distinct.values()))
        if repeated:
            counts["repeated", topic] += repeated
    for identity, parts in session.fragmented.items():
        if identity not in lists and not parts.whole_seen:
            for fragment in parts.fragments:
                counts["too_many_items", fragment.topic] += 1
    matched_count = sum(matched.values())
    return matched_count, len(answers) - matched_count
