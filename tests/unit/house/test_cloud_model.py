# SPDX-License-Identifier: Apache-2.0
"""The model of many writers: deterministic, and of one writer what a trace of the product shows."""

from __future__ import annotations

from collections import Counter
from functools import partial

import pytest
from benchmarks.cloud.model.run import Start, play, start_asks, start_without_asks
from benchmarks.cloud.model.script import commit_without_asks, requests_of
from benchmarks.cloud.rig.latency import KINDS, Latencies

pytestmark = pytest.mark.unit

PROTOCOLS: dict[str, Start] = {
    "without asks": start_without_asks,
    "each": partial(start_asks, order="each"),
    "group": partial(start_asks, order="group"),
    "ahead": partial(start_asks, order="group", ahead=True),
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_model_gives_the_same_figures_for_the_same_seed_and_others_for_another(protocol: str) -> None:
    start, latencies = PROTOCOLS[protocol], Latencies(tail=4.0)
    first = play(start, 6, seed=1, latencies=latencies, seconds=8.0)
    assert play(start, 6, seed=1, latencies=latencies, seconds=8.0) == first
    assert play(start, 6, seed=2, latencies=latencies, seconds=8.0) != first
    assert first["commits"] > 0


def test_one_writer_without_asks_sends_what_was_traced_one_request_after_the_other() -> None:
    requests, latencies = requests_of(commit_without_asks(8)), Latencies()
    seconds = sum(latencies.median_ms[sent.kind] for sent in requests) / 1000
    assert len(requests) == 36, "as it was measured before decision 28"
    assert seconds == pytest.approx(1.485)
    row = play(start_without_asks, 1, latencies, seconds=100 * seconds)

    sent = Counter(request.kind for request in requests)
    assert row["p50_s"] == pytest.approx(seconds, rel=0.1)
    for kind in KINDS:
        assert row[f"{kind}_requests"] == pytest.approx(sent[kind], rel=0.1)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_no_writer_of_the_model_is_left_behind_for_ever(protocol: str) -> None:
    row = play(PROTOCOLS[protocol], 8, Latencies(), seconds=120.0)
    assert row["p99_s"] < 60
    assert row["commits_per_s"] * row["p50_s"] < 8 * 1.5, "more commits than eight writers can have under way"
