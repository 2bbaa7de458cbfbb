"""Execute the recipes of docs/how-to/partitions.md for files without a date column, on files as they describe them."""

import datetime as dt
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pipelines.errors import SpecError
from pipelines.ingestion.sources import FileSource
from pipelines.partitions import Month
from pipelines.window import Days

PAGE = Path(__file__).parents[5] / "docs/how-to/partitions.md"
JANUARY = Days(dt.date(2013, 1, 1), dt.date(2013, 1, 31))
DAY = dt.date(2013, 1, 2)


def list_recipes() -> list[str]:
    """List the code of the section's Python blocks."""
    section = PAGE.read_text(encoding="utf-8").partition("## Files without a date column")[2]
    return re.findall(r"```python\n(.*?)```", section, re.DOTALL)


@pytest.fixture
def read_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the function that writes files below deliveries/, and returns the source that a recipe makes."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "deliveries").mkdir()

    def make_source(number: int, **files: str) -> FileSource:
        for name, text in files.items():
            (tmp_path / "deliveries" / f"{name}.csv").write_text(text)
        names: dict[str, Any] = {"FileSource": FileSource, "pa": pa}
        exec(list_recipes()[number], names)
        return names["source"]

    return make_source


def test_the_page_has_four_recipes() -> None:
    assert len(list_recipes()) == 4


def test_a_file_for_each_day_with_the_day_in_its_name(read_recipe: Any) -> None:
    source = read_recipe(0, orders_20130102="id,price\n1,2.5\n", orders_20130104="id,price\n2,3\n")
    assert source.list_partitions(JANUARY) == [DAY, dt.date(2013, 1, 4)]
    assert source.read(DAY).read_all().to_pylist() == [{"id": 1, "price": 2.5, "date": DAY}]


def test_one_file_with_a_timestamp_in_each_row(read_recipe: Any) -> None:
    """23:30 in New York is the next day in UTC, and belongs to the shop's own day."""
    source = read_recipe(1, orders="id,ordered\n1,2013-01-02 23:30:00\n2,2013-01-03 00:10:00\n")
    assert source.list_partitions(JANUARY) == [DAY, dt.date(2013, 1, 3)]
    (row,) = source.read(DAY).read_all().to_pylist()
    assert row == {"id": 1, "ordered": dt.datetime(2013, 1, 3, 4, 30, tzinfo=dt.UTC), "date": DAY}


def test_a_file_of_each_month_with_the_day_in_a_column(read_recipe: Any) -> None:
    source = read_recipe(2, **{"orders-2013-01": "id,day\n1,2013-01-02\n"})
    month = Month(dt.date(2013, 1, 1))
    assert source.list_partitions(JANUARY) == [month]
    assert source.read(month).read_all().to_pylist() == [{"id": 1, "day": DAY, "date": month.first}]


def test_a_file_without_any_time_is_refused_until_its_name_has_the_day_of_the_delivery(read_recipe: Any) -> None:
    with pytest.raises(SpecError, match=r"the address has no \{date\}, and day= is not set"):
        FileSource("deliveries/customers.csv", "csv", columns={"id": pa.int64()})
    source = read_recipe(3, **{"customers-2013-01-02": "id\n1\n", "customers-2013-01-03": "id\n1\n2\n"})
    assert source.read(DAY).read_all().to_pylist() == [{"id": 1, "date": DAY}]
    assert source.read(dt.date(2013, 1, 3)).read_all().num_rows == 2
