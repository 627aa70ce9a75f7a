# SPDX-License-Identifier: Apache-2.0
"""Which log blocks count, and in which order."""

from __future__ import annotations

import pytest

from lakebraid.model.log_order import BlockOrigin, place_blocks, place_blocks_layout1

pytestmark = pytest.mark.unit


def placed(*blocks: BlockOrigin) -> list[tuple[str, str]]:
    return [(blocks[p.index].instant_time, p.request_time) for p in place_blocks(blocks)]


def test_a_compacted_block_stands_at_the_place_of_the_newest_instant_it_names() -> None:
    blocks = [BlockOrigin("1"), BlockOrigin("2"), BlockOrigin("3"), BlockOrigin("5", ("1", "2"))]
    assert placed(*blocks) == [("5", "2"), ("3", "3")]


def test_a_chain_of_compacted_blocks_counts_once() -> None:
    first, second = BlockOrigin("5", ("1", "2")), BlockOrigin("7", ("5", "3"))
    assert placed(BlockOrigin("1"), BlockOrigin("2"), BlockOrigin("3"), first, second, BlockOrigin("6")) == [
        ("7", "3"), ("6", "6"),
    ]  # fmt: skip


def test_blocks_whose_sources_were_cleaned_away_still_stand_at_their_place() -> None:
    assert placed(BlockOrigin("4"), BlockOrigin("5", ("1", "2"))) == [("5", "2"), ("4", "4")]


def test_blocks_that_name_each_other_do_not_hang_the_reader() -> None:
    assert placed(BlockOrigin("5", ("7",)), BlockOrigin("7", ("5",))) == []


def test_blocks_of_one_instant_keep_their_order() -> None:
    blocks = [BlockOrigin("1"), BlockOrigin("1"), BlockOrigin("0")]
    assert [p.index for p in place_blocks(blocks)] == [2, 0, 1]


def test_a_rollback_command_undoes_only_what_came_before_it_in_version_6() -> None:
    undo = BlockOrigin("3", rolls_back="1", holds_rows=False)
    blocks = [BlockOrigin("1"), BlockOrigin("2"), undo, BlockOrigin("1")]
    assert [p.index for p in place_blocks_layout1(blocks)] == [1, 3]


def test_blocks_without_rows_that_count_are_left_out() -> None:
    blocks = [BlockOrigin("1", holds_rows=False), BlockOrigin("2")]
    assert [p.index for p in place_blocks_layout1(blocks)] == [1]
    assert [p.index for p in place_blocks(blocks)] == [1]
