"""Many variants and many experiments."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any
from urllib.parse import quote_plus

import pytest
from playwright.sync_api import expect

from streammetrics.experiments import ExperimentReport
from streammetrics.experiments.experiment_state import ExperimentState, StateWord
from streammetrics.reports.report import Report
from streammetrics.words.names import in_order
from tests.integration.page.visits import MINUS, MISSING, Open, Serve, Visit, clock, fetched, live, open_all, violations
from tests.support.committed_state import HOUR_MS
from tests.support.experiment_samples import experiment
from tests.support.page_story import (
    EXPERIMENT,
    SIX,
    Story,
    many_experiments,
    many_variants,
    mixed_experiment,
    with_experiments,
)

FAILS = "gate fails"


class TestManyVariants:
    @pytest.fixture
    def show(self, visit: Open, serve: Serve, history: tuple[Story, list[Report]]) -> Callable[..., Visit]:
        """Open the page with these experiments."""
        story, reports = history

        def shown(*experiments: ExperimentReport, path: str = "", **options: Any) -> Visit:
            port = serve(story.answers(), *reports[:-1], with_experiments(reports[-1], *experiments))
            page_visit = visit(port.base, path, **options)
            live(page_visit.page)
            return page_visit

        return shown

    def test_six_variants_have_one_row_each_and_the_banner_sums_up(self, show: Callable[..., Visit]) -> None:
        six = experiment(SIX, name="six")
        page_visit = show(six)
        lifts = {
            variant.variant: one.lift or 0 for variant in six.variants for one in variant.measures if (one.metric, one.k) == ("ndcg", 10)
        }
        fall, others = f"{MINUS}{-100 * lifts['popularity']:.1f}\u00a0%", "of 5 treatments 3 regressed, 1 is inconclusive, 1 improved"
        sure = "95\u00a0% confidence, safe to check at any time"
        banner = f"popularity: {fall.removeprefix(MINUS)} lower NDCG@10 than control; {sure}; {others}."
        expect(page_visit.section("six").locator(".verdict .reason")).to_have_text(banner)
        line = page_visit.page.locator("#overview li", has_text="six")
        (low, high) = next(
            (one.lift_lower or 0, one.lift_upper or 0)
            for variant in six.variants
            for one in variant.measures
            if (variant.variant, one.metric) == ("popularity", "ndcg")
        )
        expect(line.locator(".line-lift")).to_have_text(fall)
        expect(line.locator(".line-interval")).to_have_text(f"{MINUS}{-100 * low:.1f}\u00a0% to {MINUS}{-100 * high:.1f}\u00a0%")
        expect(line.locator(".line-text")).to_have_text(banner)
        rows = page_visit.section("six").locator(".rows").first.locator("tbody tr")
        expect(rows.locator("th .variant")).to_have_text(["control", "popularity", "item-knn", "gru4rec", "sasrec", "two-tower"])
        expect(rows.locator("td:last-child")).to_have_text(
            ["", *[f"▼ Regressed{FAILS}"] * 3, "○ Inconclusivegate waits", "▲ Improvedgate passes: at most 5\u00a0% worse"]
        )
        expect(page_visit.section("six").locator(".verdict .gate")).to_have_text("Gate: fail, 3 fail, 1 waits, 1 passes.")

    def test_the_overview_and_the_card_say_since_when(
        self, show: Callable[..., Visit], serve: Serve, history: tuple[Story, list[Report]]
    ) -> None:
        began_ms = (history[1][-1].watermark_ms or 0) - 50 * HOUR_MS
        page_visit = show(replace(experiment(SIX, name="six"), from_ms=began_ms))
        expect(page_visit.page.locator("#overview li", has_text="six").locator(".line-age")).to_have_text("2\u00a0d old")
        facts = page_visit.section("six").locator(".facts")
        expect(facts).to_contain_text(f"Started {clock(began_ms)}, 2\u00a0d 2\u00a0h ago. Final lists, up to ")
        expect(facts).to_contain_text(" 12,000 users.")

    @pytest.mark.parametrize(("word", "age"), [("stopped", "4\u00a0d old"), ("silent", "ran 3\u00a0d"), ("ended", "ran 3\u00a0d")])
    def test_a_decided_verdict_says_since_when_and_which_arm_gets_no_lists(
        self, show: Callable[..., Visit], history: tuple[Story, list[Report]], word: StateWord, age: str
    ) -> None:
        last_ms = (history[1][-1].watermark_ms or 0) - 25 * HOUR_MS
        six, state = experiment(SIX, name="over"), ExperimentState(word, last_ms, "popularity has had no list since then")
        variants = tuple(
            replace(variant, state=state, last_ms=last_ms) if variant.variant == "popularity" else variant for variant in six.variants
        )
        page_visit = show(replace(six, state=state, last_ms=last_ms, decided_ms=last_ms, variants=variants, from_ms=last_ms - 72 * HOUR_MS))
        section = page_visit.section("over")
        expect(section.locator(".verdict")).to_contain_text(f"decided {clock(last_ms)}")
        expect(section.locator(".facts")).to_contain_text(f"Final lists, up to {clock(last_ms)}{'' if word == 'stopped' else ': 3'}")
        expect(section.locator(".variants caption")).to_contain_text(clock(last_ms))
        arms = section.locator(".variants tbody th")
        expect(arms.filter(has_text="popularity")).to_have_text(f"popularityno more lists since {clock(last_ms)}")
        expect(arms.filter(has_text="no more lists")).to_have_count(1)
        expect(page_visit.page.locator("#overview li", has_text="over").locator(".line-age")).to_have_text(age)
        section.get_by_role("button", name="decided").click()
        expect(page_visit.page.locator("#term")).to_contain_text("It stays, with its numbers")

    def test_arms_with_few_users_say_so(self, show: Callable[..., Visit]) -> None:
        few = {"control": 1_000, "treatment": 1_000, "young": 62, "unused": 0}
        page_visit = show(experiment(dict.fromkeys(few, 0.5), name="few", users=few, shares={"control": 9, "treatment": 9, "young": 1}))
        expect(page_visit.cell("Lift", "young", section="few")).to_have_text("62 of the 100 users that numbers need")
        expect(page_visit.cell("Lift", "unused", section="few")).to_have_text("no final list yet")
        expect(page_visit.cell("Verdict", "young", section="few")).to_have_text("no verdict yetgate waits")
        expect(page_visit.section("few").locator(".variants")).not_to_contain_text(MISSING)

    def test_a_control_with_few_users_is_said_beside_each_treatment(self, show: Callable[..., Visit]) -> None:
        page_visit = show(
            experiment(
                {"control": 0.5, "treatment": 0.5},
                name="few",
                users={"control": 40, "treatment": 1_000},
                shares={"control": 1, "treatment": 25},
            )
        )
        expect(page_visit.cell("Lift", "control", section="few")).to_have_text("the control, 40 of the 100 users that numbers need")
        expect(page_visit.cell("Lift", "treatment", section="few")).to_have_text("control has fewer than 100 users.")

    def test_six_variants_with_two_measures_fit_on_one_screen_with_the_verdict(self, show: Callable[..., Visit]) -> None:
        six = experiment(SIX, name=EXPERIMENT, paging=("ndcg@10", "hit_rate@5"))
        page_visit = show(six, viewport={"width": 1280, "height": 800})
        table = page_visit.section(EXPERIMENT).locator(".variants")
        expect(table.locator(".above th")).to_have_text([re.compile("^NDCG@10"), re.compile("^Hit rate@5")])
        expect(page_visit.cell("Lift", "popularity", group=1).locator(".value")).to_have_text(re.compile(f"^{MINUS}37"))
        boxes = [row.bounding_box() for row in table.locator("tbody tr").all()]
        assert max(box["height"] for box in boxes if box) <= 40
        assert max(box["y"] + box["height"] for box in boxes if box) <= 800
        expect(page_visit.page.locator("#overview")).to_have_count(0)

    def test_an_interval_without_0_beside_an_open_verdict_is_explained(self, show: Callable[..., Visit]) -> None:
        page_visit = show(many_variants())
        notes = page_visit.section(EXPERIMENT).locator(".numbers > .reasons li")
        (measure,) = (
            one for variant in many_variants().variants if variant.variant == "ranker-08" for one in variant.measures if one.paging
        )
        assert measure.lift_upper is not None
        assert measure.lift_upper < 0
        expect(notes).to_have_text(
            ["ranker-08, NDCG@10: the interval excludes 0, but the verdict is open: the drop may be within the margin? of 1\u00a0%."]
        )

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_fifteen_treatments_differ_in_the_color_or_the_pattern_of_swatches_and_lines(
        self, show: Callable[..., Visit], scheme: str
    ) -> None:
        page_visit = show(many_variants(15), color_scheme=scheme)
        looks = """(marks) => marks.map((mark) => {
          const style = getComputedStyle(mark);
          return [style.color, style.backgroundColor, style.borderTopWidth, style.borderTopLeftRadius].join();
        })"""
        swatches = page_visit.section(EXPERIMENT).locator(".rows").first.locator("tbody .swatch").evaluate_all(looks)
        assert len(set(swatches)) == len(swatches) == 16  # with the arm of the windows
        keys = "(paths) => paths.map((path) => [getComputedStyle(path).stroke, path.getAttribute('stroke-dasharray')].join())"
        paths = page_visit.page.locator(f"[id='experiment-{EXPERIMENT}-lift'] .key.line path")
        expect(paths).to_have_count(15)  # they come after the numbers
        assert len(set(paths.evaluate_all(keys))) == 15

    def test_experiments_with_numbers_in_their_names_are_in_the_order_of_these(self, show: Callable[..., Visit]) -> None:
        page_visit = show(*(experiment({"control": 0.3, "treatment": 0.3}, name=name, users=400) for name in ("v10", "v9")))
        expect(page_visit.page.locator("#overview li a")).to_have_text(["v9", "v10", "ranker-v7"])

    def test_the_page_and_the_reports_have_the_same_order_of_names(self, show: Callable[..., Visit]) -> None:
        page_visit = show(experiment({"control": 0.3, "treatment": 0.3}, name="even"))
        chance = random.Random(4)
        names = ["".join(chance.choices("-.0129ab\u05d0\u0663 ", k=chance.randrange(7))) for _ in range(2_000)]
        sort = "async (names) => (await import('/text.js')).inOrder(names, 'v10')"
        assert page_visit.page.evaluate(sort, ["v10", *names]) == in_order(["v10", *names], first="v10")

    @pytest.mark.parametrize(("chance", "users", "word"), [(0.3, 400, "wait"), (0.15, 3_000, "fail"), (0.45, 3_000, "pass")])
    def test_the_gate_is_beside_the_verdict_with_its_reason(self, show: Callable[..., Visit], chance: float, users: int, word: str) -> None:
        page_visit = show(experiment({"control": 0.3, "treatment": chance}, name="rollout", users=users))
        (rollout,) = fetched(page_visit.base)["experiments"]
        assert rollout["gate"]["word"] == word
        elements = page_visit.section("rollout").locator(".verdict .gate")
        says = {
            "wait": "not yet certain that it is at most 5\u00a0% worse",
            "fail": "stop the rollout; the verdict stays.",
            "pass": "it may get more traffic.",
        }[word]
        expect(elements).to_contain_text(f"Gate: {word}, {says}")
        needed = rollout["variants"][1]["gate_needed"]
        assert (needed is not None) == (word == "wait")
        if needed:
            expect(elements).to_contain_text(
                re.compile(r"; it passes after about [\d,.]+( million)? more users, if there is no difference\.")
            )

    def test_an_undecided_variant_shows_what_it_still_needs(self, show: Callable[..., Visit]) -> None:
        page_visit = show(experiment({"control": 0.3, "treatment": 0.3}, name="even", users=400))
        (even,) = fetched(page_visit.base)["experiments"]
        first = even["variants"][1]["needed"][0]
        elements = page_visit.section("even").locator(".verdict .needs")
        users = first["users"]
        count = f"{float(f'{users:.2g}'):,.0f}"
        expect(elements).to_contain_text(f"treatment needs about {count} more users (")
        expect(elements).to_contain_text("10\u00a0%." if first["verdict"] != "safe" else "to be safe, if there is no difference.")

    def test_intervals_are_bars_on_one_axis(self, show: Callable[..., Visit]) -> None:
        six = experiment(SIX, name="six")
        page_visit = show(six)
        bars = (
            page_visit.section("six")
            .locator(".interval")
            .evaluate_all(
                """(bars) => bars.map((bar) => ["rect", "circle", ".zero"].map((part) => {
                 const box = bar.querySelector(part).getBoundingClientRect();
                 return [box.left, box.right];
               }))"""
            )
        )
        assert len(bars) == 5
        zeros = {round(zero[0]) for _, _, zero in bars}
        assert len(zeros) == 1, "no difference is at the same place in each row"
        [zero] = zeros
        popularity, two_tower = bars[0], bars[-1]
        assert popularity[0][1] < zero < two_tower[0][0], "certain drops are left of no difference, certain gains right of it"
        (worst,) = (variant for variant in six.variants if variant.variant == "popularity")
        measure = worst.measures[0]
        assert measure.lift is not None
        assert measure.lift_lower is not None
        pixels = (zero - (popularity[1][0] + popularity[1][1]) / 2) / -measure.lift
        assert abs((zero - popularity[0][0]) / -measure.lift_lower / pixels - 1) < 0.05, "the bounds and the lift have one scale"

    def test_a_mixed_variant_comes_after_worse_ones_and_is_explained(self, show: Callable[..., Visit]) -> None:
        page_visit = show(mixed_experiment())
        section = page_visit.section(EXPERIMENT)
        expect(section.locator(".verdict .reason")).to_have_text(
            re.compile(r"^popularity: .*; of 3 treatments 1 regressed, 1 is mixed, 1 improved\.$")
        )
        expect(section.locator(".reasons")).to_contain_text("the measures contradict each other: choose which one counts")
        expect(section.locator(".rows").first.locator("tbody th .variant")).to_have_text(
            ["control", "popularity", "deep-list", "two-tower", "treatment"]
        )

    def test_experiments_are_listed_worst_first_before_the_controls_and_their_cards_fold(self, show: Callable[..., Visit]) -> None:
        page_visit = show(*many_experiments())
        page = page_visit.page
        words = page.locator("#overview .badge").all_text_contents()
        assert words == sorted(words, key=["! Invalid", "▼ Regressed", "○ Inconclusive", "▲ Improved", "No verdict yet"].index)
        assert len(words) == 11
        assert words[0] == "! Invalid"
        heights = page.locator("#overview li").evaluate_all("lines => lines.map((line) => line.getBoundingClientRect().height)")
        assert max(heights) < 40, "one line each"
        overview, controls = page.locator("#overview").bounding_box(), page.locator("#choices").bounding_box()
        assert overview is not None
        assert controls is not None
        assert overview["y"] + overview["height"] <= controls["y"]
        folded = page.locator(".fold[aria-expanded=false]")
        expect(page.locator(".fold[aria-expanded=true]")).to_have_count(1)
        expect(folded).to_have_count(11)
        page.locator("#overview a", has_text="six-variants").click()
        expect(page_visit.section("six-variants").locator(".rows").first).to_be_visible()
        expect(folded).to_have_count(10)
        page_visit.section("six-variants").locator(".fold").click()
        expect(page_visit.section("six-variants").locator(".rows")).to_have_count(0)
        expect(page_visit.section("six-variants").locator(".verdict")).to_be_visible()

    def test_the_link_of_an_alert_opens_the_card_of_its_experiment(self, show: Callable[..., Visit]) -> None:
        name = 'new "ranker" + 1 %'
        page_visit = show(
            *many_experiments(), experiment({"control": 0.5, "treatment": 0.5}, name=name), path=f"#experiment-{quote_plus(name)}"
        )
        expect(page_visit.section(name).locator(".rows").first).to_be_visible()
        expect(page_visit.section(name).locator("h2")).to_be_in_viewport()
        page_visit.page.evaluate("location.hash = '#experiment-surface-07'")
        expect(page_visit.section("surface-07").locator(".rows").first).to_be_visible()
        page_visit.page.evaluate("location.hash = '#experiment-that-ended'")
        expect(page_visit.page.locator(".fold[aria-expanded=true]")).to_have_count(3)

    def test_print_all_reads_every_card_first(self, show: Callable[..., Visit]) -> None:
        page = show(*many_experiments(), viewport={"width": 780, "height": 1_100}).page
        page.evaluate(
            "() => { window.print = () => { document.body.dataset.printed = document.querySelectorAll('.rows.variants').length; }; }"
        )
        expect(page.locator(".rows.variants")).to_have_count(1)
        page.get_by_role("button", name="Print all").click()
        expect(page.locator("body")).to_have_attribute("data-printed", "10")
        page.emulate_media(media="print")
        expect(page.get_by_role("button", name="Print all")).to_be_hidden()
        written = (
            "found => found.map((svg) => [...svg.children].map((text) => text.getBoundingClientRect()).map((box) => [box.left, box.right]))"
        )
        axes = page.locator(".scale").evaluate_all(written)
        assert len(axes) == 10
        assert all(left > right for boxes in axes for (_, right), (left, _) in pairwise(boxes)), "numbers on an axis do not overlap"
        page.emulate_media(media="screen")
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        expect(page.locator(".rows.variants")).to_have_count(1)

    def test_paper_has_all_cards_and_no_controls(self, show: Callable[..., Visit]) -> None:
        page_visit = show(*many_experiments())
        expect(page_visit.page.locator(".fold[aria-expanded=true]")).to_have_count(1)
        page_visit.page.evaluate("dispatchEvent(new Event('beforeprint'))")
        page_visit.page.emulate_media(media="print")
        expect(page_visit.page.locator(".fold[aria-expanded=false]")).to_have_count(0)
        expect(page_visit.page.locator("#choices")).to_be_hidden()
        assert page_visit.page.locator("summary").count() > 0
        expect(page_visit.page.locator("summary:visible")).to_have_count(0)  # paper cannot be unfolded
        times = re.findall(r"\S+ \d\d:\d\d:\d\d\sUTC", page_visit.page.locator("section.card").first.inner_text())
        assert times
        assert [time_text for time_text in times if not re.match(r"\d{4}-\d\d-\d\d ", time_text)] == []  # paper is read on another day
        assert len(page_visit.page.pdf()) > 20_000
        page_visit.page.emulate_media(media="screen")
        expect(page_visit.page.locator(".fold[aria-expanded=true]")).to_have_count(1)

    @pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
    @pytest.mark.parametrize("case", ["two", "six", "twenty", "ten experiments", "mixed"])
    def test_axe_finds_no_violation_and_nothing_is_wider_than_the_screen(
        self, show: Callable[..., Visit], history: tuple[Story, list[Report]], case: str, width: int, scheme: str
    ) -> None:
        experiments = {
            "two": lambda: history[1][-1].experiments,
            "six": lambda: [experiment(SIX, name=EXPERIMENT)],
            "twenty": lambda: [many_variants()],
            "ten experiments": many_experiments,
            "mixed": lambda: [mixed_experiment()],
        }[case]()
        page_visit = show(*experiments, viewport={"width": width, "height": 900}, color_scheme=scheme, fake_clock=False)
        open_all(page_visit)
        assert page_visit.page.evaluate("document.documentElement.scrollWidth") <= width
        assert violations(page_visit.page) == []
