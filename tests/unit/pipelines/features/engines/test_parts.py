"""Test that a window is computed in parts of days only where this cannot change a value."""

import datetime as dt
from collections.abc import Callable
from pathlib import Path

import ibis
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.datasets.flights import DATASET
from pipelines.features import building
from pipelines.features.engines import duck, parts
from pipelines.system.duckdb_session import replace_view
from pipelines.window import Days

DAYS = ("2013-01-01", "2013-01-02", "2013-01-03")
ALL = Days(dt.date(2013, 1, 1), dt.date(2013, 1, 3))


@pytest.fixture(scope="module")
def rows() -> ibis.Table:
    return ibis.duckdb.connect().create_table("rows", schema={"date": "date", "n": "int64"})


def sum_over(rows: ibis.Table, day: ibis.Column) -> ibis.Table:
    return rows.mutate(of_day=rows.n.sum().over(group_by=[day])).order_by("date")


def sum_by_date(rows: ibis.Table) -> ibis.Table:
    return sum_over(rows, rows.date)


BY_DAY: dict[str, Callable[[ibis.Table], ibis.Table]] = {
    "row by row": lambda rows: rows.mutate(m=rows.n + 1).filter(rows.n > 1).order_by("date", "n"),
    "window of a day": sum_by_date,
    "day through projections": lambda rows: sum_by_date(rows.mutate(m=1).drop("m").filter(rows.n > 1)),
}
ACROSS_DAYS: dict[str, Callable[[ibis.Table], ibis.Table]] = {
    "not sorted": lambda rows: rows.mutate(m=rows.n + 1),
    "sorted by another column": lambda rows: rows.order_by("n", "date"),
    "sorted in reverse": lambda rows: rows.order_by(rows.date.desc()),
    "window over all": lambda rows: rows.mutate(m=rows.n.sum().over()).order_by("date"),
    "window of another column": lambda rows: sum_over(rows, rows.n),
    "window of the month": lambda rows: sum_over(rows, rows.date.month()),
    "another column named date": lambda rows: rows.mutate(date=rows.date.truncate("M")).pipe(sum_by_date),
    "shifted": lambda rows: rows.mutate(m=rows.n.lag().over(order_by=rows.date)).order_by("date"),
    "mean of all": lambda rows: rows.mutate(m=rows.n - rows.n.mean()).order_by("date"),
    "scalar of all": lambda rows: rows.mutate(m=rows.n - rows.aggregate(x=rows.n.max()).as_scalar()).order_by("date"),
    "joined": lambda rows: rows.join(rows.group_by("n").agg(m=rows.count()), "n").order_by("date"),
    "limited": lambda rows: rows.limit(5).order_by("date"),
    "distinct": lambda rows: rows.distinct().order_by("date"),
}  # fmt: skip


@pytest.mark.parametrize("name", BY_DAY)
def test_an_expression_over_single_days_is_recognized(name: str, rows: ibis.Table) -> None:
    assert parts.is_computed_by_day(BY_DAY[name](rows))


@pytest.mark.parametrize("name", ACROSS_DAYS)
def test_an_expression_over_several_days_is_recognized(name: str, rows: ibis.Table) -> None:
    assert not parts.is_computed_by_day(ACROSS_DAYS[name](rows))


def build_file(first: int, last: int, rows: int, path: str) -> parts.File:
    return parts.File(dt.date(2013, 1, first), dt.date(2013, 1, last), path, rows)


def test_files_that_share_a_day_and_small_files_are_one_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "PART_ROWS", 10)
    files = [
        build_file(1, 4, 99, "a"),
        build_file(2, 2, 1, "b"),
        build_file(4, 5, 1, "c"),
        build_file(6, 6, 9, "d"),
        build_file(7, 7, 9, "e"),
    ]
    files.append(build_file(8, 8, 1, "f"))
    assert parts.split_by_days(files, Days(dt.date(2013, 1, 1), dt.date(2013, 1, 9))) == [
        ["a", "b", "c"],
        ["d", "e"],
        ["f"],
    ]
    assert parts.split_by_days(files, Days(dt.date(2013, 1, 5), dt.date(2013, 1, 6))) == [["c", "d"]]
    assert parts.split_by_days(files, Days(dt.date(2013, 2, 1), dt.date(2013, 2, 2))) == []


def test_a_file_without_statistics_may_contain_any_day(tmp_path: Path) -> None:
    rows = pa.table({"n": [1, 2], "date": [dt.date(2013, 1, 2), dt.date(2013, 1, 4)]})
    pq.write_table(rows, tmp_path / "a", row_group_size=1)
    pq.write_table(rows, tmp_path / "b", write_statistics=False)
    pq.write_table(rows.drop_columns("date"), tmp_path / "c")
    ranges = {
        Path(file.path).name: (file.first, file.last, file.rows)
        for file in parts.list_files_by_day([f"{tmp_path}/{n}" for n in "abc"])
    }
    unknown = (dt.date.min, dt.date.max, 2)
    assert ranges == {"a": (dt.date(2013, 1, 2), dt.date(2013, 1, 4), 2), "b": unknown, "c": unknown}


@pytest.fixture
def paths(tmp_path: Path, day_rows: Callable[[str], pa.Table]) -> list[str]:
    """Write one file for each day, with names in reverse order of the days."""
    for number, day in enumerate(reversed(DAYS)):
        pq.write_table(day_rows(day), tmp_path / f"{number}.parquet")
    return [str(tmp_path / f"{number}.parquet") for number in range(len(DAYS))]


def build(paths: list[str], expression: Callable[[ibis.Table], ibis.Table]) -> pa.Table:
    with duck.open_engine(paths, pq.read_schema(paths[0])) as run:
        return pa.Table.from_batches(run(expression, ALL)).combine_chunks()


def test_parts_give_the_same_rows_as_the_whole_window(
    home: Path, paths: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def build_labelled_features(rows: ibis.Table) -> ibis.Table:
        return building.build_labelled_features(DATASET, rows)

    expected, requests = build(paths, build_labelled_features), []
    monkeypatch.setattr(parts, "PART_ROWS", 1)
    monkeypatch.setattr(
        duck, "replace_view", lambda *arguments: requests.append(arguments[2]) or replace_view(*arguments)
    )
    assert build(paths, build_labelled_features).equals(expected)
    assert requests == [[path] for path in reversed(paths)], "each day is one part"


def test_an_expression_over_several_days_is_computed_in_one_part(
    home: Path, paths: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "PART_ROWS", 1)

    def count_rows(rows: ibis.Table) -> ibis.Table:
        return rows.mutate(everything=rows.count().over()).order_by("date")

    table = build(paths, count_rows)
    assert set(table["everything"].to_pylist()) == {table.num_rows}
    monkeypatch.setattr(duck, "is_computed_by_day", lambda expression: True)
    assert set(build(paths, count_rows)["everything"].to_pylist()) != {table.num_rows}, (
        "the negative control: a part of the days has fewer rows"
    )
