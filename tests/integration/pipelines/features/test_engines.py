"""DuckDB and Spark give the same features, to the byte, in whole weeks and of planted nasty values."""

import datetime as dt
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.lake import Lake
from pipelines.steps.snapshot import SnapshotResult, SnapshotSpec
from pipelines.steps.snapshot import run as snapshot
from pipelines.system.files import sha256

DST = ("2013-03-10", "2013-11-03")
SPLITS = ("train", "validation", "holdout")


def built(commands: Any, engine: str, *more: str) -> Any:
    """A process's own: Spark's JVM stays with its process."""
    done = commands.step("preprocess", "--engine", engine, "--features", engine, *more)
    assert done.code == 0, done.err[-2_000:]
    return json.loads(done.out)


def tables(folder: Path) -> list[pa.Table]:
    return [pq.read_table(folder / name / "data.parquet") for name in SPLITS]


@pytest.mark.usefixtures("java")
def test_whole_weeks_are_the_same_bytes_and_a_packed_window_too(
    commands: Any, in_quarter: Path, tmp_path: Path
) -> None:
    commands.env["LEEWAY_HOME"] = str(in_quarter)
    snapshot(SnapshotSpec(as_of="2013-03-25", train_days=21, holdout_days=14))
    duck, spark = built(commands, "duckdb"), built(commands, "spark")
    assert duck["rows_train"] > 10_000 and duck["rows_holdout"] > 10_000
    assert {**duck, "features": ""} == {**spark, "features": ""}
    assert sha256(tmp_path / "duckdb") == sha256(tmp_path / "spark") == duck["digest"]
    assert commands.step("pack", "--folder", "packed").code == 0
    packed = commands.step("preprocess", "--window", "packed", "--features", "from_packed")
    assert json.loads(packed.out)["digest"] == duck["digest"]


def test_an_error_amid_duckdbs_rows_is_the_one_that_is_told(home: Path, tmp_path: Path) -> None:
    """DuckDB 2.0 refuses to drop the view under an open result, and would tell of that instead."""
    from pipelines.errors import DataError
    from pipelines.features import engines
    from pipelines.window import Days

    rows, day = pa.table({"date": [dt.date(2013, 1, 1)] * 1_000}), dt.date(2013, 1, 1)
    pq.write_table(rows, tmp_path / "rows.parquet")

    def broken() -> None:
        with engines.open_engine("duckdb", [str(tmp_path / "rows.parquet")], rows.schema) as engine:
            batches = engine(lambda told: told, Days(day, day))
            assert next(batches).num_rows
            raise DataError("ours.")

    with pytest.raises(DataError, match="ours"):
        broken()


NASTY = (
    {"carrier": "Ä"}, {"carrier": "é"}, {"carrier": "e\u0301"}, {"carrier": "\U0001f6eb"}, {"carrier": "zz"},
    {"carrier": "Zz"}, {"carrier": ""}, {"carrier": " a"}, {"carrier": "a'b\"c`d"},
    {"sched_dep_time": 2400, "sched_arr_time": 2400}, {"sched_dep_time": 0, "sched_arr_time": 1},
    {"sched_dep_time": 159}, {"sched_dep_time": 200}, {"sched_dep_time": 259}, {"sched_dep_time": -5},
    {"sched_dep_time": None}, {"sched_arr_time": None}, {"plane_year": None, "plane_manufacturer": None},
    {"plane_year": 0}, {"distance": None}, {"dest": None}, {"dest": ""}, {"distance": 2**31 - 1}, {"distance": -1},
    {"weather_temp": float("nan")}, {"weather_temp": float("inf")}, {"weather_temp": -0.0}, {"weather_temp": 5e-324},
    {"weather_temp": None}, {"plane_manufacturer": "日本\n\t飛行機"}, {"late": None}, {"late": None, "distance": 7},
)  # fmt: skip


def nasty(rows: pa.Table, day: str) -> pa.Table:
    """The day with nasty rows in its first places, each with a flight number of its own."""
    told = rows.to_pylist()
    for number, changed in enumerate(NASTY):
        told[number] |= {"late": True, "flight": 900_000 + number, "date": dt.date.fromisoformat(day), **changed}
    return pa.Table.from_pylist(told, rows.schema)


@pytest.fixture
def planted(home: Path, day_rows: Callable[[str], pa.Table]) -> SnapshotResult:
    """A window of both days on which the clocks change and two others, the days of the table far apart."""
    lake = Lake.open()
    days = (*DST, "2013-11-04", "2013-11-06")
    for day in days:
        lake.write_partition("flights", dt.date.fromisoformat(day), nasty(day_rows(day), day))
    told = SnapshotResult(
        dataset="flights", table="flights",
        snapshot_id=lake.pin_window("flights", dt.date(2013, 1, 1), dt.date(2013, 12, 1)),
        as_of="2013-11-08", train_first=days[0], train_last=days[2], holdout_first=days[3], holdout_last=days[3],
        rows=0, missing_days=0,
    )  # fmt: skip
    Path("data").mkdir()
    Path("data/snapshot.json").write_text(told.model_dump_json())
    return told


@pytest.mark.usefixtures("java")
def test_planted_nasty_values_are_the_same(commands: Any, planted: SnapshotResult, tmp_path: Path) -> None:
    days = ("--validation-days", "1")
    duck, spark = built(commands, "duckdb", *days), built(commands, "spark", *days)
    for one, two in zip(tables(tmp_path / "duckdb"), tables(tmp_path / "spark"), strict=True):
        assert one.schema.equals(two.schema, check_metadata=True)
        for name in one.column_names:
            assert [repr(value) for value in one[name].to_pylist()] == [repr(value) for value in two[name].to_pylist()]
    assert duck["digest"] == spark["digest"]
    train = {row["flight"]: row for row in tables(tmp_path / "spark")[0].to_pylist() if row["date"].month == 3}
    by_hand = {number: train.get(900_000 + number) for number in range(len(NASTY))}
    assert by_hand[9]["departs_minute"] == 24 * 60 and by_hand[10]["departs_minute"] == 0
    assert by_hand[15]["departs_minute"] is None and by_hand[17]["plane_age"] is None
    assert by_hand[3]["carrier"] == "\U0001f6eb" and by_hand[29]["plane_manufacturer"] == "日本\n\t飛行機"
    assert by_hand[30] is None and by_hand[31] is None, "no label"


@pytest.mark.usefixtures("java")
def test_added_and_widened_columns_of_older_files(commands: Any, home: Path, day_rows: Any, tmp_path: Path) -> None:
    lake = Lake.open()
    days = [dt.date(2013, 1, n) for n in range(5, 14)]
    for day in days:
        rows = day_rows(day.isoformat())
        if day.day > 8:
            at = rows.schema.get_field_index("distance")
            rows = rows.set_column(at, "distance", rows["distance"].cast(pa.int64()))
            rows = rows.append_column("gate", pa.array(["A1"] * rows.num_rows))
        lake.write_partition("flights", day, rows)
    snapshot(SnapshotSpec(as_of="2013-01-15", train_days=5, holdout_days=3, min_train_days=2))
    days_apart = ("--validation-days", "2")
    assert built(commands, "duckdb", *days_apart)["digest"] == built(commands, "spark", *days_apart)["digest"]


def test_a_machine_without_java_or_pyspark_is_told_so(commands: Any, in_quarter: Path, tmp_path: Path) -> None:
    commands.env["LEEWAY_HOME"] = str(in_quarter)
    snapshot(SnapshotSpec(as_of="2013-01-25", train_days=12, holdout_days=6, min_train_days=4))
    no_java = commands.step("preprocess", "--engine", "spark", env={"JAVA_HOME": str(tmp_path)})
    assert no_java.code == 2 and "error: engine spark needs Java 17" in no_java.err
    (tmp_path / "hide").mkdir()
    (tmp_path / "hide" / "pyspark.py").write_text("raise ModuleNotFoundError('hidden', name='pyspark')")
    path = f"{tmp_path / 'hide'}:{commands.env['PYTHONPATH']}"
    hidden = commands.step("preprocess", "--engine", "spark", env={"PYTHONPATH": path}, is_real=True)
    assert hidden.code == 2 and "pyspark is not installed" in hidden.err
    assert not Path("data/features").exists()


@pytest.mark.usefixtures("java")
def test_the_processing_entry_needs_no_lake(commands: Any, in_quarter: Path, tmp_path: Path) -> None:
    """What its container must have is what its docs list: no Iceberg, no DuckDB extension, no catalog."""
    commands.env["LEEWAY_HOME"] = str(in_quarter)
    snapshot(SnapshotSpec(as_of="2013-01-25", train_days=12, holdout_days=6, min_train_days=4))
    base = tmp_path / "ml"
    window = base / "processing/input/window"
    assert commands.step("pack", "--folder", str(window)).code == 0
    code = (
        "import sys; sys.modules.update(dict.fromkeys(['pyiceberg', 'mlflow', 'dvc', 'great_expectations', 'boto3']))\n"
        "sys.argv = ['x', *sys.argv[1:]]\nfrom pipelines.container.processing import main\nmain()"
    )
    env = {"SAGEMAKER_BASE_DIR": str(base)}
    done = commands.run(sys.executable, "-c", code, "--engine", "spark", "--validation-days", "2", env=env)
    assert done.code == 0, done.err[-2_000:]
    told = json.loads((base / "processing/output/result.json").read_text())
    assert told["digest"] == sha256(base / "processing/output/features")
    next((window / "rows").glob("*.parquet")).unlink()
    broken = commands.run(sys.executable, "-c", code, "--engine", "spark", env=env)
    assert broken.code == 2
    assert (base / "output/message").read_text().startswith("[exit 2] ")
    assert "Pack it again" in (base / "output/message").read_text()
    assert not (base / "processing/output/result.json").exists()
