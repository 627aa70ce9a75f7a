# SPDX-License-Identifier: Apache-2.0
"""Writing a Spark data frame: by the driver, by tasks as the rows lie, or by tasks after a shuffle by file group.

road        taken for                                          files
driver      rows that are certainly few                        one for each file group
tasks       everything else that becomes log files             one for each partition of the frame and file group
shuffle     base files; log files that would be too many       one for each file group

On the road by tasks, small partitions hand their rows back and the driver writes them together, so that a small frame
of unknown size makes no more files than one of known size.

A frame is evaluated once. File names are a function of the write, the file group and the task number, and that is
`first_task` plus the number of the frame's partition, so a task that runs twice meets its own files. Of rows with
equal keys in several partitions the greatest ordering value wins (of equal ones any, but always the same), in tables
without ordering columns the row in the later partition. Hudi compares task numbers as text, so those of one transaction all need the
same number of digits; a partition whose number would have more is refused.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from lakebraid import limits
from lakebraid.errors import InvalidArgument, ObjectNotFound
from lakebraid.format.names import in_partition, parse_data_file
from lakebraid.model.config import META_COLUMNS, MergeMode
from lakebraid.model.incoming import prepare
from lakebraid.spark.plan_facts import bytes_at_most, bytes_guess, partitions_guess
from lakebraid.spark.start.workers import told_if_not_installed, use_this_python
from lakebraid.spark.versions import arrow_schema, rows_of, shuffled, spark_schema
from lakebraid.spark.write_tasks import PIECES, REPORT, Report, TaskRules, reports, splitter, writer
from lakebraid.storage import Storage
from lakebraid.tasks.engine import Written
from lakebraid.tasks.staged_file import StagedFile
from lakebraid.tasks.writing.rows import WritePlan, write_rows
from lakebraid.txn.liveness.markers import load_markers


def write_spark(storage: Storage, plan: WritePlan, df: DataFrame, *, first_task: int, tag: str) -> Written:
    """Writes the rows of a data frame into files that no reader sees yet.

    Jobs run under `tag`, so that `cancel_spark` can end them. Errors in the rows or the store come as lakebraid's own,
    others, as those of a user's function, as Spark's. After any error the write must be given up: some tasks may have
    written their files.
    """
    spark = df.sparkSession
    frame = wanted_columns(df, plan)
    use_this_python(spark)
    with tagged(spark, tag):
        return _write(storage, plan, frame, first_task)


def cancel_spark(spark: SparkSession, tag: str) -> None:
    """Ends the jobs that `write_spark` runs under that tag, from any thread; it then raises Spark's error."""
    context = getattr(spark, "_sc", None)
    if context is None:
        spark.interruptTag(tag)
    else:
        context.cancelJobsWithTag(tag)


@contextlib.contextmanager
def tagged(spark: SparkSession, tag: str) -> Iterator[None]:
    """Jobs of this thread bear the tag. A classic session's own tags are known to the thread alone that gave them."""
    context = getattr(spark, "_sc", None)
    add, remove = (spark.addTag, spark.removeTag) if context is None else (context.addJobTag, context.removeJobTag)
    add(tag)
    try:
        with told_if_not_installed():
            yield
    finally:
        remove(tag)


def arrow_schema_of(df: DataFrame) -> pa.Schema:
    """The columns of a data frame as its rows will come: times with a zone in UTC, Hudi's own columns left out."""
    try:
        schema = arrow_schema(df.schema)
    except PySparkException as error:
        raise InvalidArgument(
            f"The data frame has a column of a type that cannot be written: {error!s:.300}. Nothing was written. "
            "Cast or drop it."
        ) from error
    return pa.schema([field for field in schema if field.name not in META_COLUMNS])


def wanted_columns(df: DataFrame, plan: WritePlan) -> DataFrame:
    """The columns that will be written, and no others; what a look at the columns shows to be wrong is told now."""
    schema = arrow_schema_of(df)
    ready = prepare(schema.empty_table(), plan.schema, plan.config, operation=plan.operation, columns=plan.columns)
    given = set(schema.names)
    names = [name for name in ready.schema.names if name in given]
    return df if names == df.columns else df.select(*map(_quoted, names))


def _write(storage: Storage, plan: WritePlan, frame: DataFrame, first_task: int) -> Written:
    rows = few_rows(frame)
    if rows is not None:
        return Written(write_rows(storage, plan, rows, first_task), first_task + 1, rows)
    partitions = partitions_guess(frame)
    is_shuffled = plan.into_base or _makes_too_many_files(frame, plan, partitions)
    if is_shuffled:
        frame = _shuffled(frame, plan, first_task)
    handed = 0 if is_shuffled else limits.SPARK_HANDED_BYTES // partitions
    rules = TaskRules(first_task, handed, attempts_max(frame.sparkSession), is_shuffled)
    done = reports(rows_of(frame.mapInArrow(writer(plan, rules), spark_schema(REPORT))))
    files = staged_files(storage, plan, done, first_task, is_doubtful=any(report.attempt for report in done))
    handed_rows = [report.rows for report in done if report.rows is not None]
    rows = None if any(report.files for report in done) else _joined(handed_rows, frame)
    return Written(files, first_task + 1 + max((report.partition for report in done), default=0), rows)


def _joined(rows: Sequence[pa.Table], frame: DataFrame) -> pa.Table:
    return pa.concat_tables(rows) if rows else arrow_schema_of(frame).empty_table()


def staged_files(
    storage: Storage, plan: WritePlan, done: Sequence[Report], first_task: int, *, is_doubtful: bool
) -> list[StagedFile]:
    """All files of the tasks that ended so, with what they left to the driver; their error, if there is one.

    If it is doubtful whether each task ran once, it is checked that no attempt left a file that does not count.
    """
    for report in done:
        if report.error is not None:
            raise report.error
    files = [file for report in done for file in report.files]
    files += _written_here(storage, plan, done, first_task)
    if is_doubtful:
        _check_complete(storage, plan, files, first_task)
    return files


def few_rows(frame: DataFrame) -> pa.Table | None:
    """The rows, if they are certainly few; else None, and also if they are, against all estimates, too many for the driver."""
    size = bytes_at_most(frame)
    if size is None or size > limits.SPARK_DRIVER_BYTES:
        return None
    try:
        return rows_of(frame)
    except Exception as error:  # Spark's own, or Java's
        # Nothing is written yet: evaluating the frame again, for another road, costs time and nothing else.
        if "spark.driver.maxResultSize" in str(error):
            return None
        raise


def _makes_too_many_files(frame: DataFrame, plan: WritePlan, partitions: int) -> bool:
    count = partitions * plan.buckets
    return count > limits.SPARK_WRITE_FILES_MAX and (bytes_guess(frame) or 0) < count * limits.SPARK_SMALL_FILE_BYTES


def _shuffled(frame: DataFrame, plan: WritePlan, first_task: int) -> DataFrame:
    """The frame in pieces, those of a file group in one partition; as few of them as _shuffle_partitions says."""
    count = _shuffle_partitions(frame, plan, 10 ** len(str(first_task)) - first_task)
    return shuffled(frame.mapInArrow(splitter(plan, count), spark_schema(PIECES)), count, "task")


def _shuffle_partitions(frame: DataFrame, plan: WritePlan, room: int) -> int:
    """As few as keep each near the size of a task and all cores busy: a Python task costs some rows' worth by itself."""
    spark = frame.sparkSession
    most = int(spark.conf.get("spark.sql.shuffle.partitions") or 200)
    groups = plan.buckets if not plan.config.partition_fields else max(plan.buckets, most)
    size = bytes_guess(frame)
    context = getattr(spark, "_sc", None)
    if size is not None and context is not None:
        most = max(context.defaultParallelism, -(-size * limits.SPARK_SCAN_EXPANSION // limits.SPARK_TASK_BYTES))
    return max(1, min(groups, most, room))


def attempts_max(spark: SparkSession) -> int:
    """How often Spark begins a task before it gives up; on one machine that stands in the master, `local[2, 4]`."""
    context = getattr(spark, "_sc", None)
    if context is None:
        return 1
    if found := re.fullmatch(r"local(?:\[[^,\]]*(?:,\s*(\d+))?\s*\])?", str(context.master)):
        return int(found[1] or 1)
    return int(context.getConf().get("spark.task.maxFailures", "4"))


def _written_here(storage: Storage, plan: WritePlan, done: Iterable[Report], first_task: int) -> list[StagedFile]:
    """The files of the rows that tasks handed back, written under the number of the first partition they are from."""
    files: list[StagedFile] = []
    for run in _runs([report for report in done if report.rows is not None or report.files], plan):
        rows = pa.concat_tables([report.rows for report in run])
        files += write_rows(storage, plan, rows, first_task + run[0].partition)
    return files


def _runs(done: Sequence[Report], plan: WritePlan) -> list[list[Report]]:
    """Partitions that were handed back, those together that may be written as one without changing who wins."""
    if plan.config.merge_mode is MergeMode.EVENT_TIME:
        handed = [report for report in done if report.rows is not None]
        return [handed] if handed else []
    return [list(run) for was_handed, run in groupby(done, lambda report: report.rows is not None) if was_handed]


def _check_complete(storage: Storage, plan: WritePlan, files: Iterable[StagedFile], first_task: int) -> None:
    """After tasks ran twice: InvalidArgument if an attempt left a file that the one which counts did not write.

    Readers find log files by listing, so it would be seen. It can only be there if the input gave other rows.
    """
    known = {(file.partition, name) for file in files for name in file.names}
    for marker in load_markers(storage, plan.request_time):
        if (marker.partition_path, marker.data_file_name) in known:
            continue
        if _task_of(marker.data_file_name) < first_task:
            continue  # of an earlier write of the transaction
        path = in_partition(marker.partition_path, marker.data_file_name)
        try:
            storage.info(path)
        except ObjectNotFound:
            continue
        raise InvalidArgument(
            f"{storage.url}/{path} was written by an attempt of a task whose next attempt did not write it: the input "
            "gave other rows the second time. Nothing is visible. Make the input repeatable (cache or checkpoint it, no "
            "random or current-time columns), then run the write again.",
            path=f"{storage.url}/{path}",
            request_time=plan.request_time,
        )


def _task_of(name: str) -> int:
    parsed = parse_data_file(name)
    token = None if parsed is None else parsed.write_token
    return int(token.split("-")[0]) if token else -1


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
