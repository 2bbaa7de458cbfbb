"""Convert a text column with two values, in the rows of a source, to true and false (TrueFalse)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.errors import DataError
from pipelines.source import Description, Source, read_once
from pipelines.window import Days, Unit


@dataclass(frozen=True)
class TrueFalse:
    """Rows of another source. A column of two texts becomes true and false, for example the label of a binary model.

    Args:
        source: another source, which has the column as text.
        column: name of the column.
        true: text that becomes true.
        false: text that becomes false. A missing value stays missing; any other text is refused.
    """

    source: Source
    column: str
    true: str
    false: str

    def describe(self) -> Description:
        """Return what the other source reads."""
        return self.source.describe()

    def list_partitions(self, days: Days) -> Sequence[Any]:
        """List the partitions of the other source within `days`."""
        return self.source.list_partitions(days)

    @property
    def partition(self) -> Unit:
        """Unit of the partitions of the other source."""
        return getattr(self.source, "partition", "day")

    def find_day_range(self) -> Days | None:
        """Return the first and the last day of the other source; None if they are not known."""
        find_day_range: Any = getattr(self.source, "find_day_range", None)
        return find_day_range() if find_day_range else None

    @contextmanager
    def read_once(self, partitions: Collection[Any]) -> Iterator[Source]:
        """Yield a copy of this source for some partitions, which reads a file of many partitions only once."""
        with read_once(self.source, partitions) as source:
            yield replace(self, source=source)

    def read(self, partition: Any) -> pa.RecordBatchReader:
        """Read the rows of one partition, with the column as booleans.

        Raises:
            DataError: the column is missing, or has another text. Raised here or while the returned reader is read. A
                retry cannot help. The errors of the other source are raised as well.
        """
        reader = self.source.read(partition)
        index = reader.schema.get_field_index(self.column)
        if index < 0:
            raise DataError(f"{self.source.describe().location} lacks the column {self.column}.")
        schema = reader.schema.set(index, pa.field(self.column, pa.bool_()))
        return pa.RecordBatchReader.from_batches(schema, self._convert_batches(reader, index))

    def _convert_batches(self, reader: pa.RecordBatchReader, column_index: int) -> Iterator[pa.RecordBatch]:
        for batch in reader:
            values = batch.column(column_index)
            is_known = pc.fill_null(pc.is_in(values, value_set=pa.array([self.true, self.false])), False)
            index = pc.index(pc.or_(is_known, pc.is_null(values)), False).as_py()  # of the first bad value
            if index >= 0:
                message = f"{self.source.describe().location}: column {self.column}: {values[index].as_py()!r}"
                raise DataError(f"{message} is neither {self.true!r} nor {self.false!r}.", "Correct the source.")
            yield batch.set_column(column_index, self.column, pc.equal(values, self.true))
