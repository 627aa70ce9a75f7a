# SPDX-License-Identifier: Apache-2.0
"""Entries of the ledger as bytes: read back as they were written, and refused when damaged."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebraid.errors import (
    CorruptFile,
)
from lakebraid.txn.ledger.entries import (
    Batch,
    Entry,
    LedgerState,
    OpenWrite,
    PendingPlan,
    PublishedBatch,
    Undoing,
    entry_name,
    format_entry,
    parse_entry,
    parse_entry_name,
    parse_staged_name,
    staged_name,
)

pytestmark = pytest.mark.unit


times = st.integers(0, 10**17 - 1).map(lambda n: f"{n:017d}")


texts = st.text(max_size=8)


states = st.builds(
    LedgerState,
    last=times,
    open=st.dictionaries(
        times,
        st.builds(
            OpenWrite,
            texts,
            texts,
            st.booleans(),
            st.none() | st.lists(texts, max_size=3).map(tuple),
            st.none() | st.builds(Batch, texts, st.integers(0, 2**60), texts),
        ),
    ),
    batches=st.dictionaries(texts, st.builds(PublishedBatch, st.integers(0, 2**60), times, times, texts), max_size=3),
    plans=st.dictionaries(times, st.builds(PendingPlan, texts, texts, st.integers(0, 2**60), texts)),
    rollbacks=st.dictionaries(times, st.builds(Undoing, times, texts, texts)),
    gone=st.dictionaries(times, times),
    archived=times,
    horizon=times,
    schema_file=st.none() | texts,
    is_fresh=st.booleans(),
)


entries = st.builds(
    Entry,
    number=st.integers(0, 2**60),
    decider=texts,
    kind=texts,
    time=times,
    floor=st.integers(0, 2**60),
    files=st.lists(st.tuples(texts, texts), max_size=3).map(tuple),
    state=states,
    voids=st.none() | st.integers(0, 2**60),
)


@given(entries)
def test_an_entry_is_read_back_as_it_was_written(entry: Entry) -> None:
    assert parse_entry(format_entry(entry), "entry") == entry


@pytest.mark.slow
@pytest.mark.hostile
@given(entries, st.data())
def test_a_damaged_entry_is_a_clear_error(entry: Entry, data: st.DataObject) -> None:
    whole = format_entry(entry)
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(CorruptFile):
        parse_entry(whole[:cut], "entry")


@pytest.mark.hostile
@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[]", b"null", b'{"version":1}', b'{"version":2}', b"\xff", b"[" * 100_000]
)
def test_what_is_no_entry_is_a_clear_error(content: bytes) -> None:
    with pytest.raises(CorruptFile):
        parse_entry(content, "entry")


def test_names_of_entries_and_staged_objects_are_read_back_and_others_are_passed_over() -> None:
    assert parse_entry_name(entry_name(42)) == 42
    assert parse_staged_name(staged_name(42, "ab")) == 42
    for other in ("x", ".hoodie/.lakebraid/ledger/7", ".hoodie/.lakebraid/ledger/" + "²" * 20, entry_name(1) + "0"):
        assert parse_entry_name(other) is None
        assert parse_staged_name(other) is None
