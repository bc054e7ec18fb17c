"""The distinct users of windows equal sets of users over final lists, for every published window."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from streammetrics.connectors.store import Store
from streammetrics.engine.engine import Engine
from streammetrics.enrolment.rules import ExperimentRules
from streammetrics.metrics import Scorer, TallyLayout
from streammetrics.reports.builder import ReportBuilder
from streammetrics.reports.published import plain, user_windows_of
from streammetrics.windows.pane_tallies import PANES
from streammetrics.windows.panes import WindowRules
from streammetrics.windows.unique_users import UNIQUE_USERS, UniqueUserRules, UniqueUserWindows
from streammetrics.windows.user_counts import ALL, UserCountLayout, encode_user_counts
from tests.oracle import Settings, ShownList, expected_result
from tests.oracle.tallies import window_end
from tests.oracle.users import users_of_tasks, users_of_window
from tests.support.brute_force import FOR_EVER_MS, Shown, grades_text, users_shown
from tests.support.enrolments import NOON_MS, RANKER, clicked, feed, kept, shown
from tests.support.machine import Machine, engine_of
from tests.support.store_contract import ALL_DUE
from tests.support.strategies import Case, batches, cases, interleavings, tiny_session_cases
from tests.support.tables import for_each

DUE_MAX = st.sampled_from((1, 1_000))
PATIENCE = st.sampled_from((0, 4, 12))
RULES = st.one_of(st.none(), st.builds(ExperimentRules, idle_ms=st.sampled_from((FOR_EVER_MS, 20, 3)), patience_ms=PATIENCE))


def machine_for(case: Case, patience_ms: int = 0, experiments: ExperimentRules | None = None, due_max: int = 1_000) -> Machine:
    settings = case.settings
    patience_ms = patience_ms if experiments is None else experiments.patience_ms
    unique_users = UniqueUserRules(panes=max(settings.windows_ms) // settings.pane_ms, patience_ms=patience_ms)
    return Machine(engine_of(settings, grades_text(case), experiments=experiments, unique_users=unique_users), settings, due_max=due_max)


def shown_now(machine: Machine) -> Shown:
    return users_shown(machine.report().user_windows)


def final_lists(case: Case, machine: Machine, *, flush: bool) -> Sequence[ShownList]:
    result = expected_result(case.steps, case.settings, flush=flush)
    return result.tasks[0].lists


def expected(lists: Sequence[ShownList], settings: Settings, ends: Iterable[tuple[int, int | None]]) -> Shown:
    return {(window_ms, end_ms): users_of_window(lists, settings, end_ms, window_ms) for window_ms, end_ms in ends}


def end_of(case: Case, machine: Machine, *, flush: bool) -> int | None:
    """Return the end of windows once all users have been checked."""
    task = expected_result(case.steps, case.settings, flush=flush).tasks[0]
    rules = machine.engine.rules
    newest_ts = None if task.newest_ts is None else int(min(task.newest_ts, task.supported_ts))
    return window_end(task.f_ms - (rules.enrolment_wait_ms - rules.join.attribution_ms), newest_ts, case.settings.pane_ms)


@given(st.data(), cases(), PATIENCE, RULES, DUE_MAX, st.booleans())
def test_every_published_window_equals_brute_force(
    data: st.DataObject, case: Case, patience_ms: int, rules: ExperimentRules | None, due_max: int, flush: bool
) -> None:
    """Batches, commits, crashes and lost replies are arbitrary. No window is published before it is complete."""
    machine = machine_for(case, patience_ms, rules, due_max)
    published: Shown = {}
    machine.feed_all(case.steps, data, after_commit=lambda: published.update(shown_now(machine)))
    machine.finish(flush)
    published |= shown_now(machine)
    ends = [(window_ms, end_of(case, machine, flush=flush)) for window_ms in case.settings.windows_ms]
    assert published.keys() >= set(ends)
    assert published == expected(final_lists(case, machine, flush=flush), case.settings, published)


@given(st.data(), cases(without=("ticks",)), PATIENCE)
def test_the_interleaving_of_inputs_does_not_matter(data: st.DataObject, case: Case, patience_ms: int) -> None:
    other = data.draw(interleavings(case))
    one, two = machine_for(case, patience_ms), machine_for(other, patience_ms)
    for machine, steps in ((one, case.steps), (two, other.steps)):
        machine.run(steps)
    assert shown_now(one) == shown_now(two)


@given(st.data(), tiny_session_cases(), PATIENCE)
def test_sealed_sessions_equal_brute_force_in_any_batches(data: st.DataObject, case: Case, patience_ms: int) -> None:
    machine = machine_for(case, patience_ms)
    machine.run_in_batches(data.draw(batches(case.steps)), data)
    windows = shown_now(machine)
    assert windows == expected(final_lists(case, machine, flush=True), case.settings, windows)


@given(cases(), cases())
def test_tasks_add_up_to_the_lowest_watermark(one: Case, other: Case) -> None:
    """Users of different tasks are different users, even with equal ids."""
    other = Case(one.settings, other.steps if other.settings.inputs == one.settings.inputs else one.steps)
    machines = [machine_for(case) for case in (one, other)]
    builder = builder_of(machines[0])
    for task, (case, machine) in enumerate(zip((one, other), machines, strict=True)):
        machine.run(case.steps, flush=False)
        view = machine.store.view([0], {})[0]
        builder.update(task, view)
    ends = [end_of(case, machine, flush=False) for case, machine in zip((one, other), machines, strict=True)]
    end = None if None in ends else min(end for end in ends if end is not None)
    users = users_shown(builder.report(2).user_windows)
    lists = [final_lists(case, machine, flush=False) for case, machine in zip((one, other), machines, strict=True)]
    assert users == {(window_ms, end): users_of_tasks(lists, one.settings, end, window_ms) for window_ms in one.settings.windows_ms}


def builder_of(machine: Machine) -> ReportBuilder:
    settings = machine.settings
    rules = WindowRules(
        pane_ms=settings.pane_ms,
        windows_ms=settings.windows_ms,
        lateness_ms=settings.lateness_ms,
        attribution_ms=settings.attribution_ms,
    )
    return ReportBuilder(machine.engine.layout, rules, {}, machine.engine.signature)


@given(cases(), PATIENCE, RULES)
def test_after_a_flush_no_user_is_stored(case: Case, patience_ms: int, rules: ExperimentRules | None) -> None:
    machine = machine_for(case, patience_ms, rules)
    for step in case.steps:
        machine.feed([step])
        machine.commit()
    machine.finish(flush=True)
    loaded = machine.store.load(0, ("u", "v"), ALL_DUE, ("u", "v"))
    assert (loaded.users, loaded.due, loaded.totals) == ({}, [], {})


SETTINGS = Settings(
    inputs=("events",), gap_ms=1_000, lateness_ms=0, attribution_ms=500, pane_ms=100, windows_ms=(100, 1_000), cutoffs=(1, 3)
)
START_MS = NOON_MS


def machine_of(panes: int = 10, experiments: ExperimentRules | None = None, store: Store | None = None, **limits: int) -> Machine:
    engine = engine_of(SETTINGS, experiments=experiments, unique_users=UniqueUserRules(panes=panes), **limits)
    return Machine(engine, SETTINGS, store)


def all_traffic(machine: Machine) -> dict[int, tuple[int, dict[int, int]]]:
    """Return the users of all traffic by window."""
    return {window_ms: users["", ""] for (window_ms, _), users in shown_now(machine).items() if ("", "") in users}


def test_a_user_with_many_lists_counts_once_and_needs_one_hit() -> None:
    machine = machine_of()
    feed(
        machine,
        *(shown("u", START_MS + at, items=("x", "i")) for at in (0, 50, 150)),
        clicked("u", START_MS + 160),
        shown("v", START_MS + 180, RANKER),
        shown("clock", START_MS + 799),
    )
    users = shown_now(machine)
    assert users[1_000, START_MS + 200] == {("", ""): (2, {1: 0, 3: 1}), ("ranker", "a"): (1, {1: 0, 3: 0})}
    assert users[100, START_MS + 200] == users[1_000, START_MS + 200]


@for_each(range(200, 300, 10))
def test_a_list_of_an_open_session_is_counted_when_its_pane_is_final(later: int) -> None:
    """Without the check at the pane's end, the user would only be checked 500 ms after the session's last event."""
    settings = replace(SETTINGS, gap_ms=500, out_of_orderness_ms=300)
    machine = Machine(engine_of(settings, unique_users=UniqueUserRules(panes=10)), settings)
    feed(machine, clicked("u", START_MS + later), shown("u", START_MS + 150), shown("clock", START_MS + 1_000))
    assert machine.state.progress.watermark == START_MS + 700, "the end of the list's pane and the time of attribution"
    assert shown_now(machine)[100, START_MS + 200] == {("", ""): (1, {1: 1, 3: 1})}


def test_a_quiet_user_is_removed_from_the_store() -> None:
    machine = machine_of(panes=30)
    feed(machine, shown("u", START_MS), shown("clock", START_MS + 2_000))
    assert kept(machine, "u")[0].keys() == {"u"}
    feed(machine, *(shown("clock", START_MS + at) for at in (2_999, 3_000, 3_001, 3_002)))
    totals, due, _ = kept(machine, "u")
    assert ("u" in totals, "u" in due) == (False, False)


def test_windows_keep_the_panes_that_the_store_keeps() -> None:
    stored = encode_user_counts({ALL: {(0, 9): 1}})
    aggregator = UniqueUserWindows(UserCountLayout(Scorer(["hit_rate@3"])), 10)
    for start in (0, 10, 20):
        aggregator.update(0, {start: stored}, start - 10)
        aggregator.update(1, {start: stored}, 0)
    assert [aggregator.window(10, end, 5).arms[0].users for end in (10, 20, 30)] == [1, 2, 2]
    aggregator.update(1, {10: stored}, 0, is_snapshot=True)
    assert [aggregator.window(10, end, 5).arms[0].users for end in (30, 20)] == [1, 2]


def test_user_counts_leave_the_store_with_their_panes() -> None:
    machine = machine_of(retention_ms=2_000)
    feed(machine, *(shown("u", START_MS + at) for at in range(0, 8_000, 400)))
    view = machine.store.view([0], {})[0]
    user_counts = view.table(UNIQUE_USERS)
    assert user_counts.keys() <= view.table(PANES).keys()
    assert min(map(int, user_counts)) >= machine.state.panes.oldest_kept
    assert len(machine.state.unique_users.panes) < len(user_counts) < 10


def test_a_longer_longest_window_starts_counting_again() -> None:
    """Counts for five panes do not show who was there six panes ago."""
    short = machine_of(panes=5)
    feed(short, *(shown(f"u{number}", START_MS + 10 * number) for number in range(150)))
    assert [window.complete for window in short.report().user_windows] == [True, False]
    longer = machine_of(panes=10, store=short.store)
    complete = []
    for number in range(250):
        feed(longer, shown(f"u{number % 7}", START_MS + 1_500 + 10 * number))
        complete.append([window.complete for window in longer.report().user_windows])
        for window in longer.report().user_windows:
            assert all(counts.users == 7 for counts in window.arms)
    assert START_MS + 1_500 <= longer.state.unique_users.counted_from <= START_MS + 1_600
    assert [both for both, before in zip(complete, [None, *complete], strict=False) if both != before] == [
        [False, False],
        [True, False],
        [True, True],
    ]


def test_less_patience_does_not_shorten_the_wait_for_earlier_lists() -> None:
    patient = Machine(engine_of(SETTINGS, unique_users=UniqueUserRules(panes=10, patience_ms=300)), SETTINGS)
    feed(patient, shown("u", START_MS), clicked("u", START_MS))
    machine = machine_of(store=patient.store)
    feed(machine, shown("clock", START_MS + 700))
    assert {end for _, end in shown_now(machine)} == {START_MS - 100}
    feed(machine, shown("clock", START_MS + 900))
    assert {end for _, end in shown_now(machine)} == {START_MS + 100}
    assert all_traffic(machine)[100] == (1, {1: 1, 3: 1})


def test_the_earlier_patience_ends_with_the_lists_of_its_time() -> None:
    patient = Machine(engine_of(SETTINGS, unique_users=UniqueUserRules(panes=10, patience_ms=300)), SETTINGS)
    feed(patient, shown("u", START_MS))
    machine = machine_of(store=patient.store)
    ends = []
    for at in range(100, 1_501, 100):
        feed(machine, shown("clock", START_MS + at))
        feed(machine, shown("clock", START_MS + at))
        ends.append(max(end for _, end in shown_now(machine) if end is not None) - START_MS - at)
    assert ends == [-800] * 8 + [-500] * 7  # the first list's pane ends at 100, and all its lists are counted 800 later


@given(st.data(), cases(), PATIENCE, st.booleans())
def test_windows_equal_brute_force_while_patience_changes(data: st.DataObject, case: Case, patience_ms: int, flush: bool) -> None:
    machine, published = machine_for(case, patience_ms), Shown()
    for batch in data.draw(batches(case.steps)):
        machine.feed(batch)
        if data.draw(st.booleans()):
            machine.commit()
            published |= shown_now(machine)
            machine.engine = machine_for(case, data.draw(PATIENCE)).engine
            machine.open()
    machine.finish(flush)
    published |= shown_now(machine)
    assert published == expected(final_lists(case, machine, flush=flush), case.settings, published)


def test_last_seen_is_kept_while_a_list_of_the_user_may_still_count() -> None:
    settings = replace(SETTINGS, gap_ms=100, windows_ms=(500,))
    machine = Machine(engine_of(settings, unique_users=UniqueUserRules(panes=5)), settings)
    feed(machine, shown("u", START_MS), shown("clock", START_MS + 300), clicked("u", START_MS + 398))
    machine.feed([shown("u", START_MS + 499), shown("clock", START_MS + 550)])
    feed(machine, shown("clock", START_MS + 551))
    feed(machine, shown("clock2", START_MS + 1_000))
    feed(machine, shown("clock2", START_MS + 1_001))
    assert shown_now(machine)[500, START_MS + 500]["", ""][0] == 2


def test_users_counted_before_and_after_a_restart_add_up() -> None:
    settings = replace(SETTINGS, gap_ms=100, windows_ms=(100,))
    machine = Machine(engine_of(settings, unique_users=UniqueUserRules(panes=1)), settings)
    answers = [clicked("v", START_MS + at) for at in range(140, 560, 90)]  # keep the session open
    feed(machine, shown("u", START_MS + 10), shown("v", START_MS + 50), *answers, shown("clock", START_MS + 560))
    assert machine.state.enrolments.enrolled_before == START_MS
    assert machine.state.unique_users.panes[START_MS] == {("", ""): {(0, 1): 1}}
    machine.open()
    feed(machine, shown("clock", START_MS + 640))
    assert shown_now(machine)[100, START_MS + 100]["", ""][0] == 2


def test_without_user_windows_nothing_is_stored_or_shown() -> None:
    machine = Machine(engine_of(SETTINGS), SETTINGS)
    feed(machine, shown("u", START_MS), shown("clock", START_MS + 10_000))
    assert kept(machine, "u") == ({}, ["clock"], {})
    assert machine.report().user_windows == ()
    assert machine.store.view([0], {})[0].table(UNIQUE_USERS) == {}


def test_without_hit_rate_only_users_are_counted() -> None:
    layout = UserCountLayout(Scorer(["ndcg@10"]))
    assert (layout.kinds, layout.cutoffs, layout.hit_kind((0, 3))) == (1, [], 0)
    tallies = TallyLayout(Scorer(["ndcg@10"], items_max=1_000, grade_max=10))
    engine = Engine(engine_of(SETTINGS, unique_users=UniqueUserRules(panes=10)).rules, tallies)
    machine = Machine(engine, SETTINGS)
    feed(machine, shown("u", START_MS), clicked("u", START_MS + 1), shown("v", START_MS + 5), shown("clock", START_MS + 900))
    assert all_traffic(machine)[1_000] == (2, {})


def test_the_report_has_users_in_json() -> None:
    machine = machine_of()
    feed(machine, shown("u", START_MS, RANKER), clicked("u", START_MS + 1), shown("v", START_MS + 1), shown("clock", START_MS + 900))
    windows = plain(user_windows_of(machine.report().user_windows))
    assert [(window["window_ms"], window["end_ms"], window["complete"]) for window in windows] == [
        (window_ms, START_MS + 400, True) for window_ms in SETTINGS.windows_ms
    ]
    assert windows[0]["groups"] == []
    assert windows[1]["groups"][0] == {
        "experiment": "",
        "variant": "",
        "users": 2,
        "users_with_hit": {"user_hit_rate@1": 1, "user_hit_rate@3": 1},
        "values": {"user_hit_rate@1": 0.5, "user_hit_rate@3": 0.5},
    }
