# SPDX-License-Identifier: Apache-2.0
"""A person asks to be forgotten while a stream goes on writing: nobody waits, and nothing of the person comes back.

The deletes are a batch of a named writer, so the job may be started again after any failure. Cleaning removes the files
that still hold the rows. Run it with `python examples/gdpr_delete.py`.
"""

import tempfile
from pathlib import Path

import lakebraid as lb

PEOPLE = ("ada", "bob", "eve")
REQUESTED_AT = 1_000
"""In the units of the ordering column."""


def forget(folder: Path) -> dict[str, object]:
    """What was seen on the way."""
    table = lb.Table.create(
        folder / "visits", "id string, ts bigint, person string", record_keys="id", ordering_fields="ts", buckets=2
    )

    def ingest(batch: int) -> None:
        rows = [{"id": f"{person}-{batch}", "ts": batch, "person": person} for person in PEOPLE]
        table.upsert(rows, writer="ingestion", batch=batch)

    for batch in range(5):
        ingest(batch)

    # The request: find the person's rows, and delete them with the time of the request as ordering value.
    before = table.snapshot().completion_time
    found = [{"id": key, "ts": REQUESTED_AT} for key in table.to_arrow(["id"], "person = 'eve'")["id"].to_pylist()]
    open_batch = table.begin(writer="ingestion", batch=5)  # the stream is in the midst of a batch
    open_batch.write([{"id": "ada-5", "ts": 5, "person": "ada"}])
    first = table.delete(found, writer="gdpr", batch=1)
    again = table.delete(found, writer="gdpr", batch=1)  # the job was started twice
    open_batch.commit()

    # A late copy of an old event does not bring the person back: it is older than the request.
    table.upsert([{"id": "eve-2", "ts": 2, "person": "eve"}])
    left = table.count(where="person = 'eve'")

    # From here on not even older versions can be read: what held them is rewritten, and the old files are removed.
    table.compact()
    cleaned = table.clean(commits=1)
    try:
        is_readable = table.snapshot(before) is not None
    except lb.SnapshotExpired:
        is_readable = False
    return {
        "deleted": first.rows_deleted,
        "done twice": not again.is_repeated,
        "rows of eve": left,
        "rows of others": table.count(),
        "files removed": len(cleaned.files),
        "can be looked back": is_readable,
    }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        for what, value in forget(Path(made)).items():
            print(f"{what:20} {value}")
