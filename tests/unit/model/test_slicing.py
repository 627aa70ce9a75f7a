# SPDX-License-Identifier: Apache-2.0
"""File slices by completion time (RFC-66) and who is visible when."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebraid.format.names import BaseFileName, LogFileName, State
from lakebraid.model.timeline.instant import Instant
from lakebraid.model.timeline.slicing import BaseFile, FileGroup, GroupId, LogFile, build_group, build_groups

pytestmark = pytest.mark.unit

GROUP = GroupId("p0", "f")


def t(number: int) -> str:
    return f"{20260101000000000 + number:017d}"


def base(request_time: int, end: int) -> BaseFile:
    parsed = BaseFileName("f", "1-0-1", t(request_time), ".parquet")
    return BaseFile(parsed.format(), parsed, 10, t(end))


def log(request_time: int, end: int, version: int = 1, token: str = "1-0-1") -> LogFile:
    parsed = LogFileName("f", t(request_time), version, token, "")
    return LogFile(parsed.format(), parsed, 1, t(end))


def shape(group: FileGroup) -> dict[str, list[str]]:
    return {s.barrier: [x.request_time for x in s.logs] for s in group.slices}


def test_the_demo_of_rfc_66_puts_the_late_finisher_into_the_newer_slice() -> None:
    group = build_group(GROUP, [base(10, 20), base(60, 80)], [log(21, 40), log(30, 50), log(35, 90)])
    assert shape(group) == {t(10): [t(21), t(30)], t(60): [t(35)]}


def test_a_snapshot_reads_the_newest_base_and_only_the_logs_after_it() -> None:
    group = build_group(GROUP, [base(10, 20), base(60, 80)], [log(21, 40), log(30, 50), log(35, 90)])
    latest = group.latest()
    assert latest is not None and latest.base is not None
    assert (latest.base.request_time, [x.request_time for x in latest.logs]) == (t(60), [t(35)])
    assert latest.has_late_log


def test_a_planned_compaction_opens_a_slice_that_is_read_with_the_one_before_it() -> None:
    group = build_group(GROUP, [base(10, 20)], [log(21, 40), log(35, 90)], planned=[t(60)])
    assert shape(group) == {t(10): [t(21)], t(60): [t(35)]}
    latest = group.latest()
    assert latest is not None and latest.base is not None
    assert [x.request_time for x in latest.logs] == [t(21), t(35)]


def test_a_planned_compaction_on_a_group_without_base_file_hides_nothing() -> None:
    group = build_group(GROUP, [], [log(21, 40), log(70, 90)], planned=[t(60)])
    latest = group.latest()
    assert latest is not None
    assert [x.request_time for x in latest.logs] == [t(21), t(70)]


def test_logs_merge_by_start_version_and_token_not_by_completion() -> None:
    logs = [log(30, 40), log(20, 50), log(20, 50, version=2), log(20, 50, token="0-0-9")]
    latest = build_group(GROUP, [], logs).latest()
    assert latest is not None
    order = [(x.request_time, x.parsed.version, x.parsed.write_token) for x in latest.logs]
    assert order == [(t(20), 1, "0-0-9"), (t(20), 1, "1-0-1"), (t(20), 2, "1-0-1"), (t(30), 1, "1-0-1")]


def test_a_read_optimised_query_sees_the_newest_base_file_only() -> None:
    group = build_group(GROUP, [base(10, 20), base(60, 80)], [log(90, 95)], planned=[t(99)])
    newest = group.latest_base()
    assert newest is not None
    assert newest.request_time == t(60)


def test_a_group_of_logs_alone_has_no_read_optimised_rows() -> None:
    assert build_group(GROUP, [], [log(21, 40)]).latest_base() is None


def test_a_replaced_group_is_gone_but_what_the_overwrite_itself_wrote_into_it_stays() -> None:
    overwrite = Instant(t(50), "replacecommit", State.COMPLETED, t(60))
    bases = {GROUP: [base(10, 20), base(50, 60)]}
    logs = {GROUP: [log(21, 40), log(55, 58), log(70, 80)]}
    groups = build_groups(bases, logs, {}, {GROUP: overwrite})
    latest = groups[GROUP].latest()
    assert latest is not None and latest.base is not None
    assert (latest.base.request_time, [x.request_time for x in latest.logs]) == (t(50), [t(70)])
    assert build_groups({GROUP: [base(10, 20)]}, {}, {}, {GROUP: overwrite}) == {}


@given(st.data())
def test_every_committed_log_is_in_exactly_one_slice_and_read_iff_no_later_base_included_it(
    data: st.DataObject,
) -> None:
    times = data.draw(st.lists(st.integers(1, 500), min_size=2, max_size=16, unique=True))
    spans = [(min(times[i : i + 2]), max(times[i : i + 2])) for i in range(0, len(times) - 1, 2)]
    kinds = data.draw(st.lists(st.booleans(), min_size=len(spans), max_size=len(spans)))
    bases = [base(*s) for s, is_base in zip(spans, kinds, strict=True) if is_base]
    logs = [log(*s) for s, is_base in zip(spans, kinds, strict=True) if not is_base]
    group = build_group(GROUP, bases, logs)
    placed = [x for s in group.slices for x in s.logs]
    assert sorted(x.name for x in placed) == sorted(x.name for x in logs)
    newest = max((b.request_time for b in bases), default="")
    latest = group.latest()
    read = {x.name for x in latest.logs} if latest else set()
    assert read == {x.name for x in logs if x.completion_time >= newest}
