# SPDX-License-Identifier: Apache-2.0
"""The contract of all stores over Azure Blob Storage, and a table with two writers on it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

import lakebraid as lb
from lakebraid.storage import ObjectStorage
from tests.objects.azurite import CONTAINER, azurite, options
from tests.unit import test_storage_contract as contract
from tests.unit import test_storage_versions as versions

pytestmark = pytest.mark.objects

# Every test of the contract runs here too, with the fixture `storage` below.
for module in (contract, versions):
    globals().update({name: test for name, test in vars(module).items() if name.startswith("test_")})

_folders = itertools.count()


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with azurite() as url:
        yield url


@pytest.fixture
def storage(endpoint: str) -> ObjectStorage:
    return ObjectStorage(f"az://{CONTAINER}/warehouse/table {next(_folders)}%20", options(endpoint))


def test_two_writers_and_a_compaction_on_azure_lose_nothing(endpoint: str) -> None:
    url = f"az://{CONTAINER}/orders"
    columns = "id bigint, ts bigint, writer bigint"
    made = lb.Table.create(
        url, columns, record_keys="id", ordering_fields="ts", buckets=2, storage_options=options(endpoint)
    )

    def write(writer: int) -> None:
        table = lb.Table.open(url, options(endpoint))
        for ts in range(4):
            table.upsert([{"id": key, "ts": 10 * ts + writer, "writer": writer} for key in range(5)])

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(write, (1, 2)))
    before = made.to_arrow().sort_by("id").to_pylist()
    assert before == [{"id": key, "ts": 32, "writer": 2} for key in range(5)]
    made.compact()
    made.clean()
    assert lb.Table.open(url, options(endpoint)).to_arrow().sort_by("id").to_pylist() == before
