# SPDX-License-Identifier: Apache-2.0
"""The audit of a table: whether what was committed is what readers get. Looking changes nothing.

It recomputes from commit metadata alone which files must be reachable and compares that with what each query mode reads,
opens the footers of base files and the headers of log blocks, and looks at everything around them. `deep` also reads keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from lakebraid.clock import Clock
from lakebraid.errors import LakebraidError, NotATable
from lakebraid.inspect.audit.evidence import Evidence, load_evidence
from lakebraid.inspect.audit.files import check_buckets, check_checksums, check_files, check_marks, check_sizes
from lakebraid.inspect.audit.findings import KINDS, Finding, Findings, Severity, gather
from lakebraid.inspect.audit.keys import check_keys
from lakebraid.inspect.audit.reach import Reach, check_plans, check_reach, check_retained_times, load_reach
from lakebraid.inspect.audit.timeline import check_hidden, check_history, check_schemas, check_timeline
from lakebraid.inspect.audit.traces import (
    check_ledger,
    check_leftovers,
    check_locks,
    check_metadata_table,
    check_properties_files,
)
from lakebraid.model.config import parse_config
from lakebraid.storage.protocol import Storage
from lakebraid.table.at import TableAt
from lakebraid.table.loading import load_config

Progress = Callable[[str, int, int], None]
"""Is told what is being looked at, and how many of how many are done."""

_RULES: Final[tuple[Callable[[Evidence, Reach], Iterator[Finding]], ...]] = (
    check_reach,
    check_plans,
    check_sizes,
    lambda evidence, _: check_timeline(evidence),
    lambda evidence, _: check_hidden(evidence),
    lambda evidence, _: check_schemas(evidence),
    lambda evidence, _: check_history(evidence),
    lambda evidence, _: check_marks(evidence),
    lambda evidence, _: check_buckets(evidence),
    lambda evidence, _: check_retained_times(evidence),
    lambda evidence, _: check_ledger(evidence),
    lambda evidence, _: check_leftovers(evidence),
    lambda evidence, _: check_locks(evidence),
    lambda evidence, _: check_metadata_table(evidence),
)


@dataclass(frozen=True, slots=True)
class Audit:
    """What an audit found."""

    path: str
    findings: Findings
    instants: int = 0
    files: int = 0
    is_deep: bool = False

    @property
    def is_healthy(self) -> bool:
        """Whether there is no damage; risks and untidiness do not count."""
        return not self.findings.of(Severity.DAMAGE)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings.shown)

    def __len__(self) -> int:
        return sum(self.findings.counts.values())

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "path": self.path,
            "healthy": self.is_healthy,
            "deep": self.is_deep,
            "instants": self.instants,
            "files": self.files,
            "counts": dict(self.findings.counts),
            "findings": [finding.to_dict() for finding in self],
        }

    def __repr__(self) -> str:
        looked = f"{self.instants:,} instants, {self.files:,} data files{', all keys' if self.is_deep else ''}"
        lines = [f"Audit of {self.path}: {looked}"]
        for finding in self:
            lines += ["", *_told(finding)]
        for kind, count in self.findings.counts.items():
            shown = sum(finding.kind == kind for finding in self)
            if count > shown:
                lines.append(f"… and {count - shown:,} more of {kind}")
        return "\n".join([*lines, "", self._summary()])

    def _summary(self) -> str:
        counts = ", ".join(f"{self.findings.of(s):,} {s.value}" for s in Severity if self.findings.of(s))
        if not counts:
            return "healthy: what was committed is what readers get"
        return f"healthy, with {counts}" if self.is_healthy else counts


def _told(finding: Finding) -> list[str]:
    kind = KINDS[finding.kind]
    return [
        f"{finding.severity.value}: {finding.kind}  {finding.where}",
        f"  {finding.what}",
        f"  {kind.meaning} Rows are {'' if kind.affects_rows else 'not '}affected.",
        f"  {kind.advice}",
    ]


def audit_table(storage: Storage, clock: Clock, *, deep: bool = False, progress: Progress | None = None) -> Audit:
    """Looks at a table as a whole. NotATable, UnsupportedTable or StorageError if it cannot be looked at."""
    tell = progress or (lambda _what, _done, _all: None)
    properties, found = check_properties_files(storage)
    if properties is None and not found:
        load_config(storage)  # says what is there instead
        raise NotATable(f"{storage.url} holds no Hudi table. Check the path.", path=storage.url)
    try:
        config = parse_config(properties or {}, storage.url)
    except (LakebraidError, KeyError):
        if not found:
            raise
        return Audit(storage.url, gather(found), is_deep=deep)
    tell("timeline and files", 0, 1)
    evidence = load_evidence(TableAt(storage, config, clock), properties or {})
    findings = gather(_findings(evidence, found, tell, deep=deep))
    return Audit(storage.url, findings, len(evidence.timeline.active), len(evidence.objects), deep)


def _findings(evidence: Evidence, found: list[Finding], tell: Progress, *, deep: bool) -> Iterator[Finding]:
    yield from found
    yield from evidence.findings
    reach = load_reach(evidence)
    for rule in _RULES:
        yield from rule(evidence, reach)
    yield from check_files(evidence, reach, lambda done, every: tell("files", done, every))
    yield from check_checksums(evidence, deep=deep)
    if deep:
        yield from check_keys(evidence, lambda done, every: tell("keys", done, every))
