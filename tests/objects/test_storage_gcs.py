# SPDX-License-Identifier: Apache-2.0
"""The contract of all stores over Google Cloud Storage's XML API, and tables with two writers on it.

The server is our own, by Google's documentation: what that proves and what not is said in `gcs_server`.
"""

from __future__ import annotations

import contextlib
import http.client
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from lakebraid.clock import SystemClock
from lakebraid.errors import AccessDenied, InvalidArgument, ObjectExists, ObjectNotFound, OutcomeUnknown, StorageError
from lakebraid.storage import ObjectStorage
from lakebraid.txn.hudi.lease_lock import LeaseLock
from tests.objects import lost_answers, passing_faults
from tests.objects.conftest import Stub
from tests.objects.faults import relay
from tests.objects.gcs_server import BUCKET, TOKEN, GcsServer, gcs_server, options
from tests.objects.passing_faults import Behind, Hurried, behind_relay
from tests.objects.two_writers import check_two_writers
from tests.unit.storage import test_contract as contract
from tests.unit.storage import test_versions as versions

pytestmark = pytest.mark.objects

# Every test of the contract runs here too, with the fixture `storage` below.
for module in (contract, versions, lost_answers, passing_faults):
    globals().update({name: test for name, test in vars(module).items() if name.startswith("test_")})

FOLDER = "warehouse/table 1%20"


@pytest.fixture
def server() -> Iterator[GcsServer]:
    with gcs_server() as server:
        yield server
    assert server.unknown == []


@pytest.fixture
def storage(server: GcsServer) -> ObjectStorage:
    """A folder beside another whose name begins alike."""
    server.store(f"{FOLDER}beside/x", b"not ours")
    return ObjectStorage(f"gs://{BUCKET}/{FOLDER}", options(server.url))


@pytest.fixture
def scripted(stub: Stub) -> ObjectStorage:
    return ObjectStorage(f"gs://{BUCKET}/t", options(stub.url), Hurried())


@pytest.fixture
def behind(server: GcsServer) -> Iterator[Behind]:
    with relay(server.url) as running:
        yield behind_relay(f"gs://{BUCKET}/t", options(running.url), running)


def error_body(code: str) -> bytes:
    return f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{TOKEN}</Message></Error>".encode()


def test_what_was_created_is_read_back(storage: ObjectStorage) -> None:
    """In place of the contract's, which wants the same time from both: Google's listings tell milliseconds, and the
    header of an object only seconds.
    """
    storage.create("k=1/a", b"hello")
    assert storage.read("k=1/a", 100) == b"hello"
    info, [listed] = storage.info("k=1/a"), storage.list()
    assert (info.name, info.size) == (listed.name, listed.size) == ("k=1/a", 5)
    assert info.modified_ms == listed.modified_ms // 1000 * 1000
    assert abs(info.modified_ms - SystemClock().now_ms()) < 60_000


def test_keys_are_the_names_as_they_are(storage: ObjectStorage, server: GcsServer) -> None:
    for name in contract.ODD_NAMES:
        storage.create(name, b"")
    keys = {f"{FOLDER}/{name}" for name in contract.ODD_NAMES}
    assert server.objects.keys() == keys | {f"{FOLDER}beside/x"}


def test_a_listing_of_several_pages_is_complete(storage: ObjectStorage, server: GcsServer) -> None:
    names = [f"ledger/{i:020d}" for i in range(20)]
    for name in [*names, *(f"ledger/sub {i}/x" for i in range(8))]:
        storage.create(name, b"")
    server.requests.clear()
    assert [info.name for info in storage.list("ledger", after=names[4])][:15] == names[5:]
    assert [(r.query["start-after"], "continuation-token" in r.query) for r, _ in server.requests] == [
        (f"{FOLDER}/{names[4]}", page > 0) for page in range(8)
    ]
    objects, folders = storage.list_folder("ledger")
    assert [info.name for info in objects] == names
    assert folders == [f"ledger/sub {i}" for i in range(8)]


def test_markers_of_folders_are_not_objects(storage: ObjectStorage, server: GcsServer) -> None:
    for key in ("/", "/a/", "/a/b/", "/a/b/f", "/empty/"):
        server.store(FOLDER + key, b"1" if key.endswith("f") else b"")
    assert [info.name for info in storage.list("a")] == ["a/b/f"]
    assert storage.list_folder() == ([], ["a", "empty"])
    assert storage.list_folder("a") == ([], ["a/b"])
    assert storage.list("empty") == []
    assert storage.list_folder("empty") == ([], [])


def test_a_create_is_one_conditional_request_whatever_its_size(storage: ObjectStorage, server: GcsServer) -> None:
    storage.create("ledger/1", b"x" * 6_000_000)
    [(request, status)] = server.requests
    assert (request.kind, request.name, status) == ("PUT object", f"{FOLDER}/ledger/1", 200)
    assert request.headers["x-goog-if-generation-match"] == "0"


def test_a_copy_is_one_request_judged_by_the_server(storage: ObjectStorage, server: GcsServer) -> None:
    storage.create("staged/1 ü", b"bytes")
    storage.copy("staged/1 ü", "timeline/1")
    with pytest.raises(ObjectNotFound):
        storage.copy("staged/2", "timeline/2")
    _, (made, status), (_, refused) = server.requests
    assert (made.kind, made.name, status, refused) == ("PUT object", f"{FOLDER}/timeline/1", 200, 404)
    assert made.headers["x-goog-copy-source"].endswith("staged%2F1%20%C3%BC")


def test_the_same_bytes_written_again_are_another_version(storage: ObjectStorage) -> None:
    storage.create("lock", b"free")
    _, version = storage.read_version("lock", 10)
    storage.replace("lock", b"held")
    storage.replace("lock", b"free")
    assert storage.replace_version("lock", b"mine", version) is None
    assert storage.read("lock", 10) == b"free"


def test_of_creators_in_separate_clients_exactly_one_wins_each_name(storage: ObjectStorage, server: GcsServer) -> None:
    start = Barrier(8)

    def create(writer: int) -> list[str]:
        own = ObjectStorage(storage.url, options(server.url))
        won = []
        for name in [f"ledger/{i}" for i in range(10)]:
            start.wait()
            try:
                own.create(name, b"%d" % writer)
            except ObjectExists:
                continue
            won.append(name)
        return won

    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(create, range(8)))
    assert sorted(name for names in won for name in names) == [f"ledger/{i}" for i in range(10)]
    assert all(storage.read(name, 10) == b"%d" % writer for writer, names in enumerate(won) for name in names)
    assert Counter(status for request, status in server.requests if request.method == "PUT") == {200: 10, 412: 70}


def test_a_creator_that_google_slows_down_is_told_neither_that_it_won_nor_that_it_lost(
    storage: ObjectStorage, server: GcsServer
) -> None:
    storage.create("ledger/1", b"first")
    server.pause_s = 3600
    with pytest.raises(OutcomeUnknown, match="slow down") as caught:
        storage.create("ledger/1", b"second")
    assert (caught.value.status, caught.value.code) == (429, "SlowDown")
    assert [status for _, status in server.requests] == [200, 429]
    assert storage.read("ledger/1", 10) == b"first"


@pytest.mark.parametrize(
    ("status", "code"), [(429, "SlowDown"), (503, "ServiceUnavailable"), (500, "InternalError"), (409, "Conflict")]
)
def test_a_change_without_a_clear_answer_is_unknown_and_not_sent_again(
    scripted: ObjectStorage, stub: Stub, status: int, code: str
) -> None:
    stub.answer = lambda _method, _path: (status, error_body(code))
    changes: list[Callable[[], object]] = [
        lambda: scripted.create("ledger/1", b"x"),
        lambda: scripted.replace_version("lock", b"x", {"version": "5"}),
    ]
    for change in changes:
        stub.requests.clear()
        with pytest.raises(OutcomeUnknown, match="may or may not have happened") as caught:
            change()
        assert caught.value.status == status
        assert len(stub.requests) == 1


def test_copies_deletes_and_replacements_are_sent_again_while_google_asks_to_slow_down(
    scripted: ObjectStorage, stub: Stub
) -> None:
    changes: list[Callable[[], None]] = [
        lambda: scripted.copy("a", "b"),
        lambda: scripted.delete(["a"]),
        lambda: scripted.replace("a", b""),
    ]
    for change in changes:
        stub.requests.clear()
        stub.answer = lambda _method, _path: (429, error_body("SlowDown")) if len(stub.requests) < 3 else (200, b"")
        change()
        assert len(stub.requests) == 3


def test_a_wrong_token_is_refused_with_certainty_and_never_shown(server: GcsServer) -> None:
    storage = ObjectStorage(f"gs://{BUCKET}/t", {**options(server.url), "bearer_token": "wrong" + TOKEN})
    for call in (
        storage.list,
        lambda: storage.read("a", 1),
        lambda: storage.create("a", b""),
        lambda: storage.delete(["a"]),
    ):
        with pytest.raises(AccessDenied, match="no valid credentials") as caught:
            call()
        assert TOKEN not in "".join(traceback.format_exception(caught.value))
    assert server.objects == {}


def test_a_missing_bucket_is_not_an_empty_table(server: GcsServer) -> None:
    storage = ObjectStorage("gs://no-such-bucket/t", options(server.url))
    for call in (
        storage.list,
        storage.list_folder,
        lambda: storage.read("a", 1),
        lambda: storage.create("a", b""),
        lambda: storage.copy("a", "b"),
    ):
        with pytest.raises(StorageError, match="bucket or container does not exist") as caught:
            call()
        assert type(caught.value) is StorageError


def test_options_of_other_stores_are_refused_without_being_shown(server: GcsServer) -> None:
    storage = ObjectStorage(f"gs://{BUCKET}/t", {**options(server.url), "account_key": TOKEN})
    with pytest.raises(InvalidArgument, match="account_key") as caught:
        storage.list()
    assert TOKEN not in "".join(traceback.format_exception(caught.value))


def test_hudis_lease_is_held_on_google_by_one_writer_at_a_time(storage: ObjectStorage) -> None:
    storage.create("counter", b"0")

    def count(_: int) -> None:
        for _ in range(5):
            with LeaseLock(storage, SystemClock())() as hold:
                seen = int(storage.read("counter", 10))
                assert hold.check()
                storage.replace("counter", b"%d" % (seen + 1))

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(count, range(3)))
    assert storage.read("counter", 10) == b"15"


def test_two_writers_and_a_compaction_on_google_lose_nothing(server: GcsServer) -> None:
    check_two_writers(f"gs://{BUCKET}/t", options(server.url))


def test_two_writers_and_a_compaction_lose_nothing_while_google_slows_them_down(server: GcsServer) -> None:
    server.pause_s = 0.2
    check_two_writers(f"gs://{BUCKET}/t", options(server.url))
    assert 429 in {status for _, status in server.requests}


@pytest.mark.parametrize(
    ("method", "path", "header", "what"),
    [
        ("PUT", f"/{BUCKET}/a", "x-goog-meta-k", "x-goog-meta-k"),
        ("PUT", f"/{BUCKET}/a", "if-none-match", "if-none-match"),
        ("PUT", f"/{BUCKET}/a?partNumber=1", "", "partNumber"),
        ("POST", f"/{BUCKET}/a?uploads", "", "uploads"),
        ("GET", f"/{BUCKET}?list-type=2&max-keys=5", "", "max-keys"),
        ("GET", f"/{BUCKET}", "", "a listing"),
        ("GET", f"/{BUCKET}/a", "range", "the range"),
        ("DELETE", f"/{BUCKET}/a?generation=1", "", "generation"),
    ],
)
def test_the_server_refuses_and_notes_what_it_does_not_know(method: str, path: str, header: str, what: str) -> None:
    with gcs_server() as server:
        stored = server.store("a", b"bytes")
        assert ask(server, "GET", f"/{BUCKET}/a", "") == 200
        assert server.unknown == []
        assert ask(server, method, path, header) == 400
        assert [what in noted for noted in server.unknown] == [True]
        assert server.objects == {"a": stored}


def ask(server: GcsServer, method: str, path: str, header: str) -> int:
    """The status, for a request with no more headers than obstore's have, and this one."""
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"))
    with contextlib.closing(connection):
        connection.putrequest(method, path, skip_accept_encoding=True)
        connection.putheader("authorization", f"Bearer {TOKEN}")
        if header:
            connection.putheader(header, "-5")
        connection.endheaders()
        return connection.getresponse().status
