# SPDX-License-Identifier: Apache-2.0
"""Tables as real Hudi makes them: each definition is a small function that writes one table. Runs in the worker."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.functions import udf

from tests.interop import answers

Options = dict[str, str]
Rows = Sequence[tuple[Any, ...]]
Definition = Callable[["Hudi"], None]
DEFINITIONS: dict[str, tuple[str, Definition]] = {}

# Nothing may happen behind a definition's back: no metadata table, cleaning, archiving or compaction unless it asks.
QUIET = {
    "hoodie.metadata.enable": "false",
    "hoodie.embed.timeline.server": "false",
    "hoodie.table.timeline.timezone": "UTC",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.compact.inline": "false",
    "hoodie.compact.schedule.inline": "false",
    "hoodie.upsert.shuffle.parallelism": "1",
    "hoodie.insert.shuffle.parallelism": "1",
    "hoodie.bulkinsert.shuffle.parallelism": "1",
    "hoodie.delete.shuffle.parallelism": "1",
    "hoodie.index.bloom.num_entries": "50",
    "hoodie.bloom.index.filter.dynamic.max.entries": "100",
}
ONE_BUCKET = {
    "hoodie.index.type": "BUCKET",
    "hoodie.index.bucket.engine": "SIMPLE",
    "hoodie.bucket.index.num.buckets": "1",
}
NBCC = {
    **ONE_BUCKET,
    "hoodie.table.type": "MERGE_ON_READ",
    "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL",
    "hoodie.clean.failed.writes.policy": "LAZY",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
}
FAILING = {
    # Runs after the data files are written and before the commit, so it leaves what a killed writer leaves.
    "hoodie.precommit.validators": "org.apache.hudi.client.validator.SqlQuerySingleResultPreCommitValidator",
    "hoodie.precommit.validators.single.value.sql.queries": "select count(*) from <TABLE_NAME>#-1",
}


def table(what: str) -> Callable[[Definition], Definition]:
    def register(definition: Definition) -> Definition:
        DEFINITIONS[definition.__name__] = (what, definition)
        return definition

    return register


def make(spark: SparkSession, name: str, root: str) -> dict[str, Any]:
    """Writes the table under `root` and returns Hudi's own answers about it."""
    what, definition = DEFINITIONS[name]
    hudi = Hudi(spark, name, f"{root}/{name}")
    definition(hudi)
    found = {"table": name, "what": what, "written_by": "Apache Hudi 1.2.0 on Spark 3.5"}
    return found | answers.all_answers(spark, hudi.path, hudi.read_as) | hudi.extras


@dataclass
class Hudi:
    """One table under the pen of Apache Hudi."""

    spark: SparkSession
    name: str
    path: str
    ddl: str = ""
    options: dict[str, str] = field(default_factory=dict)
    extras: dict[str, Any] = field(default_factory=dict)
    read_as: str = ""
    """Columns for reading a table of whose types Spark 3.5 has none."""

    def define(
        self,
        ddl: str,
        *,
        keys: str = "id",
        ordering: str = "ts",
        partition: str = "part",
        mor: bool = True,
        options: Options | None = None,
    ) -> None:
        """What all later writes share."""
        self.ddl = ddl
        self.options = (
            QUIET
            | ONE_BUCKET
            | {
                "hoodie.table.name": self.name,
                "hoodie.datasource.write.table.type": "MERGE_ON_READ" if mor else "COPY_ON_WRITE",
                "hoodie.datasource.write.recordkey.field": keys,
                "hoodie.datasource.write.partitionpath.field": partition,
            }
        )
        if ordering:
            self.options["hoodie.table.ordering.fields"] = ordering
        if not partition:
            self.options["hoodie.datasource.write.keygenerator.class"] = (
                "org.apache.hudi.keygen.NonpartitionedKeyGenerator"
            )
        self.options |= options or {}

    def frame(self, rows: Rows, ddl: str = "") -> DataFrame:
        return self.spark.createDataFrame(list(rows), ddl or self.ddl).coalesce(1)

    def write(self, operation: str, rows: Rows | DataFrame, ddl: str = "", *, options: Options | None = None) -> None:
        frame = rows if isinstance(rows, DataFrame) else self.frame(rows, ddl)
        used = self.options | {"hoodie.datasource.write.operation": operation} | (options or {})
        frame.write.format("hudi").options(**used).mode("append").save(self.path)

    def upsert(self, rows: Rows | DataFrame, ddl: str = "", *, options: Options | None = None) -> None:
        self.write("upsert", rows, ddl, options=options)

    def delete(self, rows: Rows, ddl: str = "", *, options: Options | None = None) -> None:
        self.write("delete", rows, ddl, options=options)

    def fail(self, rows: Rows, ddl: str = "", *, options: Options | None = None) -> None:
        """A writer that dies after its data files and before its commit."""
        try:
            self.write("upsert", rows, ddl, options=FAILING | (options or {}))
        except Exception:  # noqa: BLE001  its failure is the point
            return
        raise AssertionError("the failing write did not fail")

    def sql(self, text: str) -> list[Row]:
        return self.spark.sql(text.format(path=self.path, table=self.name)).collect()

    def set(self, **settings: str) -> None:
        for key, value in settings.items():
            self.spark.conf.set(key.replace("__", "."), value)

    def create(self, columns: str, properties: dict[str, str], partition: str = "") -> None:
        """The table by SQL; later `sql` calls may say {table}."""
        self.sql(f"drop table if exists {self.name}")
        listed = ", ".join(f"'{key}'='{value}'" for key, value in properties.items())
        parts = f" partitioned by ({partition})" if partition else ""
        self.sql(f"create table {{table}} ({columns}) using hudi{parts} tblproperties ({listed}) location '{{path}}'")

    def call(self, procedure: str, options: dict[str, str] | None = None, **arguments: object) -> list[Row]:
        texts = [f"{key} => {quote(value)}" for key, value in arguments.items()]
        given = {key: value for key, value in self.options.items() if key in SERVICE_OPTIONS} | (options or {})
        if "hoodie.index.type" in given:  # checked by Hudi, used by no service
            given["hoodie.datasource.write.recordkey.field"] = self.ddl.split()[0]
        if given:
            texts.append("options => '" + ",".join(f"{key}={value}" for key, value in given.items()) + "'")
        return self.sql(f"call {procedure}(path => '{{path}}', {', '.join(texts)})")

    def plan_compaction(self) -> None:
        self.call("run_compaction", {"hoodie.compact.inline.max.delta.commits": "1"}, op="schedule")

    def compact(self) -> None:
        self.plan_compaction()
        self.call("run_compaction", op="run")

    def log_compact(self) -> None:
        self.run_log_compaction(self.plan_log_compaction())

    def plan_log_compaction(self) -> str:
        """Log compaction has no procedure: the Java client's own calls."""
        client = self.client({"hoodie.log.compaction.blocks.threshold": "2", "hoodie.log.compaction.inline": "true"})
        try:
            instant = client.scheduleLogCompaction(self.java("org.apache.hudi.common.util.Option").empty())
            if not instant.isPresent():
                raise AssertionError("Hudi planned no log compaction")
            return str(instant.get())
        finally:
            client.close()

    def run_log_compaction(self, instant: str) -> str:
        client = self.client({"hoodie.log.compaction.blocks.threshold": "2", "hoodie.log.compaction.inline": "true"})
        try:
            client.logCompact(instant, True)
            return instant
        finally:
            client.close()

    def client(self, options: Options) -> Any:
        used = self.options | options
        settings = self.java("java.util.HashMap")()
        for key, value in used.items():
            settings.put(key, value)
        schema = ""
        return self.java("org.apache.hudi.DataSourceUtils").createHoodieClient(
            self.spark._jsparkSession.sparkContext() and self.spark.sparkContext._jsc,
            schema,
            self.path,
            self.name,
            settings,
        )

    def java(self, name: str) -> Any:
        found: Any = self.spark.sparkContext._jvm
        for part in name.split("."):
            found = getattr(found, part)
        return found

    def keep(self, name: str) -> None:
        """Remembers the snapshot of this moment as an extra answer."""
        self.extras[name] = answers.answer(partial(answers.rows_of, self.spark, self.path, "snapshot"))

    def slow(self, rows: Rows, ddl: str = "", *, options: Options | None = None) -> "Slow":
        """A writer that has begun and waits in the middle until it is told to go on."""
        return Slow(self, rows, ddl, options)


class Slow:
    def __init__(self, hudi: Hudi, rows: Rows, ddl: str, options: Options | None) -> None:
        self.gate = Path(f"{hudi.path}.gate{time.monotonic_ns()}")
        gate, reached = self.gate, Path(f"{self.gate}.reached")

        def wait(value: object) -> object:
            reached.touch()
            while not gate.exists():
                time.sleep(0.02)
            return value

        key = hudi.ddl.split()[0]
        frame = hudi.frame(rows, ddl)
        held = frame.withColumn(key, udf(wait, frame.schema[key].dataType)(frame[key]))
        before = set(answers.timeline(hudi.path))
        self.trouble: list[Exception] = []
        self.thread = threading.Thread(target=self._write, args=(hudi, held, options), daemon=True)
        self.thread.start()
        wait_for(lambda: set(answers.timeline(hudi.path)) - before or self.trouble, "a slow writer's request")
        # From here on it has looked at the table: what others commit now is news to it.
        wait_for(lambda: reached.exists() or self.trouble, "a slow writer's first row")

    def _write(self, hudi: Hudi, held: DataFrame, options: Options | None) -> None:
        try:
            hudi.upsert(held, options=options)
        except Exception as trouble:  # noqa: BLE001  handed to finish()
            self.trouble.append(trouble)

    def finish(self) -> None:
        self.gate.touch()
        self.thread.join()
        for made in (self.gate, Path(f"{self.gate}.reached")):
            made.unlink(missing_ok=True)
        if self.trouble:
            raise self.trouble[0]


def wait_for(happened: Callable[[], object], what: str) -> None:
    limit = time.monotonic() + 900  # then it hangs, however busy the machine is
    while not happened():
        if time.monotonic() > limit:
            raise TimeoutError(what)
        time.sleep(0.02)


def quote(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else f"'{value}'"


SERVICE_OPTIONS = (
    "hoodie.metadata.enable",
    "hoodie.embed.timeline.server",
    "hoodie.write.concurrency.mode",
    "hoodie.write.lock.provider",
    "hoodie.clean.failed.writes.policy",
    "hoodie.write.auto.upgrade",
    "hoodie.write.table.version",
    "hoodie.clean.automatic",
    "hoodie.archive.automatic",
    "hoodie.logfile.data.block.format",
    "hoodie.table.type",
    "hoodie.index.type",
    "hoodie.index.bucket.engine",
    "hoodie.bucket.index.num.buckets",
)
