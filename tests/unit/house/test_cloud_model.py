# SPDX-License-Identifier: Apache-2.0
"""The model of many writers: deterministic, and of one writer what a trace of the product shows."""

from __future__ import annotations

from collections import Counter
from functools import partial

import pytest
from benchmarks.cloud.model.run import Start, play, start_asks, start_today
from benchmarks.cloud.model.script import decisions, traced_commit
from benchmarks.cloud.model.today import steps_of
from benchmarks.cloud.rig.calls import Call
from benchmarks.cloud.rig.latency import KINDS, Latencies

pytestmark = pytest.mark.unit

QUICK = Latencies().scaled(0.2)


@pytest.fixture(scope="module")
def trace() -> list[Call]:
    return traced_commit(8, QUICK)


@pytest.fixture(scope="module")
def protocols(trace: list[Call]) -> dict[str, Start]:
    return {
        "today": partial(start_today, decisions(trace)),
        "each": partial(start_asks, order="each"),
        "group": partial(start_asks, order="group"),
        "ahead": partial(start_asks, order="group", ahead=True),
    }


@pytest.mark.parametrize("protocol", ["today", "each", "group", "ahead"])
def test_the_model_gives_the_same_figures_for_the_same_seed_and_others_for_another(
    protocols: dict[str, Start], protocol: str
) -> None:
    start, latencies = protocols[protocol], Latencies(tail=4.0)
    first = play(start, 6, seed=1, latencies=latencies, seconds=8.0)
    assert play(start, 6, seed=1, latencies=latencies, seconds=8.0) == first
    assert play(start, 6, seed=2, latencies=latencies, seconds=8.0) != first
    assert first["commits"] > 0


def test_one_writer_in_the_model_agrees_with_a_trace_of_the_product_within_a_tenth(
    trace: list[Call], protocols: dict[str, Start]
) -> None:
    # Of requests that were under way at once the longest counts; what the product computes between them does not.
    seconds = sum(max(call.slept for call in step) for step in steps_of(decisions(trace)))
    assert seconds <= max(call.end for call in trace) - min(call.begin for call in trace)
    row = play(protocols["today"], 1, QUICK, seconds=100 * seconds)

    sent = Counter(call.kind for call in trace)
    assert row["p50_s"] == pytest.approx(seconds, rel=0.1)
    assert row["requests"] == pytest.approx(len(trace), rel=0.1)
    for kind in KINDS:
        assert row[f"{kind}_requests"] == pytest.approx(sent[kind], rel=0.1)


@pytest.mark.parametrize("protocol", ["today", "each", "group", "ahead"])
def test_no_writer_of_the_model_is_left_behind_for_ever(protocols: dict[str, Start], protocol: str) -> None:
    row = play(protocols[protocol], 8, Latencies(), seconds=120.0)
    assert row["p99_s"] < 60
    assert row["commits_per_s"] * row["p50_s"] < 8 * 1.5, "more commits than eight writers can have under way"
