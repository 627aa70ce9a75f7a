# SPDX-License-Identifier: Apache-2.0
"""Writers in real folders that they may not write to, or that are deleted under them; and rows that do not fit."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebraid as lb
from lakebraid.errors import CommitUnknown, InvalidArgument, LakebraidError
from lakebraid.storage import LocalStorage
from tests.kit.races.faults import AFTER, BEFORE, ROWS, SCHEMA, attempt, not_owned, parted, restored
from tests.kit.tables.scene import answer, files, table_on

pytestmark = pytest.mark.unit


# --- real folders ----------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder of a table in which modes count, for root as well."""
    with _modes_count():
        yield tmp_path / "table"
    for inside, _, _ in os.walk(tmp_path):
        os.chmod(inside, 0o755)


@contextlib.contextmanager
def _modes_count() -> Iterator[None]:
    """Takes root's right to write everywhere (CAP_DAC_OVERRIDE) from this thread for a while."""
    if os.geteuid() != 0:
        yield
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    held, fewer = (ctypes.c_uint32 * 6)(), (ctypes.c_uint32 * 6)()
    if libc.capget(header, held) != 0:
        pytest.skip("root cannot be stopped here; the same is simulated above")
    ctypes.memmove(fewer, held, ctypes.sizeof(held))
    fewer[0] &= ~(1 << 1)
    assert libc.capset(header, fewer) == 0
    try:
        yield
    finally:
        assert libc.capset(header, held) == 0


PLACES = ["", ".hoodie/timeline", ".hoodie/.lakebraid/ledger", ".hoodie/.lakebraid/staged", ".hoodie/.temp", "part=p"]


@pytest.mark.parametrize("place", PLACES)
def test_a_folder_that_may_not_be_written_to_is_named_and_the_table_stays_as_it_is(folder: Path, place: str) -> None:
    table = lb.Table.create(
        folder,
        SCHEMA,
        record_keys="id",
        ordering_fields="ts",
        partition_by="part",
        buckets=1,
        hive_style_partitioning=True,
    )
    table.upsert([parted("a", "0", "p"), parted("b", "0", "p")])
    os.chmod(folder / place, 0o555)
    with pytest.raises(LakebraidError) as caught:
        lb.Table.open(folder).upsert(ROWS)
    causes = [caught.value, *_causes(caught.value)]
    assert any("permission was denied" in str(cause) and str(folder / place) in str(cause) for cause in causes)
    assert answer(lb.Table.open(folder)) == BEFORE
    os.chmod(folder / place, 0o755)
    table.rollback(timeout_seconds=0)
    made = attempt(LocalStorage(str(folder)), table._clock)
    assert made.error is None
    table.rollback(timeout_seconds=0)
    assert answer(table) == AFTER
    assert not_owned(LocalStorage(str(folder)), table) == []


def _causes(error: BaseException) -> list[BaseException]:
    found: list[BaseException] = []
    inner = error.__cause__ or error.__context__
    while inner is not None:
        assert inner is not error and inner not in found, "an error is its own cause"
        found.append(inner)
        inner = inner.__cause__ or inner.__context__
    return found


@pytest.mark.parametrize("when", ["begin", "write", "commit", "status", "rollback", "compact"])
def test_a_table_that_is_deleted_under_a_writer_is_an_error_and_no_commit_is_reported(
    tmp_path: Path, when: str
) -> None:
    path = tmp_path / "table"
    table = lb.Table.create(path, SCHEMA, record_keys="id", ordering_fields="ts", buckets=1)
    table.upsert(ROWS)
    transaction = table.begin()
    if when == "commit":
        transaction.write(ROWS)
    shutil.rmtree(path)
    if when == "write":
        transaction.write(ROWS)
    calls: dict[str, Callable[[], object]] = {
        "begin": lambda: table.upsert(ROWS),
        "status": lambda: table.status(transaction.instant),
        "rollback": table.rollback,
        "compact": table.compact,
    }
    with pytest.raises(LakebraidError) as caught:
        calls.get(when, transaction.commit)()
    assert str(path) in caught.value.message
    assert not isinstance(caught.value, CommitUnknown)
    assert not (path / ".hoodie/timeline").exists()
    with contextlib.suppress(LakebraidError):
        transaction.abort()


def test_a_table_that_was_deleted_and_made_anew_takes_no_commit_of_a_writer_of_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "table"
    arguments: dict[str, Any] = {"record_keys": "id", "ordering_fields": "ts", "buckets": 1}
    old = lb.Table.create(path, SCHEMA, **arguments)
    for _ in range(3):
        old.upsert(ROWS)
    transaction = old.begin()
    shutil.rmtree(path)
    new = lb.Table.create(path, SCHEMA, **arguments)
    new.upsert([parted("n", "new table", "p")])
    transaction.write(ROWS)
    with pytest.raises(LakebraidError, match="deleted while it was in use"):
        transaction.commit()
    assert answer(new) == {"n": "new table"}
    new.upsert([parted("m", "goes on", "p")])
    assert len(new.rollback(timeout_seconds=0).removed) in (0, 1)
    assert answer(lb.Table.open(path)) == {"n": "new table", "m": "goes on"}


# --- rows that do not fit --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([{"ts": 1, "part": "p"}], "'id'"),
        ([parted("a", "x", "p") | {"id": None}], "id"),
        ([parted("a", "x", "p") | {"ts": None}], "ts"),
        ([parted("a", "x", "p") | {"w": "no number"}], "w"),
        ([parted("a", "x", "p") | {"extra": 1}], "'extra'"),
        ([{"id": "a", "ts": 1}], "'part'"),
        (7, "int"),
    ],
    ids=["no key", "null key", "null order", "wrong type", "unknown column", "no partition", "no rows at all"],
)
def test_rows_that_do_not_fit_are_refused_by_name_and_leave_nothing_behind(rows: Any, says: str) -> None:
    storage = restored()
    table = table_on(storage, storage.clock)
    before = files(storage)
    with pytest.raises(InvalidArgument, match=says) as caught:
        table.upsert(rows, evolve=False)
    assert "Nothing was written" in caught.value.message
    assert files(storage) == before
    assert answer(table) == BEFORE
    table.rollback(timeout_seconds=0)
    assert not_owned(storage, table) == []


def test_a_transaction_in_which_a_write_failed_is_not_committed_and_leaves_nothing_behind() -> None:
    storage = restored()
    table = table_on(storage, storage.clock)
    transaction = table.begin(evolve=False)
    transaction.write(pa.Table.from_pylist(ROWS))
    with pytest.raises(InvalidArgument, match="extra"):
        transaction.write([parted("x", "x", "p") | {"extra": 1}])
    with pytest.raises(InvalidArgument, match="failed, so it cannot be committed"), transaction:
        pass
    assert table.status(transaction.instant) == "refused", "it is not left open, and beating"
    assert answer(table) == BEFORE
    assert not_owned(storage, table) == []
