"""Use the columns of the rows as features, as they are."""

from __future__ import annotations

import ibis


def features(rows: ibis.Table) -> ibis.Table:
    """Return `rows`, which have the columns of `DATASET.features` already."""
    return rows
