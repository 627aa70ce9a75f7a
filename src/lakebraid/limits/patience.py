# SPDX-License-Identifier: Apache-2.0
"""How long and how often: waits, attempts, silences, and what is remembered for those who come late."""

from __future__ import annotations

from typing import Final

READ_ATTEMPTS_MAX: Final = 12
"""How often a reader starts again because a cleaner or rollback worked beside it."""

EMPTY_COMPLETED_RETRIES: Final = 3
"""How often a completed but still empty timeline file is read again (Hudi creates, then fills, it)."""

EMPTY_COMPLETED_MS_MAX: Final = 60_000
"""After this time no process will fill an empty completed timeline file any more; waiting for each of many takes hours."""

JAVA_ANSWER_SECONDS_MAX: Final = 10
"""How long a Java without a `release` file may take to tell its version."""

STORE_TRIES_MAX: Final = 10
"""How often one call is sent to a store that refuses it for now, or does not answer; conditional creates are sent once. The
waits in between make 18 seconds on average and 37 at most, which outlasts the throttling of a prefix that becomes busy."""

STORE_TRIES_UNREACHED_MAX: Final = 4
"""The same for a store that has not answered this client at all yet: most likely its address is wrong, and people wait for the
error."""

STORE_RETRY_SECONDS_MAX: Final = 60
"""No call is sent again so long after its first failure: where each try takes until its timeout (30 seconds in obstore), three
are enough."""

STORE_PAUSE_SECONDS: Final = 0.1
"""Half of the longest wait before the second try, which doubles with each further one: some round trips of a store."""

STORE_PAUSE_SECONDS_MAX: Final = 8.0
"""The longest wait before a further try: the load of clients that wait about half of this hardly matters to a store."""

STORE_PART_RETRIES_MAX: Final = 3
"""How often the client library itself, once a read or listing has failed, tries a page or the rest of a body again: so a listing
of hundreds of pages, or a body that takes longer than one request may, gets through at all."""

DECIDE_ATTEMPTS_MAX: Final = 10_000
"""How often a decision is tried again because another writer was faster; hundreds happen with 64 busy writers."""

LEDGER_ENTRIES_KEPT: Final = 1000
"""Entries of the ledger that are kept at least; one is enough to be right, the others tell what happened."""

CLOCK_AHEAD_MS_MAX: Final = 120_000
"""How far this machine's clock may be ahead of the storage's: times never run back, so one bad clock drags all."""

STAGED_HELD_MAX: Final = 64
"""Staged objects of beginnings that are removed together with later ones."""

GONE_REQUEST_TIMES_MAX: Final = 1000
"""Request times of writes that were rolled back that the ledger remembers, the newest of them."""

PLACE_ATTEMPTS_MAX: Final = 3
"""How often a data file is created again whose creation was not answered; then the task fails and may run again."""

HEARTBEAT_INTERVAL_MS: Final = 20_000
"""How often a writer shows that it lives. Hudi's judges allow two minutes, and so do ours: five beats may be missed."""

HEARTBEAT_TIMEOUT_MS: Final = 120_000
"""After this silence a writer may be rolled back: Hudi's own default (60 s, twice)."""

ZONE_DIFFERENCE_MS_MAX: Final = 7 * 60_000
"""How far a completion time may be from when its file was made, in a table in local time: zones differ by quarters of
an hour, and a completion is written at once."""

LOCK_WAIT_SECONDS_MAX: Final = 120
"""How long one decision waits for Hudi's lock; Hudi holds it for parts of a second, seldom for seconds."""

LOCK_POLL_SECONDS_MAX: Final = 0.25
"""The longest pause between two looks at a lock that another process holds."""

LOCK_HEIRS_MAX: Final = 100
"""How many processes may die, one after the other, while they remove the lock of a dead one."""

LOCK_VALID_MS: Final = 300_000
"""How long a lock on an object store is valid without being renewed: Hudi's default."""

LOCK_RENEW_SECONDS: Final = 30
"""How often it is renewed while it is held: Hudi's default."""

LOCK_DRIFT_MS: Final = 500
"""How far the clocks of two holders may differ, as Hudi has it; no process takes an expired lock before that."""

LOCK_MARGIN_MS: Final = 60_000
"""A lock that is valid for less than this is renewed before anything is decided under it."""

UNLOCK_ATTEMPTS_MAX: Final = 5
"""How often giving a lock back is tried before the user is told that it stays behind."""

FIRST_BEAT_ATTEMPTS_MAX: Final = 3
"""How often the first heartbeat of a writer or an executor is tried."""

INSIST_ATTEMPTS_MAX: Final = 6
"""How often more than once something is tried that must be done while Hudi's lock is held: three seconds in all."""

CONFLICT_RETRIES: Final = 30
"""How often a write is done again because another one was in the way: one of them always gets through, so this is only
reached if thirty others were faster, one after the other."""

ASIDE_SECONDS: Final = 4.0
"""How long a refused write waits at most for others at its file groups before it is done again: some commits of a busy table. A
rival that takes minutes is overtaken then. Of eight writers that rewrite the same file groups and do not wait for earlier ones (as
rows on Spark do not), each puts 14.4 base files per commit with this, 22.5 if it is done again at once; to begin with half a second
and to wait longer after each refusal is no better: 6.1 base files per commit instead of 5.4, where earlier ones are waited for
(benchmarks/politeness.py, one seed for 22.5, four for the others, 2026-11-19)."""

REWRITTEN_BYTES_PER_SECOND: Final = 20 * 1024 * 1024
"""About how fast base files are rewritten: by its own work a write measures how long it waits for one that began before it."""

PATIENT_TIMES: Final = 2
"""A write waits for so many times as long as its own work takes, by its own estimate: others may have more of it, or share a core."""

LIVELY_TIMES: Final = 8
"""It waits for no write that has been at work for so many times as long as its own work takes: most likely its process is dead
or asleep. Eight writers beside one that sleeps make 0.44 commits a second with this, 0.20 if they waited for it, too
(benchmarks/politeness.py, one seed, 2026-11-19)."""

LOOKS_MAX: Final = 4
"""How often a write looks anew where its rows go, because others that it waited for have written since. Eight writers that
rewrite the same file groups put 6.1 base files per commit with this, 5.8 with two looks, and 14.4 if they look once, which is not
to wait for earlier ones at all (benchmarks/politeness.py, four seeds, 2026-11-19); commits per second are about the same where each
has a machine of its own."""

ASIDE_LOOK_SECONDS: Final = 0.08
"""About how often it looks: longer than a beginning takes, so that of several who wait the second sees the first."""

EARLY_LOOK_SECONDS: Final = 1.0
"""Between two looks for others that were faster, while file groups are rewritten. A look takes a few calls, so a tenth of a
second on an object store."""

PLAN_ROLLBACK_DELAY_MS: Final = 60 * 60_000
"""How long a removable plan may wait for its executor before it is rolled back: longer than a queue of services takes,
shorter than what its groups can do without cleaning (RFC-79's `table_service_rollback_delay`)."""

HISTORY_ATTEMPTS_MAX: Final = 100
"""How often an archiver looks again because another one wrote the next manifest first, or the store did not answer."""

HISTORY_MANIFESTS_KEPT: Final = 3
"""Manifests of the history that stay for readers who have just looked at one: Hudi's own number."""

GONE_MS: Final = 60 * 60_000
"""How long late files of a write that was rolled back are reckoned with: tasks of Spark end minutes after their driver.
Until then the timeline is not archived past it, for Hudi takes every file older than its timeline for committed."""

METADATA_KEPT_MS: Final = 60 * 60_000
"""How long files of a metadata table stay that a compaction has taken in: a reader that listed them may be about to read them."""

METADATA_SLICES_KEPT: Final = 2
"""Compactions of a metadata table behind which nothing is removed, however old they are."""

LEASE_INTERVAL_MS: Final = 60_000
"""How often a reader shows that it still needs its files."""

LEASE_MS: Final = 10 * 60_000
"""After this silence a reader's lease no longer protects its files. Too long costs space, too short costs a reader."""

RESTORES_FINISHED_MAX: Final = 8
"""How many unfinished restores a writer brings to their end before it begins: each is the will of a person, so there are few."""

RESTORES_KEPT: Final = 16
"""Finished restores that the ledger remembers, so that a restorer whose answer got lost does not restore twice."""

COMPACT_JOB_ATTEMPTS_MAX: Final = 2
"""Runs of a Spark job that compacts; a cluster repeats failed tasks by itself, a local Spark does not."""

TURN_ROUNDS_LOST: Final = 3
"""After so many lost rounds a service asks the others to wait while it decides: it looks at the whole table in each. Beside
eight writers of single rows a compaction whose look takes 0.1 s needs 1.2 s with this; without it, it loses each of 71 rounds
until the writers stop, who make 28.8 commits a second instead of 25.8 (benchmarks/politeness.py, one seed, 2026-11-19)."""

TURN_MS_MAX: Final = 3000
"""After this time such a wish is void: the process that had it is dead, or slower than others should wait for."""

TURN_WAIT_SECONDS_MAX: Final = 1.0
"""How long one decision waits for those who asked for their turn; looking at a large table takes some tenths of that."""

TURN_LONG_SECONDS_MAX: Final = 8.0
"""How long, if the asking process says that its rounds take so long: a machine with ten busy processes for each core is slow,
and a table that is never compacted is slower. Beside the same eight writers, with 20 ms for each call, a compaction whose look
takes 2 s is done after 12 s; if decisions waited for one second at most, it would lose each round until the writers stop (the same run)."""

VIEW_POLL_SECONDS: Final = 2.0
"""How often a live page asks for news."""

VIEW_REST_FACTOR: Final = 9
"""For so many times as long as reading a table took, the live viewer leaves it alone: a tenth of a core at most."""

AUDIT_LEFTOVER_MS: Final = 60 * 60_000
"""Markers, heartbeats and staged objects of ended writes are untidy after this: until then a process may be about to remove
them. Also how long a decision may be on its way to the timeline."""

AUDIT_AHEAD_MS: Final = 26 * 60 * 60_000
"""An instant this far ahead of the clock is of a wrong clock: zones differ by up to 26 hours."""

ASK_ENTRIES_MAX: Final = 16
"""For so many entries an ask counts, and for so many a state remembers how asks were decided. Any number is as safe; with a small
one an author that is slow to look asks again."""

ASKS_DECIDED_MAX: Final = 256
"""How many asks of others one entry decides; the others wait for the next. Each takes about 300 bytes of an entry."""

ASK_WISH_CHARACTERS_MAX: Final = 180
"""How long a wish may be in the name of an ask: local disks take file names of 255 bytes."""

ASK_NAME_CHARACTERS_MAX: Final = 320
"""No name of an ask is longer, its folder included."""

ASK_CALL_SECONDS_MIN: Final = 0.002
"""Where a listing of the ledger takes less, a lost round costs less than an ask."""

ASK_CALLS_TIMED: Final = 3
"""So many listings in a row must take so long: one that was held up by a busy machine does not make a local disk slow."""

ASK_POLL_SECONDS: Final = (0.02, 0.06)
"""How long a process that has asked waits between two looks: at least and at most. 16 writers with 20 ms for each call publish 22.0
commits a second with asks, 99 % of them within 1.1 s, and 5.0 without, within 12.6 s; 21.9 if they look five times as often, 16.2 if five
times as seldom. This and what is said of the next five: benchmarks/politeness.py, 16 writers with two seeds, 64 of 40 ms with one, 2026-11-19."""

ASK_POLL_SHARE: Final = 0.2
"""And at least this share of what it has waited since something happened; while an entry is copied, as long as the copies take. 64 writers
make 31 calls for a commit with both. Long waits end a fifth later at most."""

ASK_HELP_SECONDS: Final = 0.3
"""After this time a process that has asked decides by itself, though an older ask is there whose author should do so. If it does so
at once, 64 writers make 34 calls for a commit instead of 31; after a second, the slowest of a hundred commits of 16 takes 2.6 s instead of 1.1."""

ASK_HELP_SECONDS_FILE: Final = 0.08
"""And so much later for each copy in a row that brings the newest entry to the timeline: about what one takes. Without it others copy
the same files, and 64 writers make 50 calls for a commit instead of 31."""

ASK_HELP_FILES_MAX: Final = 4
"""An entry of so few files is applied by any process that wants to decide the next: copying them again is as quick as to wait. If
entries of any size are, 64 writers make 45 calls for a commit instead of 31."""

ASK_HELP_SECONDS_EACH: Final = 0.1
"""And so much later for each older ask, so that not all do it at once when its author has died. Among living writers it changes nothing
but that the slowest of a hundred commits of 16 takes 1.1 s instead of 1.6."""

AHEAD_IDLE_SECONDS: Final = 5.0
"""A write that was begun ahead waits so long for its rows, then it is rolled back; and a writer begins none ahead unless its last write
followed on the one before within half that time. One that is used saves its writer three calls of tens of milliseconds, and one that
is not costs some ten; while it is open nothing that began later is archived, and compactions carry deletes on."""
