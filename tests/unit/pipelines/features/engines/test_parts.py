"""A window goes by parts of days only where that cannot change a value."""

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
from pipelines.window import Days

DAYS = ("2013-01-01", "2013-01-02", "2013-01-03")
ALL = Days(dt.date(2013, 1, 1), dt.date(2013, 1, 3))


@pytest.fixture(scope="module")
def rows() -> ibis.Table:
    return ibis.duckdb.connect().create_table("rows", schema={"date": "date", "n": "int64"})


def ranked(rows: ibis.Table, day: ibis.Column) -> ibis.Table:
    return rows.mutate(of_day=rows.n.sum().over(group_by=[day])).order_by("date")


def own(rows: ibis.Table) -> ibis.Table:
    return ranked(rows, rows.date)


GOOD: dict[str, Callable[[ibis.Table], ibis.Table]] = {
    "row by row": lambda rows: rows.mutate(m=rows.n + 1).filter(rows.n > 1).order_by("date", "n"),
    "window of a day": own,
    "day through projections": lambda rows: own(rows.mutate(m=1).drop("m").filter(rows.n > 1)),
}
BAD: dict[str, Callable[[ibis.Table], ibis.Table]] = {
    "not sorted": lambda rows: rows.mutate(m=rows.n + 1),
    "sorted by another": lambda rows: rows.order_by("n", "date"),
    "sorted downwards": lambda rows: rows.order_by(rows.date.desc()),
    "window over all": lambda rows: rows.mutate(m=rows.n.sum().over()).order_by("date"),
    "window of another": lambda rows: ranked(rows, rows.n),
    "window of the month": lambda rows: ranked(rows, rows.date.month()),
    "another column named date": lambda rows: rows.mutate(date=rows.date.truncate("M")).pipe(own),
    "shifted": lambda rows: rows.mutate(m=rows.n.lag().over(order_by=rows.date)).order_by("date"),
    "mean of all": lambda rows: rows.mutate(m=rows.n - rows.n.mean()).order_by("date"),
    "scalar of all": lambda rows: rows.mutate(m=rows.n - rows.aggregate(x=rows.n.max()).as_scalar()).order_by("date"),
    "joined": lambda rows: rows.join(rows.group_by("n").agg(m=rows.count()), "n").order_by("date"),
    "limited": lambda rows: rows.limit(5).order_by("date"),
    "distinct": lambda rows: rows.distinct().order_by("date"),
}  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
def test_what_is_made_of_its_own_day_is_seen(name: str, rows: ibis.Table) -> None:
    assert parts.is_computed_by_day(GOOD[name](rows))


@pytest.mark.parametrize("name", BAD)
def test_what_looks_beyond_its_day_is_seen(name: str, rows: ibis.Table) -> None:
    assert not parts.is_computed_by_day(BAD[name](rows))


def file(first: int, last: int, rows: int, path: str) -> parts.File:
    return parts.File(dt.date(2013, 1, first), dt.date(2013, 1, last), path, rows)


def test_files_that_share_a_day_are_one_part_and_small_ones_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "PART_ROWS", 10)
    some = [file(1, 4, 99, "a"), file(2, 2, 1, "b"), file(4, 5, 1, "c"), file(6, 6, 9, "d"), file(7, 7, 9, "e")]
    some.append(file(8, 8, 1, "f"))
    assert parts.split_by_days(some, Days(dt.date(2013, 1, 1), dt.date(2013, 1, 9))) == [
        ["a", "b", "c"],
        ["d", "e"],
        ["f"],
    ]
    assert parts.split_by_days(some, Days(dt.date(2013, 1, 5), dt.date(2013, 1, 6))) == [["c", "d"]]
    assert parts.split_by_days(some, Days(dt.date(2013, 2, 1), dt.date(2013, 2, 2))) == []


def test_a_file_without_statistics_may_be_of_any_day(tmp_path: Path) -> None:
    rows = pa.table({"n": [1, 2], "date": [dt.date(2013, 1, 2), dt.date(2013, 1, 4)]})
    pq.write_table(rows, tmp_path / "a", row_group_size=1)
    pq.write_table(rows, tmp_path / "b", write_statistics=False)
    pq.write_table(rows.drop_columns("date"), tmp_path / "c")
    told = {
        Path(one.path).name: (one.first, one.last, one.rows)
        for one in parts.read_days_of_files([f"{tmp_path}/{n}" for n in "abc"])
    }
    anything = (dt.date.min, dt.date.max, 2)
    assert told == {"a": (dt.date(2013, 1, 2), dt.date(2013, 1, 4), 2), "b": anything, "c": anything}


@pytest.fixture
def paths(tmp_path: Path, day_rows: Callable[[str], pa.Table]) -> list[str]:
    """A file a day, named against their order."""
    for number, day in enumerate(reversed(DAYS)):
        pq.write_table(day_rows(day), tmp_path / f"{number}.parquet")
    return [str(tmp_path / f"{number}.parquet") for number in range(len(DAYS))]


def built(paths: list[str], expression: Callable[[ibis.Table], ibis.Table]) -> pa.Table:
    with duck.open_engine(paths, pq.read_schema(paths[0])) as run:
        return pa.Table.from_batches(run(expression, ALL)).combine_chunks()


def test_parts_give_what_the_whole_gives(home: Path, paths: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def labelled(rows: ibis.Table) -> ibis.Table:
        return building.build_labelled(DATASET, rows)

    whole, asked, real = built(paths, labelled), [], duck.replace_view
    monkeypatch.setattr(parts, "PART_ROWS", 1)
    monkeypatch.setattr(duck, "replace_view", lambda *given: asked.append(given[2]) or real(*given))
    assert built(paths, labelled).equals(whole)
    assert asked == [[path] for path in reversed(paths)], "a part a day"


def test_what_looks_at_other_days_goes_whole(home: Path, paths: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "PART_ROWS", 1)

    def counted(rows: ibis.Table) -> ibis.Table:
        return rows.mutate(everything=rows.count().over()).order_by("date")

    whole = built(paths, counted)
    assert set(whole["everything"].to_pylist()) == {whole.num_rows}
    monkeypatch.setattr(duck, "is_computed_by_day", lambda made: True)
    assert set(built(paths, counted)["everything"].to_pylist()) != {whole.num_rows}, "the control sees a wrong answer"
