# SPDX-License-Identifier: Apache-2.0
"""Many writers in simulated time: deterministic, and of one writer what a trace of the product shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest
from benchmarks.cloud.model.product import Played, play_product
from benchmarks.cloud.model.run import without_asks
from benchmarks.cloud.model.script import commit_without_asks, requests_of
from benchmarks.cloud.rig.latency import KINDS, Latencies
from benchmarks.suite.row import percentile

pytestmark = pytest.mark.unit


def _without_asks(writers: int, latencies: Latencies, **bounds: Any) -> Played:
    return without_asks(writers, latencies, **bounds)[0]


PROTOCOLS: Mapping[str, Callable[..., Played]] = {
    "without asks": _without_asks,
    "each": partial(play_product, order="each"),
    "group": partial(play_product, order="group"),
    "ahead": partial(play_product, order="group", is_ahead=True),
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_same_seed_gives_the_same_figures_and_another_gives_others(protocol: str) -> None:
    play, latencies = PROTOCOLS[protocol], Latencies(tail=4.0)
    first = play(4, latencies, seed=1, seconds=4.0)
    assert play(4, latencies, seed=1, seconds=4.0) == first
    assert play(4, latencies, seed=2, seconds=4.0) != first
    assert first.took


def test_one_writer_without_asks_sends_what_was_traced_one_request_after_the_other() -> None:
    requests, latencies = requests_of(commit_without_asks(8)), Latencies()
    seconds = sum(latencies.median_ms[sent.kind] for sent in requests) / 1000
    assert len(requests) == 36, "as it was measured before decision 28"
    assert seconds == pytest.approx(1.485)
    played = _without_asks(1, latencies, seconds=100 * seconds)
    sent = Counter(request.kind for request in requests)
    assert percentile(played.took, 0.5) == pytest.approx(seconds, rel=0.1)
    for kind in KINDS:
        assert played.sent[kind] / len(played.took) == pytest.approx(sent[kind], rel=0.1)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_no_writer_is_left_behind_for_ever(protocol: str) -> None:
    seconds = 120.0 if protocol == "without asks" else 6.0
    played = PROTOCOLS[protocol](8, Latencies(), seconds=seconds)
    assert max(played.took) < seconds / 2


def test_a_commit_of_the_product_waits_for_eight_calls_in_a_row_and_for_five_if_it_was_begun_ahead() -> None:
    """`tests/unit/writing/test_depth.py` counts them; here they are as long as calls of an object store."""
    alone, ahead = (play_product(1, Latencies(), is_ahead=is_ahead, commits=6) for is_ahead in (False, True))
    assert percentile(alone.took, 0.5) < 0.4
    assert percentile(ahead.took, 0.5) < 0.25


@pytest.mark.slow
@pytest.mark.parametrize(("order", "commits_per_s", "slowest_s"), [("each", 9.0, 3.0), ("group", 14.0, 2.0)])
def test_sixteen_writers_on_an_object_store_hardly_wait_for_each_other(
    order: str, commits_per_s: float, slowest_s: float
) -> None:
    played = play_product(16, Latencies(), order=order, seconds=20.0)
    assert len(played.took) / played.seconds > commits_per_s
    assert percentile(played.took, 0.99) < slowest_s
    assert played.sent.total() / len(played.took) < 40


@pytest.mark.slow
@pytest.mark.parametrize("order", ["each", "group"])
def test_sixty_four_writers_send_few_requests_for_a_commit(order: str) -> None:
    played = play_product(64, Latencies(), order=order, seconds=6.0)
    assert played.sent.total() / len(played.took) < 40
    if order == "group":
        assert len(played.took) / played.seconds > 40
        assert percentile(played.took, 0.99) < 2.5
