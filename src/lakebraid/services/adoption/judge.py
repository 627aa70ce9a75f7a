# SPDX-License-Identifier: Apache-2.0
"""From what was found to what it means: what may be written as it is, what must be stated, and what is in the way.

A line is proposed only if the keys that were looked at leave no other answer. What cannot be written at all is said by
`model.writable` alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import pyarrow as pa

from lakebraid.errors import InvalidArgument
from lakebraid.model.config import CONCURRENCY, CONCURRENCY_MODES, MergeMode, TableConfig, TableType, parse_config
from lakebraid.model.keys.bucket_fit import BucketFit
from lakebraid.model.keys.buckets import bucket_of_file_id
from lakebraid.model.timeline.slicing import GroupId
from lakebraid.model.writable import obstacles
from lakebraid.services.adoption.result import Adoption, Aspect, Verdict
from lakebraid.services.adoption.sample import Sample

_INDEX: Final = "hoodie.index.type"
_BUCKETS: Final = "hoodie.bucket.index.num.buckets"
_HASHED: Final = "hoodie.bucket.index.hash.field"
_GENERATOR: Final = "hoodie.table.keygenerator.type"
_CHANCE: Final = 1_000_000
"""No partition has so many buckets: a file id that begins with a greater number is a random one, by chance without letters."""
_SHOWN_MAX: Final = 6
_SAY: Final = (
    "Say buckets=… (--buckets) as its writers have it, whose hash is of all columns of the key: with a number that is not "
    "theirs, keys double as soon as both write."
)
_OTHER_BUCKETS: Final = frozenset({"consistent_hashing_metadata", "partition_bucket_index_meta"})


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that a judgement is made of."""

    url: str
    config: TableConfig
    properties: Mapping[str, str]
    groups: tuple[GroupId, ...]
    """The file groups that are there."""
    sample: Sample
    schema: pa.Schema
    completed: Mapping[str, int] | None = None
    bucket_index_folders: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Found:
    """One aspect and the lines that it needs."""

    aspect: Aspect
    lines: Mapping[str, str] = field(default_factory=dict)


def judge(evidence: Evidence, buckets: int | None = None) -> Adoption:
    """What the table is, and what must be done. `buckets` is the number that its writers have, where its keys leave a choice.

    InvalidArgument if the keys, or the file ids, speak against that number.
    """
    found = [_keys(evidence), _folders(evidence), _index(evidence, buckets)]
    lines = {key: value for one in found for key, value in one.lines.items()}
    properties = {**evidence.properties, **lines}
    config = parse_config(properties, evidence.url)
    aspects = {a.topic: a for a in (*_plain_aspects(config), *(one.aspect for one in found))}
    for problem in obstacles(
        config,
        properties,
        completed=evidence.completed,
        bucket_index_folders=evidence.bucket_index_folders,
        schema=evidence.schema,
    ):
        aspect = aspects.get(problem.topic, Aspect(problem.topic, problem.what))
        if aspect.verdict is not Verdict.IMPOSSIBLE:
            aspects[problem.topic] = replace(
                aspect, verdict=Verdict.IMPOSSIBLE, why=f"It uses {problem.what}. {problem.hint}."
            )
    sample = evidence.sample
    return Adoption(
        evidence.url,
        evidence.config.name,
        tuple(aspects.values()),
        lines,
        sample.keys,
        sample.slices,
        sample.slices_all,
        sample.partitions,
        sample.partitions_all,
    )


def _plain_aspects(config: TableConfig) -> Iterator[Aspect]:
    """What needs no proof, in the order in which aspects are shown."""
    yield Aspect("version", f"version {config.version}, timeline layout {config.layout}")
    yield Aspect("type", config.table_type.replace("_", " ").lower())
    yield Aspect("keys", "")
    yield Aspect("partitions", "")
    yield Aspect("index", "")
    by = config.ordering_fields if config.merge_mode is MergeMode.EVENT_TIME else ()
    groups = [field for field, _ in config.ordering_groups]
    order = f"the greatest {', '.join(by or groups)} wins" if by or groups else "the last writer wins"
    yield Aspect("merging", order)
    yield Aspect("metadata table", ", ".join(config.metadata_partitions) or "none")
    yield Aspect("columns", "with Hudi's meta columns" if config.populate_meta else "without Hudi's meta columns")
    mode = CONCURRENCY_MODES["occ" if config.is_placed else "nbcc"]
    single = f"One writer at a time. For several, state {CONCURRENCY}={mode} in hoodie.properties while no job writes."
    yield Aspect("concurrency", config.concurrency, why=single if config.concurrency == "single" else "")
    yield Aspect("lock", (config.lock_provider or "none").rpartition(".")[2])
    yield Aspect("time zone", config.timezone)


def _keys(evidence: Evidence) -> _Found:
    """Whether keys are made as the key generator says; which one it is, if the table does not state it."""
    config, sample = evidence.config, evidence.sample
    names = ", ".join(config.record_keys) or "none"
    stated = Aspect("keys", f"{names} ({config.key_generator or 'no key generator stated'})")
    if not sample.keys or not config.populate_meta:
        return _Found(stated)
    if config.key_generator:
        refuted = sample.forms.get(config.has_complex_keys)
        return _Found(stated if refuted is None else _in_the_way(stated, _otherwise(refuted)))
    parts = len(config.partition_fields)
    fits = {False: "NON_PARTITION" if not parts else "SIMPLE" if parts == 1 else "", True: "COMPLEX"}
    proven = [fits[form] for form, refuted in sample.forms.items() if refuted is None and fits[form]]
    if len(proven) != 1:
        return _Found(_in_the_way(stated, _otherwise(next(filter(None, sample.forms.values()), "no row tells"))))
    why = f"{sample.keys:,} keys are made so."
    return _Found(Aspect("keys", f"{names} ({proven[0]})", Verdict.CHANGE, why), {_GENERATOR: proven[0]})


def _otherwise(refuted: str) -> str:
    return f"Its keys are not made as lakebraid makes them: {refuted.rstrip('.')}. Rows would get other keys. Write it with Apache Hudi."


def _folders(evidence: Evidence) -> _Found:
    """Whether rows lie where their partition columns say."""
    config = evidence.config
    style = [word for word, is_so in (("hive style", config.hive_style), ("url encoded", config.url_encode)) if is_so]
    names = ", ".join(config.partition_fields)
    aspect = Aspect("partitions", " ".join(filter(None, (names or "none", f"({', '.join(style)})" if style else ""))))
    refuted = evidence.sample.folders
    if refuted is None:
        return _Found(aspect)
    return _Found(
        _in_the_way(
            aspect, f"Folders are not made as lakebraid makes them: {refuted.rstrip('.')}. Write it with Apache Hudi."
        )
    )


def _index(evidence: Evidence, buckets: int | None) -> _Found:
    """How a row finds its file group."""
    config, folders = evidence.config, {name.rpartition("/")[2] for name in evidence.bucket_index_folders}
    if config.index not in ("", "bucket") or folders & _OTHER_BUCKETS:
        _insist(buckets is None, evidence, "its index is another one")
        return _Found(Aspect("index", (config.index or "buckets of another kind").upper()))
    stranger = next((g for g in evidence.groups if bucket_of_file_id(g.file_id) is None), None)
    if stranger is None:
        return _buckets(evidence, buckets)
    _insist(buckets is None, evidence, f"its file group {stranger.file_id!r:.100} is no bucket")
    return _looked_up(evidence, f"its file group {stranger.file_id!r:.100} in {stranger.partition!r:.200} is no bucket")


def _looked_up(evidence: Evidence, no_buckets: str) -> _Found:
    config = evidence.config
    aspect = Aspect("index", "keys are looked up in the files")
    if config.index == "bucket":
        hint = (
            f"The table states hoodie.index.type=BUCKET, but {no_buckets}. If rows were written under that line, keys may be "
            "there twice: `lakebraid audit --deep` tells. Take the line out of hoodie.properties, and adopt the table then."
        )
        return _Found(_in_the_way(aspect, hint))
    if config.table_type is TableType.COW and evidence.sample.fits == ():
        return _Found(aspect)
    why = f"{no_buckets[0].upper()}{no_buckets[1:]}. Keys are looked up within their partition, as Hudi does unless its jobs say otherwise."
    return _Found(replace(aspect, verdict=Verdict.CHANGE, why=why), {_INDEX: "SIMPLE"})


def _buckets(evidence: Evidence, wanted: int | None) -> _Found:
    """The number of buckets, if keys and file ids leave one."""
    config, sample = evidence.config, evidence.sample
    highest = max((bucket_of_file_id(g.file_id) or 0 for g in evidence.groups), default=-1)
    allowed = [(fit, numbers) for fit in sample.fits if (numbers := fit.numbers(highest)) != ()]
    if wanted is None and config.buckets is not None:
        return _stated(evidence, config.buckets, highest, allowed)
    if not evidence.groups and wanted is None and config.table_type is TableType.COW:
        return _Found(Aspect("index", "no file group yet: keys are looked up in the files"))
    if not allowed and highest >= _CHANCE:
        return _looked_up(evidence, f"bucket {highest:,}, of which a file id seems to tell, is none")
    keys = f"{sample.keys:,} keys in {sample.slices:,} of {sample.slices_all:,} file slices"
    if wanted is not None:
        fits = [fit for fit in sample.fits if wanted >= 1 and fit.allows(wanted, highest)]
        _insist(bool(fits) and config.buckets in (None, wanted), evidence, f"{keys} speak against {wanted}")
        return _proven(evidence, wanted, fits[0], f"As it was said; {keys} do not speak against it.")
    answers = {(number, fit.fields if number > 1 else ()) for fit, numbers in allowed for number in numbers or (0,)}
    if len(answers) == 1 and min(answers)[0] and not sample.has_gaps:
        return _proven(evidence, min(answers)[0], allowed[0][0], f"{keys} allow no other number.")
    return _Found(_in_the_way(Aspect("index", "buckets, but how many is not known"), _undecided(sample, keys, answers)))


def _undecided(sample: Sample, keys: str, answers: Collection[tuple[int, tuple[str, ...]]]) -> str:
    if not answers:
        return (
            f"Its file ids look like buckets, but {keys} speak against every number: it may be another one in each "
            "partition. Write it with Apache Hudi."
        )
    if sample.has_gaps:
        return f"Only {sample.partitions:,} of {sample.partitions_all:,} partitions were looked at; with deep=True (--deep) all are."
    if not sample.keys:
        return f"It has no rows that tell. {_SAY}"
    known = sorted({number for number, _ in answers if number})
    shown = (
        f"{', '.join(map(str, known[:_SHOWN_MAX]))}{' …' if len(known) > _SHOWN_MAX else ''} buckets"
        if known
        else "any number"
    )
    by = ", by the hash of all columns of the key or of some" if len(known) == 1 else ""
    return f"{keys[0].upper()}{keys[1:]} allow {shown}{by}. {_SAY}"


def _stated(
    evidence: Evidence, buckets: int, highest: int, allowed: list[tuple[BucketFit, tuple[int, ...] | None]]
) -> _Found:
    """Whether the keys bear out what the table states already."""
    sample, aspect = evidence.sample, Aspect("index", f"{buckets:,} buckets, as it states")
    if any(fit.fields == evidence.config.bucket_fields and fit.allows(buckets, highest) for fit in sample.fits):
        return _Found(aspect)
    others = sorted({number for _, numbers in allowed for number in numbers or ()})[:_SHOWN_MAX]
    allow = f": they allow {', '.join(map(str, others))}" if others else ""
    hint = (
        f"{sample.keys:,} keys and the file ids speak against that{allow}. "
        "If rows were written under that line, keys may be there twice: `lakebraid audit --deep` tells. Correct it in "
        "hoodie.properties."
    )
    return _Found(_in_the_way(aspect, hint))


def _proven(evidence: Evidence, buckets: int, fit: BucketFit, why: str) -> _Found:
    lines = {_INDEX: "BUCKET", _BUCKETS: str(buckets)}
    hashed = ""
    if buckets > 1 and fit.fields != evidence.config.bucket_fields:
        lines[_HASHED] = ",".join(fit.fields)
        hashed = f" by {', '.join(fit.fields)}"
    new = {key: value for key, value in lines.items() if evidence.properties.get(key) != value}
    noun = "bucket" if buckets == 1 else "buckets"
    verdict = Verdict.CHANGE if new else Verdict.AS_IS
    return _Found(Aspect("index", f"{buckets:,} {noun}{hashed}", verdict, why), new)


def _insist(is_so: bool, evidence: Evidence, otherwise: str) -> None:
    if not is_so:
        raise InvalidArgument(
            f"That is not the number of buckets of {evidence.url}: {otherwise}. Nothing was changed. Leave it away to see "
            "what its files say.",
            path=evidence.url,
        )


def _in_the_way(aspect: Aspect, why: str) -> Aspect:
    return replace(aspect, verdict=Verdict.IMPOSSIBLE, why=why)
