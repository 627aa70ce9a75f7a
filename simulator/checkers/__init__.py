# SPDX-License-Identifier: Apache-2.0
"""One invariant, one file. A checker has any of these hooks; the first violation ends the history.

publishing(note)           a completed file has just appeared, and is not yet counted
published(note)            it counts now
sentenced(rollback, request_time) a rollback of `request_time` was requested
withdrawn(request_time, completion, action, state), appeared(request_time, action, state)   a timeline file went or came
effect(what, name)         a data file was created or deleted
in_ledger(what, name, data)   the same of what lies below .hoodie
cleaning(request_time, names), restoring(request_time, undone)   a clean or restore was requested
expired(reader, kind, time, began, why)   a reader was told that a version is gone
executing(request_time, process, is_removable=, epoch=, judged_ms=), executed(request_time, process)   somebody works on a plan
answered(answer)           a reader gave an answer
resolved(request_time, outcome)   a writer was told how its write ended
called(request_time, step)  a writer's caller has had rows for this write since that step
batch_done(writer, number) a driver was told that its batch is in the table
healed(scene)              everything has ended
"""

from __future__ import annotations

from typing import Any

from simulator.checkers.batches_once import BatchesOnce
from simulator.checkers.both_tables_list_the_same import BothTablesListTheSame
from simulator.checkers.captures_tell_the_row_before import CapturesTellTheRowBefore
from simulator.checkers.changes_exactly_once import ChangesExactlyOnce
from simulator.checkers.cleans_take_nothing_needed import CleansTakeNothingNeeded
from simulator.checkers.completion_times_rise import CompletionTimesRise
from simulator.checkers.later_calls_win import LaterCallsWin
from simulator.checkers.liveness import Liveness
from simulator.checkers.merges_agree import MergesAgree
from simulator.checkers.never_half_a_commit import NeverHalfACommit
from simulator.checkers.no_leak import NoLeak
from simulator.checkers.no_lost_update import NoLostUpdate
from simulator.checkers.nothing_looks_committed import NothingLooksCommitted
from simulator.checkers.nothing_unpublished_is_visible import NothingUnpublishedIsVisible
from simulator.checkers.one_executor import OneExecutor
from simulator.checkers.optimistic_writers_do_not_meet import OptimisticWritersDoNotMeet
from simulator.checkers.overwrites_drop_nothing import OverwritesDropNothing
from simulator.checkers.reads_are_of_one_moment import ReadsAreOfOneMoment
from simulator.checkers.refused_means_refused import RefusedMeansRefused
from simulator.checkers.the_dead_stay_dead import TheDeadStayDead
from simulator.checkers.the_living_are_spared import TheLivingAreSpared
from simulator.checkers.time_travel_is_stable import TimeTravelIsStable
from simulator.checkers.wishes_once import WishesOnce

ALL: tuple[Any, ...] = (
    NothingUnpublishedIsVisible,
    NoLostUpdate,
    ReadsAreOfOneMoment,
    NeverHalfACommit,
    MergesAgree,
    CompletionTimesRise,
    TheLivingAreSpared,
    TheDeadStayDead,
    RefusedMeansRefused,
    ChangesExactlyOnce,
    TimeTravelIsStable,
    CleansTakeNothingNeeded,
    NothingLooksCommitted,
    OneExecutor,
    OptimisticWritersDoNotMeet,
    OverwritesDropNothing,
    BatchesOnce,
    CapturesTellTheRowBefore,
    WishesOnce,
    LaterCallsWin,
    BothTablesListTheSame,
    NoLeak,
    Liveness,
)
