"""Test datasets with partitions by hour and by month, from the source to scores and drift, with real weather."""

import datetime as dt
import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import yaml

from pipelines.dataset import load_dataset
from pipelines.datasets.flights.source import find_package_data
from pipelines.errors import DataError, SpecError, ValidationError
from pipelines.lake import Lake
from pipelines.lake.history import find_last_write
from pipelines.partitions import Hour, Month
from pipelines.steps import backfill, check_lake, ingest, preprocess, profile, score, snapshot, sync, validate
from pipelines.steps import drift as drift_step
from pipelines.validation.results_table import ResultsTable
from tests.conftest import set_home
from tests.tools.names import name_for_test

DESCRIPTION = """
from pipelines.dataset import Dataset

DATASET = Dataset(
    name="{name}",
    key={key},
    label="temp",
    known_later=("temp",),
    features={{"dewp": "number", "humid": "number", "pressure": "number", "origin": "category"}},
    task="regression",
    partition="{unit}",
)
"""
HOURLY_SOURCE = """
import pyarrow as pa
from pipelines.ingestion.sources import FileSource

COLUMNS = {"origin": pa.string(), "time_hour": pa.timestamp("us", tz="UTC")}
COLUMNS |= dict.fromkeys(("temp", "dewp", "humid", "pressure"), pa.float64())

def open_source(folder=None):
    url = f"{folder or '%s'}/weather.csv"
    return FileSource(url, "csv", COLUMNS, day="time_hour", extra="ignore", nulls=("", "NA"), partition="hour")
"""
MONTHLY_SOURCE = """
from pathlib import Path
from pipelines.ingestion.sources import FileSource

def open_source(folder=None):
    folder = folder or Path(__file__).parents[2] / "months"
    return FileSource(f"{folder}/{{date}}.parquet", "parquet", partition="month")
"""
SUITE = {
    "expectations": [
        {"type": "expect_table_row_count_to_be_between", "kwargs": {"min_value": 3}, "severity": "critical"},
        {
            "type": "expect_column_values_to_be_between",
            "kwargs": {"column": "temp", "min_value": -20, "max_value": 110},
            "severity": "critical",
        },
    ]
}
PARAMS = {
    "validate": {"verify_share": 0},
    "snapshot": {"as_of": "2013-01-06", "train_days": 2, "holdout_days": 1, "min_train_days": 1, "label_delay_days": 0},
    "preprocess": {"validation_days": 1},
    "train": {"hyperparameters": {"num_round": 10, "max_depth": 3, "nthread": 1}},
}
DAY = dt.date(2013, 1, 6)
MONTHS = [dt.date(2013, month, 1) for month in range(1, 6)]


@pytest.fixture
def project(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a project with the datasets `hours` and `months`; this process and its commands use it."""
    from pipelines import datasets

    folder = tmp_path / "project"
    keys = {"hours": ("date", "hour", "origin"), "months": ("date", "day", "origin")}
    for name, key in keys.items():
        package = folder / "datasets" / name
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(DESCRIPTION.format(name=name, key=key, unit=name.removesuffix("s")))
        (package / "source.py").write_text(HOURLY_SOURCE % find_package_data() if name == "hours" else MONTHLY_SOURCE)
    (folder / "expectations").mkdir()
    for name in keys:
        (folder / f"expectations/{name}.json").write_text(json.dumps({"name": name, **SUITE}))
    (folder / "params.yaml").write_text(yaml.safe_dump(PARAMS))
    set_home(monkeypatch, folder / ".leeway", folder)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(datasets, "__path__", [*datasets.__path__, str(folder / "datasets")])
    modules = ("pipelines.datasets.hours", "pipelines.datasets.months")
    for name in [name for name in sys.modules if name.startswith(modules)]:
        monkeypatch.delitem(sys.modules, name)
    return folder


@pytest.fixture
def run_in_project(project: Path, commands: Any, mlflow_uri: str) -> Callable[..., Any]:
    """Return the function that runs a step in the project's folder; it returns the step's result."""

    def run(*arguments: str) -> Any:
        variables = {"LEEWAY_PROJECT": str(project), "LEEWAY_HOME": str(project / ".leeway")}
        process = commands.run_step(*arguments, env={**variables, "MLFLOW_TRACKING_URI": mlflow_uri}, cwd=project)
        assert process.code == 0, process.err
        return json.loads(process.out)

    return run


def publish_hours(first: str, last: str) -> backfill.BackfillResult:
    return backfill.run(backfill.BackfillSpec.parse({"dataset": "hours", "first": first, "last": last}, "test"))


def train(run_in_project: Callable[..., Any], dataset: str, model: str) -> str:
    """Train and register a model; return the version."""
    run_in_project("preprocess")
    run_in_project("train", "--dataset", dataset)
    return str(run_in_project("evaluate", "--dataset", dataset, "--model", model)["version"])


@pytest.mark.soak
def test_hours_are_published_trained_on_scored_and_compared(
    project: Path, run_in_project: Callable[..., Any], with_mlflow: str, monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest, fresh_settings: Callable[[], None],
) -> None:  # fmt: skip
    model = name_for_test("hours-", request.node.name)
    set_home(monkeypatch, project / ".leeway", project)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", with_mlflow)
    fresh_settings()
    result = run_in_project("backfill", "--dataset", "hours", "--first", "2013-01-03T00", "--last", "2013-01-05T23")
    assert (result["published"], result["changed"]) == (72, 72)
    pin = run_in_project("snapshot", "--dataset", "hours")
    assert (pin["train_first"], pin["holdout_last"], pin["rows"]) == ("2013-01-03", "2013-01-05", 216)
    version = train(run_in_project, "hours", model)
    with pytest.raises(DataError, match=r"1 of 24 partitions were not published: 2013-01-06T11: .* The others were"):
        publish_hours("2013-01-06T00", "2013-01-06T23")  # at 11 h, the real data have only two airports
    fields = {"dataset": "hours", "model": model, "version": version}
    hours = [hour for hour in range(23) if hour != 11]
    scored = [score.run(score.ScoreSpec(partition=Hour(DAY, hour), **fields)) for hour in hours]
    assert [result.scored for result in scored] == [3] * 22
    assert not score.run(score.ScoreSpec(partition=Hour(DAY, 5), **fields)).changed, "idempotent for each hour"
    outcomes = run_in_project("outcomes", "--dataset", "hours", "--partition", "2013-01-06T05", "--model", model)
    assert (outcomes["partition"], outcomes["outcomes"]) == ("2013-01-06T05", 3)
    counts = Lake.open().count_rows_of_partitions("hours_outcomes", [Hour(DAY, 4), Hour(DAY, 5)])
    assert counts == {Hour(DAY, 5): 3}

    identity = {"model": model, "version": version}
    profiled = profile.run(profile.ProfileSpec(partition=Hour(DAY, 22), rows=scored[-1].rows, **identity))
    assert profiled.rows == 66, "a profile is of the day, with its hours so far"
    spec = drift_step.DriftSpec.parse({**fields, "partition": "2013-01-06", "window_days": 1}, "test")
    undecided = drift_step.run(spec)
    assert (undecided.outcome, undecided.missing) == ("undecided", [DAY]), "an hour is not scored"
    last = score.run(score.ScoreSpec(partition=Hour(DAY, 23), **fields))
    assert drift_step.run(spec).missing == [DAY], "an hour is not counted"
    profile.run(profile.ProfileSpec(partition=Hour(DAY, 23), rows=last.rows, **identity))
    decided = drift_step.run(spec)
    assert (decided.missing, decided.rows) == ([], 69), "the refused hour is not waited for"


def test_an_hour_is_replaced_alone_and_a_refused_hour_keeps_its_rows(project: Path) -> None:
    publish_hours("2013-01-03T00", "2013-01-03T03")
    lake, key = Lake.open(), Hour(dt.date(2013, 1, 3), 2)
    before = lake.read_partition("hours", key)
    commits = len(lake.catalog.load_table("leeway.hours").snapshots())
    assert backfill.run(
        backfill.BackfillSpec(dataset="hours", first=key, last=Hour(key.day, 3), include_published=True)
    ).changed == 0, "the same rows commit nothing"  # fmt: skip
    colder = before.set_column(before.column_names.index("temp"), "temp", pc.subtract(before["temp"], pa.scalar(1.0)))
    assert lake.write_partition("hours_raw", key, colder, ("date", "hour", "origin")).changes.changed == 3
    validate.run(validate.ValidateSpec(dataset="hours", partition=key))
    table = lake.catalog.load_table("leeway.hours")
    assert len(table.snapshots()) == commits + 2, (
        "one commit: pyiceberg makes a snapshot that deletes and one that appends"
    )
    assert find_last_write(table, key) == table.current_snapshot() != find_last_write(table, Hour(key.day, 3))
    assert lake.count_rows_by_partition("hours", "hour") == {Hour(key.day, hour): 3 for hour in range(4)}

    hot = before.set_column(before.column_names.index("temp"), "temp", pa.array([1000.0] * 3))
    lake.write_partition("hours_raw", key, hot, ("date", "hour", "origin"))
    with pytest.raises(ValidationError, match="hours 2013-01-03T02 was not published"):
        validate.run(validate.ValidateSpec(dataset="hours", partition=key))
    assert Lake.open().read_partition("hours", key).equals(colder.cast(before.schema))
    rows = ResultsTable(lake).read_newest("hours", key.day, key.day)
    assert {row["hour"] for row in rows if not row["success"]} == {2}
    assert {row["hour"] for row in rows if row["success"]} == {0, 1, 2, 3}
    assert (project / ".leeway/validation/hours/2013-01-03T02.json").exists()
    with pytest.raises(DataError, match="must hold rows of that hour only, but holds 2013-01-03T02"):
        lake.write_partition("hours_raw", Hour(key.day, 4), before)


def test_a_draft_counts_rows_by_the_hour_and_a_lost_hour_is_restored(project: Path, commands: Any) -> None:
    publish_hours("2013-01-03T00", "2013-01-03T02")
    period = ("--table", "hours", "--from", "2013-01-03", "--to", "2013-01-03")
    environment = {"LEEWAY_PROJECT": str(project), "LEEWAY_HOME": str(project / ".leeway")}
    run = partial(commands.run, sys.executable, "-m", "pipelines", "expectations", env=environment)
    suite = json.loads(run("suggest", *period).out)
    (count,) = [each for each in suite["expectations"] if each["type"] == "expect_table_row_count_to_be_between"]
    assert count["kwargs"] == {"min_value": 1, "max_value": 6}
    assert count["meta"]["why"].startswith("3 rows an hour")
    replayed = json.loads(run("replay", "--suite", "hours", *period, "--json").out)
    assert [each["partition"] for each in replayed["partitions"]] == [f"2013-01-03T{hour:02d}" for hour in range(3)]
    assert replayed["totals"]["now"]["passed"] == 3

    folder = project / ".leeway/lake/leeway"
    files = sorted(path for name in ("hours", "hours_raw") for path in (folder / name / "data").rglob("*.parquet"))
    contents = [path.read_bytes() for path in files]
    assert len(files) == 6
    files[1].unlink()
    files[4].unlink()
    assert check_lake.run(check_lake.CheckLakeSpec(repair=True)).restored == 2
    assert [path.read_bytes() for path in files] == contents


@pytest.mark.soak
def test_a_window_needs_every_hour(project: Path) -> None:
    """The real weather lacks the first six hours of the year, and one hour of 21 February."""
    publish_hours("2013-01-01T22", "2013-01-02T21")
    fields = {"dataset": "hours", "as_of": "2013-01-04", "train_days": 1, "holdout_days": 1}
    fields |= {"min_train_days": 1, "label_delay_days": 0}
    spec = snapshot.SnapshotSpec.parse(fields, "test")
    with pytest.raises(
        DataError, match=r"lacks 26 of the 48 hours 2013-01-02..2013-01-03 .*the first 2013-01-02T22"
    ) as error:
        snapshot.run(spec)
    assert "--first 2013-01-02T22 --last 2013-01-03T23" in str(error.value)
    publish_hours("2013-01-02T22", "2013-01-02T23")
    with pytest.raises(DataError, match=r"lacks 24 of the 48 hours"):
        snapshot.run(spec)
    assert snapshot.run(spec.model_copy(update={"max_missing_days": 1})).missing_days == 1
    earlier = spec.model_copy(update={"as_of": dt.date(2013, 1, 3), "train_days": 1, "max_missing_days": 0})
    with pytest.raises(DataError, match="starts on 2013-01-02"):  # 1 January lacks hours before the first published one
        snapshot.run(earlier)
    source = load_dataset("hours").open_source()
    assert list(source.read(Hour(dt.date(2013, 2, 21), 0)).read_all().schema.names)[-2:] == ["date", "hour"]
    missing = [hour for hour in range(24) if not source.read(Hour(dt.date(2013, 2, 21), hour)).read_all().num_rows]
    assert len(missing) == 1
    with pytest.raises(DataError, match=f"the source of hours has no rows for 2013-02-21T{missing[0]:02d}"):
        ingest.run(ingest.IngestSpec(dataset="hours", partition=Hour(dt.date(2013, 2, 21), missing[0])))


@pytest.mark.parametrize(
    ("dataset", "key", "problem"),
    [
        ("hours", "2013-01-03", "partition 2013-01-03 is a day, but the partitions of hours are hours"),
        ("months", "2013-01-03T05", "partition 2013-01-03T05 is an hour, but the partitions of months are months"),
        ("weather", "2013-01", "partition 2013-01 is a month, but the partitions of weather are days"),
    ],
)
def test_a_key_of_another_unit_is_one_line(project: Path, commands: Any, dataset: str, key: str, problem: str) -> None:
    variables = {"LEEWAY_PROJECT": str(project), "LEEWAY_HOME": str(project / ".leeway")}
    for step in ("ingest", "validate"):
        process = commands.run_step(step, "--dataset", dataset, "--partition", key, env=variables, cwd=project)
        assert (process.code, process.out) == (2, "")
        assert problem in process.err
        assert len(process.err.strip().splitlines()) == 1
    assert not (project / ".leeway/lake").exists() or Lake.open().count_rows_by_day(dataset) == {}


def write_months(folder: Path) -> None:
    """Write the daily means of the real weather to one file for each month, without a column `date`."""
    (folder / "months").mkdir()
    weather = f"read_csv('{find_package_data()}/weather.csv', nullstr = 'NA')"
    columns = ", ".join(f"avg({name})::DOUBLE AS {name}" for name in ("temp", "dewp", "humid", "pressure"))
    for month in MONTHS:
        where = f"month = {month.month} GROUP BY ALL ORDER BY ALL"
        query = f"SELECT origin, day::INTEGER AS day, {columns} FROM {weather} WHERE {where}"
        duckdb.execute(f"COPY ({query}) TO '{folder}/months/{month:%Y-%m}.parquet' (FORMAT parquet)")


def test_months_are_published_trained_on_and_scored(
    project: Path, run_in_project: Callable[..., Any], request: pytest.FixtureRequest
) -> None:
    """Training as of 10 May uses whole months, none of which it could not know: changed rows of May change nothing."""
    model = name_for_test("months-", request.node.name)
    write_months(project)
    result = run_in_project("backfill", "--dataset", "months", "--first", "2013-01", "--last", "2013-05")
    assert result["published"] == 5
    fields = ("--dataset", "months", "--as-of", "2013-05-10", "--train-days", "90", "--holdout-days", "30")
    pin = run_in_project("snapshot", *fields)
    assert (pin["train_first"], pin["train_last"]) == ("2013-01-01", "2013-03-31")
    assert (pin["holdout_first"], pin["holdout_last"], pin["missing_days"]) == ("2013-04-01", "2013-04-30", 0)
    assert pin["rows"] == 3 * (31 + 28 + 31 + 30)
    features = preprocess.run(preprocess.PreprocessSpec(validation_days=20))
    assert (features.rows_train, features.rows_validation, features.rows_holdout) == (3 * 59, 3 * 31, 3 * 30)
    lake, may = Lake.open(), Month(MONTHS[4])
    rows = lake.read_partition("months", may)
    lake.write_partition("months", may, rows.set_column(2, "temp", pa.array([-99.0] * rows.num_rows)))
    assert run_in_project("snapshot", *fields) == pin
    assert preprocess.run(preprocess.PreprocessSpec(validation_days=20)).digest == features.digest
    lake.write_partition("months", may, rows)

    trained = train(run_in_project, "months", model)
    version = ("--version", trained)
    scored = run_in_project("score", "--partition", "2013-05", "--dataset", "months", "--model", model, *version)
    assert (scored["scored"], Path(scored["rows"]).name) == (93, "2013-05.parquet")
    profiled = run_in_project("profile", "--partition", "2013-05", "--model", model, *version, "--rows", scored["rows"])
    assert (profiled["partition"], profiled["rows"]) == ("2013-05", 93)
    outcomes = run_in_project("outcomes", "--partition", "2013-05", "--dataset", "months", "--model", model)
    assert outcomes["outcomes"] == 93
    with pytest.raises(SpecError, match="drift compares days, but the partitions of months are months"):
        drift_step.run(drift_step.DriftSpec(dataset="months", model=model, partition=MONTHS[4]))


def test_a_missing_month_is_named_and_changes_by_cursor_need_days(project: Path) -> None:
    write_months(project)
    (project / "months/2013-02.parquet").unlink()
    fields = {"dataset": "months", "first": "2013-01", "last": "2013-04"}
    assert backfill.run(backfill.BackfillSpec.parse({**fields, "on_absent": "skip"}, "test")).absent == 1
    spec = {"dataset": "months", "as_of": "2013-05-01", "train_days": 90, "holdout_days": 30, "label_delay_days": 0}
    with pytest.raises(DataError, match=r"lacks 1 of the 4 months 2013-01-01..2013-04-30 .*the first 2013-02\."):
        snapshot.run(snapshot.SnapshotSpec.parse(spec, "test"))
    with pytest.raises(SpecError, match="months has partitions by month, and `sync` needs partitions by day"):
        sync.run(sync.SyncSpec(dataset="months"))
