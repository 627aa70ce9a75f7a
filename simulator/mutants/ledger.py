# SPDX-License-Identifier: Apache-2.0
"""Planted bugs of the ledger, of writers, readers and compactions, each with the invariants that may catch it."""

from __future__ import annotations

from simulator.mutants.planting import Mutant
from simulator.world.faults import Rates
from simulator.world.schedule import Cue

_LEDGER = "lakebraid.txn.ledger.ledger"
_WRITE = "lakebraid.txn.actions.write"
_ROLLBACK = "lakebraid.txn.actions.rollback"
_LOADING = "lakebraid.table.loading"
_STORMY = Rates(
    kill_after=0.004,
    kill_late=0.004,
    pause=0.015,
    slow=0.015,
    late=0.02,
    lost=0.02,
    vanished=0.01,
    again=0.02,
    split=0.05,
)
_PAUSES = Rates(pause=0.03, slow=0.03)
_UNANSWERED = Rates(late=0.05, lost=0.03, vanished=0.02)
_TRIM = {"entries_kept": 1, "staged_held": 0}
_SMALL = {"whole": False, "executors": False, "refusals": 0.0, "switch": 0.6, "depth": 0, "call_ms": 5}

OF_THE_LEDGER = (
    Mutant(
        "copy is read, then create", "H1", "simulator.world.storage", "SimStorage.copy",
        'self._changing("copy", target, lambda: self._disk.copy(source, target))',
        'data = self.read(source, 1 << 30); self._changing("copy", target, lambda: self._disk.copy_bytes(data, target))',
        ("9", "6", "16"), {"rates": _PAUSES, "timeout_ms": 500},
    ),
    Mutant(
        "an entry in a trimmed slot counts", "H2", "lakebraid.txn.ledger.watch", "Watch.counts",
        "return is_newest or self.newest().floor <= mine.number", "return True",
        ("11", "6", "9", "3", "16", "1"), {**_TRIM, "rates": _PAUSES},
    ),
    Mutant(
        # An executor (1) is judged dead by another (2), whose claim is not sent for long; a writer (4) takes its slot and the
        # next ones, and the slot is trimmed. A sweeper (3) that had listed the slot reads the dead claim put into it, and
        # takes the file of the executor, who lives, for that of an outranked one.
        "the newest entry is whatever was read first", "H3", "lakebraid.txn.ledger.watch", "Watch.newest",
        "found = self.read(newer[-1])", "found = self.read(newer[-1]); self.known = found; return found",
        ("3",),
        {
            "keys": 1, "deletes": 0.0, "aborts": 0.0, "timeout_ms": 500, "call_ms": 1, "entries_kept": 1,
            "actors": (("writer", 1), ("compactor", 1), ("compactor", 1), ("rescuer", 1), ("writer", 3)),
        },
        script=(
            Cue("compactor1", "sleep", "", "pause", 300),
            Cue("compactor1", "read", "compaction.requested", "pause", 650),
            Cue("compactor1", "replace", ".heartbeat", "slow", 5000, nth=2),
            Cue("compactor2", "sleep", "", "pause", 900),
            Cue("compactor2", "create", "/staged/", "slow", 3000),
            Cue("compactor2", "create", "/ledger/", "kill_after"),
            Cue("rescuer3", "sleep", "", "pause", 1050),
            Cue("rescuer3", "list", ".hoodie/.temp", "slow", 400),
            Cue("rescuer3", "read", "/ledger/", "slow", 3500, nth=2),
            Cue("writer4", "sleep", "", "pause", 1300),
            Cue("writer4", "create", ".hoodie_partition_metadata", "slow", 700),
        ),
        first_seed=1,
    ),
    Mutant(
        "staged objects belong to no slot", "H4", "lakebraid.txn.ledger.timeline_copies", "stage",
        "name = staged_name(number, clock.token())", "name = staged_name(0, clock.token())",
        ("6", "9", "11", "3", "16", "1"), {**_TRIM, "rates": _PAUSES, "timeout_ms": 500},
    ),
    Mutant(
        "a writer creates its own inflight", "H5", _WRITE, "begin_write",
        "return ledger.decide(decider, rule, before_applied=beat, lazily=lazily, attempted=attempted)",
        "request_time = ledger.decide(decider, rule, before_applied=beat)\n"
        "        import contextlib\n"
        "        with contextlib.suppress(Exception):\n"
        '            ledger.storage.create(f".hoodie/timeline/{request_time}.deltacommit.inflight", b"")\n'
        "        return request_time",
        ("9", "16", "6"), {"rates": _PAUSES, "timeout_ms": 300},
        (
            ("for s in (State.REQUESTED, State.INFLIGHT)", "for s in (State.REQUESTED,)"),
            ("if not (is_alone or adds_base", "if False and not (is_alone or adds_base"),
            ("strict=True", "strict=False"),
        ),
    ),
    Mutant(
        # The first create of a staged object arrives when the write has been rolled back; a repeated copy then finds it.
        "an unanswered staged object is written again under its name", "H7", "lakebraid.txn.ledger.timeline_copies", "stage",
        "for _ in tries(clock):\n        name = staged_name(number, clock.token())",
        "name = staged_name(number, clock.token())\n    for _ in tries(clock):",
        ("9", "23"), {"keys": 1, "aborts": 1.0, "actors": (("writer", 1),)},
        (("except (OutcomeUnknown, ObjectExists):", "except ObjectExists:\n            return name\n        except OutcomeUnknown:"),),
        script=(
            Cue("writer0", "create", "/staged/", "late", 3000),
            Cue("writer0", "copy", ".requested", "again", 6000),
        ),
    ),
    Mutant(
        "a reader takes completions of its second listing", "H9", _LOADING, "_settled",
        "for i in (*first.completed, *old)", "for i in (*both.completed, *old)",
        ("13", "1", "2", "14"), {
            **_SMALL, "rates": Rates(split=0.5),
            "actors": (("writer", 3), ("writer", 3), ("mirror", 5), ("mirror", 5), ("reader", 3)),
        },
    ),
    Mutant(
        "files are listed before the timeline", "H6", _LOADING, "load_table",
        "before, entries = _first_look(table)\n        (files, partitions), newest = together(\n            table.storage, "
        "partial(_list_files, table.storage), partial(_newest_publication, table, entries)\n        )",
        "files, partitions = _list_files(table.storage)\n        before, entries = _first_look(table)\n"
        "        newest = _newest_publication(table, entries)",
        ("1", "2", "13", "5", "14", "no crash"),
        {**_SMALL, "actors": (("writer", 3), ("writer", 3), ("compactor", 2), ("reader", 5), ("reader", 5))},
    ),
    Mutant(
        "a refusal is told before the write is rolled back", "H12", "simulator.actors.writing", "Writer._give_up",
        "is_gone = roll_back(self._ledger, self._txn, request_time)", "is_gone = True",
        ("11",),
        {
            **_SMALL, "refusals": 0.5, "rates": Rates(late=0.08, vanished=0.02), "aborts": 0.0,
            "actors": (("writer", 3), ("writer", 3), ("writer", 3)),
        },
    ),
    Mutant(
        "a transaction tells a refusal before it is rolled back", "H12", "lakebraid.txn.actions.write", "roll_back_refused",
        "rollback = decide_rollback(ledger, decider, request_time, story=story)", "return None",
        ("11",), {"refusals": 0.5, "rates": Rates(late=0.06, vanished=0.02), "executors": False, "whole": True}, first_seed=190,
    ),
    Mutant(
        # An executor sleeps before it writes its base file, another one takes over and publishes; the late file is a twin
        # that no commit names. Twins hold the same rows, but a reader that takes it may find it swept away.
        "of two base files of one compaction any is taken", "H13", "lakebraid.table.view", "_named",
        "named = [t for t in twins if t.name in paths]", "named = [t for t in twins if t.name not in paths]",
        ("3",),
        {
            "keys": 1, "deletes": 0.0, "aborts": 0.0, "timeout_ms": 500, "call_ms": 1,
            "actors": (("writer", 1), ("compactor", 1), ("compactor", 2), ("reader", 1), ("rescuer", 3)),
        },
        script=(
            Cue("compactor1", "sleep", "", "pause", 300),
            Cue("compactor1", "create", "p0/00000000", "pause", 1500, nth=2),
            Cue("compactor2", "sleep", "", "pause", 1200),
            Cue("reader3", "sleep", "", "pause", 2600),
            Cue("reader3", "read", ".parquet", "slow", 6000),
            Cue("rescuer4", "sleep", "", "pause", 3000),
        ),
        first_seed=3,
    ),
    Mutant(
        "times come from the clock alone", "6", _LEDGER, "Round.time",
        "max(clock, next_instant_time(self.state.last))", "clock",
        ("6",), {"skew_ms": 400},
    ),
    Mutant(
        "the newest entry is not made true before the next", "true before next", _LEDGER, "Ledger._apply_newest",
        "self._apply(entry)", "pass",
        ("6", "9", "11", "16", "3", "1", "no crash"), {"rates": _PAUSES},
    ),
    Mutant(
        "staged objects are deleted before they are copied", "one chain", _LEDGER, "Ledger._conclude",
        "if not self._apply(mine)",
        "self.leftovers.after(entry, mine, own, may_wait=False, is_far=False)\n    if not self._apply(mine)",
        ("11", "6", "16", "9", "3", "no crash"), {},
    ),
    Mutant(
        "staged objects are deleted after an unanswered decision", "delete nothing", _LEDGER, "Ledger._enter",
        "except ObjectExists:",
        "except OutcomeUnknown:\n        self.storage.delete([s for s, _ in mine.files]); raise\n    except ObjectExists:",
        ("11", "6", "16", "9", "3", "no crash"), {"rates": _UNANSWERED},
    ),
    Mutant(
        "a rolled-back write can be published", "9", _WRITE, "publish_write",
        "if request_time not in now.state.open:", "if find_completion(now, request_time) is not None:",
        ("9", "3"), {"rates": _PAUSES, "timeout_ms": 500},
        (("write = now.state.open[request_time]", 'write = now.state.open.get(request_time) or OpenWrite("", "deltacommit")'), ("if not (is_new or is_replacing):", "if False:")),
        elsewhere=(("lakebraid.txn.ledger.wishes", "published", "state.open[request_time].batch", "None"),),
    ),
    Mutant(
        "a published write can be rolled back", "9", _ROLLBACK, "decide_rollback",
        "write = now.state.open.get(victim) or dead_write(now, victim, timeout_ms)",
        'from lakebraid.txn.ledger.entries import OpenWrite; write = OpenWrite("", "deltacommit")',
        ("9", "3", "11"), {"rates": _PAUSES, "timeout_ms": 500},
    ),
    Mutant(
        "a rollback leaves staged objects", "no resurrection", _ROLLBACK, "finish_rollback",
        "ledger.sweep_staged(entry.number)", "pass",
        ("9", "16"), {"rates": Rates(kill_late=0.01, late=0.05, again=0.08), "timeout_ms": 500, "staged_held": 64},
    ),
    Mutant(
        "a rollback leaves data files", "15", _ROLLBACK, "finish_rollback",
        "storage.delete([marked_file(marker) for marker in markers])", "pass",
        ("15",), {"aborts": 0.5},
    ),
    Mutant(
        "a rollback is called done before its files are gone", "16", _ROLLBACK, "finish_rollback",
        "pending = [TimelineFileName(undoing.victim, None, undoing.action, s) for s in (State.INFLIGHT, State.REQUESTED)]",
        "pending = []",
        ("16",), {"aborts": 0.5},
    ),
    Mutant(
        "heartbeats are judged by the judge's clock", "8", "lakebraid.txn.liveness.heartbeat", "storage_now_ms",
        "return storage.info(name).modified_ms", "return clock.now_ms()",
        ("8",), {"skew_ms": 5000, "timeout_ms": 1000, "call_ms": 20},
    ),
    Mutant(
        "heartbeats are not looked at", "8", "lakebraid.txn.liveness.heartbeat", "is_expired",
        "return now_ms - last_ms >= timeout_ms", "return True",
        ("8",), {},
    ),
    Mutant(
        "an executor that lost its claim publishes", "claim", "lakebraid.txn.actions.plans", "publish_plan",
        "if plan.epoch != epoch:", "if False:",
        ("3", "5", "1", "15", "no crash"), {
            **_SMALL, "rates": _PAUSES, "timeout_ms": 300, "call_ms": 20,
            "actors": (("writer", 2), ("compactor", 4), ("compactor", 4), ("compactor", 4)),
        },
        elsewhere=(("lakebraid.txn.ledger.wishes", "_finish", "plan.epoch != epoch", "False"),),
    ),
    Mutant(
        "published is said before it is so", "11", _LEDGER, "Ledger._enter",
        "except ObjectExists:", "except (OutcomeUnknown, ObjectExists):\n        return True\n    except StorageError:",
        ("11", "16", "no crash"), {"rates": _UNANSWERED, "switch": 0.6, "depth": 0},
    ),
    Mutant(
        "an unknown end is called a refusal", "11", _WRITE, "unknown",
        "return CommitUnknown(", "return RolledBack(",
        ("11",), {"rates": Rates(late=0.1, lost=0.1, vanished=0.05, refused=0.1)},
    ),
    Mutant(
        "a commit names files that were never written", "3", "simulator.actors.writing", "commit_of",
        "for file in files:", 'for file in [*files, *([Written("p0", "f", "missing", 0, 0)] if files else [])]:',
        ("3",), {},
    ),
    Mutant(
        "a reader sees unfinished writes", "4", "lakebraid.model.timeline.timeline", "Timeline.completion_of",
        "if not instant.is_completed:\n        return None", "if not instant.is_completed:\n        return self._within(request_time)",
        ("4", "1", "2", "5", "13", "14", "no crash"), {},
    ),
    Mutant(
        "a compaction forgets deletes", "5", "simulator.stand_ins.tasks", "run_merge",
        "carried = [v for", "carried = [v for v in () for",
        ("5", "1", "2", "13", "14"), {"deletes": 0.5, "keys": 1, "by_event": True},
    ),
    Mutant(
        "a plan includes what completes after it began", "5", "lakebraid.model.timeline.slicing", "build_group",
        "at = bisect_right(barriers, log.completion_time)", "at = bisect_right(barriers, log.request_time)",
        ("5", "1", "2", "13", "14"), {"keys": 1},
    ),
    Mutant(
        "as of looks at request times", "14", "lakebraid.model.timeline.timeline", "Timeline.completion_of",
        "return self._within(instant.completion_time or request_time)",
        "return self._within(request_time) and (instant.completion_time or request_time)",
        ("14", "4", "13", "1", "2", "no crash"), {},
    ),
    Mutant(
        "sweeping takes the files of a living executor", "sweep", "lakebraid.txn.actions.rescue", "_is_orphan",
        "return _epoch(file) < state.plans[request_time].epoch", "return _epoch(file) <= state.plans[request_time].epoch",
        ("3", "5"), {
            **_SMALL, "call_ms": 20, "timeout_ms": 300,
            "actors": (("writer", 3), ("compactor", 4), ("compactor", 4), ("rescuer", 9), ("rescuer", 9)),
        },
    ),
)  # fmt: skip
