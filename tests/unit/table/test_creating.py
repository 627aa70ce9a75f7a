# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from lakebraid.errors import InvalidArgument, StorageError
from lakebraid.format.properties import check_properties, format_properties, parse_properties
from lakebraid.model.creation.plan import TableSpec, plan_table
from lakebraid.storage import Storage, open_storage
from lakebraid.storage.memory import MemoryStorage
from lakebraid.table.creating import check_vacant
from lakebraid.table.loading import load_config
from lakebraid.txn.actions.create import create_table
from tests.kit.tables.builder import StillClock, open_table

pytestmark = pytest.mark.unit

PROPERTIES = ".hoodie/hoodie.properties"
SEED = "00000000-0000-0000-0000-000000000000-0_0-0-0_20260101000000000.parquet"
LEDGER = ".hoodie/.lakebraid/ledger"


class Died(BaseException):
    """The process was killed."""


class Dying(MemoryStorage):
    """A store whose user is killed before its n-th call that changes something."""

    __slots__ = ()
    calls_left = 10**9

    def _count(self) -> None:
        Dying.calls_left -= 1
        if Dying.calls_left < 0:
            raise Died

    def create(self, name: str, data: bytes) -> None:
        self._count()
        super().create(name, data)

    def copy(self, source: str, target: str) -> None:
        self._count()
        super().copy(source, target)

    def delete(self, names: Iterable[str]) -> None:
        self._count()
        super().delete(names)


class Counting(StillClock):
    """Another token each time."""

    def __init__(self) -> None:
        self.drawn = 0

    def token(self) -> str:
        self.drawn += 1
        return f"{self.drawn:016x}"


def spec(storage: Storage, **changes: Any) -> TableSpec:
    return plan_table(
        storage.url,
        "id bigint, ts timestamp, city string",
        record_keys="id",
        ordering_fields="ts",
        buckets=2,
        **changes,
    )


def test_a_created_table_opens_empty_with_the_settings_it_was_made_with() -> None:
    storage = MemoryStorage()
    made = spec(storage)
    create_table(storage, Counting(), made)
    config, properties = load_config(storage)
    assert config == made.config
    assert made.properties.items() <= properties.items()
    table = open_table(storage)
    assert table.schema == made.schema
    assert table.to_arrow().num_rows == 0


def test_a_created_table_on_a_disk_has_a_properties_file_that_hudi_accepts(tmp_path: Path) -> None:
    storage = open_storage(tmp_path / "t")
    create_table(storage, Counting(), spec(storage))
    properties = parse_properties((tmp_path / "t" / PROPERTIES).read_bytes(), "here")
    check_properties(properties, "here")
    assert properties["hoodie.table.name"] == "t"


@pytest.mark.interop
@pytest.mark.parametrize("changes", [{}, {"partition_by": "city"}, {"seed_base": False}])
def test_hudi_rs_opens_a_new_table_and_finds_its_columns_and_no_rows(
    tmp_path: Path, changes: dict[str, bool | str]
) -> None:
    from hudi import HudiTableBuilder

    storage = open_storage(tmp_path / "t")
    create_table(storage, Counting(), spec(storage, **changes))
    theirs = HudiTableBuilder.from_base_uri(str(tmp_path / "t")).build()
    assert theirs.get_schema().names[-3:] == ["id", "ts", "city"]
    assert sum(batch.num_rows for batch in theirs.read()) == 0


def test_a_creation_that_is_killed_at_any_call_leaves_no_table_or_a_whole_one_and_can_be_repeated() -> None:
    clock = Counting()
    for calls in range(100):
        storage = Dying(f"memory://killed{calls}", clock=clock)
        Dying.calls_left = calls
        try:
            create_table(storage, clock, spec(storage))
            finished = True
        except Died:
            finished = False
        Dying.calls_left = 10**9
        is_table = PROPERTIES in {info.name for info in storage.list()}
        if not is_table:
            try:
                create_table(storage, clock, spec(storage))
            except InvalidArgument:
                # It had been decided, and the second attempt has made the first one's decision true.
                assert storage.list(LEDGER)
        assert open_table(storage).to_arrow().num_rows == 0
        with pytest.raises(InvalidArgument) as caught:
            check_vacant(storage)
        assert caught.value.exists
        if finished:
            return
    pytest.fail("creating a table takes more than 100 calls")


@pytest.mark.parametrize("name", [PROPERTIES, f"{PROPERTIES}.backup"])
def test_a_table_that_is_there_is_not_made_anew(name: str) -> None:
    storage = MemoryStorage()
    storage.create(name, format_properties({"hoodie.table.name": "t"}))
    before = storage.list()
    with pytest.raises(InvalidArgument, match="already") as caught:
        create_table(storage, Counting(), spec(storage))
    assert caught.value.exists
    assert storage.list() == before


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (["notes.txt"], "notes.txt"),
        (["_delta_log/0.json"], "_delta_log/"),
        (["part=1/x.parquet"], "part=1/"),
        ([SEED], "0_0-0-0"),
        ([f"{i}.csv" for i in range(9)], "and 4 more"),
        ([".hoodie/lock"], "remains"),
        ([".hoodie/timeline/20260101000000000_20260101000000001.deltacommit"], "remains"),
        ([".hoodie/metadata/.hoodie/hoodie.properties"], "remains"),
        ([f"{LEDGER}/{7:020d}"], "remains"),
        ([f"{LEDGER}/{1:020d}", f"{LEDGER}/{2:020d}"], "remains"),
        ([".hoodie/.temp/1/x.marker.CREATE", ".00000000-x_1.log.1_0-0-0"], "not empty"),
    ],
)
def test_a_folder_that_holds_anything_else_is_left_alone(names: list[str], says: str) -> None:
    storage = MemoryStorage()
    for name in names:
        storage.create(name, b"")
    before = storage.list()
    with pytest.raises(InvalidArgument, match=says) as caught:
        create_table(storage, Counting(), spec(storage))
    assert not caught.value.exists
    assert storage.list() == before


def test_empty_folders_of_an_attempt_that_died_do_not_stand_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "t" / ".hoodie" / ".temp").mkdir(parents=True)
    storage = open_storage(tmp_path / "t")
    create_table(storage, Counting(), spec(storage))
    assert load_config(storage)[0].name == "t"


def test_a_file_in_the_place_of_the_folder_is_an_error_that_says_so(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("mine")
    storage = open_storage(tmp_path / "t")
    with pytest.raises(StorageError):
        create_table(storage, Counting(), spec(storage))
    assert (tmp_path / "t").read_text() == "mine"
