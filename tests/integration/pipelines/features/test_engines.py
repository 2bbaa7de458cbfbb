"""Test that DuckDB and Spark give byte-identical features, of whole weeks and of unusual values."""

import datetime as dt
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.lake import Lake
from pipelines.steps.snapshot import SnapshotResult, SnapshotSpec
from pipelines.steps.snapshot import run as snapshot
from pipelines.system.files import sha256
from tests.tools import forking
from tests.tools.groups import end_group

ROOT = Path(__file__).parents[4]
CLOCK_CHANGES = ("2013-03-10", "2013-11-03")
SPLITS = ("train", "validation", "holdout")


SERVER_CODE = """
import json, os, sys
responses = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
from pipelines.settings import settings
from pipelines.steps.preprocess import PreprocessSpec, run

for line in sys.stdin:
    home, folder, fields = json.loads(line)
    os.environ["LEEWAY_HOME"] = home
    settings.cache_clear()
    os.chdir(folder)
    print(run(PreprocessSpec(**fields)).model_dump_json(), file=responses, flush=True)
"""


@pytest.fixture(scope="module")
def preprocess(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Any]]:
    """Return the function that runs `preprocess` with an engine, in the working directory, and returns its result.

    One process runs all calls, so its JVM starts only once: the start takes longer than the features of a small window.
    """
    log_file = tmp_path_factory.mktemp("engines") / "log"
    with log_file.open("wb") as log:
        env = {**os.environ, "PYTHONPATH": str(ROOT), "LEEWAY_PROJECT": str(ROOT)}
        options: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": log}
        server = forking.Popen(
            [sys.executable, "-c", SERVER_CODE], env=env, text=True, start_new_session=True, **options
        )

    def run(engine: str, **fields: Any) -> Any:
        request = [os.environ["LEEWAY_HOME"], str(Path.cwd()), {"engine": engine, "features": engine, **fields}]
        server.stdin.write(json.dumps(request) + "\n")
        server.stdin.flush()
        response = server.stdout.readline()
        assert response, log_file.read_text()[-2_000:]
        return json.loads(response)

    yield run
    end_group(server)
    for pipe in (server.stdin, server.stdout):
        pipe.close()


def read_splits(folder: Path) -> list[pa.Table]:
    """Return the tables of the train, validation and holdout splits."""
    return [pq.read_table(folder / name / "data.parquet") for name in SPLITS]


@pytest.mark.usefixtures("java")
def test_engines_give_identical_features_of_whole_weeks_and_of_a_packed_window(
    preprocess: Callable[..., Any], commands: Any, quarter_home: Path, tmp_path: Path
) -> None:
    commands.env["LEEWAY_HOME"] = str(quarter_home)
    snapshot(SnapshotSpec(dataset="flights", as_of="2013-03-25", train_days=21, holdout_days=14))
    duck, spark = preprocess("duckdb"), preprocess("spark")
    assert duck["rows_train"] > 10_000 and duck["rows_holdout"] > 10_000
    assert {**duck, "features": ""} == {**spark, "features": ""}
    assert sha256(tmp_path / "duckdb") == sha256(tmp_path / "spark") == duck["digest"]
    assert commands.run_step("pack", "--folder", "packed").code == 0
    packed_process = commands.run_step("preprocess", "--window", "packed", "--features", "from_packed")
    assert json.loads(packed_process.out)["digest"] == duck["digest"]


def test_an_error_between_duckdbs_batches_reaches_the_caller(home: Path, tmp_path: Path) -> None:
    """DuckDB 2.0 refuses to drop a view that an open result reads. That error must not replace the first one."""
    from pipelines.errors import DataError
    from pipelines.features import engines
    from pipelines.window import Days

    rows, day = pa.table({"date": [dt.date(2013, 1, 1)] * 1_000}), dt.date(2013, 1, 1)
    pq.write_table(rows, tmp_path / "rows.parquet")

    def raise_between_batches() -> None:
        with engines.open_engine("duckdb", [str(tmp_path / "rows.parquet")], rows.schema) as engine:
            batches = engine(lambda rows: rows, Days(day, day))
            assert next(batches).num_rows
            raise DataError("first error.")

    with pytest.raises(DataError, match="first error"):
        raise_between_batches()


UNUSUAL_VALUES = (
    {"carrier": "Ä"}, {"carrier": "é"}, {"carrier": "e\u0301"}, {"carrier": "\U0001f6eb"}, {"carrier": "zz"},
    {"carrier": "Zz"}, {"carrier": ""}, {"carrier": " a"}, {"carrier": "a'b\"c`d"},
    {"sched_dep_time": 2400, "sched_arr_time": 2400}, {"sched_dep_time": 0, "sched_arr_time": 1},
    {"sched_dep_time": 159}, {"sched_dep_time": 200}, {"sched_dep_time": 259}, {"sched_dep_time": -5},
    {"sched_dep_time": None}, {"sched_arr_time": None}, {"plane_year": None, "plane_manufacturer": None},
    {"plane_year": 0}, {"distance": None}, {"dest": None}, {"dest": ""}, {"distance": 2**31 - 1}, {"distance": -1},
    {"weather_temp": float("nan")}, {"weather_temp": float("inf")}, {"weather_temp": -0.0}, {"weather_temp": 5e-324},
    {"weather_temp": None}, {"plane_manufacturer": "日本\n\t飛行機"}, {"late": None}, {"late": None, "distance": 7},
)  # fmt: skip


def add_unusual_values(rows: pa.Table, day: str) -> pa.Table:
    """Give the first rows of a day unusual values, and flight numbers from 900,000 on. Return all its rows."""
    records = rows.to_pylist()
    for number, values in enumerate(UNUSUAL_VALUES):
        records[number] |= {"late": True, "flight": 900_000 + number, "date": dt.date.fromisoformat(day), **values}
    return pa.Table.from_pylist(records, rows.schema)


@pytest.fixture
def unusual_window(home: Path, day_rows: Callable[[str], pa.Table]) -> SnapshotResult:
    """Publish four days and pin them as a window; return its snapshot. On two of the days the clocks are changed."""
    lake = Lake.open()
    days = (*CLOCK_CHANGES, "2013-11-04", "2013-11-06")
    for day in days:
        lake.write_partition("flights", dt.date.fromisoformat(day), add_unusual_values(day_rows(day), day))
    result = SnapshotResult(
        dataset="flights", table="flights",
        snapshot_id=lake.pin_window("flights", dt.date(2013, 1, 1), dt.date(2013, 12, 1)),
        as_of="2013-11-08", train_first=days[0], train_last=days[2], holdout_first=days[3], holdout_last=days[3],
        rows=0, missing_days=0,
    )  # fmt: skip
    Path("data").mkdir()
    Path("data/snapshot.json").write_text(result.model_dump_json())
    return result


@pytest.mark.usefixtures("java")
def test_engines_give_identical_features_of_unusual_values(
    preprocess: Callable[..., Any], unusual_window: SnapshotResult, tmp_path: Path
) -> None:
    duck, spark = preprocess("duckdb", validation_days=1), preprocess("spark", validation_days=1)
    for duck_table, spark_table in zip(read_splits(tmp_path / "duckdb"), read_splits(tmp_path / "spark"), strict=True):
        assert duck_table.schema.equals(spark_table.schema, check_metadata=True)
        for name in duck_table.column_names:
            assert [repr(value) for value in duck_table[name].to_pylist()] == [
                repr(value) for value in spark_table[name].to_pylist()
            ]
    assert duck["digest"] == spark["digest"]
    train = {row["flight"]: row for row in read_splits(tmp_path / "spark")[0].to_pylist() if row["date"].month == 3}
    unusual_rows = {number: train.get(900_000 + number) for number in range(len(UNUSUAL_VALUES))}
    assert unusual_rows[9]["departs_minute"] == 24 * 60 and unusual_rows[10]["departs_minute"] == 0
    assert unusual_rows[15]["departs_minute"] is None and unusual_rows[17]["plane_age"] is None
    assert unusual_rows[3]["carrier"] == "\U0001f6eb" and unusual_rows[29]["plane_manufacturer"] == "日本\n\t飛行機"
    assert unusual_rows[30] is None and unusual_rows[31] is None, "rows without a label are not in the features"


@pytest.mark.soak
@pytest.mark.usefixtures("java")
def test_engines_read_files_from_before_a_column_was_added_or_widened(
    preprocess: Callable[..., Any], home: Path, day_rows: Any
) -> None:
    lake = Lake.open()
    days = [dt.date(2013, 1, n) for n in range(5, 14)]
    for day in days:
        rows = day_rows(day.isoformat())
        if day.day > 8:
            position = rows.schema.get_field_index("distance")
            rows = rows.set_column(position, "distance", rows["distance"].cast(pa.int64()))
            rows = rows.append_column("gate", pa.array(["A1"] * rows.num_rows))
        lake.write_partition("flights", day, rows)
    snapshot(SnapshotSpec(dataset="flights", as_of="2013-01-15", train_days=5, holdout_days=3, min_train_days=2))
    duck, spark = preprocess("duckdb", validation_days=2), preprocess("spark", validation_days=2)
    assert duck["digest"] == spark["digest"]


def test_the_spark_engine_names_missing_java_or_pyspark(commands: Any, quarter_home: Path, tmp_path: Path) -> None:
    commands.env["LEEWAY_HOME"] = str(quarter_home)
    snapshot(SnapshotSpec(dataset="flights", as_of="2013-01-25", train_days=12, holdout_days=6, min_train_days=4))
    no_java = commands.run_step("preprocess", "--engine", "spark", env={"JAVA_HOME": str(tmp_path)})
    assert no_java.code == 2 and "error: engine spark needs Java 17" in no_java.err
    (tmp_path / "hide").mkdir()
    (tmp_path / "hide" / "pyspark.py").write_text("raise ModuleNotFoundError('hidden', name='pyspark')")
    path = f"{tmp_path / 'hide'}:{commands.env['PYTHONPATH']}"
    hidden = commands.run_step("preprocess", "--engine", "spark", env={"PYTHONPATH": path}, is_real=True)
    assert hidden.code == 2 and "pyspark is not installed" in hidden.err
    assert not Path("data/features").exists()


@pytest.mark.parametrize("engine", ["duckdb", pytest.param("spark", marks=pytest.mark.soak)])
def test_the_processing_container_needs_no_lake(
    commands: Any, quarter_home: Path, tmp_path: Path, engine: str, request: pytest.FixtureRequest
) -> None:
    """docs/how-to/processing-job.md lists the container's libraries. Those that read the lake are not among them."""
    if engine == "spark":
        request.getfixturevalue("java")
    commands.env["LEEWAY_HOME"] = str(quarter_home)
    snapshot(SnapshotSpec(dataset="flights", as_of="2013-01-25", train_days=12, holdout_days=6, min_train_days=4))
    base = tmp_path / "ml"
    window = base / "processing/input/window"
    assert commands.run_step("pack", "--folder", str(window)).code == 0
    code = (
        "import sys; sys.modules.update(dict.fromkeys(['pyiceberg', 'mlflow', 'dvc', 'great_expectations', 'boto3']))\n"
        "sys.argv = ['x', *sys.argv[1:]]\nfrom pipelines.container.processing import main\nmain()"
    )
    env = {"SAGEMAKER_BASE_DIR": str(base)}
    process = commands.run(sys.executable, "-c", code, "--engine", engine, "--validation-days", "2", env=env)
    assert process.code == 0, process.err[-2_000:]
    result = json.loads((base / "processing/output/result.json").read_text())
    assert result["digest"] == sha256(base / "processing/output/features")
    next((window / "rows").glob("*.parquet")).unlink()
    failure = commands.run(sys.executable, "-c", code, "--engine", engine, env=env)
    assert failure.code == 2
    assert (base / "output/message").read_text().startswith("[exit 2] ")
    assert "Pack it again" in (base / "output/message").read_text()
    assert not (base / "processing/output/result.json").exists()
