"""Arms that stop, return and fall silent, as the publisher shows them while tasks go on."""

from __future__ import annotations

from streammetrics.experiments.experiment_state import StateWord
from tests.support.experiment_tasks import Tasks, at, published


def users(name: str, count: int, arm: str) -> list[str]:
    return [f"{name}{number}-{arm}" for number in range(count)]


def started() -> Tasks:
    """Two tasks in which both arms have lists, and the clock a quarter of an hour later."""
    tasks = Tasks()
    for task in (0, 1):
        tasks.show(task, 0, *users(f"{task}c", 40, "c"), *users(f"{task}t", 40, "t"))
    pass_time(tasks, 0.01)
    return tasks


def pass_time(tasks: Tasks, days: float) -> None:
    for task in (0, 1):
        tasks.pass_time(task, days)


def state(tasks: Tasks) -> tuple[StateWord, str]:
    state = published(tasks)["ranker"].state
    return state.word, state.reason


def test_an_arm_has_stopped_once_it_has_missed_lists_in_all_tasks_together_and_runs_again_with_the_next_one() -> None:
    tasks = started()
    assert state(tasks) == ("running", "")
    tasks.show(0, 0.02, *users("later", 15, "c"))
    pass_time(tasks, 0.03)
    assert state(tasks) == ("running", "")
    tasks.show(1, 0.035, *users("later", 15, "c"))
    pass_time(tasks, 0.04)
    assert state(tasks) == ("stopped", "treatment has had no list since 2024-10-04 12:00 UTC")
    assert published(tasks)["ranker"].last_ms == at(0.035, 14)
    tasks.show(1, 0.05, "back-t")
    pass_time(tasks, 0.06)
    assert state(tasks) == ("running", "")


def test_an_experiment_is_silent_while_other_traffic_goes_on() -> None:
    tasks = started()
    pass_time(tasks, 0.08)
    assert state(tasks) == ("running", "")
    pass_time(tasks, 0.09)
    assert state(tasks) == ("silent", "the experiment has had no list since 2024-10-04 12:00 UTC")
    tasks.show(0, 0.1, *users("again", 3, "c"))
    pass_time(tasks, 0.11)
    assert state(tasks)[0] == "running"
