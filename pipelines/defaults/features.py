"""Use the columns of the rows as features, unchanged."""

from __future__ import annotations

import ibis


def features(rows: ibis.Table) -> ibis.Table:
    """Return `rows` unchanged: they already have the columns of `DATASET.features`."""
    return rows
