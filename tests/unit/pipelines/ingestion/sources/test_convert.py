"""Test that an error about a value that does not fit names its row."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from pipelines.errors import DataError
from pipelines.ingestion.sources.convert import Position, Zone, build_array


@pytest.mark.parametrize(
    ("values", "data_type", "row"),
    [
        ([1, "a"], None, 2),
        ([None, 1, "a"], None, 3),
        ([None, None, 1, "a"], None, 4),
        ([None, 1, "a"], pa.int64(), 3),
        ([None, "a", 1], pa.int64(), 2),
    ],
)
def test_the_error_names_the_row_of_the_first_value_that_does_not_fit(
    values: list[Any], data_type: pa.DataType | None, row: int
) -> None:
    with pytest.raises(DataError, match=f"orders.json: row {row}, column price: "):
        build_array(values, data_type, Zone(), "price", Position("orders.json"))
