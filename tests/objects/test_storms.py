# SPDX-License-Identifier: Apache-2.0
"""S3 that refuses, slows down, tears and loses what is sent: calls get through, storms end, and nothing is said that is not so."""

from __future__ import annotations

import itertools
import random
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

import lakebraid as lb
from lakebraid.errors import OutcomeUnknown, StorageError
from lakebraid.storage import ObjectStorage
from tests.objects import passing_faults
from tests.objects.conftest import BUCKET, Stub, options
from tests.objects.faults import Relay, relay
from tests.objects.passing_faults import Behind, Hurried, behind_relay

pytestmark = pytest.mark.objects
globals().update({name: test for name, test in vars(passing_faults).items() if name.startswith("test_")})

_folders = itertools.count()


@pytest.fixture
def before(endpoint: str) -> Iterator[Relay]:
    with relay(endpoint) as running:
        yield running


@pytest.fixture
def behind(before: Relay) -> Behind:
    return behind_relay(f"s3://{BUCKET}/storms/{next(_folders)}", options(before.url), before)


@pytest.fixture
def scripted(stub: Stub) -> ObjectStorage:
    return ObjectStorage(f"s3://{BUCKET}/t", options(stub.url), Hurried())


@pytest.mark.parametrize("call", ["copy", "delete"])
def test_an_error_inside_of_an_answer_that_says_yes_is_an_error(behind: Behind, call: str) -> None:
    behind.relay.breaks("200")
    behind.storage.copy("a", "b") if call == "copy" else behind.storage.delete(["a"])
    assert behind.relay.sent == 2
    behind.relay.storm = lambda: "200"
    with pytest.raises(OutcomeUnknown, match="slow down"):
        behind.storage.copy("b", "c") if call == "copy" else behind.storage.delete(["b"])


def test_a_deletion_that_is_refused_for_some_objects_says_why_and_not_that_all_are_there(
    scripted: ObjectStorage, stub: Stub
) -> None:
    refused = b"<Error><Key>t/b</Key><Code>%s</Code><Message>No.</Message></Error>"
    gone = b"<DeleteResult><Deleted><Key>t/a</Key></Deleted>%s</DeleteResult>"
    stub.answer = lambda _method, _path: (200, gone % (refused % b"AccessDenied"))
    with pytest.raises(OutcomeUnknown, match="permission was denied"):
        scripted.delete(["a", "b"])
    assert len(stub.requests) == 1
    stub.answer = lambda _m, _p: (200, gone % (refused % b"InternalError" if len(stub.requests) < 4 else b""))
    scripted.delete(["a", "b"])
    assert len(stub.requests) == 4


def test_the_second_page_of_a_listing_may_fail_in_every_way(behind: Behind) -> None:
    names = [f"many/{i:04}" for i in range(1_005)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: behind.storage.create(name, b""), names))
    for fault in ("503", "lost", "torn"):
        behind.relay.breaks("", fault)
        assert [info.name for info in behind.storage.list("many")] == names
        behind.relay.breaks("", fault)
        assert [info.name for info in behind.storage.list_folder("many")[0]] == names


def test_an_address_where_no_store_answers_is_told_after_a_few_tries() -> None:
    clock = Hurried()
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # and does not listen: connections are refused
        storage = ObjectStorage(f"s3://{BUCKET}/t", options(f"http://127.0.0.1:{silent.getsockname()[1]}"), clock)
        with pytest.raises(StorageError, match="Check the endpoint"):
            storage.read("a", 1)
    assert len(clock.slept) == 3


def test_clients_that_are_slowed_down_together_do_not_come_back_together_and_the_storm_ends(before: Relay) -> None:
    """16 clients of 5 calls each, all refused at first, then nine of ten requests until the store recovers, after two seconds
    of their clock: all get through, with at most ten requests for each call.
    """
    clients, calls = 16, 5
    clocks = [Hurried(10) for _ in range(clients)]
    storages = [ObjectStorage(f"s3://{BUCKET}/storm", options(before.url), clock) for clock in clocks]
    storages[0].create("a", b"x")
    chance, begun = random.Random(5), list[float]()
    before.sent = 0

    def storm() -> str:
        begun.append(time.monotonic())
        is_over = time.monotonic() > begun[0] + 0.2
        return "503" if len(begun) <= clients or (not is_over and chance.random() < 0.9) else ""

    before.storm = storm
    with ThreadPoolExecutor(clients) as pool:
        seen = list(pool.map(lambda storage: [storage.read("a", 1) for _ in range(calls)], storages))
    assert seen == [[b"x"] * calls] * clients
    assert before.sent <= clients * calls * 10
    firsts = [clock.slept[0] for clock in clocks if clock.slept]
    assert max(firsts) - min(firsts) > 0.05, "they wait equally long"


def test_a_write_through_a_storm_is_whole_and_says_what_it_waited_for(before: Relay) -> None:
    url, given = f"s3://{BUCKET}/storms/table", {**options(before.url), "timeout": "5s"}
    table = lb.Table.create(
        url, "id string, ts bigint", record_keys="id", ordering_fields="ts", buckets=4, storage_options=given
    )
    calm = table.upsert([{"id": "calm", "ts": 1}])
    assert (calm.store_retries.requests, calm.store_retries.throttled) == (0, 0)
    chance = random.Random(7)
    before.storm = lambda: chance.choice(("503", "429", "cut", "lost", "torn")) if chance.random() < 0.15 else ""
    with ThreadPoolExecutor(3) as pool:
        results = list(pool.map(lambda n: table.upsert([{"id": f"{n}", "ts": 1}, {"id": "all", "ts": n}]), range(3)))
    before.storm = None
    assert sorted(table.to_arrow()["id"].to_pylist()) == ["0", "1", "2", "all", "calm"]
    assert table.audit(deep=True).is_healthy
    for again in (result.store_retries for result in results):
        assert again.requests > 0
        assert again.seconds > 0
    assert sum(result.store_retries.throttled for result in results) > 0
