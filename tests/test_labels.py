"""Which labels take a place among the groups that a task may hold: those of lists that it took."""

from __future__ import annotations

from collections.abc import Sequence

from streammetrics.engine import Arrived, Engine, EngineRules
from streammetrics.events.model import Impression
from streammetrics.grades import parse_grades
from streammetrics.lives import ExperimentRules
from streammetrics.metrics import Scorer
from streammetrics.sessions import JoinRules

GRADES = parse_grades("click=1")
SCORER = Scorer(["ndcg@3"])


def refused(rules: EngineRules, lists: Sequence[tuple[str, str, str]]) -> list[str]:
    """Why each list was refused, empty for those that were not, in one batch of (user, experiment, variant)."""
    engine = Engine(rules, SCORER)
    state = engine.open(None, {}, ())
    shown = [
        Impression(f"r{ts}", user, ts, ("a",), ((experiment, variant),) if experiment else ())
        for ts, (user, experiment, variant) in enumerate(lists)
    ]
    batch = Arrived(0, [(offset, -1, (event,)) for offset, event in enumerate(shown)], len(shown))
    engine.take(state, engine.needs(state, batch), {})
    why = {each.offset: each.reason for each in engine.step(state, batch)}
    return [why.get(offset, "") for offset in range(len(shown))]


def test_what_a_limit_refuses_leaves_room_for_the_labels_of_others() -> None:
    rules = EngineRules(topics=("i",), grades=GRADES, groups_max=3, join=JoinRules(lists_open_max=1))
    bot = [("bot", f"e{number}", "a") for number in range(5)]
    assert refused(rules, [*bot, ("u", "real", "a")]) == ["", *["too_many_lists"] * 4, ""]
    assert refused(rules, [*bot, ("u", "real", "a"), ("v", "next", "a")])[-1] == "too_many_groups"


def test_a_full_session_leaves_room_for_the_labels_of_others() -> None:
    rules = EngineRules(topics=("i",), grades=GRADES, groups_max=3, join=JoinRules(session_events_max=1))
    bot = [("bot", f"e{number}", "a") for number in range(5)]
    assert refused(rules, [*bot, ("u", "real", "a"), ("v", "next", "a")]) == [*[""] * 6, "too_many_groups"]


def test_variants_beyond_the_limit_leave_room_for_the_labels_of_others() -> None:
    rules = EngineRules(topics=("i",), grades=GRADES, groups_max=3, experiments=ExperimentRules(variants_max=1))
    told = refused(rules, [("u", "e", "a"), ("u", "e", "b"), ("u", "e", "c"), ("u", "", "")])
    assert told == ["", "too_many_variants", "too_many_variants", ""]
