# SPDX-License-Identifier: Apache-2.0
"""Apache Hudi's non-blocking writers over S3A beside lakebraid, on the same S3 server and proxy.

They are threads of one Spark, for its in-process lock is the only one of Hudi's that needs neither a server beside the
store nor `hudi-aws`, which Maven Central does not have for this release. A lock that costs no request is in Hudi's favour,
and so is a JVM that is warm.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.interop.referee import environment, worker_environment
from tests.kit.environments import run

from benchmarks.cloud.rig.calls import summed
from benchmarks.cloud.rig.grounds import S3
from benchmarks.suite.row import Row, percentile

WRITER = Path(__file__).with_name("hudi_writer.py")
S3A = ("org.apache.hadoop:hadoop-aws:3.3.4", "com.amazonaws:aws-java-sdk-bundle:1.12.262")
"""For the Hadoop that is in PySpark 3.5."""
COMMITS = {1: 8, 4: 4, 16: 2}
SECONDS_MAX = 300.0
TABLE = {
    "hoodie.table.name": "cloud",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.table.type": "MERGE_ON_READ",
    "hoodie.datasource.write.operation": "upsert",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
    "hoodie.table.ordering.fields": "ts",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.index.type": "BUCKET",
    "hoodie.index.bucket.engine": "SIMPLE",
    "hoodie.bucket.index.num.buckets": "8",
    "hoodie.bucket.index.hash.field": "id",
    "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
    "hoodie.clean.failed.writes.policy": "LAZY",
    # As ours: services are not part of a commit.
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.compact.inline": "false",
    "hoodie.compact.schedule.inline": "false",
    "hoodie.upsert.shuffle.parallelism": "2",
}
KINDS = {"no metadata table": "false", "metadata table": "true"}


def beside(ground: S3, counts: Sequence[int], *, quick: bool) -> Iterator[Row]:
    for kind, metadata in KINDS.items():
        for writers in counts:
            commits = max(2, COMMITS.get(writers, 2) // (4 if quick else 1))
            yield _run(ground, writers, commits, kind, TABLE | {"hoodie.metadata.enable": metadata})


def _run(ground: S3, writers: int, commits: int, kind: str, options: dict[str, str]) -> Row:
    url = ground.url(f"hudi-{kind.replace(' ', '-')}-{writers}").replace("s3:", "s3a:", 1)
    told = {"url": url, "writers": writers, "commits": commits, "seconds_max": SECONDS_MAX, "options": options}
    with tempfile.TemporaryDirectory() as folder, _started(told | {"settings": _settings(ground, folder)}) as process:
        _hear(process, "ready")
        ground.forget()
        _say(process)
        _hear(process, "done")
        sent = summed(ground.sent())
        _say(process)
        found = json.loads(_hear(process))
        process.wait(60)
    spans = [span for note in found["notes"] for span in note["spans"]]
    errors = [error for note in found["notes"] for error in note["errors"]]
    newest = max((note["last"] for note in found["notes"]), default=0)
    if not spans or found["rows"] != 10_000 or newest not in found["stamps"]:
        raise SystemExit(f"Apache Hudi: {len(spans)} commits, {found['rows']} rows, {found['stamps']}, {errors[:1]}")
    walls = [end - begin for begin, end in spans]
    return {
        "workload": f"Apache Hudi NBCC, in-process lock, {kind}",
        "writers": writers,
        "commits": len(spans),
        "commits_per_s": len(spans) / (max(end for _, end in spans) - min(begin for begin, _ in spans)),
        "p50_s": percentile(walls, 0.5),
        "p99_s": percentile(walls, 0.99),
        **sent.per(len(spans)),
        "round_trips": sent.round_trips / len(spans) if writers == 1 else 0,
        "cpu_s": found["cpu"] / len(spans),
        "failed": len(errors),
        "errors": sorted({error[:120] for error in errors})[:3],
    }


def _settings(ground: S3, folder: str) -> dict[str, str]:
    keys = ground.options
    store = {
        "endpoint": ground.proxy,
        "endpoint.region": keys["region"],
        "path.style.access": "true",
        "connection.ssl.enabled": "false",
        "access.key": keys["access_key_id"],
        "secret.key": keys["secret_access_key"],
        "connection.maximum": "200",
        "directory.marker.retention": "keep",  # else each file that is made deletes the marks of all folders above it
        # versitygw refuses a bulk delete that names a folder which is not empty, and S3A tries that again for minutes.
        "multiobjectdelete.enable": "false",
    }
    return {
        "spark.jars": ",".join((worker_environment(environment())["REFEREE_JAR"], *map(_jar, S3A))),
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
        "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
        "spark.ui.enabled": "false",
        "spark.driver.memory": "2g",
        "spark.driver.host": "127.0.0.1",
        "spark.scheduler.mode": "FAIR",
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        **{f"spark.hadoop.fs.s3a.{name}": value for name, value in store.items()},
    }


def _jar(coordinate: str) -> str:
    """The file in Maven's local copy, which Maven fetches where it is not there."""
    group, name, version = coordinate.split(":")
    local = Path.home() / ".m2" / "repository" / group.replace(".", "/") / name / version / f"{name}-{version}.jar"
    if not local.exists():
        if not shutil.which("mvn"):
            raise SystemExit(f"There is no Maven here to fetch {coordinate}.")
        run("mvn", "-q", "-B", "dependency:get", f"-Dartifact={coordinate}", "-Dtransitive=false")
    return str(local)


def _started(told: dict[str, Any]) -> subprocess.Popen[str]:
    home = environment()
    kept = {key: value for key, value in worker_environment(home).items() if not key.startswith("AWS_")}
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": kept}
    process = subprocess.Popen(["nice", "-n", "10", str(home / "bin" / "python"), str(WRITER)], **pipes)
    _say(process, json.dumps(told))
    return process


def _say(process: subprocess.Popen[str], text: str = "go") -> None:
    if process.stdin is not None:
        process.stdin.write(text + "\n")
        process.stdin.flush()


def _hear(process: subprocess.Popen[str], expected: str = "") -> str:
    said = process.stdout.readline().strip() if process.stdout is not None else ""
    if not said or (expected and said != expected):
        raise SystemExit("Apache Hudi ended before its time; see above.")
    return said
