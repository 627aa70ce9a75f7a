# SPDX-License-Identifier: Apache-2.0
"""The Avro blocks of a slice's logs, decoded together: one call of the reader costs more than the rows of a small block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import pyarrow as pa

from lakebraid import limits
from lakebraid.format.avro.rows import parse_avro_blocks
from lakebraid.format.log.blocks import BlockType
from lakebraid.tasks.reading.block_cache import KEPT
from lakebraid.tasks.reading.blocks import Decoded, PlacedBlock


def decoded_together(placed: Sequence[PlacedBlock]) -> dict[str, Decoded]:
    """What the Avro blocks among these hold, by their place, perhaps decoded before."""
    found = {}
    for run in _runs([p for p in placed if p.block.type is BlockType.AVRO]):
        tables = KEPT.all_rows([member.block for member in run], (), partial(_decoded, run))
        for member, rows in zip(run, tables, strict=True):
            found[member.where] = Decoded(rows, member.block.is_partial, member.where)
    return found


def _decoded(run: Sequence[PlacedBlock], numbers: Sequence[int]) -> list[pa.Table]:
    """The rows of these of the run."""
    contents, places = [run[n].block.content for n in numbers], [run[n].where for n in numbers]
    return parse_avro_blocks(contents, run[0].block.schema_text or "", places)


def _runs(placed: Sequence[PlacedBlock]) -> Iterator[list[PlacedBlock]]:
    """Neighbours of one schema, not too many bytes of them."""
    run: list[PlacedBlock] = []
    room = 0
    for block in placed:
        size = len(block.block.content)
        if run and (size > room or block.block.schema_text != run[0].block.schema_text):
            yield run
            run = []
        room = (room if run else limits.AVRO_TOGETHER_BYTES) - size
        run.append(block)
    if run:
        yield run
