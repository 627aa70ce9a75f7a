# SPDX-License-Identifier: Apache-2.0
"""lakebraid in process: Arrow in, Arrow out, no Spark. For the harness that runs Hudi, Delta, Iceberg and Paimon."""

from importlib.metadata import version
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from adapters.base import Adapter as Base

import lakebraid as lb


class Adapter(Base):
    concurrency_modes = ("nbcc",)

    def setup(self, work, sizes):
        self.work, self.sizes = work, sizes
        self.tables = {}

    def versions(self):
        return {"lakebraid": version("lakebraid"), "pyarrow": pa.__version__}

    def table(self, table):
        if table not in self.tables:
            self.tables[table] = lb.Table.open(Path(self.work) / table)
        return self.tables[table]

    def bulk_load(self, table, paths, mode=None):
        self.tables[table] = lb.Table.create(
            Path(self.work) / table,
            pq.read_schema(paths[0]),
            record_keys="id",
            ordering_fields="ts",
            buckets=self.sizes["buckets"],
        )
        self.tables[table].bulk_insert(pa.concat_tables(pq.read_table(p) for p in paths))

    def upsert(self, table, path, mode=None):
        self.table(table).upsert(pq.read_table(path))

    def query(self, table, name, key):
        t = self.table(table)
        if name == "count":
            return t.count()
        if name == "point":
            return t.to_arrow(where=[("id", "=", key)]).num_rows
        if name == "agg":
            rows = t.to_arrow(columns=["c_cat", "c_long", "c_double", "c_int"])
            sums = [([], "count_all"), ("c_long", "sum"), ("c_double", "mean"), ("c_int", "max")]
            return pc.sum(rows.group_by("c_cat").aggregate(sums)["count_all"]).as_py()
        return t.to_arrow().num_rows

    def export(self, table, out):
        Path(out).mkdir(parents=True, exist_ok=True)
        pq.write_table(self.table(table).to_arrow(columns=["id", "ts", "c_seq"]), Path(out) / "0.parquet")

    def compact(self, table):
        self.table(table).compact()

    def prepare_incremental(self, table, path):
        t = self.table(table)
        position = t.changes().next_position
        self.upsert(table, path)
        return position

    def incremental(self, table, token):
        return self.table(table).changes(after=token).to_arrow().num_rows
