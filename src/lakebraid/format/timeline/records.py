# SPDX-License-Identifier: Apache-2.0
"""The Avro records of the timeline, one line per record, to be laid beside the format description.

Notation: `?x` may be null and is so by default; `[x]` array; `{x}` map with text keys; `x=1` has a default;
`x?=1` is x or null with a default of x. A capitalised word is another record of the table.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any, Final

NAMESPACE: Final = "org.apache.hudi.avro.model"

_WRITE_STAT_COUNTERS = (
    "totalLogRecords ?long, totalLogFiles ?long, totalUpdatedRecordsCompacted ?long, numInserts ?long, "
    "totalLogBlocks ?long, totalCorruptLogBlock ?long, totalRollbackBlocks ?long, fileSizeInBytes ?long"
)
_COMMIT = (
    "partitionToWriteStats ?{[HoodieWriteStat]}, compacted ?boolean, extraMetadata ?{string}, version int?=1, "
    "operationType ?string"
)

RECORDS: Final[dict[str, str]] = {
    "HoodieCommitMetadata": _COMMIT,
    "HoodieReplaceCommitMetadata": f"{_COMMIT}, partitionToReplaceFileIds ?{{[string]}}",
    "HoodieWriteStat": (
        "fileId ?string, path ?string, prevCommit ?string, numWrites ?long, numDeletes ?long, numUpdateWrites ?long, "
        f"totalWriteBytes ?long, totalWriteErrors ?long, partitionPath ?string, {_WRITE_STAT_COUNTERS}, "
        "logVersion ?int, logOffset ?long, baseFile ?string, logFiles ?[string], cdcStats ?{long}, "
        "prevBaseFile ?string, minEventTime ?long, maxEventTime ?long, runtimeStats ?HoodieRuntimeStats, "
        "totalLogFilesCompacted ?long, totalLogReadTimeMs ?long, totalLogSizeCompacted ?long, tempPath ?string, "
        "numUpdates ?long"
    ),
    "HoodieRuntimeStats": "totalScanTime ?long, totalCreateTime ?long, totalUpsertTime ?long",
    "HoodieCompactionPlan": (
        "operations ?[HoodieCompactionOperation], extraMetadata ?{string}, version int?=1, "
        "strategy ?HoodieCompactionStrategy, preserveHoodieMetadata boolean?=false, missingSchedulePartitions ?[string]"
    ),
    "HoodieCompactionStrategy": "compactorClassName ?string, strategyParams ?{string}, version int?=1",
    "HoodieCompactionOperation": (
        "baseInstantTime ?string, deltaFilePaths ?[string], dataFilePath ?string, fileId ?string, "
        "partitionPath ?string, metrics ?{double}, bootstrapFilePath ?string"
    ),
    "HoodieRequestedReplaceMetadata": (
        "operationType ?string, clusteringPlan ?HoodieClusteringPlan, extraMetadata ?{string}, version int?=1"
    ),
    "HoodieClusteringPlan": (
        "inputGroups ?[HoodieClusteringGroup], strategy ?HoodieClusteringStrategy, extraMetadata ?{string}, "
        "version int?=1, preserveHoodieMetadata ?boolean, missingSchedulePartitions ?[string]"
    ),
    "HoodieClusteringStrategy": "strategyClassName ?string, strategyParams ?{string}, version int?=1",
    "HoodieClusteringGroup": (
        "slices ?[HoodieSliceInfo], metrics ?{double}, numOutputFileGroups int?=1, extraMetadata ?{string}, version int?=1"
    ),
    "HoodieSliceInfo": (
        "dataFilePath ?string, deltaFilePaths ?[string], fileId ?string, partitionPath ?string, "
        "bootstrapFilePath ?string, version int?=1"
    ),
    "HoodieCleanerPlan": (
        "earliestInstantToRetain ?HoodieActionInstant, lastCompletedCommitTimestamp string='', policy string, "
        "filesToBeDeletedPerPartition ?{[string]}, version int?=1, "
        "filePathsToBeDeletedPerPartition ?{[HoodieCleanFileInfo]}, partitionsToBeDeleted ?[string], "
        "extraMetadata ?{string}"
    ),
    "HoodieActionInstant": "timestamp string, action string, state string",
    "HoodieCleanFileInfo": "filePath ?string, isBootstrapBaseFile ?boolean",
    "HoodieCleanMetadata": (
        "startCleanTime string, timeTakenInMillis long, totalFilesDeleted int, earliestCommitToRetain string, "
        "lastCompletedCommitTimestamp string='', partitionMetadata {HoodieCleanPartitionMetadata}, version int?=1, "
        "bootstrapPartitionMetadata ?{HoodieCleanPartitionMetadata}, extraMetadata ?{string}"
    ),
    "HoodieCleanPartitionMetadata": (
        "partitionPath string, policy string, deletePathPatterns [string], successDeleteFiles [string], "
        "failedDeleteFiles [string], isPartitionDeleted ?boolean"
    ),
    "HoodieInstantInfo": "commitTime string, action string",
    "HoodieRollbackPlan": (
        "instantToRollback ?HoodieInstantInfo, RollbackRequests ?[HoodieRollbackRequest], version int?=1, "
        "lakebraidStory ?string"  # not Hudi's; readers pass over fields that they do not know
    ),
    "HoodieRollbackRequest": (
        "partitionPath string, fileId ?string, latestBaseInstant ?string, filesToBeDeleted [string]=[], "
        "logBlocksToBeDeleted ?{long}"
    ),
    "HoodieRollbackMetadata": (
        "startRollbackTime string, timeTakenInMillis long, totalFilesDeleted int, commitsRollback [string], "
        "partitionMetadata {HoodieRollbackPartitionMetadata}, version int?=1, instantsRollback [HoodieInstantInfo]=[]"
    ),
    "HoodieRollbackPartitionMetadata": (
        "partitionPath string, successDeleteFiles [string], failedDeleteFiles [string], rollbackLogFiles ?{long}, "
        "logFilesFromFailedCommit ?{long}"
    ),
    "HoodieRestorePlan": (
        "instantsToRollback [HoodieInstantInfo]=[], version int?=2, savepointToRestoreTimestamp ?string"
    ),
    "HoodieRestoreMetadata": (
        "startRestoreTime string, timeTakenInMillis long, instantsToRollback [string], "
        "hoodieRestoreMetadata {[?HoodieRollbackMetadata]}, version int?=1, restoreInstantInfo [HoodieInstantInfo]=[]"
    ),
    "HoodieSavepointMetadata": (
        "savepointedBy string, savepointedAt long, comments string, "
        "partitionMetadata {HoodieSavepointPartitionMetadata}, version int?=1"
    ),
    "HoodieSavepointPartitionMetadata": "partitionPath string, savepointDataFile [string]",
    "HoodieIndexPlan": "version int?=1, indexPartitionInfos ?[HoodieIndexPartitionInfo]",
    "HoodieIndexCommitMetadata": (
        "version int?=1, operationType ?string, indexPartitionInfos ?[HoodieIndexPartitionInfo]"
    ),
    "HoodieIndexPartitionInfo": (
        "version int?=1, metadataPartitionPath ?string, indexUptoInstant ?string, extraMetadata ?{string}"
    ),
}

_FIELD: Final = re.compile(r"(\w+) ([\w\[\]{}?]*?)(\?)?(?:=(.+))?")
_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_NAMES_READ_AS: Final = {"HoodieReplaceCommitMetadata": ("HoodieReplaceCommitMetadata", "HoodieCommitMetadata")}
_READABLE_AS: Final = {"long": ("int", "long"), "double": ("int", "long", "float", "double")}

UNION_BRANCHES_MAX: Final = 3
"""Branches of a union where one of ours is read: null and a value, perhaps int beside long. More would only make
the comparison of hostile schemas long."""


@cache
def avro_schema(name: str) -> Any:
    """The Avro schema of a record of the table above."""
    return _record(name, set())


def _record(name: str, defined: set[str]) -> Any:
    full_name = f"{NAMESPACE}.{name}"
    if name in defined:
        return full_name
    defined.add(name)
    fields = [_field(text, defined) for text in RECORDS[name].split(", ")]
    return {"type": "record", "name": full_name, "fields": fields}


def _field(text: str, defined: set[str]) -> dict[str, Any]:
    match = _FIELD.fullmatch(text)
    if match is None:
        raise ValueError(text)
    name, kind, or_null, default = match.groups()
    field = {"name": name, "type": _type(kind, defined)}
    if or_null:
        field["type"] = [field["type"], "null"]
    if kind.startswith("?"):
        field["default"] = None
    elif default is not None:
        field["default"] = json.loads(default.replace("'", '"'))
    return field


def _type(text: str, defined: set[str]) -> Any:
    match text[0]:
        case "?":
            return ["null", _type(text[1:], defined)]
        case "[":
            return {"type": "array", "items": _type(text[1:-1], defined)}
        case "{":
            return {"type": "map", "values": _type(text[1:-1], defined)}
    return _record(text, defined) if text in RECORDS else text


def schema_misfit(writer: Any, named: dict[str, Any], name: str) -> str | None:
    """Where a writer's schema cannot give what the record `name` needs, as Avro resolves it; None if it fits.

    After this check the values need none: Avro data has the types of its schema. `named` holds the writer's own
    named types.
    """
    written_name = writer["name"].rpartition(".")[2] if isinstance(writer, dict) and "name" in writer else ""
    # Nearly all fields are optional, so by its fields alone one record could pass for an empty other one.
    if written_name not in _NAMES_READ_AS.get(name, (name,)):
        return name
    return _schema_misfit(writer, avro_schema(name), named, name)


def _schema_misfit(writer: Any, expected: Any, named: dict[str, Any], path: str) -> str | None:
    writer = named.get(writer, writer) if isinstance(writer, str) else writer
    if isinstance(writer, list):
        if len(writer) > UNION_BRANCHES_MAX:
            return path
        return next(filter(None, (_schema_misfit(branch, expected, named, path) for branch in writer)), None)
    if writer == "null" and isinstance(expected, list):
        return None
    kind, expected = _kind(expected)
    writer_kind = writer if isinstance(writer, str) else writer["type"]
    if writer_kind not in _READABLE_AS.get(kind, (kind,)):
        return path
    match kind:
        case "record":
            return _fields_misfit(writer, expected, named, path)
        case "array":
            return _schema_misfit(writer["items"], expected["items"], named, f"{path}[]")
        case "map":
            return _schema_misfit(writer["values"], expected["values"], named, f"{path}{{}}")
    return None


def _fields_misfit(writer: Any, expected: Any, named: dict[str, Any], path: str) -> str | None:
    written = {field["name"]: field["type"] for field in writer["fields"]}
    for field in expected["fields"]:
        where = f"{path}.{field['name']}"
        if field["name"] in written:
            misfit = _schema_misfit(written[field["name"]], field["type"], named, where)
        else:
            misfit = None if "default" in field else where
        if misfit:
            return misfit
    return None


def value_misfit(value: Any, name: str) -> str | None:
    """Where a value from JSON is not what the record `name` needs; None if it fits. Missing fields are fine."""
    return _value_misfit(value, avro_schema(name), name)


def _value_misfit(value: Any, expected: Any, path: str) -> str | None:
    if value is None and isinstance(expected, list):
        return None
    kind, expected = _kind(expected)
    match kind, value:
        case "record", dict():
            parts = [(value[f["name"]], f["type"], f["name"]) for f in expected["fields"] if f["name"] in value]
        case "array", list():
            parts = [(item, expected["items"], "[]") for item in value]
        case "map", dict():
            parts = [(item, expected["values"], key) for key, item in value.items()]
        case _:
            return None if _is_primitive(kind, value) else path
    return next(filter(None, (_value_misfit(item, part, f"{path}.{key}") for item, part, key in parts)), None)


def _is_primitive(kind: str, value: Any) -> bool:
    match kind:
        case "string":
            return isinstance(value, str) and (value.isascii() or not _LONE_SURROGATE.search(value))
        case "boolean":
            return isinstance(value, bool)
        case "int" | "long":
            bits = 31 if kind == "int" else 63
            return isinstance(value, int) and not isinstance(value, bool) and -(1 << bits) <= value < (1 << bits)
        case "double":
            return isinstance(value, (int, float)) and not isinstance(value, bool)
    return False


def _kind(expected: Any) -> tuple[str, Any]:
    """The kind of one of our own types, past its union with null and its reference to another record."""
    if isinstance(expected, list):
        expected = next(branch for branch in expected if branch != "null")
    if isinstance(expected, str):
        short = expected.removeprefix(f"{NAMESPACE}.")
        return ("record", avro_schema(short)) if short in RECORDS else (expected, expected)
    return expected["type"], expected
