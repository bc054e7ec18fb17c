"""Users' totals and the sums of experiments against brute force: the integers are equal for any order, batches and crashes."""

from __future__ import annotations

from collections import Counter

from hypothesis import assume, given
from hypothesis import strategies as st

from streammetrics.connectors.clock import SystemClock
from streammetrics.engine.engine import Engine
from streammetrics.enrolment.credits import TEAM_PAIRS_MAX
from streammetrics.enrolment.rules import CovariatePeriod, ExperimentRules, Span
from streammetrics.events.model import Feedback, Impression
from streammetrics.events.outcomes import UNMATCHED
from streammetrics.experiments import ExperimentReport, Policy
from streammetrics.metrics import Scorer, Spec, TallyLayout
from streammetrics.metrics.units import TOTAL_MAX
from streammetrics.reports.builder import ReportBuilder
from streammetrics.reports.history import History
from streammetrics.reports.published import plain, published
from streammetrics.reports.report import Report
from streammetrics.reports.rules import ReportRules
from streammetrics.runtime.publish.publisher import Publisher
from streammetrics.runtime.status import ProcessStatus
from streammetrics.windows.panes import WindowRules
from streammetrics.words.times import HOUR_MS
from tests.oracle import Arrival, Settings, Step, Tick
from tests.support.brute_force import FOR_EVER_MS, assert_equals_brute_force, scopes_of
from tests.support.enrolments import (
    DAY_MS,
    DUE_MAX,
    NOON_MS,
    PATIENCE,
    RANKER,
    RULES,
    SETTINGS,
    clicked,
    clock,
    expected,
    feed,
    found,
    kept,
    machine_for,
    machine_of,
    shown,
)
from tests.support.machine import Machine, engine_of
from tests.support.store_contract import ALL_DUE
from tests.support.strategies import START_MS, USERS, Case, batches, cases, interleavings, settings, tiny_session_cases


def has_ticks(case: Case) -> bool:
    """Whether the clock moves the time of silent inputs. Then a list may count before its time for feedback is over by the events."""
    return any(isinstance(step, Tick) for step in case.steps)


@given(cases(), RULES, st.booleans())
def test_one_batch_equals_brute_force(case: Case, rules: ExperimentRules, flush: bool) -> None:
    assume(not flush or not has_ticks(case))
    machine = machine_for(case, rules)
    machine.run(case.steps, flush)
    assert found(machine) == expected(case, machine, rules, flush=flush)


def test_a_list_that_reuses_an_id_counts_in_nothing_and_still_extends_the_run_of_its_experiment() -> None:
    first, reused, last = (NOON_MS + ts for ts in (0, 500, 1_400))
    steps = (shown("u", first, RANKER), Arrival("events", Impression(f"u-{first}", "u", reused, ("j",), RANKER)), shown("v", last, RANKER))
    case, rules = Case(SETTINGS, steps), ExperimentRules(idle_ms=1_000)
    machine = machine_for(case, rules)
    machine.run(case.steps, True)
    assert found(machine) == expected(case, machine, rules, flush=True)
    assert found(machine)["ranker", None].first_list_users == {"a": 1}, "the list of v is open at the end of the input"
    assert machine.state.enrolments.open_lists == {"ranker": 1}


@given(st.data(), cases(), RULES, DUE_MAX, st.booleans())
def test_any_batches_commits_and_crashes_equal_brute_force(
    data: st.DataObject, case: Case, rules: ExperimentRules, due_max: int, flush: bool
) -> None:
    assume(not flush or not has_ticks(case))
    machine = machine_for(case, rules, due_max)
    machine.feed_all(case.steps, data)
    machine.finish(flush)
    assert found(machine) == expected(case, machine, rules, flush=flush)
    counted: Counter[str] = Counter()
    for (reason, _), count in machine.state.progress.counts.items():
        counted[reason] += count
    joined = [counted["matched"], sum(counted[reason] for reason in UNMATCHED)]
    assert [sum(of_day[place] for of_day in machine.state.feedback_days.by_day.values()) for place in (0, 1)] == joined


@given(st.data(), cases(without=("ticks",)), RULES, DUE_MAX)
def test_commits_without_sessions_show_what_whole_commits_show(
    data: st.DataObject, case: Case, rules: ExperimentRules, due_max: int
) -> None:
    whole, part = machine_for(case, rules, due_max), machine_for(case, rules, due_max)
    for steps in data.draw(batches(case.steps)):
        for machine in (whole, part):
            machine.feed(steps)
        if data.draw(st.booleans()):
            whole.finish(flush=False)
            part.enrol()
            assert found(part) == found(whole)
            assert part.state.enrolments.enrolled_before == whole.state.enrolments.enrolled_before
            assert part.state.sessions.open == whole.state.sessions.open
        elif data.draw(st.booleans()):
            part.commit()
    part.finish(flush=True)
    assert found(part) == expected(case, part, rules, flush=True)
    assert not part.state.sessions.users


@given(st.one_of(cases(), cases(exposures=True)), RULES, DUE_MAX, st.lists(st.integers(0, 200), max_size=5))
def test_an_input_that_ends_step_by_step_shows_what_one_that_ends_at_once_shows(
    case: Case, rules: ExperimentRules, due_max: int, waits: list[int]
) -> None:
    machine = machine_for(case, rules, due_max)
    machine.feed(case.steps)
    for wait_ms in sorted(waits):
        machine.end(max(machine.state.progress.watermark, 0) + wait_ms)
        machine.enrol()
    machine.finish(flush=True)
    assert found(machine) == expected(case, machine, rules, flush=True)
    assert_equals_brute_force(machine, case, flush=True)


def test_a_user_who_is_due_too_early_is_not_written_again() -> None:
    machine = machine_of()
    feed(machine, shown("u", NOON_MS, RANKER), clicked("u", NOON_MS + SETTINGS.gap_ms))
    clock_ms = NOON_MS + SETTINGS.gap_ms + SETTINGS.out_of_orderness_ms + SETTINGS.lateness_ms + 1
    machine.feed([clock(clock_ms)])  # the session could have ended by its first event
    machine.enrol()
    machine.feed([clock(clock_ms)])
    commit = machine.prepare().changes
    assert (sorted(commit.users), commit.due.get("u")) == (["clock"], None)


def test_a_fragment_extends_its_run_even_if_its_list_exceeds_the_item_limit() -> None:
    under = Settings(inputs=("events",), gap_ms=0, lateness_ms=2, attribution_ms=5, pane_ms=4, windows_ms=(4,), items_max=2)
    arms = (("ranker", "control"),)
    steps = (
        Arrival("events", Impression("x", "u", 0, (), arms)),
        Arrival("events", Impression("x", "u", 2, ("a", "b", "c"), arms, positions=(0, 1, 2))),
        Arrival("events", Feedback("u", 6, "a", "click")),
    )
    case, rules = Case(under, steps), ExperimentRules(idle_ms=3, patience_ms=0)
    machine = machine_for(case, rules)
    machine.run(steps, flush=False)
    assert found(machine) == expected(case, machine, rules, flush=False)
    assert found(machine)["ranker", None].first_list_users == {"control": 1}


def test_lists_after_the_supported_time_do_not_count() -> None:
    under = Settings(
        inputs=("events",), gap_ms=7, lateness_ms=2, attribution_ms=5, out_of_orderness_ms=0, support_jump_ms=0, support_users=2,
        support_far_ms=100,
        pane_ms=4, windows_ms=(4,),
    )  # fmt: skip
    arms = [(("ranker", variant),) for variant in ("interleaved", "control")]
    lists = [("v", 0, ()), ("u", 8, arms[0]), ("u", 9, ()), ("u", 10, ()), ("v", 12, arms[1]), *[("u", 12, ())] * 4]
    steps = tuple(Arrival("events", Impression("w", user, ts, (), experiments)) for user, ts, experiments in lists)
    case, rules = Case(under, steps), ExperimentRules(idle_ms=3, patience_ms=0)
    machine = machine_for(case, rules)
    machine.run(steps)
    assert machine.state.progress.newest_supported() == 0
    assert found(machine) == expected(case, machine, rules, flush=True)
    assert found(machine) == {}, "no event supports the times of the lists"


@given(st.data(), cases(without=("ticks",)), RULES)
def test_the_interleaving_of_inputs_does_not_matter(data: st.DataObject, case: Case, rules: ExperimentRules) -> None:
    other = data.draw(interleavings(case))
    one, two = machine_for(case, rules), machine_for(other, rules)
    for machine, steps in ((one, case.steps), (two, other.steps)):
        machine.run(steps)
    assert found(one) == found(two)


@given(st.data(), tiny_session_cases(), RULES)
def test_sealed_sessions_equal_brute_force_in_any_batches(data: st.DataObject, case: Case, rules: ExperimentRules) -> None:
    assume(not has_ticks(case))
    machine = machine_for(case, rules)
    machine.run_in_batches(data.draw(batches(case.steps)), data)
    assert found(machine) == expected(case, machine, rules, flush=True)


@given(cases(), RULES)
def test_no_user_is_left_after_a_flush(case: Case, rules: ExperimentRules) -> None:
    machine = machine_for(case, rules)
    for step in case.steps:
        machine.feed([step])
        machine.commit()
    machine.finish(flush=True)
    loaded = machine.store.load(0, ("u", "v"), ALL_DUE, ("u", "v"))
    assert (loaded.users, loaded.due, loaded.totals) == ({}, [], {})
    assert machine.state.sessions.users == {}


SPANS = st.dictionaries(
    st.sampled_from(("ranker", "layout")),
    st.builds(Span, st.sampled_from((None, 5, 1_732_183_200_007)), st.sampled_from((None, 12, 1_732_183_200_016))),
)


@given(st.data(), cases(), SPANS, DUE_MAX)
def test_only_lists_within_the_configured_time_count(data: st.DataObject, case: Case, spans: dict[str, Span], due_max: int) -> None:
    rules = ExperimentRules(idle_ms=FOR_EVER_MS, spans=spans)
    machine = machine_for(case, rules, due_max)
    machine.run_in_batches(data.draw(batches(case.steps)), data, flush=False)
    assert found(machine) == expected(case, machine, rules, flush=False)


@st.composite
def trials(draw: st.DrawFn) -> tuple[Case, ExperimentRules]:
    """An experiment with covariates that begins in the middle of a case. Users return often, some across midnight, and everything is final
    at the end."""
    chosen = draw(settings())
    turn = st.tuples(st.sampled_from(USERS), st.sampled_from((1, 9, 0, 3)), st.sampled_from(("AB", "BCA", "")))
    usual = dict(
        zip(
            USERS,
            draw(st.sampled_from((("interleaved", "interleaved"), ("interleaved", "control"), ("control", "treatment")))),
            strict=True,
        )
    )
    strays = draw(st.sampled_from((12, 7, 3)))
    turns = draw(st.lists(st.tuples(turn, st.integers(0, 3)), min_size=6, max_size=14))
    steps: list[Step] = []
    now = begin = draw(st.sampled_from((START_MS, (START_MS // DAY_MS + 1) * DAY_MS - 20)))
    for number, ((user, pause, teams), place) in enumerate(turns):
        now += pause
        items = ("a", "b", "c")[: max(len(teams), 1)]
        variant = "control" if number % 11 == strays else usual[user]
        later = () if number < len(turns) // 3 else (("ranker", variant),)
        steps.append(Arrival(chosen.inputs[0], Impression(f"{number}", user, now, items, later, teams=tuple(teams))))
        if place < len(items):
            steps.append(Arrival(chosen.inputs[-1], Feedback(user, now, items[place], "click", impression_id=f"{number}")))
    steps += [Arrival(name, Feedback("clock", now + 100, "a", "click")) for name in chosen.inputs]
    start = begin + draw(st.integers(1, 12))
    earlier = (CovariatePeriod("ranker", start - draw(st.sampled_from((1_000, 6))), start), CovariatePeriod("layout", start - 4, start + 2))
    spans = {"ranker": Span(start, draw(st.sampled_from((None, None, start + 9))))}
    idle_ms = draw(st.sampled_from((FOR_EVER_MS, 200, FOR_EVER_MS, 3)))
    rules = ExperimentRules(idle_ms=idle_ms, patience_ms=draw(PATIENCE), spans=spans, earlier=earlier[: draw(st.sampled_from((1, 2)))])
    return Case(chosen, tuple(steps)), rules


@given(st.data(), trials(), DUE_MAX, st.booleans())
def test_covariates_and_credits_equal_brute_force_in_any_batches_commits_and_crashes(
    data: st.DataObject, trial: tuple[Case, ExperimentRules], due_max: int, flush: bool
) -> None:
    case, rules = trial
    machine = machine_for(case, rules, due_max)
    machine.feed_all(case.steps, data)
    machine.finish(flush)
    assert found(machine) == expected(case, machine, rules, flush=flush)


def test_a_list_is_not_enrolled_again_when_its_session_closes() -> None:
    machine = machine_of()
    feed(machine, shown("u", NOON_MS, RANKER))
    for at in (650, 1_150, 2_500):
        feed(machine, shown("clock", NOON_MS + at))
    _, _, lists, *_ = found(machine)["ranker", None].sums["a", "mrr@3"]
    assert lists == 1


ROWS = ("1", "1/e20000", "1/h480012", "1:20000", "1:20000/e20000", "1:20000/h480012")
"""The rows of a run of one hour: itself and its day, with the users of the day and the lists of the hour."""


def test_an_ended_run_leaves_nothing_in_the_store() -> None:
    machine = machine_of(due_max=1, idle_ms=DAY_MS)
    feed(machine, *(shown(f"u{number}", NOON_MS + number, RANKER) for number in range(5)), shown("clock", NOON_MS + 10_000))
    users = [f"u{number}" for number in range(5)]
    totals, due, cells = kept(machine, *users)
    assert (set(totals), set(due), set(cells)) == (set(users), {*users, "clock"}, {*ROWS})
    feed(machine, shown("clock", NOON_MS + 10 + DAY_MS), shown("clock", NOON_MS + 10 + DAY_MS))
    assert kept(machine, *users) == ({}, ["clock"], {})
    assert list(machine.state.runs) == []


def test_totals_of_users_are_kept_until_the_run_ends() -> None:
    machine = machine_of(idle_ms=DAY_MS)
    half = DAY_MS // 2
    feed(machine, shown("u", NOON_MS, RANKER), *(shown("v", NOON_MS + half * turn, RANKER) for turn in range(1, 6)))
    assert "u" in kept(machine, "u")[0]
    feed(machine, shown("u", NOON_MS + half * 6, (("ranker", "b"),)), shown("clock", NOON_MS + half * 6 + 10_000))
    scope = found(machine)["ranker", None]
    assert scope.first_list_users == {"a": 2}
    assert {variant for variant, _ in scope.sums} == {"a", "b"}
    assert scope.moves == {((NOON_MS + half * 6) // HOUR_MS, "a", "b"): 1}


def test_an_experiment_that_returns_after_its_run_has_ended_starts_a_new_run() -> None:
    machine = machine_of(idle_ms=DAY_MS)
    feed(
        machine,
        shown("u", NOON_MS, RANKER),
        shown("u", NOON_MS + 3 * DAY_MS, (("ranker", "b"),)),
        shown("clock", NOON_MS + 3 * DAY_MS + 10_000),
    )
    scope = found(machine)["ranker", None]
    assert (scope.first_list_users, scope.moves) == ({"b": 1}, {})


def test_after_its_configured_end_an_experiment_keeps_its_result_and_no_users() -> None:
    machine = machine_of(idle_ms=100 * DAY_MS, spans={"ranker": Span(None, NOON_MS + 50)})
    feed(
        machine,
        shown("u", NOON_MS, RANKER),
        shown("v", NOON_MS + 50, RANKER),
        *(shown("clock", NOON_MS + 5_000 * turn) for turn in (1, 2, 3)),
    )
    totals, due, _ = kept(machine, "u", "v")
    assert (totals, due) == ({}, ["clock"])
    assert found(machine)["ranker", None].first_list_users == {"a": 1}


def test_a_day_has_its_own_first_lists() -> None:
    machine = machine_of()
    tomorrow = NOON_MS + DAY_MS
    feed(machine, shown("u", NOON_MS, RANKER), shown("u", tomorrow, (("ranker", "b"),)), shown("clock", tomorrow + 10_000))
    scopes = {day: (scope.first_list_users, len(scope.moves)) for (_, day), scope in found(machine).items()}
    assert scopes == {None: ({"a": 1}, 1), 20_000: ({"a": 1}, 0), 20_001: ({"b": 1}, 0)}


def test_days_without_stored_panes_are_dropped() -> None:
    machine = machine_of(retention_ms=DAY_MS)
    feed(machine, *(shown("u", NOON_MS + turn * DAY_MS, RANKER) for turn in range(4)), shown("clock", NOON_MS + 3 * DAY_MS + 10_000))
    assert set(found(machine)) == {("ranker", None), ("ranker", 20_002), ("ranker", 20_003)}


def test_variants_beyond_the_limit_are_rejected_until_other_runs_end() -> None:
    machine = machine_of(idle_ms=DAY_MS, variants_max=2)
    arms = [(("ranker", variant),) for variant in "abc"]
    feed(machine, *(shown("u", NOON_MS + turn, labels) for turn, labels in enumerate(arms)))
    assert machine.state.progress.counts["too_many_variants", 0] == 1
    feed(
        machine,
        shown("clock", NOON_MS + 2 * DAY_MS),
        *(shown("u", NOON_MS + 2 * DAY_MS + turn, labels) for turn, labels in enumerate(arms[1:])),
    )
    assert machine.state.progress.counts["too_many_variants", 0] == 1


def test_a_waiting_list_sets_the_due_time_of_its_user() -> None:
    """Lists are final half a second after they are shown. The session can close after a second."""
    machine = machine_of()
    feed(
        machine,
        *(clicked("u", NOON_MS + turn * 900) for turn in range(4)),
        shown("u", NOON_MS + 3_600, RANKER),
        clicked("u", NOON_MS + 4_400),
    )
    assert found(machine)["ranker", None].first_list_users == {"a": 1}
    assert machine.state.sessions.open == 1
    assert machine.state.enrolments.enrolled_before == NOON_MS + 3_900


def test_lists_beyond_the_limit_of_user_totals_are_counted() -> None:
    engine = Engine(engine_of(SETTINGS, experiments=ExperimentRules()).rules, TallyLayout(engine_of(SETTINGS).layout.scorer))
    assert engine.user_totals is not None
    (best, *_) = Scorer(["dcg@1"], Spec(gain="exp2"), grade_max=18).score_list([18])
    highest = Engine(engine.rules, TallyLayout(Scorer(["dcg@1"], Spec(gain="exp2"), grade_max=18))).user_totals
    assert highest is not None
    assert (engine.user_totals.lists_max, highest.lists_max) == (1 << 22, TOTAL_MAX // best)
    assert highest.lists_max < 5_000
    engine.user_totals.lists_max = 2
    machine = Machine(engine, SETTINGS)
    feed(machine, *(shown("u", NOON_MS + turn, RANKER) for turn in range(3)), shown("clock", NOON_MS + 10_000))
    assert found(machine)["ranker", None].sums["a", "ndcg@1"][:3] == (1, 0, 2)
    assert machine.state.progress.counts["experiment_lists_full", 0] == 2  # for the whole run, and for the day


def test_without_experiments_only_sessions_of_users_are_stored() -> None:
    machine = Machine(engine_of(SETTINGS), SETTINGS)
    feed(machine, shown("u", NOON_MS, RANKER), shown("clock", NOON_MS + 10_000))
    assert kept(machine, "u") == ({}, ["clock"], {})


def experiment_reports(machine: Machine) -> dict[str, ExperimentReport]:
    assert machine.engine.user_totals is not None
    report_rules = ReportRules(
        machine.engine.user_totals.measures,
        lambda name: Policy(min_users=2, effective_users_min=0, control="a"),
        machine.state.runs.idle_ms,
    )
    rules = WindowRules(pane_ms=100, windows_ms=(100,), lateness_ms=0, attribution_ms=500)
    builder = ReportBuilder(machine.engine.layout, rules, {}, machine.engine.signature, report_rules)
    reports: list[Report] = []
    machine.store.announce(1)
    status = ProcessStatus()
    Publisher(builder=builder, store=machine.store, publish_ms=10, clock=SystemClock(), status=status, on_report=reports.append).publish()
    document = plain(published(reports[0], machine.engine.layout, History()))
    assert [experiment["scope"] for experiment in document["experiments"]] == [experiment.scope for experiment in reports[0].experiments]
    return {experiment.scope: experiment for experiment in reports[0].experiments}


def test_unmatched_feedback_is_counted_by_the_days_of_an_experiment() -> None:
    machine = machine_of()
    before, tomorrow = NOON_MS - 3 * DAY_MS, NOON_MS + DAY_MS
    feed(machine, *(clicked("w", before + number) for number in range(9)), shown("clock", before + 10_000))
    lists = [shown(f"u{number}", NOON_MS + number, (("ranker", "ab"[number % 2]),)) for number in range(4)]
    feed(machine, *lists, *(clicked(f"u{number}", NOON_MS + 9) for number in range(3)), clicked("w", NOON_MS + 9), clock(NOON_MS + 10_000))
    sound = experiment_reports(machine)
    assert {scope: (report.health.unmatched_share, report.verdict.word) for scope, report in sound.items()} == {
        "start": (0.25, "inconclusive"),
        "day": (0.25, "inconclusive"),
    }
    lists = [shown(f"u{number}", tomorrow + number, (("ranker", "ab"[number % 2]),)) for number in range(4)]
    feed(machine, *lists, *(clicked("w", tomorrow + 9) for _ in range(4)), clock(tomorrow + 10_000))
    broken = experiment_reports(machine)
    assert {scope: report.health.unmatched_share for scope, report in broken.items()} == {"start": 6 / 9, "day": 1.0}
    assert broken["day"].verdict.reason == "100 % of all feedback matches no list; the limit is 25 %"


def test_feedback_counts_are_dropped_with_the_experiments_and_panes_of_their_days() -> None:
    machine = machine_of(idle_ms=2 * DAY_MS + DAY_MS // 2, retention_ms=DAY_MS)
    feed(machine, clicked("w", NOON_MS), shown("u", NOON_MS + DAY_MS, RANKER), clicked("w", NOON_MS + DAY_MS + 5_000))
    for days, left in ((2, {1, 2}), (3, {1, 2, 3}), (4, {3, 4})):  # on the fourth day the experiment is over
        feed(machine, clicked("w", NOON_MS + days * DAY_MS), clock(NOON_MS + days * DAY_MS + 10_000))
        machine.open()
        assert {day - NOON_MS // DAY_MS for day in machine.state.feedback_days.by_day} == left


def test_a_report_shows_an_experiment_since_its_start_and_today_with_a_scale_that_never_changes() -> None:
    machine = machine_of()
    lists = [shown(f"u{number}", NOON_MS + number, (("ranker", "ab"[number % 2]),)) for number in range(4)]
    feed(machine, *lists, *(clicked(f"u{number}", NOON_MS + 9) for number in (1, 2)), shown("clock", NOON_MS + 10_000))
    before = experiment_reports(machine)
    assert {scope: [arm.users for arm in report.variants] for scope, report in before.items()} == {"start": [2, 2], "day": [2, 2]}
    tomorrow = NOON_MS + DAY_MS
    feed(
        machine,
        *(shown(f"v{number}", tomorrow + number, (("ranker", "ab"[number % 2]),)) for number in range(6)),
        shown("clock", tomorrow + 10_000),
    )
    after = experiment_reports(machine)
    assert {scope: [arm.users for arm in report.variants] for scope, report in after.items()} == {"start": [5, 5], "day": [3, 3]}

    def scales(reports: dict[str, ExperimentReport]) -> dict[str, float | None]:
        return {
            f"{measure.metric}@{measure.k}": measure.tau
            for arm in reports["start"].variants
            if arm.role == "treatment"
            for measure in arm.measures
        }

    scales_before = {name: scale for name, scale in scales(before).items() if scale is not None}
    assert scales_before
    assert {name: scales(after)[name] for name in scales_before} == scales_before


BEFORE = CovariatePeriod("ranker", NOON_MS - HOUR_MS, NOON_MS)
"""The hour before an experiment that begins at noon."""


def machine_with_past(due_max: int = 1_000, end_ms: int | None = None, earlier: tuple[CovariatePeriod, ...] = (BEFORE,)) -> Machine:
    return machine_of(due_max, idle_ms=DAY_MS, spans={"ranker": Span(NOON_MS, end_ms)}, earlier=earlier)


def test_lists_before_an_experiment_are_dropped_if_it_never_starts() -> None:
    machine = machine_with_past(due_max=1)
    feed(
        machine, *(shown(f"u{number}", NOON_MS - 9_000 + number) for number in range(3)), shown("v", NOON_MS - 2 * HOUR_MS), clock(NOON_MS)
    )
    users = ("u0", "u1", "u2", "v")
    assert (set(kept(machine, *users)[0]), set(kept(machine)[1])) == ({"u0", "u1", "u2"}, {"u0", "u1", "u2", "clock"})
    feed(machine, clock(NOON_MS + DAY_MS), clock(NOON_MS + DAY_MS + 10_000), clock(NOON_MS + DAY_MS + 20_000))
    assert kept(machine, *users) == ({}, ["clock"], {})


def test_lists_before_an_experiment_are_kept_until_its_run_ends() -> None:
    machine = machine_with_past()
    half = DAY_MS // 2
    before = [shown(user, NOON_MS - 9_000 + turn, items=("i", "j")) for turn, user in enumerate("uvw")]
    feed(machine, *before, *(shown("v", NOON_MS + half * turn, RANKER) for turn in range(4)))
    assert set(kept(machine, "u", "v", "w")[0]) == {"u", "v", "w"}
    feed(machine, shown("u", NOON_MS + half * 4, RANKER), clock(NOON_MS + half * 4 + 10_000))
    assert found(machine)["ranker", None].covariates["a", "ndcg@1"][0] == 2
    feed(machine, clock(NOON_MS + 9 * half), clock(NOON_MS + 9 * half + 10_000))
    assert kept(machine, "u", "v", "w") == ({}, ["clock"], {})


def test_lists_before_an_experiment_are_dropped_after_its_configured_end() -> None:
    machine = machine_with_past(end_ms=NOON_MS + 5_000)
    feed(machine, shown("u", NOON_MS - 9_000), shown("u", NOON_MS + 10, RANKER), *(clock(NOON_MS + 5_000 * turn) for turn in (1, 2, 3, 4)))
    assert kept(machine, "u")[:2] == ({}, ["clock"])
    assert found(machine)["ranker", None].covariates["a", "ndcg@1"][0] == 1


def test_a_visit_across_midnight_has_the_same_covariates_in_all_and_on_each_day() -> None:
    midnight = NOON_MS + DAY_MS // 2
    visit = [shown("u", midnight + at, RANKER) for at in (-100, 100)]
    machine = machine_with_past()
    feed(machine, shown("u", NOON_MS - 9_000), *visit, clock(midnight + 10_000))
    covariates = {day: scope.covariates["a", "ndcg@1"][0] for (_, day), scope in found(machine).items()}
    assert covariates == {None: 1, NOON_MS // DAY_MS: 1, NOON_MS // DAY_MS + 1: 1}


def test_the_covariate_period_of_a_run_never_changes() -> None:
    began_with = {}
    for earlier, later in (((BEFORE,), ()), ((), (BEFORE,)), ((BEFORE,), (BEFORE._replace(from_ms=0),))):
        machine = machine_with_past(earlier=earlier)
        feed(machine, shown("u", NOON_MS - 9_000), shown("u", NOON_MS + 10, RANKER), clock(NOON_MS + 5_000))
        machine.engine = machine_with_past(earlier=later).engine
        machine.open()
        feed(machine, shown("u", NOON_MS + 9_000, RANKER), shown("v", NOON_MS + 9_000, RANKER), clock(NOON_MS + 20_000))
        scope = found(machine)["ranker", None]
        assert scope.sums["a", "ndcg@1"][:3] == (2, 0, 3)
        began_with[earlier, later] = scope.covariates.get(("a", "ndcg@1"), (0,))[0]
    assert list(began_with.values()) == [1, 0, 1]


def test_runs_with_and_without_covariates_are_merged_without() -> None:
    machines = [machine_with_past(earlier=earlier) for earlier in ((BEFORE,), ())]
    for machine in machines:
        both = shown("both", NOON_MS + 20, RANKER), drafted("both", NOON_MS + 30, ("b", "a"))
        once = shown("u", NOON_MS - 9_000), shown("u", NOON_MS + 10, RANKER), drafted("v", NOON_MS + 20, ("a", "b"))
        feed(machine, *once, *both, clock(NOON_MS + 5_000))
    engine = machines[0].engine
    assert engine.user_totals is not None
    rules = WindowRules(pane_ms=100, windows_ms=(100,), lateness_ms=0, attribution_ms=500)
    builder = ReportBuilder(
        engine.layout, rules, {}, engine.signature, ReportRules(engine.user_totals.measures, lambda name: Policy(), DAY_MS)
    )
    for task, machine in enumerate(machines):
        (view,) = machine.store.view([0], {}).values()
        builder.update(task, view)
    scope = scopes_of(builder, engine, 2)["ranker", None]
    assert (scope.sums["a", "ndcg@1"][:3], scope.covariates) == ((4, 0, 4), {})
    assert scope.first_list_users == {"a": 4, "interleaved": 2}
    assert scope.pairs["a", "interleaved"]["ndcg@1"][:2] == (2, 2)
    assert scope.credits["a", "b"][:6] == (4, 2, 2, 2, 0, 2)
    assert scopes_of(builder, engine, 1)["ranker", None].covariates["a", "ndcg@1"][0] == 1


def drafted(user: str, ts: int, teams: tuple[str, ...]) -> Arrival:
    items = tuple(f"i{place}" for place in range(len(teams)))
    return Arrival("events", Impression(f"{user}-{ts}", user, ts, items, (("ranker", "interleaved"),), teams=teams))


def test_credits_of_a_user_with_lists_of_another_variant_stay() -> None:
    machine = machine_of()
    feed(machine, drafted("u", NOON_MS, ("a", "b")), drafted("v", NOON_MS, ("b", "a")), clock(NOON_MS + 5_000))
    assert found(machine)["ranker", None].credits["a", "b"][:6] == (2, 1, 1, 1, 0, 1)
    feed(machine, shown("u", NOON_MS + 9_000, RANKER), clock(NOON_MS + 20_000))
    assert found(machine)["ranker", None].credits["a", "b"][:6] == (2, 1, 1, 1, 0, 1)


def test_lists_with_teams_beyond_the_limits_are_counted() -> None:
    machine = machine_of()
    feed(machine, drafted("u", NOON_MS, tuple("abcdefghi")), clock(NOON_MS + 5_000))
    assert machine.state.progress.counts["too_many_teams", 0] == 1
    assert found(machine)["ranker", None].credits == {}
    pairs = [(f"a{number}", f"b{number}") for number in range(TEAM_PAIRS_MAX + 1)]
    feed(machine, *(drafted("u", NOON_MS + 10_000 + turn, pair) for turn, pair in enumerate(pairs)), clock(NOON_MS + 20_000))
    assert len(found(machine)["ranker", None].credits) == TEAM_PAIRS_MAX
    assert machine.state.progress.counts["too_many_teams", 0] == 3  # for the whole run, and for the day
