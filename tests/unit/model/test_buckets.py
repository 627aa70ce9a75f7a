# SPDX-License-Identifier: Apache-2.0
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakebraid.errors import InvalidArgument
from lakebraid.model.keys.buckets import bucket_file_id, bucket_ids, bucket_of, bucket_of_file_id, java_string_hash
from tests.kit.counting import calls_of

pytestmark = pytest.mark.unit

DATA = Path(__file__).parents[2] / "data"


@pytest.mark.parametrize(
    "table",
    [
        "v6_mor_bucket",
        "v8_mor_bucket",
        "v9_mor_archived",
        "v9_mor_bucket_nbcc_avro",
        "v9_mor_bucket_nbcc_parquet",
        "v9_mor_nbcc_overlap",
        "v9_mor_rollback_completed",
        "v9_mor_rollback_failed",
        "v9_mor_schema_evolution",
    ],
)
def test_rows_that_hudi_wrote_are_in_the_bucket_we_compute(table: str) -> None:
    seen = 0
    with zipfile.ZipFile(DATA / f"{table}.zip") as archive:
        for name in archive.namelist():
            if name.endswith(".parquet") and ".hoodie/" not in name:
                keys = pq.read_table(pa.BufferReader(archive.read(name)), columns=["_hoodie_record_key"]).column(0)
                assert set(bucket_ids(keys, ["id"], 2)) == {bucket_of_file_id(name.rsplit("/", 1)[1])}
                seen += len(keys)
    assert seen


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0),
        ("a", 97),
        ("Hello", 69609650),
        ("polygenelubricants", 0x80000000),  # the famous Integer.MIN_VALUE
        ("é", 233),
        ("😀", 0xD83D * 31 + 0xDE00),  # two UTF-16 units
    ],
)
def test_the_string_hash_is_javas(text: str, value: int) -> None:
    assert java_string_hash(text) == value


# Answers of Hudi 1.2.0's own BucketIdentifier for N = 97, given hash fields a and b (no fields: all of them).
@pytest.mark.parametrize(
    ("key", "fields", "bucket"),
    [
        ("a:x:y,b:1:2", ["b"], 80),
        (":,,", ["b"], 44),
        ("a:p,q,b:__null__", ["b"], 31),
        ("\x00\uffff:ab\xe9\x00b,:b_", ["b"], 11),
        ("a:,b:__empty__", ["a", "b"], 88),
        ("a:__empty__,b:__null__", ["a", "b"], 88),
        ("a:x:y,b:__null__", [], 4),
        ("a:p,q,b:__null__", [], 77),
        ("\xe9\x00:\U0001f600,,\U0001f600\uffff", [], 74),
        ("\U0001f600\x00:_,,_,a", ["b"], 52),
        ("\uffff\uffff:\U0001f600\xe9\x00,_", ["a", "b"], 42),
        ("a:__null__,b:z", ["a", "b"], 16),
        (":\uffff,:b\xe9,\uffff\uffff_\U0001f600\xe9", ["b"], 74),
        ("\xe9\x00b:\xe9\uffff,\xe9:b", ["a", "b"], 93),
        ("\U0001f600,\U0001f600_", [], 88),
        ("_,:\U0001f600,a\xe9\x00a\uffff:", [], 48),
        ("\uffff_:\U0001f600\U0001f600a\uffff", ["b"], 1),
        ("_\U0001f600", ["b"], 79),
        ("a:__null__,b:1:2", [], 40),
        ("a:__null__,b:1:2", ["a", "b"], 40),
        ("a:__null__,b:1:2", ["b"], 80),
        ("a:x:y,b:__empty__", [], 4),
        ("a:x:y,b:__empty__", ["a", "b"], 4),
        ("a:p,q,b:1:2", [], 29),
        ("a:p,q,b:1:2", ["a", "b"], 29),
    ],
)
def test_odd_keys_fall_where_hudi_puts_them(key: str, fields: list[str], bucket: int) -> None:
    assert bucket_of(key, fields, 97) == bucket
    assert bucket_ids(pa.array([key]), fields, 97)[0] == bucket


_PIECES = st.sampled_from(["a:", "b:", ",", ":", "__null__", "__empty__", "x", "é", "😀", "\uffff", "a:1,b:2"])
_KEYS = st.one_of(st.text(), st.lists(_PIECES).map("".join))


@given(
    st.lists(_KEYS, max_size=40),
    st.sampled_from([["a", "b"], ["b"], ["a"], ["id"], [], [""]]),
    st.integers(1, 1000),
    st.booleans(),
)
@example(["a:1,b:2", "a:__null__,b:x", "a:x:y,b:1", "a:x,y,b:1", "", "plain"], ["a", "b"], 7, False)
def test_many_keys_at_once_fall_where_each_alone_does(
    keys: list[str], fields: list[str], buckets: int, large: bool
) -> None:
    column = pa.array(["skipped", *keys], pa.large_string() if large else pa.string())[1:]
    assert bucket_ids(column, fields, buckets).tolist() == [bucket_of(key, fields, buckets) for key in keys]


def test_keys_beyond_one_block_and_in_several_chunks_keep_their_order() -> None:
    keys = [f"key-{at}-{'é' if at % 1000 == 0 else 'e'}" for at in range(40_000)] + ["x" * 600_000, "last"]
    expected = [bucket_of(key, ["id"], 64) for key in keys]
    column = pa.chunked_array([pa.array(keys[:17]), pa.array([], pa.string()), pa.array(keys[17:])])
    assert bucket_ids(column, ["id"], 64).tolist() == expected


def test_composite_keys_are_taken_many_at_once_as_simple_ones_are() -> None:
    keys = pa.array([f"a:{at},b:{at * 7}" for at in range(100_000)])
    calls = calls_of(lambda: bucket_ids(keys, ["a", "b"], 8))
    assert calls < len(keys) / 5, "2,665 when written; one by one takes a call of each at least"


def test_a_null_key_or_a_column_that_is_no_text_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="null"):
        bucket_ids(pa.array(["a", None]), ["id"], 2)
    with pytest.raises(InvalidArgument, match="int64"):
        bucket_ids(pa.array([1]), ["id"], 2)


@pytest.mark.parametrize("buckets", [0, -1, 10**9])
def test_senseless_numbers_of_buckets_are_refused(buckets: int) -> None:
    with pytest.raises(InvalidArgument, match="buckets"):
        bucket_of("a", ["id"], buckets)
    with pytest.raises(InvalidArgument, match="buckets"):
        bucket_ids(pa.array(["a"]), ["id"], buckets)


@given(st.integers(0, 99_999_999))
def test_a_bucket_is_read_back_from_its_file_id(bucket: int) -> None:
    assert bucket_of_file_id(bucket_file_id(bucket)) == bucket


def test_file_ids_are_hudis() -> None:
    assert bucket_file_id(12) == "00000012-0000-0000-0000-000000000000-0"
    assert bucket_of_file_id("00000001-09e5-4843-a23b-bb022436422e-0") == 1
    for other in ("", "7f3a0001-09e5", "0000001", "00000001", "²0000001-09e5"):
        assert bucket_of_file_id(other) is None
    with pytest.raises(InvalidArgument):
        bucket_file_id(100_000_000)
