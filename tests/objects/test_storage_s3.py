# SPDX-License-Identifier: Apache-2.0
"""The contract of all stores over S3, and what only an object store can get wrong."""

from __future__ import annotations

import io
import itertools
import pickle
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import parse_qs

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakebraid.clock import SystemClock
from lakebraid.errors import AccessDenied, InvalidArgument, ObjectExists, ObjectNotFound, OutcomeUnknown, StorageError
from lakebraid.storage import ObjectStorage, open_storage
from lakebraid.txn.hudi.lease_lock import LeaseLock
from tests.objects import lost_answers
from tests.objects.conftest import BUCKET, SECRET, Stub, client, options
from tests.objects.passing_faults import Hurried
from tests.unit.storage import test_contract as contract
from tests.unit.storage import test_versions as versions

pytestmark = pytest.mark.objects

# Every test of the contract runs here too, with the fixture `storage` below.
for module in (contract, versions, lost_answers):
    globals().update({name: test for name, test in vars(module).items() if name.startswith("test_")})

_folders = itertools.count()


@pytest.fixture
def storage(endpoint: str) -> ObjectStorage:
    """A folder of its own, beside others whose names begin alike."""
    folder = f"warehouse/table {next(_folders)}%20"
    client(endpoint).put_object(Bucket=BUCKET, Key=f"{folder}beside/x", Body=b"not ours")
    return ObjectStorage(f"s3://{BUCKET}/{folder}", options(endpoint))


@pytest.fixture
def scripted(stub: Stub) -> ObjectStorage:
    return ObjectStorage(f"s3://{BUCKET}/t", options(stub.url), Hurried())


def error_body(code: str) -> bytes:
    return f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{SECRET}</Message></Error>".encode()


def test_keys_are_the_names_as_they_are(storage: ObjectStorage, endpoint: str) -> None:
    for name in contract.ODD_NAMES:
        storage.create(name, b"")
    prefix = storage.url.removeprefix(f"s3://{BUCKET}/") + "/"
    found = client(endpoint).list_objects_v2(Bucket=BUCKET, Prefix=prefix)["Contents"]
    assert sorted(item["Key"] for item in found) == sorted(prefix + name for name in contract.ODD_NAMES)


def test_a_whole_bucket_can_be_a_table(endpoint: str) -> None:
    client(endpoint).create_bucket(Bucket="whole")
    storage = open_storage("s3a://whole/", options(endpoint))
    storage.create("a/b", b"x")
    assert [info.name for info in storage.list()] == ["a/b"]
    assert storage.list_folder() == ([], ["a"])
    assert [info.name for info in storage.list_folder("a")[0]] == ["a/b"]


def test_a_listing_of_several_pages_is_complete(storage: ObjectStorage) -> None:
    names = [f"ledger/{i:020d}" for i in range(1_050)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda name: storage.create(name, b""), names))
    assert [info.name for info in storage.list("ledger")] == names
    assert [info.name for info in storage.list("ledger", after=names[20])] == names[21:]
    storage.delete(names)
    assert storage.list() == []


def test_markers_of_folders_are_not_objects(storage: ObjectStorage, endpoint: str) -> None:
    prefix = storage.url.removeprefix(f"s3://{BUCKET}/")
    for key in ("/", "/a/", "/a/b/", "/a/b/f"):
        client(endpoint).put_object(Bucket=BUCKET, Key=prefix + key, Body=b"1" if key.endswith("f") else b"")
    assert [info.name for info in storage.list()] == ["a/b/f"]
    assert storage.list_folder() == ([], ["a"])
    assert storage.list_folder("a") == ([], ["a/b"])
    client(endpoint).put_object(Bucket=BUCKET, Key=f"{prefix}/empty/", Body=b"")
    assert storage.list("empty") == []
    assert storage.list_folder("empty") == ([], [])


def test_a_copy_is_one_request_judged_by_the_server(scripted: ObjectStorage, stub: Stub) -> None:
    stub.answer = lambda _method, _path: (200, b"<CopyObjectResult><ETag>0</ETag></CopyObjectResult>")
    scripted.copy("staged/1 ü", "timeline/1")
    [(method, path, headers)] = stub.requests
    assert (method, path) == ("PUT", f"/{BUCKET}/t/timeline/1")
    assert headers["x-amz-copy-source"] == f"{BUCKET}/t/staged/1%20%C3%BC"


def test_a_listing_after_a_name_lets_the_server_skip_what_is_before(scripted: ObjectStorage, stub: Stub) -> None:
    stub.answer = lambda _method, _path: (200, b"<ListBucketResult></ListBucketResult>")
    assert scripted.list("ledger", after="ledger/7") == []
    [(_, path, _)] = stub.requests
    assert parse_qs(path)["start-after"] == ["t/ledger/7"]


def test_a_create_is_one_conditional_request(scripted: ObjectStorage, stub: Stub) -> None:
    scripted.create("ledger/1", b"x" * 6_000_000)
    [(method, path, headers)] = stub.requests
    assert (method, path, headers["if-none-match"]) == ("PUT", f"/{BUCKET}/t/ledger/1", "*")


@pytest.mark.parametrize("status", [500, 502, 503, 504, 429, 408])
def test_a_create_without_a_clear_answer_is_unknown_and_not_tried_again(
    scripted: ObjectStorage, stub: Stub, status: int
) -> None:
    stub.answer = lambda _method, _path: (status, b"")
    with pytest.raises(OutcomeUnknown, match="may or may not have happened") as caught:
        scripted.create("ledger/1", b"x")
    assert caught.value.status == status
    assert len(stub.requests) == 1


@pytest.mark.parametrize("code", ["ConditionalRequestConflict", "ExistingObjectIsDirectory", ""])
def test_a_create_that_meets_another_under_way_is_unknown_and_not_refused(
    scripted: ObjectStorage, stub: Stub, code: str
) -> None:
    stub.answer = lambda _method, _path: (409, error_body(code))
    with pytest.raises(OutcomeUnknown):
        scripted.create("ledger/1", b"x")
    assert len(stub.requests) == 1
    stub.answer = lambda _method, _path: (409, error_body("BlobAlreadyExists"))
    with pytest.raises(ObjectExists):
        scripted.create("ledger/1", b"x")


def test_writes_and_copies_that_meet_another_under_way_are_sent_again(scripted: ObjectStorage, stub: Stub) -> None:
    busy = (409, error_body("OperationAborted"))
    done = (200, b"<CopyObjectResult><ETag>0</ETag></CopyObjectResult>")
    changes: list[Callable[[], None]] = [lambda: scripted.replace("a", b"x"), lambda: scripted.copy("a", "b")]
    for change in changes:
        stub.requests.clear()
        stub.answer = lambda _method, _path: busy if len(stub.requests) < 3 else done
        change()
        assert len(stub.requests) == 3
        stub.answer = lambda _method, _path: busy
        with pytest.raises(OutcomeUnknown, match="409"):
            change()


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [
        (403, "AccessDenied", "permission was denied"),
        (401, "Unauthorized", "no valid credentials"),
        (404, "NoSuchBucket", "bucket or container does not exist"),
        (400, "KeyTooLongError", "answered 400"),
        (501, "NotImplemented", "the store cannot do this"),
    ],
)
def test_a_refused_change_is_certain_and_says_why(
    scripted: ObjectStorage, stub: Stub, status: int, code: str, words: str
) -> None:
    stub.answer = lambda _method, _path: (status, error_body(code))
    changes: list[Callable[[], None]] = [lambda: scripted.create("a", b"x"), lambda: scripted.copy("a", "b")]
    for change in changes:
        stub.requests.clear()
        with pytest.raises(StorageError, match=words) as caught:
            change()
        assert type(caught.value) is (AccessDenied if status in (401, 403) else StorageError)
        assert len(stub.requests) == 1
        assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_reads_are_tried_again(scripted: ObjectStorage, stub: Stub) -> None:
    stub.answer = lambda _method, _path: (503, b"") if len(stub.requests) < 3 else (404, error_body("NoSuchKey"))
    with pytest.raises(ObjectNotFound):
        scripted.read("a", 10)
    assert len(stub.requests) == 3


def test_errors_of_reads_show_no_secrets_and_no_answers_of_the_server(scripted: ObjectStorage, stub: Stub) -> None:
    stub.answer = lambda _method, _path: (403, error_body("SignatureDoesNotMatch"))
    calls: list[Callable[[], object]] = [
        lambda: scripted.read("a", 10),
        lambda: scripted.read_range("a", 0, 1),
        lambda: scripted.info("a"),
        lambda: scripted.list("a"),
        lambda: scripted.list_folder("a"),
        lambda: scripted.open_input("a"),
        lambda: scripted.delete(["a"]),
        lambda: scripted.replace("a", b""),
    ]
    for call in calls:
        with pytest.raises(StorageError, match="permission was denied") as caught:
            call()
        assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_a_missing_bucket_is_not_an_empty_table(endpoint: str) -> None:
    storage = ObjectStorage("s3://no-such-bucket/t", options(endpoint))
    for call in (storage.list, storage.list_folder, lambda: storage.read("a", 1), lambda: storage.create("a", b"")):
        with pytest.raises(StorageError, match="bucket or container does not exist") as caught:
            call()
        assert type(caught.value) is StorageError


def test_options_are_never_shown(endpoint: str) -> None:
    storage = ObjectStorage(f"s3://{BUCKET}/t", options(endpoint))
    assert repr(storage) == f"ObjectStorage('s3://{BUCKET}/t')"
    assert SECRET not in storage.url + str(storage)
    for wrong in ({"no_such_option": SECRET}, {"conditional_put": SECRET}, {"timeout": SECRET}):
        bad = ObjectStorage(f"s3://{BUCKET}/t", {**options(endpoint), **wrong})
        with pytest.raises(InvalidArgument, match=next(iter(wrong))) as caught:
            bad.list()
        assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_plain_http_must_be_allowed_by_name(endpoint: str) -> None:
    given = options(endpoint)
    del given["allow_http"]
    with pytest.raises(StorageError, match="allow_http") as caught:
        ObjectStorage(f"s3://{BUCKET}/t", given).create("a", b"")
    assert not isinstance(caught.value, OutcomeUnknown)


def test_a_storage_travels_with_its_options_before_and_after_use(storage: ObjectStorage) -> None:
    early = pickle.loads(pickle.dumps(storage))
    early.create("a", b"x")
    late = pickle.loads(pickle.dumps(early))
    assert (late.url, late.read("a", 1)) == (storage.url, b"x")


def test_parquet_fetches_only_the_columns_asked_for(storage: ObjectStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    buffer = io.BytesIO()
    wide = {f"c{i}": pa.array(range(i, i + 50_000)) for i in range(8)}
    pq.write_table(pa.table(wide), buffer, compression="none", use_dictionary=False)
    storage.create("f.parquet", buffer.getvalue())
    fetched: list[int] = []
    real = ObjectStorage.read_range

    def counted(self: ObjectStorage, name: str, start: int, length: int) -> bytes:
        fetched.append(length)
        return real(self, name, start, length)

    monkeypatch.setattr(ObjectStorage, "read_range", counted)
    column = pq.ParquetFile(storage.open_input("f.parquet"), pre_buffer=True).read(columns=["c3"])
    assert column["c3"].to_pylist() == list(range(3, 50_003))
    assert sum(fetched) < 600_000
    assert len(fetched) <= 4


def test_a_file_that_vanishes_under_a_parquet_reader_is_not_found(storage: ObjectStorage) -> None:
    buffer = io.BytesIO()
    pq.write_table(pa.table({"a": range(100_000)}), buffer)
    storage.create("f.parquet", buffer.getvalue())
    file = pq.ParquetFile(storage.open_input("f.parquet"), pre_buffer=False)
    storage.delete(["f.parquet"])
    with pytest.raises(ObjectNotFound):
        file.read()


def test_a_conditional_write_is_sent_once_and_a_lost_answer_is_unknown(scripted: ObjectStorage, stub: Stub) -> None:
    stub.answer = lambda _method, _path: None
    with pytest.raises(OutcomeUnknown):
        scripted.replace_version("lock", b"x", {"e_tag": '"1"'})
    assert [(method, headers.get("if-match")) for method, _, headers in stub.requests] == [("PUT", '"1"')]


@pytest.mark.parametrize(("status", "code"), [(412, "PreconditionFailed"), (404, "NoSuchKey")])
def test_a_conditional_write_that_was_refused_says_so(
    scripted: ObjectStorage, stub: Stub, status: int, code: str
) -> None:
    stub.answer = lambda _method, _path: (status, error_body(code))
    assert scripted.replace_version("lock", b"x", {"e_tag": '"1"'}) is None


def test_a_conditional_write_beside_another_one_may_happen_yet(scripted: ObjectStorage, stub: Stub) -> None:
    stub.answer = lambda _method, _path: (409, error_body("ConditionalRequestConflict"))
    with pytest.raises(OutcomeUnknown):
        scripted.replace_version("lock", b"x", {"e_tag": '"1"'})


def test_hudis_lease_is_held_on_s3_by_one_writer_at_a_time(storage: ObjectStorage) -> None:
    name = "counter"
    storage.create(name, b"0")

    def count(_: int) -> None:
        for _ in range(5):
            with LeaseLock(storage, SystemClock())() as hold:
                seen = int(storage.read(name, 10))
                assert hold.check()
                storage.replace(name, b"%d" % (seen + 1))

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(count, range(3)))
    assert storage.read(name, 10) == b"15"
