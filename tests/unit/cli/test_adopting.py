# SPDX-License-Identifier: Apache-2.0
"""The command `adopt`: what it prints, changes and exits with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakebraid.cli.main import main
from tests.kit.reference import unpack

pytestmark = pytest.mark.unit
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return unpack("v9_mor_keys_complex_single", tmp_path).path


def properties(path: Path) -> bytes:
    return (path / ".hoodie" / "hoodie.properties").read_bytes()


def test_a_dry_run_prints_what_would_be_stated_and_states_nothing(path: Path, capsys: Capture) -> None:
    before = properties(path)
    assert main(["adopt", str(path), "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "index           4 buckets                     to be stated" in out
    assert "  hoodie.bucket.index.num.buckets=4" in out
    assert properties(path) == before


def test_an_adoption_is_done_once_and_set_back_once(path: Path, capsys: Capture) -> None:
    before = properties(path)
    assert main(["adopt", str(path)]) == 0
    assert "It can be written now." in capsys.readouterr().out
    assert b"hoodie.bucket.index.num.buckets=4" in properties(path)
    assert main(["adopt", str(path)]) == 0
    assert "It can be written as it is." in capsys.readouterr().out
    assert main(["adopt", str(path), "--undo"]) == 0
    assert (
        "Set back in hoodie.properties: hoodie.index.type, hoodie.bucket.index.num.buckets." in capsys.readouterr().out
    )
    assert properties(path) == before
    assert main(["adopt", str(path), "--undo"]) == 2
    assert "nothing to set back" in capsys.readouterr().err


def test_json_is_one_object(path: Path, capsys: Capture) -> None:
    assert main(["adopt", str(path), "--json", "--deep"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["writable"], told["adopted"]) == (True, True)
    assert told["lines"] == {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "4"}
    assert told["looked_at"] == {"keys": 11, "slices": 4, "slices_all": 4, "partitions": 1, "partitions_all": 1}


@pytest.mark.parametrize("more", [[], ["--dry-run"]])
def test_what_is_in_the_way_is_printed_whole_and_exits_with_1(more: list[str], tmp_path: Path, capsys: Capture) -> None:
    path = unpack("v9_mor_metadata_default", tmp_path).path
    before = properties(path)
    assert main(["adopt", str(path), *more]) == 1
    out = capsys.readouterr().out
    assert "metadata table: It uses a metadata table (column_stats, files)." in out
    assert out.rstrip().endswith("It cannot be written, and nothing was changed.")
    assert properties(path) == before


def test_a_number_of_buckets_against_the_keys_is_misuse(path: Path, capsys: Capture) -> None:
    assert main(["adopt", str(path), "--buckets", "3"]) == 2
    assert "speak against 3" in capsys.readouterr().err
    assert main(["adopt", str(path), "--buckets", "4", "--undo"]) == 2
    assert "goes with neither" in capsys.readouterr().err


def test_a_table_that_is_not_even_read_is_named(tmp_path: Path, capsys: Capture) -> None:
    path = unpack("v9_mor_keys_complex_single", tmp_path).path
    file = path / ".hoodie" / "hoodie.properties"
    file.write_bytes(file.read_bytes() + b"hoodie.record.merge.mode=CUSTOM\nhoodie.table.payload.class=com.acme.Mine\n")
    assert main(["adopt", str(path)]) == 1
    assert "custom merger 'Mine'" in capsys.readouterr().err
