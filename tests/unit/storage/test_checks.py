# SPDX-License-Identifier: Apache-2.0
"""Which names and URLs are accepted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebraid.errors import InvalidArgument
from lakebraid.limits import NAME_BYTES_MAX
from lakebraid.storage import LocalStorage, MemoryStorage, ObjectStorage, open_storage
from lakebraid.storage.checks import SEGMENTS_MAX, check_name

pytestmark = pytest.mark.unit

_PARTS = st.sampled_from(["..", ".", "", "a", "...", "..a", "~", "%2e%2e", "/", "\\", "\0", "x=1", "ü"])


@given(st.one_of(st.text(max_size=40), st.lists(_PARTS, max_size=8).map("/".join)))
def test_no_accepted_name_leaves_the_root(name: str) -> None:
    try:
        check_name(name)
    except InvalidArgument:
        return
    path = os.path.normpath(f"/table/{name}")
    assert path == f"/table/{name}"


@given(
    st.lists(st.text(st.characters(exclude_categories=["Cc", "Cs"], exclude_characters="/\\"), min_size=1), min_size=1)
)
def test_every_plain_name_is_accepted(parts: list[str]) -> None:
    if len(parts) <= SEGMENTS_MAX and not {".", ".."} & set(parts):
        check_name("/".join(parts))


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "empty"),
        ("/a", "begins or ends"),
        ("a/", "begins or ends"),
        ("a//b", "has '//'"),
        ("a/./b", r"is '\.'"),
        ("..", r"is '\.\.'"),
        ("a\\b", "U\\+005C"),
        ("a\0", "U\\+0000"),
        ("a\x85", "U\\+0085"),
        ("\udc80", "not valid Unicode"),
        ("a" * (NAME_BYTES_MAX + 1), "longer than"),
        ("ü" * NAME_BYTES_MAX, "longer than"),
        ("/".join("a" * (SEGMENTS_MAX + 1)), "parts, more than"),
        (7, "not text"),
    ],
)
def test_a_refused_name_is_told_why(name: str, reason: str) -> None:
    with pytest.raises(InvalidArgument, match=reason) as caught:
        check_name(name)
    assert len(str(caught.value)) < 500


def test_names_at_the_limits_are_accepted() -> None:
    check_name("a" * NAME_BYTES_MAX)
    check_name("/".join("a" * SEGMENTS_MAX))


def test_local_paths_open_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    here = str(tmp_path)
    cases: list[tuple[str | Path, str]] = [
        (tmp_path, here),
        ("a b/t", f"{here}/a b/t"),
        ("./a/../t", f"{here}/t"),
        ("~/t", f"{here}/home/t"),
        ("a:b", f"{here}/a:b"),
        ("a%20b", f"{here}/a%20b"),
        (f"file://{here}/a%20b%25", f"{here}/a b%"),
        (f"file:{here}/t", f"{here}/t"),
        (f"FILE://localhost{here}/t/", f"{here}/t"),
        ((tmp_path / "ü [x]#?").as_uri(), f"{here}/ü [x]#?"),
    ]
    for given_path, root in cases:
        storage = open_storage(given_path)
        assert isinstance(storage, LocalStorage)
        assert storage.url == root, given_path
        assert open_storage(storage.url) == storage


@pytest.mark.parametrize("url", ["", "a\0b", "file://host/x", "file:x", "file:///a%00b", "file://", b"bytes"])
def test_senseless_paths_are_refused(url: str) -> None:
    with pytest.raises(InvalidArgument, match="Nothing was opened"):
        open_storage(url)


def test_an_unknown_scheme_is_answered_with_the_known_ones() -> None:
    for url in ("hdfs://host/t", "hdfs:/t", "https://user:hunter2@host/t", "dbfs:/t"):
        with pytest.raises(InvalidArgument, match=r"file:///, s3://.*gs://.*abfss://.*memory://") as caught:
            open_storage(url)
        assert "hunter2" not in str(caught.value)


def test_memory_of_one_name_is_one_store() -> None:
    first, second = open_storage("memory://contract-a"), open_storage("memory://contract-a/")
    assert isinstance(first, MemoryStorage)
    first.create("x", b"1")
    assert second.read("x", 1) == b"1"
    assert open_storage("memory://contract-b").list() == []
    assert open_storage(first.url) is first


def test_options_for_a_local_folder_are_refused_by_name_only(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="secret_access_key") as caught:
        open_storage(tmp_path, {"secret_access_key": "hunter2"})
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "text", "address"),
    [
        ("s3://bucket/a/t/", "s3://bucket/a/t", "s3a://bucket/a/t/k=1/f.parquet"),
        ("s3a://bucket", "s3a://bucket", "s3a://bucket/k=1/f.parquet"),
        ("s3n://bucket/a%20b", "s3n://bucket/a%20b", "s3a://bucket/a%20b/k=1/f.parquet"),
        ("gs://bucket/t", "gs://bucket/t", "gs://bucket/t/k=1/f.parquet"),
        (
            "abfss://c@acc.dfs.core.windows.net/t",
            "abfss://c@acc.dfs.core.windows.net/t",
            "abfss://c@acc.dfs.core.windows.net/t/k=1/f.parquet",
        ),
    ],
)
def test_object_urls_keep_their_text_and_speak_hadoop_to_spark(url: str, text: str, address: str) -> None:
    storage = open_storage(url)
    assert isinstance(storage, ObjectStorage)
    assert storage.url == open_storage(storage.url).url == text
    assert storage.native_path("k=1/f.parquet") == address


def test_an_azure_container_needs_its_account_for_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    assert open_storage("az://c/t").native_path("f.parquet") is None
    told = open_storage("az://c/t", {"account_name": "acc"})
    assert told.native_path("f.parquet") == "abfss://c@acc.dfs.core.windows.net/t/f.parquet"


@pytest.mark.parametrize(
    "url",
    [
        "s3://key:hunter2@bucket/t",
        "s3://hunter2@bucket/t",
        "s3://bucket/t?X-Amz-Signature=hunter2",
        "abfss://c@a.dfs.core.windows.net/t?sig=hunter2",
        "gs://bucket/t#hunter2",
        "s3:///t-hunter2",
        "s3://bucket/a/../hunter2/..",
    ],
)
def test_object_urls_that_may_hold_secrets_or_leave_the_bucket_are_refused(url: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        open_storage(url)
    assert "hunter2" not in str(caught.value) or ".." in url
