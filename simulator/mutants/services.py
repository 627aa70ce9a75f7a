# SPDX-License-Identifier: Apache-2.0
"""Planted bugs of table services, each with the invariants that may catch it."""

from __future__ import annotations

from typing import Any

from simulator.mutants.planting import Mutant
from simulator.world.faults import Rates
from simulator.world.schedule import Cue

_ARCHIVING = "lakebraid.txn.actions.archive"
_CHOOSING = "lakebraid.services.archiving"
_CLEANING = "lakebraid.services.cleaning"
_RESTORING = "lakebraid.txn.actions.restore"
_UNPUBLISHING = "lakebraid.txn.actions.restore_files"
_LEASES = "lakebraid.txn.liveness.leases"
_PAUSES = Rates(pause=0.02, slow=0.03)
_ZOMBIES = Rates(pause=0.01, slow=0.05, late=0.03, kill_late=0.01, kill_after=0.005)
_BASE: dict[str, Any] = {
    "whole": True,
    "executors": False,
    "refusals": 0.0,
    "keys": 2,
    "call_ms": 5,
    "switch": 0.3,
    "depth": 0,
    "retained": 1,
}
_WRITERS = (("writer", 5), ("writer", 5))
_CLEAN: dict[str, Any] = {
    **_BASE,
    "actors": (*_WRITERS, ("compactor", 5), ("compactor", 5), ("cleaner", 5), ("cleaner", 5), ("reader", 4)),
}
_HELD = {**_CLEAN, "actors": (*_CLEAN["actors"], ("holder", 5), ("holder", 5))}
_SAVED = {**_CLEAN, "actors": (*_CLEAN["actors"], ("savepointer", 5), ("savepointer", 5))}
_ARCHIVE = {
    **_BASE,
    "aborts": 0.2,
    "actors": (*_WRITERS, ("compactor", 3), ("rescuer", 5), ("archiver", 6), ("archiver", 6)),
}
_RESTORE = {
    **_BASE,
    "actors": (
        *_WRITERS,
        ("compactor", 4),
        ("rescuer", 4),
        ("restorer", 3),
        ("restorer", 3),
        ("reader", 6),
        ("reader", 6),
    ),
}
_FOLD: dict[str, Any] = {
    **_BASE,
    "actors": (("writer", 5), ("writer", 5), ("writer", 5), ("logcompactor", 6), ("logcompactor", 6), ("reader", 6)),
}

OF_SERVICES = (
    Mutant(
        "an archiver leaves no older write active", "H8", _CHOOSING, "choose_instants",
        'older = max((w.request_time for w in writes if w.request_time < request_time), default="")',
        'older = min((w.request_time for w in writes if w.request_time > request_time), default="9")',
        ("4",), {**_ARCHIVE, "rates": _ZOMBIES, "timeout_ms": 300, "executors": True, "call_ms": 20},
    ),
    Mutant(
        "an archiver goes past open writes", "archiving", _CHOOSING, "_obstacles",
        "for request_time in (*state.open, *state.plans, *state.rollbacks, *state.cleans):", "for request_time in ():",
        ("4", "9", "1", "2", "14"), {**_ARCHIVE, "rates": _ZOMBIES, "timeout_ms": 300, "executors": True, "call_ms": 20},
        (("for instant in timeline.pending:", "for instant in ():"),),
        elsewhere=((_CHOOSING, "_undone", "if time > since:", "if False:"),),
    ),
    Mutant(
        "timeline files are removed before the history has them", "archiving", _ARCHIVING, "_move",
        "known = add_to_history(table, rows) if rows else set()",
        "known = {(e.instant.request_time, e.instant.action) for e in batch}",
        ("9",), _ARCHIVE,
    ),
    Mutant(
        # A writer dies while the copy of its completed file is under way; others make it true, and archive it. The copy
        # then arrives, and finds its source.
        "an archiver leaves staged objects", "no resurrection", _ARCHIVING, "_move",
        "ledger.sweep_staged(number)", "pass", ("6", "9"),
        {"whole": True, "keys": 1, "aborts": 0.0, "actors": (("writer", 1), ("writer", 6), ("archiver", 3))},
        script=(
            Cue("writer0", "copy", "_20260101", "kill_late", 30_000, nth=2),
            Cue("writer1", "sleep", "", "pause", 1000),
            Cue("archiver2", "sleep", "", "pause", 10_000),
        ),
    ),
    Mutant(
        # Inputs of a plan belong to the newest slice as long as no other plan may have its group; so that must break too.
        "a clean takes the inputs of pending plans", "cleaning", _CLEANING, "_choose",
        "*_planned_inputs(ledger, timeline), ", "",
        ("3",), {**_CLEAN, "rates": Rates(kill_after=0.004, pause=0.02), "actors": (*_CLEAN["actors"], ("compactor", 5))},
        elsewhere=(
            (_CLEANING, "_work_in_progress", "yield Holder(", "if False: yield Holder("),
            ("lakebraid.txn.checks.pending_plans", "planned_parts", "for instant in timeline.pending:", "for instant in ():"),
        ),
    ),
    Mutant(
        "a clean takes files of savepoints", "cleaning", _CLEANING, "_choose",
        ", *_savepointed(now, timeline)", "",
        ("14",), _SAVED,
        elsewhere=((_CLEANING, "_holds", "for instant in _savepoints(now, timeline):", "for instant in ():"),),
    ),
    Mutant(
        "a clean forgets leases", "cleaning", _CLEANING, "_holds",
        "if token not in expired:", "if False:", ("14", "3"), _HELD,
    ),
    Mutant(
        "a clean forgets consumers", "cleaning", _CLEANING, "_holds",
        "if position != NEVER:", "if False:", ("14",),
        {**_CLEAN, "actors": (*_CLEAN["actors"], ("consumer", 4), ("consumer", 4))},
    ),
    Mutant(
        "a clean forgets what the newest version needs", "cleaning", "lakebraid.services.retention", "_superfluous",
        "kept = needed(old, replacements, since, versions)",
        "kept = {name for name in needed(old, replacements, since, versions) if name.endswith('.parquet')}",
        ("14",), _CLEAN,
    ),
    Mutant(
        "a lease is taken without a look at cleans", "leases", _LEASES, "take_lease",
        "check_readable(now, time)", "pass", ("14", "3"), {**_HELD, "rates": _PAUSES},
    ),
    Mutant(
        "a savepoint is set without a look at unfinished cleans", "savepoints", "lakebraid.txn.actions.savepoints", "check_kept",
        "for clean, doomed in _doomed(now):", "for clean, doomed in ():",
        ("14",),
        {
            **_SAVED, "rates": Rates(slow=0.08), "switch": 0.6,
            "actors": (*_CLEAN["actors"], *((("savepointer", 9),) * 3)),
        },
    ),
    Mutant(
        "a clean is called done before its files are gone", "15", "lakebraid.txn.actions.clean", "finish_clean",
        "storage.delete([in_partition(partition, name) for partition, names in plan.files.items() for name in names])",
        "pass", ("15",), _CLEAN,
    ),
    Mutant(
        "a reader does not look again after a clean", "H6", "lakebraid.table.loading", "_settled",
        "if _removals(first) != _removals(second):", "if False:",
        ("1", "2", "13", "14", "no crash"), {**_CLEAN, "rates": Rates(slow=0.08), "actors": (*_CLEAN["actors"], *((("reader", 9),) * 4))},
    ),
    Mutant(
        "a restore leaves open writes open", "restore", _RESTORING, "_state_after",
        "open={},", "open=now.state.open,", ("9", "11", "4"), _RESTORE,
    ),
    Mutant(
        "a restore leaves plans to be executed", "restore", _RESTORING, "_state_after",
        "plans={},", "plans=now.state.plans,", ("9", "16", "3"), _RESTORE,
    ),
    Mutant(
        "a restore removes data before it un-publishes", "restore", _UNPUBLISHING, "_remove",
        "completed = {name.request_time: name for name in names if name.state is State.COMPLETED}",
        'completed = {name.request_time: name for name in names if name.state is State.COMPLETED}\n'
        '    storage.delete([f"{p}/{n}" for _, p, n in _data_files(storage, request_times)])',
        ("3",), _RESTORE,
    ),
    Mutant(
        "a restore leaves staged objects", "no resurrection", _UNPUBLISHING, "finish_restore",
        "ledger.sweep_staged(now.number - 1)", "pass",
        ("9", "6"), {**_RESTORE, "rates": Rates(late=0.1, again=0.12, kill_late=0.01), "staged_held": 64, "timeout_ms": 5000},
    ),
    Mutant(
        "a restore leaves data files", "15", _UNPUBLISHING, "_remove",
        "storage.delete(paths)", "pass", ("15", "4"), _RESTORE,
        elsewhere=(("lakebraid.txn.actions.rescue", "_is_orphan", "return not known and (request_time in state.gone or request_time <= state.last)", "return False"),),
    ),
    Mutant(
        "readers see what a restore is taking back", "restore", "lakebraid.table.restores", "load_undone",
        "return frozenset(found)", "return frozenset()",
        ("4", "1", "2", "13", "14"), {**_RESTORE, "switch": 0.6},
    ),
    Mutant(
        "a log compaction goes over an open request time", "5", "lakebraid.services.merging.choose_runs", "choose_runs",
        'oldest = min(open_writes, default="9")', 'oldest = "9"',
        ("5", "1", "2", "13", "14"),
        {
            **_FOLD, "keys": 1, "orders": 2, "by_event": True, "partitions": 1, "buckets": 1, "deletes": 0.0, "aborts": 0.0,
            "rates": Rates(slow=0.04),
            "actors": (*((("writer", 5),) * 5), ("logcompactor", 9), ("logcompactor", 9), ("reader", 4)),
        },
    ),
    Mutant(
        # Its executor dies at work; the next one comes when the heartbeat has expired.
        "a removable plan is executed twice", "7", "lakebraid.txn.actions.plans", "check_claimable",
        "if plan.is_removable and plan.epoch:", "if False:", ("7",),
        {
            "whole": True, "keys": 1, "aborts": 0.0, "removable": 1.0, "timeout_ms": 500,
            "actors": (("writer", 4), ("logcompactor", 1), ("logcompactor", 2)),
        },
        script=(
            Cue("logcompactor1", "sleep", "", "pause", 5000),
            Cue("logcompactor1", "create", "p0/.0000", "kill_before"),
            Cue("logcompactor2", "sleep", "", "pause", 9000),
        ),
        elsewhere=(
            ("lakebraid.services.merging.run", "abandoned_plans", "not (plans[s].is_removable and plans[s].epoch)", "True"),
            ("lakebraid.txn.ledger.wishes", "_claim", "plan.is_removable and plan.epoch", "False"),
        ),
    ),
    Mutant(
        "a removable plan is taken from a living executor", "8", "lakebraid.txn.actions.rescue", "_decide_withdrawals",
        "return age_ms >= delay_ms and is_expired(ledger.table, request_time, now_ms, timeout_ms)",
        "return age_ms >= delay_ms", ("8",),
        {
            "whole": True, "keys": 1, "aborts": 0.0, "removable": 1.0, "timeout_ms": 1000,
            "actors": (("writer", 4), ("logcompactor", 1), ("rescuer", 9)),
        },
        script=(
            Cue("logcompactor1", "sleep", "", "pause", 5000),
            Cue("logcompactor1", "create", "p0/.0000", "slow", 5000),
            Cue("rescuer2", "sleep", "", "pause", 5000),
        ),
    ),
    Mutant(
        "a plan is claimed from a living executor", "7", "lakebraid.services.merging.run", "_judge",
        "if not is_expired(ledger.table, request_time, now_ms, silence_ms_max(ledger.config)):", "if False:",
        ("7",), {**_BASE, "call_ms": 20, "actors": (*_WRITERS, ("compactor", 5), ("compactor", 5), ("compactor", 5))},
        elsewhere=(("lakebraid.services.merging.run", "abandoned_plans", "s in released or is_expired(ledger.table, s, now_ms, silence_ms)", "True"),),
    ),
)  # fmt: skip
