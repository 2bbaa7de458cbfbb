"""What a partition's new rows change of its old ones."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyiceberg.table import DataScan

from pipelines.duck import connected, quoted, spill_folder, view_of
from pipelines.lake import views
from pipelines.lake.commits import Changes
from pipelines.lake.spool import Spool

_COUNTS = """
WITH came AS (SELECT * FROM has EXCEPT ALL SELECT * FROM had),
     went AS (SELECT * FROM had EXCEPT ALL SELECT * FROM has)
SELECT (SELECT count(*) FROM came), (SELECT count(*) FROM went), {changed}
"""
_CHANGED = "(SELECT count(*) FROM (SELECT {key} FROM came INTERSECT ALL SELECT {key} FROM went))"


def between(old: DataScan, spool: Spool, key: Sequence[str]) -> Changes:
    """How the spool's rows differ from those of the scan, as multisets: their order does not matter.

    Args:
        old: the partition as it is.
        spool: the partition as it would be.
        key: columns that name a row; where it is empty, a changed row is one removed and one added.
    """
    schema = _both(views.columns_of(old), spool.schema)
    named = ", ".join(quoted(one) for one in key)
    counts = _COUNTS.format(changed=_CHANGED.format(key=named) if key else "0")
    with (
        connected() as connection,
        spill_folder() as folder,
        views.view(connection, "had", old, schema),
        view_of(connection, "has", views.at_hand(old.io, spool.paths, folder), schema),
    ):
        came, went, changed = connection.execute(counts).fetchone() or (0, 0, 0)
    return Changes(added=came - changed, removed=went - changed, changed=changed)


def _both(had: pa.Schema, has: pa.Schema) -> pa.Schema:
    """All columns, as the new rows have them where they do."""
    kinds = {one.name: one.type for one in had} | {one.name: one.type for one in has}
    return pa.schema(list(kinds.items()))
