"""trec_eval's own test for topic 302: `streammetrics evaluate` prints the values that trec_eval publishes for it.

The facts are from the files `results-302.test`, `qrels-302.test` and `out.test*` in the folder `test` of usnistgov/trec_eval. The
test makes its own run and judgments from them: which ranks have a relevant, a not relevant or no judged document.
"""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from streammetrics.cli.commands.evaluate import main

STATES = """\
r2n1r3n1r2n1r9n1r2n1r1n2r2n1r2n2r1n1r2n1r1n2r3n2r5n1r1n2r1n1r1n6u1n6r1n6r1u1n1r1n1r1n16u1n7u1n6r1n3u1n2u1n8u1n1u1n1u2n6u3n1u1n1u1n3\
r1u3n4u1n1u1n1u4n5u2n2u1n1u1n7u3n1u1n1u1n2u1n1u1n3u1n3u5n2u1n2u6n1u2n3u5n1u1n3u1n2u4n1u1n1u4n3u7n1u1n1u5n1u3n3u1n5u1n2u1r1u3n1u3n1u3\
r1n1u6n1u7n1u1n2u1n1u5n1u1n1r1u1n1u1n2u1n1u8n1u4n1r1n2u4n2u3n1u2n2u8n1u3n1u2n2u5n2r1u14n3u2n3u3n1u11n2u3n1u7n2u2n1u1n3u2n1u1r1u2n1u6\
n1u4n3u1n1u3n1u12n2u5"""
"""From rank 1 on: how many ranks in a row have a relevant (r), a judged but not relevant (n), or an unjudged (u) document."""

JUDGED_ONLY = {"r": 27, "n": 770}
"""Judged documents that the run does not have."""

PUBLISHED = """\
num_ret 500 num_rel 77 num_rel_ret 50 map 0.4175 Rprec 0.5065 bpref 0.4712 recip_rank 1.0000
iprec_at_recall_0.00 1.0000 iprec_at_recall_0.10 0.8421 iprec_at_recall_0.20 0.8421 iprec_at_recall_0.30 0.7419
iprec_at_recall_0.40 0.6863 iprec_at_recall_0.50 0.5417 iprec_at_recall_0.70 0.0000 iprec_at_recall_0.80 0.0000
iprec_at_recall_0.90 0.0000 iprec_at_recall_1.00 0.0000
P_5 0.8000 P_10 0.7000 P_15 0.8000 P_20 0.8000 P_30 0.7333 P_100 0.4200 P_200 0.2200 P_500 0.1000 P_1000 0.0500
recall_5 0.0519 recall_10 0.0909 recall_15 0.1558 recall_20 0.2078 recall_30 0.2857
recall_100 0.5455 recall_200 0.5714 recall_500 0.6494 recall_1000 0.6494
ndcg 0.6617 ndcg_cut_5 0.8304 ndcg_cut_10 0.7530 ndcg_cut_15 0.8085 ndcg_cut_20 0.8082 ndcg_cut_30 0.7604
ndcg_cut_100 0.6046 ndcg_cut_200 0.6209 ndcg_cut_500 0.6617 ndcg_cut_1000 0.6617
map_cut_5 0.0461 map_cut_10 0.0768 map_cut_15 0.1265 map_cut_20 0.1695 map_cut_30 0.2298
map_cut_100 0.3983 map_cut_200 0.4068 map_cut_500 0.4175 map_cut_1000 0.4175
success_1 1.0000 success_5 1.0000 success_10 1.0000
set_P 0.1000 set_recall 0.6494 set_map 0.0649 set_F 0.1733
rbp 0.7628 unj_5 0.0000 unj_10 0.0000 unj_20 0.0000"""
"""What `-m all_trec` prints for the topic, without the measures that are not offered here. `rbp` and `unj` are those of version 10."""

ROUNDED = {"iprec_at_recall_0.60": "0.1528", "11pt_avg": "0.4370"}
"""By version 10's rule, 0.6 * 77 = 46.2 is 46 relevant documents. By version 9's it was 47, with the published values 0.1420 and 0.4360."""

WITH_PARAMETERS = """\
iprec_at_recall_0.10 0.8421 iprec_at_recall_0.20 0.8421 iprec_at_recall_0.50 0.5417 iprec_at_recall_0.75 0.0000
P_3 0.6667 P_5 0.8000 P_7 0.7143 recall_20 0.2078 recall_2000 0.6494 ndcg_cut_10 0.7530 ndcg_cut_20 0.8082 ndcg_cut_23 0.7964
success_2 1.0000 success_5 1.0000 success_20 1.0000"""
"""The published values of measures with parameters."""

AT_LEAST = """\
iprec@0 1.0000 iprec@0.1 0.8421 iprec@0.2 0.8421 iprec@0.25 0.7500 iprec@0.3 0.7059 iprec@0.4 0.6863 iprec@0.5 0.5417 iprec@0.6 0.1420
iprec@0.7 0.0000 iprec@0.8 0.0000 iprec@0.9 0.0000 iprec@1 0.0000 iprec_mean 0.4327"""
"""Published by version 8 as `ircl_prn` and `11-pt_avg` (0.25: by version 9), before rounding: the documents that reach the recall."""


def pairs(text: str) -> dict[str, str]:
    words = text.split()
    return dict(zip(words[::2], words[1::2], strict=True))


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    """The run and the judgments, with their lines in random order and ids that say nothing about the rank."""
    states = "".join(state * int(count) for state, count in re.findall(r"([rnu])([0-9]+)", STATES))
    assert (len(states), states.count("r"), states.count("n")) == (500, 50, 214)
    chance = random.Random(302)
    ids = [f"D{number}" for number in chance.sample(range(10_000), len(states) + sum(JUDGED_ONLY.values()))]
    run = [f"302 Q0 {ids[at]} 0 {4 - at / 200} STANDARD\n" for at in range(len(states))]
    judged = states + "".join(state * count for state, count in JUDGED_ONLY.items())
    qrels = [f"302 0 {name} {int(state == 'r')}\n" for name, state in zip(ids, judged, strict=True) if state != "u"]
    for name, lines in (("run", run), ("qrels", qrels)):
        (tmp_path / name).write_text("".join(chance.sample(lines, len(lines))))
    return str(tmp_path / "run"), str(tmp_path / "qrels")


def printed(files: tuple[str, str], capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, str]:
    assert main([*files, "-q", "--format", "trec", *options], "evaluate") == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    return {name: value for name, topic, value in rows if topic == "302"}


def test_all_measures_have_the_published_values(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(files, capsys, "-m", "all_trec") == pairs(PUBLISHED) | ROUNDED


def test_measures_with_parameters_have_the_published_values(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("iprec_at_recall..10,.20,.50,.75", "P.3,5,7", "recall.20,2000", "ndcg_cut.10,20,23", "success.2,5,20")
    assert printed(files, capsys, *(word for name in asked for word in ("-m", name))) == pairs(WITH_PARAMETERS)


def test_precision_from_a_recall_on_has_the_published_values(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(files, capsys, "-m", ",".join(pairs(AT_LEAST))) == pairs(AT_LEAST)
