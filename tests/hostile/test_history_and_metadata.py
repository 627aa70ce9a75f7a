# SPDX-License-Identifier: Apache-2.0
"""The archived history and its manifest, and metadata that name files elsewhere: nothing outside is ever asked for."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

import lakebraid as lb
from lakebraid.errors import CorruptFile, LakebraidError
from lakebraid.format.timeline.commit import CommitMetadata, WriteStat, format_commit, parse_commit
from lakebraid.format.timeline.history import ArchivedInstant, write_history
from lakebraid.format.timeline.plans import CompactionOperation, CompactionPlan, format_compaction_plan
from lakebraid.storage.memory import MemoryStorage
from tests.hostile.attack import Target, each, look_at_everything, read_rows, refusal, refused, target

pytestmark = pytest.mark.hostile

OUTSIDE = [
    "../../x",
    "../x",
    "/etc/passwd",
    "a/../../b",
    "..",
    ".",
    "",
    "a//b",
    "\\..\\x",
    "a\0b",
    "s3://bucket/x",
    "x" * 5000,
]


@pytest.fixture
def archived() -> Target:
    return target("v9_mor_archived")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """All names that are asked of the store."""
    names: list[str] = []
    for method in ("read", "read_range", "info", "open_input"):
        real = getattr(MemoryStorage, method)

        def noted(self: MemoryStorage, name: str, *more: Any, _real: Any = real, **named: Any) -> Any:
            names.append(name)
            return _real(self, name, *more, **named)

        monkeypatch.setattr(MemoryStorage, method, noted)
    return names


def _history(url: str) -> int:
    return len(lb.Table.open(url).timeline(archived=True))


def _manifests(made: Target) -> list[str]:
    return made.named(r"history/manifest_\d+$")


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_manifest_that_names_files_elsewhere_is_refused_and_nothing_is_asked_for(
    archived: Target, asked: list[str], name: str
) -> None:
    for manifest in _manifests(archived):
        archived.put(manifest, json.dumps({"files": [{"fileName": name, "fileLen": 10}]}).encode())
    refused("manifest", CorruptFile, lambda: _history(archived.url), what=name[:40])
    assert not [a for a in asked if ".." in a or a.startswith("/") or "etc" in a]


@pytest.mark.parametrize(
    "manifest",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"files": 5}',
        b'{"files": [1, null, "x"]}',
        b'{"files": [{}]}',
        b'{"files": [{"fileName": "20260101000000000_20260101000000001_0.parquet", "fileLen": -1}]}',
        b'{"files": [{"fileName": "20260101000000000_20260101000000001_0.parquet", "fileLen": 1e999}]}',
        b'{"files": [{"fileName": "20260101000000000_20260101000000001_0.parquet", "fileLen": 9223372036854775807}]}',
        b'{"files": [{"fileName": "20260101000000000_20990101000000001_0.parquet", "fileLen": 10}]}',
        b"[" * 200_000,
        b'{"files": ' + b"[" * 200_000,
        b"\xff\xfe",
        b'{"files": [' + b",".join([b'{"fileName": "x", "fileLen": 1}'] * 1000) + b"]}",
    ],
)
def test_a_manifest_that_is_none_is_refused(archived: Target, manifest: bytes) -> None:
    for name in _manifests(archived):
        archived.put(name, manifest)
    refused("manifest", LakebraidError, lambda: _history(archived.url))


@pytest.mark.parametrize(
    "version", [b"", b"-1", b"99", b"999999999", b"9" * 60, b"9" * 5000, b"x", b"\xff", b"1 2", b"../1"]
)
def test_a_version_file_that_lies_ends_in_rows_or_a_refusal(archived: Target, version: bytes) -> None:
    archived.put(".hoodie/timeline/history/_version_", version)
    refusal("manifest", lambda: look_at_everything(archived.url))


def test_a_history_file_cut_or_gone_is_refused(archived: Target) -> None:
    for name in archived.named(r"history/\d.*\.parquet$"):
        data = archived.files[name]
        outcomes = each(
            "history cut", archived, name, [data[:end] for end in range(0, len(data), len(data) // 60)], read=_history
        )
        assert "rows" not in outcomes
        archived.remove(name)
        refused("history cut", LakebraidError, lambda: _history(archived.url))
        archived.restore(name)


def test_an_archived_instant_whose_metadata_is_garbage_ends_in_rows_or_a_refusal(archived: Target) -> None:
    times = [f"20261115{n:09d}" for n in range(5)]
    for name in archived.named(r"history/\d.*\.parquet$"):
        for metadata in (b"", b"garbage", b"Obj\x01", b"{" * 1000, None):
            rows = [
                ArchivedInstant(t, t, a, metadata, metadata)
                for t in times
                for a in ("replacecommit", "clean", "commit")
            ]
            archived.put(name, write_history(rows))
            refusal("history metadata", lambda: look_at_everything(archived.url))
            refusal("history metadata", lambda: lb.Table.open(archived.url).to_arrow(as_of="20261116000000000"))


@pytest.mark.parametrize("where", OUTSIDE)
def test_metadata_that_name_partitions_elsewhere_never_lead_out_of_the_table(asked: list[str], where: str) -> None:
    made = target("v9_mor_clustering")
    for name in made.named(r"timeline/\d+_\d+\.(deltacommit|replacecommit|commit)$"):
        metadata = parse_commit(made.files[name], name)
        stat = WriteStat(path=f"{where}/secret.parquet", partition_path=where, file_id=where, base_file=where)
        made.put(
            name,
            format_commit(replace(metadata, write_stats={where: (stat,)}, replaced={where: (where,)}), replace=True),
        )
    plan = CompactionPlan((CompactionOperation("x", where, "20260101000000000", ("a.log.1",), "b.parquet"),))
    made.put(".hoodie/timeline/20990101000000000.compaction.requested", format_compaction_plan(plan))
    refusal("partition elsewhere", lambda: look_at_everything(made.url), what=where[:40])
    assert asked
    assert not [a for a in asked if ".." in a.split("/") or a.startswith("/") or "secret" in a or "passwd" in a]


def test_metadata_that_steer_terminals_are_shown_harmlessly(cow: Target) -> None:
    evil = "\x1b[31m<script>alert('x')</script>\u202e\r\n"
    for name in cow.named(r"timeline/\d+_\d+\.commit$"):
        stat = WriteStat(
            path=evil, partition_path=evil, file_id=evil, num_writes=-(2**63), file_size_in_bytes=2**63 - 1
        )
        metadata = parse_commit(cow.files[name], name)
        cow.put(name, format_commit(replace(metadata, write_stats={evil: (stat,) * 3}, operation=evil)))
    assert refusal("steering text", lambda: look_at_everything(cow.url)) is None
    shown = lb.Table.open(cow.url).timeline()
    assert "<script>" not in shown._repr_html_()
    assert "\x1b" not in repr(shown)
    assert "\r" not in repr(shown)


def test_a_replace_commit_that_retires_every_group_leaves_no_rows_and_no_trace(cow: Target) -> None:
    groups = {s.group for s in lb.Table.open(cow.url).snapshot().slices}
    gone: dict[str, tuple[str, ...]] = {}
    for group in groups:
        gone[group.partition] = (*gone.get(group.partition, ()), group.file_id)
    schema = parse_commit(next(cow.files[n] for n in cow.named(r"timeline/\d+_\d+\.commit$")), "a commit").extra
    metadata = CommitMetadata(replaced=gone, extra=schema, operation="INSERT_OVERWRITE_TABLE")
    cow.put(".hoodie/timeline/20990101000000000_20990101000000001.replacecommit", format_commit(metadata))
    assert refusal("replaced", lambda: look_at_everything(cow.url)) is None
    assert read_rows(cow.url) == 0
