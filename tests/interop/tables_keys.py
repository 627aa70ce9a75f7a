# SPDX-License-Identifier: Apache-2.0
"""Record keys and partition paths: odd characters, several fields, each key generator, no meta columns."""

import datetime as dt
import decimal

from tests.interop.tables import NBCC, ONE_BUCKET, Hudi, table

GENERATOR = "hoodie.datasource.write.keygenerator.class"
GENERATORS = "org.apache.hudi.keygen."
FOUR_BUCKETS = ONE_BUCKET | {"hoodie.bucket.index.num.buckets": "4"}
ODD = [
    ("a,b", "c:d"), ("a", "b,c:d"), ("x:y,z", "w"), ("", "empty first"), ("empty second", ""), (None, "null first"), ("null second", None),
    ("ü\u0301\u20ac", "\U0001f40d\U0001f9ed"), ("__null__", "__empty__"), (" spaced ", "tab\tand\nline"), ("%2F", "/slash\\"), ("k2:v,k1:w", "k1:x,k2:y"), ("'quote\"", "=&?#"),
]  # fmt: skip


@table(
    "COMPLEX keys of two text fields with commas, colons, emoji, empty and null parts; NBCC, four buckets; updates and deletes of each"
)
def v9_mor_keys_composite(hudi: Hudi) -> None:
    hudi.define(
        "k1 string, k2 string, v int, ts bigint, part string",
        keys="k1,k2",
        options=NBCC | FOUR_BUCKETS | {GENERATOR: GENERATORS + "ComplexKeyGenerator"},
    )
    hudi.upsert([(*key, number, 10, "p") for number, key in enumerate(ODD)])
    hudi.upsert([(*key, 100 + number, 5 + 10 * (number % 2), "p") for number, key in enumerate(ODD)])
    hudi.delete([(*key, 0, 0, "p") for key in ODD[::5]])


@table("COMPLEX generator with a single key field")
def v9_mor_keys_complex_single(hudi: Hudi) -> None:
    hudi.define(
        "id string, v int, ts bigint, part string",
        options=FOUR_BUCKETS | {GENERATOR: GENERATORS + "ComplexKeyGenerator"},
    )
    hudi.upsert([(f"{first}", number, 10, "p") for number, (first, _) in enumerate(ODD) if first])
    hudi.upsert([("a,b", 100, 20, "p"), ("x:y,z", 101, 20, "p"), ("new", 102, 20, "p")])
    hudi.delete([("%2F", 0, 0, "p")])


@table("not partitioned, keys of int, long, boolean, decimal, date and timestamp fields; delete of one")
def v9_mor_keys_non_partitioned(hudi: Hudi) -> None:
    ddl = "i int, l bigint, b boolean, m decimal(10,2), d date, t timestamp, v string, ts bigint"
    day, moment = dt.date(2024, 2, 29), dt.datetime(2024, 2, 29, 1, 2, 3, 456789, dt.UTC)
    hudi.define(ddl, keys="i,l,b,m,d,t", partition="", options=FOUR_BUCKETS)
    rows = [(number, -number * 10**12, number % 2 == 0, number, day, moment, "base", 10) for number in range(5)]
    hudi.upsert([(*row[:3], money(row[3]), *row[4:]) for row in rows])
    hudi.upsert(
        [(1, -(10**12), False, money(1), day, moment, "changed", 20), (9, 9, True, None, None, None, "new", 20)]
    )
    hudi.delete([(2, -2 * 10**12, True, money(2), day, moment, "", 0)])


def money(number: int) -> decimal.Decimal:
    return decimal.Decimal(number) + decimal.Decimal("0.5")


PLACES = ["a/b", "50%", "two words", "ü\u20ac", "k=v", "#?*", "plain", "", None, "a:b"]


@table(
    "partition values with slashes, percent signs, spaces, unicode, nulls: hive style and url-encoded; an update in each"
)
def v9_mor_partition_encoded(hudi: Hudi) -> None:
    style = {
        "hoodie.datasource.write.hive_style_partitioning": "true",
        "hoodie.datasource.write.partitionpath.urlencode": "true",
    }
    hudi.define("id int, v string, ts bigint, place string", partition="place", options=ONE_BUCKET | style)
    hudi.upsert([(number, "base", 10, place) for number, place in enumerate(PLACES)])
    hudi.upsert([(number, "changed", 20, place) for number, place in enumerate(PLACES[:3])])


@table("partition values with slashes that become folders, spaces and unicode, not encoded; COW")
def v9_cow_partition_plain(hudi: Hudi) -> None:
    hudi.define(
        "id int, v string, ts bigint, place string",
        partition="place",
        mor=False,
        options={"hoodie.index.type": "SIMPLE"},
    )
    places = ["a/b", "a/c/d", "two words", "ü", None, "x"]
    hudi.upsert([(number, "base", 10, place) for number, place in enumerate(places)])
    hudi.upsert([(0, "changed", 20, "a/b"), (2, "changed", 20, "two words")])


@table("two partition columns, text and int, hive style, with nulls; COMPLEX keys")
def v9_mor_partition_two_levels(hudi: Hudi) -> None:
    style = {"hoodie.datasource.write.hive_style_partitioning": "true", GENERATOR: GENERATORS + "ComplexKeyGenerator"}
    hudi.define(
        "id int, v string, ts bigint, country string, year int", partition="country,year", options=ONE_BUCKET | style
    )
    hudi.upsert(
        [
            (1, "base", 10, "NO", 2024),
            (2, "base", 10, "NO", 2025),
            (3, "base", 10, "DE", 2024),
            (4, "base", 10, None, 2024),
            (5, "base", 10, "DE", None),
        ]
    )
    hudi.upsert([(1, "changed", 20, "NO", 2024), (4, "changed", 20, None, 2024), (5, "stale", 5, "DE", None)])


@table("partitioned by date and int columns, not hive style")
def v9_mor_partition_typed(hudi: Hudi) -> None:
    hudi.define(
        "id int, v string, ts bigint, day date, n int",
        partition="day,n",
        options=ONE_BUCKET | {GENERATOR: GENERATORS + "ComplexKeyGenerator"},
    )
    hudi.upsert([(number, "base", 10, dt.date(2024, 1, 1 + number % 2), number % 2) for number in range(4)])
    hudi.upsert([(1, "changed", 20, dt.date(2024, 1, 2), 1)])


TIME = {
    "hoodie.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS",
    "hoodie.keygen.timebased.output.dateformat": "yyyy/MM/dd",
    "hoodie.keygen.timebased.timezone": "UTC",
}
NOON = 1_705_320_000_000


@table("TIMESTAMP key generator: a long of milliseconds becomes yyyy/MM/dd folders")
def v9_mor_partition_timestamp(hudi: Hudi) -> None:
    hudi.define(
        "id int, v string, ts bigint, at bigint",
        partition="at",
        options=ONE_BUCKET | TIME | {GENERATOR: GENERATORS + "TimestampBasedKeyGenerator"},
    )
    hudi.upsert([(number, "base", 10, NOON + number * 43_200_000) for number in range(4)])
    hudi.upsert([(1, "changed", 20, NOON + 43_200_000)])


@table("CUSTOM key generator: one simple and one timestamp field, hive style")
def v9_mor_partition_custom(hudi: Hudi) -> None:
    style = TIME | {
        "hoodie.keygen.timebased.output.dateformat": "yyyyMMdd",
        "hoodie.datasource.write.hive_style_partitioning": "true",
    }
    hudi.define(
        "id int, v string, ts bigint, city string, at bigint",
        partition="city:SIMPLE,at:TIMESTAMP",
        options=ONE_BUCKET | style | {GENERATOR: GENERATORS + "CustomKeyGenerator"},
    )
    hudi.upsert(
        [(number, "base", 10, "oslo" if number % 2 else "rome", NOON + number * 43_200_000) for number in range(4)]
    )
    hudi.upsert([(1, "changed", 20, "oslo", NOON + 43_200_000)])


@table("partition columns dropped from the files; COW, hive style")
def v9_cow_partition_dropped(hudi: Hudi) -> None:
    style = {
        "hoodie.datasource.write.drop.partition.columns": "true",
        "hoodie.datasource.write.hive_style_partitioning": "true",
    }
    hudi.define(
        "id int, v string, ts bigint, part string, n int",
        partition="part,n",
        mor=False,
        options={"hoodie.index.type": "SIMPLE", GENERATOR: GENERATORS + "ComplexKeyGenerator"} | style,
    )
    hudi.upsert([(1, "base", 10, "p", 1), (2, "base", 10, "q", 2)])
    hudi.upsert([(1, "changed", 20, "p", 1), (3, "new", 20, "q", 2)])


BARE = {"hoodie.populate.meta.fields": "false"}


@table("no meta columns, MOR: updates newer and older, deletes, compaction, a further update")
def v9_mor_no_meta(hudi: Hudi) -> None:
    hudi.define("id int, v string, ts bigint, part string", options=ONE_BUCKET | BARE)
    hudi.upsert([(number, "base", 10, "p") for number in range(1, 6)])
    hudi.upsert([(1, "newer", 20, "p"), (2, "older", 5, "p"), (6, "new", 10, "p")])
    hudi.delete([(3, "", 0, "p")])
    hudi.compact()
    hudi.upsert([(4, "late", 30, "p"), (5, "stale", 1, "p")])


@table("no meta columns, MOR, keys of two fields: updates and a delete")
def v9_mor_no_meta_composite(hudi: Hudi) -> None:
    hudi.define(
        "k1 string, k2 int, v string, ts bigint, part string",
        keys="k1,k2",
        options=ONE_BUCKET | BARE | {GENERATOR: GENERATORS + "ComplexKeyGenerator"},
    )
    hudi.upsert(
        [("a,k2:1", 1, "base", 10, "p"), ("a", 1, "base", 10, "p"), ("b", 2, "base", 10, "p"), ("", 3, "base", 10, "p")]
    )
    hudi.upsert([("a,k2:1", 1, "newer", 20, "p"), ("b", 2, "older", 5, "p"), ("", 3, "newer", 20, "p")])
    hudi.delete([("a", 1, "", 0, "p")])


@table("no meta columns, COW: bulk_insert and upserts")
def v9_cow_no_meta(hudi: Hudi) -> None:
    hudi.define("id int, v string, ts bigint, part string", mor=False, options={"hoodie.index.type": "SIMPLE"} | BARE)
    hudi.write("bulk_insert", [(number, "base", 10, "p") for number in range(1, 6)])
    hudi.upsert([(1, "newer", 20, "p"), (2, "older", 5, "p"), (6, "new", 10, "p")])
