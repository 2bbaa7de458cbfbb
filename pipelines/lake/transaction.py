"""A transaction of pyiceberg that looks at a table's metadata once a change, not seventeen times a commit."""

from __future__ import annotations

from typing import Any

from pyiceberg.table import Transaction
from pyiceberg.table.metadata import TableMetadata


class CachingTransaction(Transaction):
    """As pyiceberg's. Its `table_metadata` copies all snapshots at each look (0.12): 35 ms where there are 365."""

    _seen: tuple[tuple[int, int], Any] = ((0, 0), None)

    @property
    def table_metadata(self) -> TableMetadata:
        """The table's metadata with the changes so far."""
        now = (id(self._table.metadata), len(self._updates))
        if self._seen[0] != now:
            self._seen = (now, super().table_metadata)
        return self._seen[1]
