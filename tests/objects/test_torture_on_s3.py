# SPDX-License-Identifier: Apache-2.0
"""Writers on S3 behind a slow proxy, killed and stopped: every acknowledged row is there."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from benchmarks.cloud.rig.grounds import S3
from benchmarks.cloud.rig.proxy import running
from click.testing import CliRunner

import lakebraid as lb
from lakebraid.cli.torture.run import torture
from tests.objects.conftest import BUCKET, options

pytestmark = pytest.mark.objects
_names = itertools.count()


def _ground(server: str, proxy: str) -> S3:
    return S3(server, proxy, BUCKET, {key: value for key, value in options(server).items() if key != "endpoint"})


def test_a_table_is_opened_with_the_environment_alone(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ground = _ground(endpoint, endpoint)
    for name, value in ground.environment().items():
        monkeypatch.setenv(name, value)
    url = ground.url(f"by-environment-{next(_names)}")
    lb.Table.create(url, "id bigint", record_keys="id").upsert([{"id": 1}])
    assert lb.Table.open(url).count() == ground.direct(url.rpartition("/")[2]).count() == 1


@pytest.mark.slow
def test_a_short_storm_on_s3_loses_nothing(endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crew = ["--writers", "3", "--services", "1", "--kill", "0.1", "--stop", "0.1", "--keys", "60"]
    with running(endpoint, "--scale", "0.3", "--tail", "4") as proxy:
        ground = _ground(endpoint, proxy)
        for name, value in ground.environment().items():
            monkeypatch.setenv(name, value)
        # The busier the machine is, the longer a storm has to last for something to happen in it.
        for seconds in ("25", "100", "400"):
            url, folder = ground.url(f"storm-{next(_names)}"), tmp_path / f"storm of {seconds} s"
            told = [str(folder), "--table", url, "--seconds", seconds, *crew]
            result = CliRunner().invoke(torture, told, standalone_mode=False)
            assert result.exception is None, result.output
            assert result.return_value == 0, result.output
            assert "every acknowledged row is there" in result.output
            if len(list(lb.Table.open(url).timeline())) > 6:
                return
    pytest.fail(f"nothing was written: {result.output}")
