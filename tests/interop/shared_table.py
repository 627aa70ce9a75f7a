# SPDX-License-Identifier: Apache-2.0
"""One table under two pens: ours, and Apache Hudi's, which gets no options but those in the table's properties."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lakebraid as lb
from tests.interop.our_tables import ROW
from tests.interop.referee import Referee
from tests.kit.reference import hudi_rows, our_rows

LOCK = {"hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider"}
BY_NAME = ("run_clean",)
"""Procedures that take no path."""
WRITES = ("commit", "deltacommit", "replacecommit")


@dataclass
class SharedTable:
    referee: Referee
    path: Path
    table: lb.Table
    ddl: str = ROW

    @classmethod
    def create(cls, referee: Referee, path: Path, ddl: str = ROW, **options: Any) -> SharedTable:
        defaults: dict[str, Any] = {"record_keys": ["id"], "ordering_fields": ["ts"], "buckets": 2, "shared": True}
        return cls(referee, path, lb.Table.create(path, ddl, **defaults | options), ddl)

    def hudi_writes(self, rows: list[dict[str, Any]], **options: str) -> None:
        """A plain append of a DataFrame; `options` have double underscores for dots."""
        given = {key.replace("__", "."): value for key, value in options.items()}
        texts = [json.loads(json.dumps(row, default=str)) for row in rows]
        self.referee.ask("write", path=str(self.path), rows={"schema": self.ddl, "json": texts}, options=given)

    def hudi_begins(self, rows: list[dict[str, Any]], **options: str) -> None:
        """A write of Hudi's that has looked at the table, and waits until `hudi_finishes`; one at a time."""
        given = {key.replace("__", "."): value for key, value in options.items()}
        self.referee.ask("begin", path=str(self.path), rows={"schema": self.ddl, "json": rows}, options=given)

    def hudi_finishes(self) -> None:
        """HudiRefused if its commit is."""
        self.referee.ask("finish", path=str(self.path))

    def sql(self, text: str) -> list[dict[str, Any]]:
        """SQL about the table `it`."""
        found: list[dict[str, Any]] = self.referee.ask("sql", text=text.replace(" it", f" {self.name_in_spark()}"))
        return found

    def name_in_spark(self) -> str:
        name = "it_" + hashlib.sha256(str(self.path).encode()).hexdigest()[:12]
        self.referee.ask("sql", text=f"create table if not exists {name} using hudi location '{self.path}'")
        return name

    def call(self, procedure: str, *arguments: str) -> list[dict[str, Any]]:
        where = f"table => '{self.name_in_spark()}'" if procedure in BY_NAME else f"path => '{self.path}'"
        given = ", ".join((where, *arguments))
        found: list[dict[str, Any]] = self.referee.ask("sql", text=f"call {procedure}({given})")
        return found

    def check(self, names: list[str]) -> None:
        """Both readers see just these rows, each key once, in the right bucket; the audit finds no damage."""
        ours = our_rows(self.table.to_arrow(meta_columns=True))
        assert sorted(str(dict(row)["name"]) for row in ours) == sorted(names)
        assert ours == hudi_rows(self.referee.ask("read", path=str(self.path))["rows"])
        keys = Counter((dict(row)["_hoodie_partition_path"], dict(row)["_hoodie_record_key"]) for row in ours)
        assert not [key for key, times in keys.items() if times > 1]
        strangers = [file for file in self.data_files() if not file.lstrip(".")[8:].startswith("-0000-0000-0000-")]
        assert not strangers, "a bucket has a file id that only its maker knows"
        found = self.table.audit(deep=True)
        assert found.is_healthy, repr(found)

    def data_files(self) -> list[str]:
        found = (file for file in self.path.rglob("*") if ".hoodie" not in file.relative_to(self.path).parts)
        kinds = (".parquet", ".log.")
        return sorted(file.name for file in found if file.suffix != ".crc" and any(kind in file.name for kind in kinds))

    def writes(self) -> list[tuple[str, str]]:
        """(request time, completion) of the completed writes on the active timeline."""
        folder = self.path / ".hoodie" / "timeline"
        names = [name.split(".") for name in os.listdir(folder) if name[17:18] == "_" and not name.endswith(".crc")]
        return sorted((times[:17], times[18:]) for times, action in names if action in WRITES)

    def timeline(self) -> set[str]:
        folder = self.path / ".hoodie" / "timeline"
        return {name for name in os.listdir(folder) if name[:1].isdigit()}
