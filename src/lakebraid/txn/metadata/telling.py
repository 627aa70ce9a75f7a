# SPDX-License-Identifier: Apache-2.0
"""What a commit of a write or of a merging service says in the metadata table, of files that its tasks have staged."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from lakebraid.format.avro.types import parse_avro_schema
from lakebraid.format.timeline.commit import CommitMetadata
from lakebraid.model.metadata.delta import MetadataDelta, delta_of_commit
from lakebraid.model.metadata.scope import metadata_scope
from lakebraid.table.metadata.layout import MetadataLayout
from lakebraid.tasks.staged_file import StagedFile, added_files
from lakebraid.txn.metadata.files import Tell


def telling(files: Iterable[StagedFile], where: str) -> Tell:
    """What these files are to the metadata table as it is in the round that publishes them; UnsupportedTable if it keeps what
    lakebraid does not. `where` is the table, for messages.
    """
    added = added_files(files)

    def tell(content: CommitMetadata, layout: MetadataLayout) -> MetadataDelta:
        columns = pa.schema([]) if content.schema is None else parse_avro_schema(content.schema, where)
        scope = metadata_scope(layout.groups, layout.indexes, columns, where)
        return delta_of_commit(added, scope, touched={*content.write_stats, *content.replaced})

    return tell
