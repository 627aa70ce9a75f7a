# SPDX-License-Identifier: Apache-2.0
"""Makes the stored tables of Flink anew: `uv run python -m tests.interop.make_flink_tables`. Needs Maven and a JDK.

Flink writes them with Hudi 0.14.0, in version 6; what is expected of them is what Hudi 1.2.0 reads. One of them is upgraded to
version 9 by an upsert of Hudi 1.2.0.
"""

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from tests.interop.make_reference_tables import store
from tests.interop.referee import Referee, system_java
from tests.kit.environments import run

FLINK = Path(__file__).parent / "flink"
WRITER = "Apache Hudi 0.14.0 on Flink 1.17.1"
WHAT = {
    "v6_flink_cow": "COW by Flink with its default index: two upserts",
    "v6_flink_mor_bucket": "MOR by Flink with two buckets: two upserts, one row out of order",
    "v6_flink_mor_compacted": "MOR by Flink with its default index: three upserts, a rollback, a pending compaction; nested columns",
    "v6_flink_mor_consistent": "MOR by Flink with consistent hashing: two upserts",
}
UPGRADED = "v9_flink_mor_bucket"
OPENED = ("util", "lang", "util.concurrent", "nio", "time")
UPSERT = {
    "hoodie.table.name": "v6_flink_mor_bucket",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.datasource.write.operation": "upsert",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "part",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.index.type": "BUCKET",
    "hoodie.index.bucket.engine": "SIMPLE",
    "hoodie.bucket.index.num.buckets": "2",
    "hoodie.metadata.enable": "false",
    "hoodie.embed.timeline.server": "false",
    "hoodie.clean.automatic": "false",
    "hoodie.compact.inline": "false",
}
ROWS = {
    "schema": "id int, name string, price decimal(10, 2), ts bigint, part string",
    "json": [
        {"id": 2, "name": "spark", "price": "9.99", "ts": 30, "part": "p"},
        {"id": 6, "name": "new", "price": "6.00", "ts": 30, "part": "q"},
    ],
}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, Referee.start() as referee:
        root = Path(folder)
        write_by_flink(root)
        shutil.copytree(root / "v6_flink_mor_bucket", root / UPGRADED)
        for name, what in WHAT.items():
            keep(referee, root / name, what, WRITER)
        referee.ask("write", path=str(root / UPGRADED), rows=ROWS, options=UPSERT)
        what = "MOR by Flink with two buckets, upgraded to version 9 by an upsert of Hudi 1.2.0 on Spark 3.5"
        keep(referee, root / UPGRADED, what, f"{WRITER}, Apache Hudi 1.2.0 on Spark 3.5")


def keep(referee: Referee, made: Path, what: str, writer: str) -> None:
    found: dict[str, Any] = {"table": made.name, "what": what, "written_by": writer}
    store(made, found | referee.ask("answers", path=str(made)))
    print(made.name, flush=True)


def write_by_flink(root: Path) -> None:
    run(
        "mvn", "-q", "-B", "-f", str(FLINK / "pom.xml"), "dependency:copy-dependencies", f"-DoutputDirectory={root}/lib"
    )
    home = system_java()
    java = str(home / "bin" / "java") if home else "java"
    opened = [f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in OPENED]
    classes = os.pathsep.join(str(jar) for jar in sorted((root / "lib").glob("*.jar")))
    program, statements = str(FLINK / "Statements.java"), str(FLINK / "tables.sql")
    run(java, "-Xmx1500m", "-Duser.timezone=UTC", *opened, "-cp", classes, program, statements, str(root))


if __name__ == "__main__":
    main()
