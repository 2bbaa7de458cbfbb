"""Test what is taken for a decimal comma in a sample of texts."""

import pyarrow as pa
import pytest

from pipelines.scaffold.columns import infer_columns
from pipelines.scaffold.decimals import find_decimal_point


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"price": ["269,59", "1", "-7,5", "", "NA"]}, ","),
        ({"price": ["1,2345"], "name": ["a,b"]}, ","),
        ({"price": ["269.59", "1"]}, "."),
        ({"price": ["1,234", "12,345"]}, "."),  # thousands, or three decimals: nobody can tell
        ({"price": ["1,234", "12,34"]}, ","),
        ({"price": ["1.234,56"]}, "."),
        ({"name": ["a,5", "1,5"]}, "."),
        ({"count": ["1", "2"]}, "."),
        ({"empty": ["", ""]}, "."),
    ],
)
def test_a_comma_is_found_where_all_values_are_numbers(columns: dict[str, list[str]], expected: str) -> None:
    table = pa.table({name: pa.array(texts, pa.string()) for name, texts in columns.items()})
    assert find_decimal_point("file.csv", table) == expected


def test_a_file_with_commas_and_points_is_read_with_points(caplog: pytest.LogCaptureFixture) -> None:
    table = pa.table({"price": ["1,5", "2,75"], "weight": ["1.5", "2.75"]})
    with caplog.at_level("WARNING"):
        assert find_decimal_point("file.csv", table) == "."
    assert "file.csv: column price has decimal commas, and column weight decimal points: price is read" in caplog.text


def test_numbers_with_decimal_commas_are_numbers() -> None:
    table = pa.table({"price": [f"{number},25" for number in range(40)] + ["NA"], "zip": ["01,5"] * 41})
    price, code = infer_columns(table, decimal_point=",")
    assert (price.kind, price.values[1].as_py(), price.missing_count) == ("number", 1.25, 1)
    assert code.kind == "constant" and pa.types.is_string(code.type), "a code with a leading zero is not a number"
    assert infer_columns(table)[0].kind == "id", "what it was before, and what it is in a file with points"
