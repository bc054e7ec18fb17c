"""Why a variant differs: sentences, contributions, and the lifts of a chosen segment."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.integration.page.visits import MINUS, Open, Served, fetched
from tests.support.page_story import EXPERIMENT


class TestWhy:
    def test_a_regression_says_why_with_contributions_by_segment_and_rank(self, visit: Open, still: Served) -> None:
        page_visit = visit(still.base)
        (why,) = fetched(still.base)["explanations"]
        elements = page_visit.section(EXPERIMENT).locator(".why")
        expect(elements).to_contain_text("exploratory, final lists from")
        expect(elements.locator("li")).to_have_text(f"treatment, NDCG@10: {'; '.join(why['summary'])}.".replace("dcg@10", "DCG@10"))
        elements.get_by_text("Contributions by segment and rank").click()
        rows = elements.locator("table").first.locator("tbody tr")
        expect(rows.locator("th")).to_have_text([f"surface={value['value']}" for value in why["segments"][0]["values"]])
        value = why["segments"][0]["values"][0]["contribution"]
        expect(rows.first.locator("td").first).to_contain_text(f"{MINUS if value < 0 else '+'}{abs(value):.4f}")
        expect(elements.locator("table").nth(1).locator("tbody th")).to_have_text(["ranks 1 to 2", "ranks 3 to 10"])

    def test_a_chosen_segment_shows_its_own_lift_with_an_interval(self, visit: Open, still: Served) -> None:
        page_visit = visit(still.base, "?segment=surface%3Dhome&metric=ndcg&k=10")
        (why,) = fetched(still.base)["explanations"]
        home = next(value for value in why["segments"][0]["values"] if value["value"] == "home")
        elements = page_visit.section(EXPERIMENT).locator(".segment")
        expect(elements.locator("caption")).to_have_text("NDCG@10 on surface=home, exploratory")
        row = elements.locator("tbody tr")
        expect(row.locator("td").first.locator(".value")).to_have_text(f"{home['mean']:.4f}")
        assert home["lift_lower"] < home["lift"] < home["lift_upper"]
        expect(row.locator("td").nth(1)).to_contain_text(f"{MINUS if home['lift'] < 0 else '+'}{abs(100 * home['lift']):.1f}")
        expect(row.locator("td").nth(1)).to_contain_text(" to ")
        expect(elements.locator(".note")).to_contain_text("There is no verdict on a segment.")
        page_visit.choose("Metric", "MRR")
        expect(page_visit.section(EXPERIMENT)).to_contain_text("Lifts of surface=home are shown for the deciding measures")
