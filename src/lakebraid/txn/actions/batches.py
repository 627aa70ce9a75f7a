# SPDX-License-Identifier: Apache-2.0
"""Batches that are published once: a writer numbers them, the ledger knows the last number of each writer.

The number is looked at when a write begins and again in the round that decides its publication, in which the state gets
it, too. So two processes that write the same batch cannot both publish it, and a process that was killed after its
commit finds the batch done when it comes again: however late, and wherever its commit has gone since.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from lakebraid import limits
from lakebraid.errors import BatchRepeated, InvalidArgument
from lakebraid.format.damage import damaged
from lakebraid.format.timeline.commit import CommitMetadata
from lakebraid.model.timeline.instant import Instant
from lakebraid.table.loading import load_commit
from lakebraid.txn.ledger.entries import Batch, PublishedBatch
from lakebraid.txn.ledger.ledger import Ledger
from lakebraid.txn.ledger.rounds import Already, Outcome, Round
from lakebraid.txn.ledger.wishes import forget_wish

BATCH: Final = "lakebraid.batch"
"""In a commit's extra metadata: the batch that it brings."""
STREAM: Final = "lakebraid.stream"
"""The same: the stream that numbered it."""
BEFORE: Final = "lakebraid.batch.before"
"""The same: the batch that its writer had published before, so that a restore can return to it."""


def named_batch(writer: str | None, number: int | None, stream: str = "") -> Batch | None:
    """The batch that a caller names; None if he does not tell batches apart."""
    if number is None:
        return None
    if writer is None:
        raise InvalidArgument("A batch needs the name of its writer: give `writer` as well. Nothing was begun.")
    if not (isinstance(writer, str) and 0 < len(writer) <= limits.WRITER_NAME_CHARACTERS_MAX and writer.isprintable()):
        raise InvalidArgument(
            f"A writer of batches needs a printable name of at most {limits.WRITER_NAME_CHARACTERS_MAX} characters, "
            f"{writer!r:.80} is none. Nothing was begun."
        )
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= limits.BATCH_NUMBER_MAX:
        raise InvalidArgument(
            f"batch={number!r:.40} is no whole number from 0 to {limits.BATCH_NUMBER_MAX}. Nothing was begun. Numbers of one "
            "writer must rise."
        )
    return Batch(writer, number, stream[: limits.WRITER_NAME_CHARACTERS_MAX])


def is_published(ledger: Ledger, writer: str | None, number: int | None) -> bool:
    """Whether the batch that a caller names, or a later one of its writer, is published."""
    batch = named_batch(writer, number)
    if batch is None:
        return False
    known = ledger.newest().state.batches.get(batch.writer)
    return known is not None and batch.number <= known.number


def check_new(now: Round, batch: Batch | None) -> None:
    """BatchRepeated if the batch, or a later one of its writer, is published; InvalidArgument if it cannot be told."""
    if batch is None:
        return
    known = now.state.batches.get(batch.writer)
    if known is None:
        _check_room(now, batch)
    elif known.stream and batch.stream and known.stream != batch.stream:
        raise InvalidArgument(
            f"The writer {batch.writer!r} of {now.ledger.storage.url} has published batch {known.number} of another stream, "
            f"which numbers its batches anew: batch {batch.number} of this one may hold other rows. Nothing of it is "
            f"visible. Two streams need two writer names. If a checkpoint was deleted on purpose, "
            f"`table.forget_writer({batch.writer!r})` lets its numbers begin again.",
            path=now.ledger.storage.url,
            writer=batch.writer,
            batch=batch.number,
        )
    elif batch.number <= known.number:
        raise BatchRepeated(
            f"Batch {batch.number} of the writer {batch.writer!r} is in {now.ledger.storage.url} already: its newest is "
            f"{known.number} ({known.request_time}). Nothing was written again, and nothing is missing.",
            writer=batch.writer,
            batch=batch.number,
            request_time=known.request_time,
            completion=known.completion,
        )


def with_batch(now: Round, batch: Batch | None, content: CommitMetadata) -> CommitMetadata:
    """A commit that says which batch it brings, and what its writer had published before."""
    if batch is None:
        return content
    known = now.state.batches.get(batch.writer)
    before = {} if known is None else {BEFORE: _format(known)}
    told = {BATCH: str(batch.number), **({STREAM: batch.stream} if batch.stream else {}), **before}
    return replace(content, extra={**content.extra, **told})


def batches_without(now: Round, undone: Iterable[Instant]) -> Mapping[str, PublishedBatch]:
    """The newest batches if these writes never were: every writer is back where it was before the first of its own."""
    gone = {instant.request_time: instant for instant in undone}
    found: dict[str, PublishedBatch] = {}
    for writer, newest in now.state.batches.items():
        known: PublishedBatch | None = newest
        while known is not None and known.request_time in gone:
            known = _before(now, gone.pop(known.request_time))
        if known is not None:
            found[writer] = known
    return found


def forget_writer(ledger: Ledger, writer: str) -> bool:
    """Lets the numbers of a writer begin again; False if it has published no batch."""

    def rule(now: Round) -> Outcome[bool]:
        if writer not in now.state.batches:
            return Already(value=False)
        return now.wished("forget", forget_wish(writer), (b"",), lambda _: True)

    return ledger.decide(ledger.clock.token(), rule)


def _check_room(now: Round, batch: Batch) -> None:
    if len(now.state.batches) >= limits.BATCH_WRITERS_MAX:
        raise InvalidArgument(
            f"{now.ledger.storage.url} knows the batches of {limits.BATCH_WRITERS_MAX:,} writers already, so {batch.writer!r} "
            "cannot be another one. Nothing was written. Use the same name for the same job, and let go of those that "
            "never come again: `table.forget_writer(name)`; `table.writers()` lists them.",
            path=now.ledger.storage.url,
        )


def _before(now: Round, instant: Instant) -> PublishedBatch | None:
    """What the writer of a commit had published before it."""
    text = load_commit(now.ledger.table, instant).extra.get(BEFORE)
    return None if text is None else _parse(text, instant)


def _format(known: PublishedBatch) -> str:
    return json.dumps([known.number, known.request_time, known.completion, known.stream], separators=(",", ":"))


def _parse(text: str, instant: Instant) -> PublishedBatch:
    try:
        value: Any = json.loads(text)
        number, request_time, completion, stream = value
        if type(number) is int and all(isinstance(v, str) for v in (request_time, completion, stream)):
            return PublishedBatch(number, request_time, completion, stream)
    except (ValueError, TypeError, RecursionError):
        pass
    raise damaged(instant.request_time, f"its {BEFORE} is {text[:80]!r}")
