# SPDX-License-Identifier: Apache-2.0
"""The contract of all stores over Azure Blob Storage, and a table with two writers on it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from lakebraid.storage import ObjectStorage
from tests.objects import passing_faults
from tests.objects.azurite import CONTAINER, azurite, options
from tests.objects.faults import relay
from tests.objects.passing_faults import Behind, behind_relay
from tests.objects.two_writers import check_two_writers
from tests.unit.storage import test_contract as contract
from tests.unit.storage import test_versions as versions

pytestmark = pytest.mark.objects

# Every test of the contract runs here too, with the fixture `storage` below.
for module in (contract, versions, passing_faults):
    globals().update({name: test for name, test in vars(module).items() if name.startswith("test_")})

_folders = itertools.count()


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with azurite() as url:
        yield url


@pytest.fixture
def storage(endpoint: str) -> ObjectStorage:
    return ObjectStorage(f"az://{CONTAINER}/warehouse/table {next(_folders)}%20", options(endpoint))


@pytest.fixture
def behind(endpoint: str) -> Iterator[Behind]:
    with relay(endpoint) as running:
        yield behind_relay(f"az://{CONTAINER}/faults/{next(_folders)}", options(running.url), running)


def test_two_writers_and_a_compaction_on_azure_lose_nothing(endpoint: str) -> None:
    check_two_writers(f"az://{CONTAINER}/orders", options(endpoint))
