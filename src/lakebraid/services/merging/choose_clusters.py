# SPDX-License-Identifier: Apache-2.0
"""Which slices to cluster, and together with which: a pure rule over a view.

Small slices of a partition are put together, the oldest first, since what was written together is often read together.
Without an order each group of slices becomes one file, so its rows can stream; with one a group may be as large as a task
can sort, and becomes several files. A group is taken only if that makes fewer files, or brings rows into order that are
not: so clustering again and again comes to rest.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Final

import pyarrow as pa

from lakebraid import limits
from lakebraid.digits import whole_number
from lakebraid.errors import InvalidArgument
from lakebraid.format.names import file_name
from lakebraid.format.timeline.plans import ClusteringGroup, ClusteringPlan, ClusteringSlice, PlanStrategy
from lakebraid.limits import MIB
from lakebraid.model.keys.buckets import bucket_of_file_id
from lakebraid.model.timeline.instant import Instant
from lakebraid.model.timeline.slicing import FileSlice, GroupId
from lakebraid.services.settings import ServiceSettings, Setting
from lakebraid.table.view import View

SORT_COLUMNS: Final = ServiceSettings().clustering_sort_columns.name
"""In the parameters of a plan, ours or Hudi's, too."""
_EXECUTOR: Final = "org.apache.hudi.client.clustering.run.strategy.SparkSortAndSizeExecutionStrategy"

SortedAs = Callable[[str], tuple[str, ...] | None]
"""The columns by which the base files of a request time were sorted when they were clustered; None if that is not known."""


@dataclass(frozen=True, slots=True)
class ClusteringScope:
    """What a clustering is about. Every limit holds at once."""

    sort_by: tuple[str, ...] = ()
    small_bytes: int = limits.CLUSTER_SMALL_BYTES
    """Slices of this size or larger stay as they are."""
    target_bytes: int = limits.CLUSTER_TARGET_BYTES
    """How large new files become."""
    group_bytes_max: int = limits.CLUSTER_GROUP_BYTES
    """No more than this is sorted together."""
    groups_max: int = limits.CLUSTER_GROUPS_MAX
    """So many groups of slices at most, those first that save most files."""
    partitions: tuple[str, ...] | None = None
    """Only these partitions; None for all."""


@dataclass(frozen=True, slots=True)
class ClusteringRequest:
    """What the caller of a clustering asks for; None for what the table's settings are to say."""

    sort_by: Sequence[str] | None = None
    small_file_limit: int | None = None
    target_size: int | None = None
    max_bytes_per_group: int | None = None
    max_groups: int | None = None
    partitions: Sequence[str] | None = None
    removable: bool | None = None


def clustering_scope(settings: ServiceSettings, request: ClusteringRequest | None = None) -> ClusteringScope:
    """The scope of a request on a table with these settings."""
    request = request or ClusteringRequest()
    sort_by, partitions = request.sort_by, request.partitions
    for word, names in (("sort_by", sort_by), ("partitions", partitions)):
        if isinstance(names, str):
            raise InvalidArgument(f"cluster({word}={names[:100]!r}): a list of names is wanted. Nothing was changed.")
    small, target = settings.clustering_small_bytes, settings.clustering_target_bytes
    together, groups = settings.clustering_group_bytes, settings.clustering_groups_max
    return ClusteringScope(
        sort_by=settings.clustering_sort_columns.words if sort_by is None else tuple(sort_by),
        small_bytes=_positive("small_file_limit", request.small_file_limit, small, limits.CLUSTER_SMALL_BYTES),
        target_bytes=_positive("target_size", request.target_size, target, limits.CLUSTER_TARGET_BYTES),
        group_bytes_max=_positive(
            "max_bytes_per_group", request.max_bytes_per_group, together, limits.CLUSTER_GROUP_BYTES
        ),
        groups_max=_positive("max_groups", request.max_groups, groups, limits.CLUSTER_GROUPS_MAX),
        partitions=None if partitions is None else tuple(partitions),
    )


def _positive(word: str, value: int | None, setting: Setting, default: int) -> int:
    stated = default if setting.text is None else setting.text
    text = str(stated if value is None else value).strip()
    number = whole_number(text)
    if not number:
        name = setting.name if value is None else f"cluster({word}=…)"
        raise InvalidArgument(f"{name} is {text[:40]!r}; it must be a positive number. Nothing was changed.")
    return number


def is_clustering_due(writes: Sequence[Instant], settings: ServiceSettings) -> bool:
    """Whether the settings ask service runners for clusterings, and there were enough writes since the last one."""
    if not (settings.clustering_inline.is_true or settings.clustering_async.is_true):
        return False
    text = (settings.clustering_commits.text or settings.clustering_async_commits.text or "4").strip()
    commits = whole_number(text, 9)
    if commits is None:
        name = settings.clustering_commits.name
        raise InvalidArgument(f"The table's {name} is {text[:40]!r}; it must be a number. Nothing was changed.")
    return sum(1 for _ in takewhile(lambda i: i.kind != "clustering", reversed(writes))) >= commits


def check_no_bucket_ids(view: View, url: str) -> None:
    """InvalidArgument for a table that does not state its index and has buckets: its file ids tell."""
    ids = {group.file_id for group in view.groups}
    if not view.config.index and ids and all(bucket_of_file_id(file_id) is not None for file_id in ids):
        raise bucketed(url)


def bucketed(url: str) -> InvalidArgument:
    """Why a table with a bucket index is not clustered."""
    return InvalidArgument(
        f"{url} has a bucket index: the file group of a row follows from its key, so rows cannot be moved to other "
        "groups. Nothing was changed. `table.compact(sort_by=[…])` sorts the rows within each bucket instead.",
        path=url,
    )


def choose_clustering(
    view: View, scope: ClusteringScope, *, taken: Collection[GroupId] = (), sorted_as: SortedAs = lambda _: None
) -> ClusteringPlan | None:
    """The plan for the table as it is, or None if nothing is to be done; `taken` are groups of pending plans."""
    check_sort_columns(scope.sort_by, view.schema)
    small: dict[str, list[FileSlice]] = defaultdict(list)
    for part in view.slices():
        partition = part.group.partition
        is_wanted = scope.partitions is None or partition in scope.partitions
        if is_wanted and part.group not in taken and part.size < scope.small_bytes:
            small[partition].append(part)
    packs = (pack for partition in sorted(small) for pack in _packed(small[partition], scope))
    due = [(_saved(pack, scope), pack) for pack in packs if _is_due(pack, scope, sorted_as)]
    due.sort(key=lambda pair: -pair[0])
    if not due:
        return None
    params = {SORT_COLUMNS: ",".join(scope.sort_by)} if scope.sort_by else {}
    groups = tuple(_group(pack, scope) for _, pack in due[: scope.groups_max])
    return ClusteringPlan(groups, PlanStrategy(_EXECUTOR, params), preserve_metadata=True)


def check_sort_columns(columns: Iterable[str], schema: pa.Schema) -> None:
    """InvalidArgument if rows cannot be sorted by these columns."""
    for name in columns:
        at = schema.get_field_index(name)
        if at < 0 or pa.types.is_nested(schema.field(at).type) or "," in name:
            why = "is not one of the table's" if at < 0 else "has no order" if "," not in name else "has a comma in it"
            raise InvalidArgument(f"cluster(sort_by=…): the column {name[:100]!r} {why}. Nothing was changed.")


def sort_columns_of(plan: ClusteringPlan) -> tuple[str, ...]:
    """The columns by which the plan's files are sorted, ours or Hudi's."""
    params = {} if plan.strategy is None else plan.strategy.params
    return tuple(name.strip() for name in params.get(SORT_COLUMNS, "").split(",") if name.strip())


def _packed(slices: Iterable[FileSlice], scope: ClusteringScope) -> Iterator[list[FileSlice]]:
    """The slices in packs that are not too large, the oldest first."""
    bytes_max = scope.group_bytes_max if scope.sort_by else scope.target_bytes
    pack: list[FileSlice] = []
    for part in sorted(slices, key=lambda s: (s.barrier, s.group)):
        if pack and _size(pack) + part.size > bytes_max:
            yield pack
            pack = []
        pack.append(part)
    if pack:
        yield pack


def _is_due(pack: Sequence[FileSlice], scope: ClusteringScope, sorted_as: SortedAs) -> bool:
    if _saved(pack, scope) > 0:
        return True
    return bool(scope.sort_by) and not all(_is_sorted(part, scope, sorted_as) for part in pack)


def _is_sorted(part: FileSlice, scope: ClusteringScope, sorted_as: SortedAs) -> bool:
    return part.base is not None and not part.logs and sorted_as(part.base.request_time) == scope.sort_by


def _saved(pack: Sequence[FileSlice], scope: ClusteringScope) -> int:
    return len(pack) - _outputs(pack, scope)


def _outputs(pack: Sequence[FileSlice], scope: ClusteringScope) -> int:
    return max(1, -(-_size(pack) // scope.target_bytes)) if scope.sort_by else 1


def _size(pack: Iterable[FileSlice]) -> int:
    return sum(part.size for part in pack)


def _group(pack: Sequence[FileSlice], scope: ClusteringScope) -> ClusteringGroup:
    logs = [log for part in pack for log in part.logs]
    read = float(_size(pack) // MIB)
    return ClusteringGroup(
        slices=tuple(
            ClusteringSlice(
                part.group.file_id,
                part.group.partition,
                None if part.base is None else file_name(part.base.name),
                tuple(file_name(log.name) for log in part.logs),
            )
            for part in pack
        ),
        metrics={
            "TOTAL_LOG_FILES": float(len(logs)),
            "TOTAL_LOG_FILES_SIZE": float(sum(log.size for log in logs)),
            "TOTAL_IO_READ_MB": read,
            "TOTAL_IO_WRITE_MB": read,
            "TOTAL_IO_MB": 2 * read,
        },
        output_file_groups=_outputs(pack, scope),
    )
