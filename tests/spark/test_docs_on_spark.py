# SPDX-License-Identifier: Apache-2.0
"""The pages of the documentation that use Spark, run on the session that is there."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.kit.documents import README, ROOT, needs, pages, run

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.mark.parametrize(
    "page", [p for p in (README, *pages()) if "spark" in needs(p)], ids=lambda page: str(page.relative_to(ROOT))
)
def test_a_page_with_spark_runs(
    page: Path, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run(page, "spark")
