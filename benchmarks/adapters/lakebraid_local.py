# SPDX-License-Identifier: Apache-2.0
"""lakebraid in process: Arrow in, Arrow out, no Spark. For the harness that runs Hudi, Delta, Iceberg and Paimon."""

from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from adapters.base import Adapter as Base

import lakebraid as lb


class Adapter(Base):  # type: ignore[misc]  # the harness is not here
    concurrency_modes = ("nbcc",)

    def setup(self, work: str, sizes: dict[str, Any]) -> None:
        self.work, self.sizes = work, sizes
        self.tables: dict[str, lb.Table] = {}

    def versions(self) -> dict[str, str]:
        return {"lakebraid": version("lakebraid"), "pyarrow": pa.__version__}

    def table(self, table: str) -> lb.Table:
        if table not in self.tables:
            self.tables[table] = lb.Table.open(Path(self.work) / table)
        return self.tables[table]

    def bulk_load(self, table: str, paths: list[str], mode: str | None = None) -> None:
        self.tables[table] = lb.Table.create(
            Path(self.work) / table,
            pq.read_schema(paths[0]),
            record_keys="id",
            ordering_fields="ts",
            buckets=self.sizes["buckets"],
        )
        self.tables[table].bulk_insert(pa.concat_tables(pq.read_table(p) for p in paths))

    def upsert(self, table: str, path: str, mode: str | None = None) -> None:
        self.table(table).upsert(pq.read_table(path))

    def query(self, table: str, name: str, key: str) -> int:
        t = self.table(table)
        if name == "count":
            return t.count()
        if name == "point":
            return int(t.to_arrow(where=[("id", "=", key)]).num_rows)
        if name == "agg":
            rows = t.to_arrow(columns=["c_cat", "c_long", "c_double", "c_int"])
            sums = [([], "count_all"), ("c_long", "sum"), ("c_double", "mean"), ("c_int", "max")]
            return int(pc.sum(rows.group_by("c_cat").aggregate(sums)["count_all"]).as_py())
        return int(t.to_arrow().num_rows)

    def export(self, table: str, out: str) -> None:
        Path(out).mkdir(parents=True, exist_ok=True)
        pq.write_table(self.table(table).to_arrow(columns=["id", "ts", "c_seq"]), Path(out) / "0.parquet")

    def compact(self, table: str) -> None:
        self.table(table).compact()

    def prepare_incremental(self, table: str, path: str) -> str | None:
        t = self.table(table)
        position = t.changes().next_position
        self.upsert(table, path)
        return position

    def incremental(self, table: str, token: str | None) -> int:
        return int(self.table(table).changes(after=token).to_arrow().num_rows)
