# SPDX-License-Identifier: Apache-2.0
"""Timeline files whose bytes cannot be taken at their word: Avro records, and the JSON of older tables."""

from __future__ import annotations

import itertools
import zlib

import pytest

import lakebraid as lb
from lakebraid.errors import CorruptFile, LakebraidError
from lakebraid.format.avro.varint import format_long
from lakebraid.format.timeline.commit import parse_commit
from lakebraid.format.timeline.plans import parse_compaction_plan, parse_requested_replace
from lakebraid.format.timeline.rollbacks import parse_restore_metadata, parse_rollback_metadata, parse_rollback_plan
from lakebraid.format.timeline.services import parse_clean_metadata, parse_clean_plan, parse_savepoint_metadata
from tests.hostile.attack import Target, each, files_of, look_at_everything, refusal, refused, target
from tests.hostile.forge_avro import SYNC, container, nested, nested_text, sized, split
from tests.kit.tally import TALLY

pytestmark = pytest.mark.hostile

PARSERS = {
    ".commit": parse_commit,
    ".deltacommit": parse_commit,
    ".replacecommit": parse_commit,
    ".compaction.requested": parse_compaction_plan,
    ".clustering.requested": parse_requested_replace,
    ".replacecommit.requested": parse_requested_replace,
    ".clean": parse_clean_metadata,
    ".clean.requested": parse_clean_plan,
    ".rollback": parse_rollback_metadata,
    ".rollback.requested": parse_rollback_plan,
    ".restore": parse_restore_metadata,
    ".savepoint": parse_savepoint_metadata,
}
TABLES = (
    "v6_mor_bucket",
    "v9_cow_clean_savepoint",
    "v9_mor_clustering",
    "v9_mor_rollback_completed",
    "v9_mor_pending_write_and_compaction",
)


def _one_of_each() -> dict[str, bytes]:
    """The smallest real file of each kind, from version 9 and (with 'v6') version 6."""
    found: dict[str, bytes] = {}
    for table in TABLES:
        for name, data in files_of(table).items():
            tail = name.rpartition("/")[2].lstrip("0123456789_")
            key = f"{table[:2]}{tail}"
            if ".hoodie/" in name and "metadata/" not in name and tail in PARSERS and data:
                found[key] = min(found.get(key, data), data, key=len)
    return found


REAL = _one_of_each()


@pytest.mark.parametrize("kind", sorted(REAL))
def test_a_timeline_file_cut_at_any_byte_is_refused(kind: str) -> None:
    data, parse = REAL[kind], PARSERS[kind[2:]]
    parse(data, "whole")
    for end in range(1, len(data)):
        with pytest.raises(CorruptFile):
            parse(data[:end], f"{kind} cut at {end}")
    TALLY.tried["timeline file cut"] += len(data) - 1
    TALLY.refused += len(data) - 1


@pytest.mark.parametrize("kind", sorted(REAL))
def test_a_timeline_file_with_any_byte_changed_is_read_or_refused(kind: str) -> None:
    data, parse = REAL[kind], PARSERS[kind[2:]]
    for at in range(len(data)):
        for value in (0x01, 0x80, 0xFF):
            changed = data[:at] + bytes((value,)) + data[at + 1 :]
            TALLY.tried["timeline file flipped"] += 1
            try:
                parse(changed, "changed")
            except LakebraidError:
                TALLY.refused += 1


LIST = {"type": "record", "name": "r", "fields": [{"name": "a", "type": {"type": "array", "items": "long"}}]}
TEXT = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "string"}]}
MAYBE = {"type": "record", "name": "r", "fields": [{"name": "a", "type": ["null", "string"]}]}
NOTHING = {"type": "record", "name": "r", "fields": [{"name": "a", "type": {"type": "array", "items": "null"}}]}

FORGED = {
    "nothing but the magic": b"Obj\x01",
    "40 records deep": container(nested(40), b"\x02"),
    "40 lists deep": container(nested(40, "array"), b"\x02" * 40),
    "40 maps deep": container(nested(40, "map"), b"\x00"),
    "40 unions deep": container(nested(40, "union"), b"\x02" * 80),
    "100,000 lists deep": container(nested_text(100_000), b"\x00"),
    "100,000 brackets": container(b"[" * 100_000, b"\x00"),
    "100,000 braces": container(b'{"type":' * 100_000, b"\x00"),
    "a schema that contains itself": container(
        {"type": "record", "name": "r", "fields": [{"name": "r", "type": "r"}]}, b"\x00"
    ),
    "a schema that contains itself in a list": container(
        {"type": "record", "name": "r", "fields": [{"name": "r", "type": {"type": "array", "items": "r"}}]},
        b"\x02" * 99,
    ),
    "2^60 numbers": container(LIST, format_long(2**60) + b"\x02\x00"),
    "-2^60 numbers": container(LIST, format_long(-(2**60)) + format_long(10) + b"\x02\x00"),
    "2^60 nulls": container(NOTHING, format_long(2**60) + b"\x00"),
    "a text of -1 bytes": container(TEXT, b"\x01"),
    "a text of an exabyte": container(TEXT, format_long(2**60) + b"abc"),
    "text that is no UTF-8": container(TEXT, sized(b"\xff\xfe\x80")),
    "branch 7 of two": container(MAYBE, b"\x0e"),
    "branch -1 of two": container(MAYBE, b"\x01"),
    "a number without an end": container(TEXT, b"\xff" * 30),
    "two records": container(TEXT, sized(b"a") + sized(b"b"), count=2),
    "no record": container(TEXT, b"", count=0),
    "-1 records": container(TEXT, sized(b"a"), count=-1),
    "2^62 records": container(TEXT, sized(b"a"), count=2**62),
    "a block of an exabyte": container(TEXT, sized(b"a"), size=2**60),
    "a block of -5 bytes": container(TEXT, sized(b"a"), size=-5),
    "the wrong closing marker": container(TEXT, sized(b"a"), tail=b"x" * 16),
    "bytes after the end": container(TEXT, sized(b"a"), tail=SYNC + b"more"),
    "an unknown compression": container(TEXT, sized(b"a"), codec=b"rot13"),
    "deflate that is none": container(TEXT, sized(b"a"), codec=b"deflate"),
    "a schema that is no JSON": container(b"{'type'}", b""),
    "a schema of numbers": container(b"1e999", b""),
    "a schema of 5,000 digits": container(b"9" * 5000, b""),
    "a schema that is a string": container("string", sized(b"a")),
    "an unknown type": container({"type": "recrod", "name": "r"}, b""),
    "fields that are none": container({"type": "record", "name": "r", "fields": [1, "x", None, {}]}, b""),
    "a fixed of an exabyte": container(
        {
            "type": "record",
            "name": "r",
            "fields": [{"name": "a", "type": {"type": "fixed", "name": "f", "size": 2**60}}],
        },
        b"",
    ),
    "10,000 fields": container(
        {"type": "record", "name": "r", "fields": [{"name": f"f{n}", "type": "int"} for n in range(10_000)]},
        b"\x02" * 10_000,
    ),
    "a header of 2^40 entries": b"Obj\x01" + format_long(2**40) + b"\x02a\x02b",
    "a header key of an exabyte": b"Obj\x01" + format_long(1) + format_long(2**60),
}


@pytest.mark.parametrize("name", sorted(FORGED))
def test_a_forged_avro_commit_is_refused(cow: Target, name: str) -> None:
    commit = cow.named(r"timeline/\d+_\d+\.commit$")[-1]
    cow.put(commit, FORGED[name])
    refused("forged Avro", CorruptFile, lambda: lb.Table.open(cow.url).to_arrow(), what=name)
    refusal("forged Avro", lambda: look_at_everything(cow.url), what=name)


def test_a_deflate_bomb_is_refused(cow: Target) -> None:
    packer = zlib.compressobj(9, wbits=-15)
    body = packer.compress(format_long(2**31) + bytes(200_000_000)) + packer.flush()
    commit = cow.named(r"timeline/\d+_\d+\.commit$")[-1]
    cow.put(commit, container(TEXT, body, codec=b"deflate"))
    refused("forged Avro", CorruptFile, lambda: lb.Table.open(cow.url).to_arrow())


JSON_COMMITS = [
    b"{",
    b"{}",
    b"{]",
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    b'{"partitionToWriteStats": 5}',
    b'{"partitionToWriteStats": {"p": [{"numWrites": "many"}]}}',
    b'{"partitionToWriteStats": {"p": [{"numWrites": 1e400}]}}',
    b'{"partitionToWriteStats": {"p": [{"numWrites": ' + b"9" * 5000 + b"}]}}",
    b'{"partitionToWriteStats": {"p": [null]}}',
    b'{"partitionToWriteStats": {"../../x": [{"path": "../../x/secret", "fileId": "\\u0000"}]}}',
    b'{"partitionToReplaceFileIds": {"../../x": ["\\ud800"]}}',
    b'{"extraMetadata": {"schema": 7}}',
    b'{"extraMetadata": {"schema": "{"}}',
    b'{"extraMetadata": {"schema": null}, "operationType": "\\u001b[31m"}',
    b'{"operationType": NaN}',
    b"{" + b'"a":1,' * 100_000 + b'"b":2}',
    b"\xef\xbb\xbf{}",
    b"{\xff}",
]


def test_json_commits_of_version_6_end_in_rows_or_a_refusal() -> None:
    made = target("v6_mor_bucket")
    for commit in made.named(r"\.hoodie/\d+\.(commit|deltacommit)$"):
        each("JSON commit", made, commit, JSON_COMMITS)
        whole = made.files[commit]
        each("JSON commit", made, commit, [whole[:end] for end in range(1, len(whole), len(whole) // 25)])


def test_garbage_in_pending_instants_changes_no_row() -> None:
    made = target("v9_mor_pending_write_and_compaction")
    rows = lb.Table.open(made.url).to_arrow().to_pydict()
    pending = made.named(r"timeline/\d+\.[a-z.]*(requested|inflight)$")
    assert pending
    for name, data in itertools.product(pending, [b"", b"garbage", b"Obj\x01" + b"\xff" * 99, FORGED["2^60 numbers"]]):
        made.put(name, data)
        assert refusal("pending instant", lambda: look_at_everything(made.url), what=name) is None
        if "compaction" not in name:  # a torn plan opens no slice, but reading goes on
            assert lb.Table.open(made.url).to_arrow().to_pydict() == rows
        made.restore(name)


def test_a_thousand_empty_commits_do_not_wait_for_each(cow: Target) -> None:
    first = cow.named(r"timeline/\d+_\d+\.commit$")[0]
    for number in range(1000):
        time = f"2030010100{number // 60:04d}{number % 60:02d}0"[:17].ljust(17, "0")
        cow.put(f"{first.rpartition('/')[0]}/{time}_{int(time) + 1}.commit", b"")
    clock = _OldFiles()
    refusal("empty commits", lambda: lb.Table.open(cow.url, clock=clock).to_arrow(), seconds_max=5)
    assert clock.slept < 2


class _OldFiles:
    """A clock by which all files are an hour old, and which counts how long it was slept on."""

    def __init__(self) -> None:
        self.slept = 0.0

    def now_ms(self) -> int:
        import time

        return time.time_ns() // 1_000_000 + 3_600_000

    def sleep(self, seconds: float) -> None:
        self.slept += seconds

    def monotonic(self) -> float:
        return 0.0

    def token(self) -> str:
        return "0" * 16

    def random(self) -> float:
        return 0.5


@pytest.mark.parametrize(
    "name",
    [
        "99999999999999999_99999999999999999.commit",
        "00000000000000000_00000000000000000.commit",
        "20261399999999999_20261399999999998.deltacommit",
        "99999999999999999.rollback.requested",
        "20260101000000000.commit.commit",
        "20260101000000000_20260101000000001.savepoint",
    ],
)
def test_times_that_are_in_no_calendar_end_in_rows_or_a_refusal(cow: Target, name: str) -> None:
    cow.put(f".hoodie/timeline/{name}", b"")
    refusal("timeline name", lambda: look_at_everything(cow.url), what=name)


def test_splitting_a_container_gives_its_body() -> None:
    data = REAL["v9.clean"]
    schema, body = split(data)
    assert parse_clean_metadata(container(schema, body), "rebuilt") == parse_clean_metadata(data, "whole")
