"""Test profiles in a lake, the step `profile`, and the reference of a registered version."""

import datetime as dt
import json
import shutil
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from pipelines.errors import DataError, SpecError
from pipelines.lake import Lake
from pipelines.lake.month_table import MonthTable
from pipelines.monitoring.profiles import BinPolicy, counting
from pipelines.monitoring.profiles.counting import count_file, count_files
from pipelines.monitoring.profiles.profile import Profile, sum_profiles
from pipelines.monitoring.profiles.record import ReferenceRecord
from pipelines.monitoring.profiles.reference import Reference, fit_reference
from pipelines.monitoring.profiles.table import SCHEMA, TABLE, Profiles
from pipelines.settings import settings
from pipelines.steps import profile

DAY = dt.date(2013, 4, 1)
NEXT = DAY + dt.timedelta(days=1)


@pytest.fixture
def rows(home: Path, tmp_path: Path) -> Path:
    """Return a Parquet file of 500 random rows with two features, a score and a label."""
    random = np.random.default_rng(1)
    frame = pd.DataFrame({"x": random.normal(size=500), "g": random.choice(list("ab"), 500)})
    frame.assign(score=random.random(500), late=random.random(500) < 0.3).to_parquet(tmp_path / "rows.parquet")
    return tmp_path / "rows.parquet"


@pytest.fixture
def reference(rows: Path) -> Reference:
    return fit_reference(rows, {"x": "number", "g": "category"}, "late", BinPolicy())


@pytest.fixture
def day_profile(reference: Reference, rows: Path) -> Profile:
    """Return the profile of the rows."""
    return count_file(reference, rows)


def count_snapshots() -> int:
    return len(Lake.open().catalog.load_table(("leeway", TABLE)).snapshots())


def test_reads_the_profile_that_was_written(day_profile: Profile) -> None:
    profiles = Profiles.open()
    assert profiles.read_window(DAY, NEXT, "flights", "2") == {}
    assert profiles.write(DAY, "flights", "2", day_profile)
    assert profiles.read_window(DAY, NEXT, "flights", "2") == {DAY: day_profile}
    for arguments in ((NEXT, NEXT, "flights", "2"), (DAY, DAY, "flights", "1"), (DAY, DAY, "trains", "2")):
        assert profiles.read_window(*arguments) == {}


def test_equal_rows_commit_nothing_and_other_rows_replace_the_profile(
    reference: Reference, day_profile: Profile, rows: Path
) -> None:
    profiles = Profiles.open()
    profiles.write(DAY, "flights", "2", day_profile)
    before = count_snapshots()
    repeat = count_file(reference, rows)
    # Not equal to the bit: threads add in any order.
    assert repeat.is_equivalent(day_profile)
    assert not profiles.write(DAY, "flights", "2", repeat)
    assert count_snapshots() == before
    pd.read_parquet(rows)[1:].to_parquet(rows)
    fewer = count_file(reference, rows)
    assert profiles.write(DAY, "flights", "2", fewer) and count_snapshots() > before
    assert profiles.read_window(DAY, DAY, "flights", "2") == {DAY: fewer}


def test_a_table_of_an_earlier_version_with_sketches_is_read_and_written(day_profile: Profile) -> None:
    """Earlier versions stored a quantile sketch with each number, in a column that the table still has."""
    old_months = MonthTable(TABLE, SCHEMA.append(pa.field("sketch", pa.binary())))
    key = {"day": DAY, "model_name": "flights", "model_version": "2"}
    month = DAY.replace(day=1)
    rows = [{**row, **key, "date": month, "at": at, "sketch": b"KLL"} for at, row in enumerate(day_profile.to_rows())]
    old_months.update(
        lambda version: version.replace_month(month, pa.Table.from_pylist(rows, schema=old_months.schema))
    )
    profiles = Profiles.open()
    assert profiles.read_window(DAY, NEXT, "flights", "2") == {DAY: day_profile}
    assert profiles.find_profiled_days(DAY, NEXT, "flights") == {DAY}
    assert not profiles.write(DAY, "flights", "2", day_profile)
    assert profiles.write(NEXT, "flights", "2", day_profile)
    assert profiles.write(DAY, "flights", "2", replace(day_profile, rows=501))
    assert [day.rows for day in profiles.read_window(DAY, NEXT, "flights", "2").values()] == [501, 500]


def test_a_reference_of_an_earlier_version_with_sketches_is_read(record: Path) -> None:
    text = record.read_text()
    record.write_text(text.replace('"missing":', '"sketch": "", "missing":'))
    assert record.read_text() != text
    assert ReferenceRecord.read(record).holdout[DAY].rows == 500


def test_a_write_changes_no_other_day_or_version(day_profile: Profile) -> None:
    profiles, days = Profiles.open(), [dt.date(2013, 3, 31), DAY, NEXT]
    for day in reversed(days):  # days may arrive in any order
        profiles.write(day, "flights", "2", day_profile)
    profiles.write(DAY, "flights", "3", day_profile)
    assert list(profiles.read_window(days[0], NEXT, "flights", "2")) == days
    assert list(profiles.read_window(days[0], NEXT, "flights", "3")) == [DAY]
    assert sum_profiles(profiles.read_window(days[0], NEXT, "flights", "2").values()).rows == 1_500


def test_refuses_to_add_profiles_of_different_references(day_profile: Profile, rows: Path) -> None:
    other_reference = fit_reference(rows, {"x": "number", "g": "category"}, "late", BinPolicy(bins=4))
    profiles = Profiles.open()
    profiles.write(DAY, "flights", "2", day_profile)
    profiles.write(NEXT, "flights", "2", count_file(other_reference, rows))
    with pytest.raises(DataError, match="different references"):
        sum_profiles(profiles.read_window(DAY, NEXT, "flights", "2").values())


def _write_profile(number: int, day_profile: Profile) -> None:
    Profiles.open().write(DAY + dt.timedelta(number % 4), "flights", str(number // 4), day_profile)


def test_concurrent_writers_of_a_month_lose_nothing(day_profile: Profile) -> None:
    with ProcessPoolExecutor(4, mp_context=get_context("fork")) as pool:
        list(pool.map(_write_profile, range(8), [day_profile] * 8))
    for version in ("0", "1"):
        assert len(Profiles.open().read_window(DAY, DAY + dt.timedelta(9), "flights", version)) == 4


def run_profile(rows: Path, **fields: Any) -> profile.ProfileResult:
    """Run the step `profile`."""
    return profile.run(profile.ProfileSpec(**{"partition": DAY, "rows": rows, "model": "flights", **fields}))


@pytest.fixture
def record(reference: Reference, day_profile: Profile, tmp_path: Path) -> Path:
    """Return the file of a reference and the profiles of its training and holdout."""
    ReferenceRecord(reference, {DAY: day_profile}, {DAY: day_profile}).write(tmp_path / "reference.json")
    return tmp_path / "reference.json"


def test_the_step_profiles_a_file(rows: Path, record: Path, day_profile: Profile) -> None:
    result = run_profile(rows, version="2", reference=record)
    assert (
        result.rows,
        result.labelled,
        result.missing_columns,
        result.changed_types,
        result.empty,
        result.changed,
    ) == (
        500,
        500,
        [],
        {},
        [],
        True,
    )
    assert Profiles.open().read_window(DAY, DAY, "flights", "2")[DAY].joint.counts == day_profile.joint.counts
    assert not run_profile(rows, version="2", reference=record).changed


def test_rows_that_are_scored_again_during_the_count_are_counted_again(
    rows: Path, record: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another run scores and profiles the day again during the count. The profile of the older rows must not stay."""
    newer = rows.with_suffix(".newer")
    pd.read_parquet(rows)[:100].to_parquet(newer)

    def count_and_replace(*arguments: Any) -> Profile:
        counts = count_files(*arguments)
        if newer.exists():
            newer.replace(rows)
            run_profile(rows, version="2", reference=record)
        return counts

    monkeypatch.setattr(counting, "count_files", count_and_replace)
    assert run_profile(rows, version="2", reference=record).rows == 100
    assert Profiles.open().read_window(DAY, DAY, "flights", "2")[DAY].rows == 100


def test_reports_columns_that_vanished_changed_their_type_or_are_empty(rows: Path, record: Path) -> None:
    frame = pd.read_parquet(rows)
    frame.drop(columns="x").assign(g=None).to_parquet(rows)
    result = run_profile(rows, version="2", reference=record)
    assert (result.missing_columns, result.changed_types, result.empty) == (["x"], {}, ["g"])
    frame.assign(x="much").to_parquet(rows)
    assert list(run_profile(rows, version="2", reference=record).changed_types) == ["x"]
    frame[:0].to_parquet(rows)
    result = run_profile(rows, version="2", reference=record)
    assert (result.rows, result.missing_columns, result.changed) == (0, [], True)


def test_refuses_an_alias_with_a_reference_file(rows: Path, record: Path) -> None:
    with pytest.raises(SpecError, match="version champion is an alias"):
        run_profile(rows, version="champion", reference=record)


@pytest.mark.parametrize("text", ["{", "[]", '{"reference": 3}', '{"reference": {"label": ""}, "training": []}'])
def test_refuses_a_file_that_is_not_a_reference(text: str, rows: Path, tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text(text)
    with pytest.raises(DataError, match=r"other.json is no.*evaluate"):
        run_profile(rows, version="2", reference=tmp_path / "other.json")
    with pytest.raises(DataError, match=r"gone.json does not exist"):
        run_profile(rows, version="2", reference=tmp_path / "gone.json")


def test_the_command_profiles_a_file_and_refuses_a_missing_one(commands: Any, rows: Path, record: Path) -> None:
    command = ("profile", "--model", "flights", "--version", "2", "--partition", "2013-04-01", "--rows", str(rows))
    process = commands.run_step(*command, "--reference", str(record))
    assert process.code == 0, process.err
    assert json.loads(process.out)["rows"] == 500 and "500 rows, 500 labelled; missing_columns: none" in process.err
    failed_process = commands.run_step(*command[:-1], "gone.parquet", "--reference", str(record))
    assert failed_process.code == 2 and "gone.parquet cannot be read as a Parquet file" in failed_process.err


def test_evaluate_stores_the_reference_with_the_version(
    with_mlflow: str, trained: SimpleNamespace, tmp_path: Path, home: Path
) -> None:
    from pipelines.steps import evaluate

    shutil.copytree(trained.data, tmp_path / "data")
    evaluation = evaluate.run(
        evaluate.EvaluateSpec(dataset="flights", model="profiled", training_job="job-of-profiles")
    )
    record = ReferenceRecord.read(tmp_path / "data/evaluation/reference.json")
    training, holdout = (sum_profiles(days.values()) for days in (record.training, record.holdout))
    assert (training.rows, holdout.rows) == (trained.features.rows_train, trained.features.rows_holdout)
    assert max(record.training) < min(record.holdout)
    assert sum(holdout["score"].counts) == sum(holdout.joint.counts) == holdout.rows
    assert not [column.name for column in holdout.columns if column.absent]

    scored_file = tmp_path / "scored.parquet"
    features = pd.read_parquet(tmp_path / "data/features/holdout/data.parquet")
    features.drop(columns="late").assign(score=0.25).to_parquet(scored_file)
    result = run_profile(scored_file, model="profiled", version=evaluation.version)
    assert (result.rows, result.labelled, result.reference) == (len(features), 0, record.reference.digest)
    assert Profiles.open().read_window(DAY, DAY, "profiled", evaluation.version)[DAY]["score"].counts[6] == len(
        features
    )


@pytest.mark.soak
def test_evaluating_again_writes_the_same_bytes_of_the_reference(
    trained: SimpleNamespace, tmp_path: Path, home: Path
) -> None:
    from pipelines.steps import evaluate

    shutil.copytree(trained.data, tmp_path / "data")
    evaluate.run(
        evaluate.EvaluateSpec(
            dataset="flights",
        )
    )
    content = (trained.data / "evaluation/reference.json").read_bytes()
    assert (tmp_path / "data/evaluation/reference.json").read_bytes() == content
    evaluate.run(evaluate.EvaluateSpec.parse({"reference": {"bins": 5}}, "test"))
    assert (tmp_path / "data/evaluation/reference.json").read_bytes() != content


@pytest.mark.parametrize("value", [None, ""])
def test_a_day_that_was_not_scored_has_no_rows_to_profile(value: Any) -> None:
    """ScoreResult.rows is None on a day before the champion's as_of."""
    fields = {"partition": DAY, "model": "flights", "version": "1", "rows": value}
    with pytest.raises(
        SpecError, match=r"^test: rows: no rows were scored; .*`reason`.* says why \(got (None|'')\)\."
    ) as error:
        profile.ProfileSpec.parse(fields, "test")
    assert "\n" not in error.value.message


def test_refuses_a_version_without_a_reference(
    with_mlflow: str, rows: Path, monkeypatch: pytest.MonkeyPatch, fresh_settings: Callable[[], None]
) -> None:
    from mlflow import MlflowClient

    client = MlflowClient(with_mlflow, with_mlflow)
    run = client.create_run(client.create_experiment("without-reference"))
    client.create_registered_model("without-reference")
    client.create_model_version("without-reference", run.info.artifact_uri, run.info.run_id)
    with pytest.raises(DataError, match=r"without-reference version 1 has no evaluation/reference.json"):
        run_profile(rows, model="without-reference", version="1")
    with pytest.raises(DataError, match="no without-reference version 7"):
        run_profile(rows, model="without-reference", version="7")
    assert settings().mlflow_tracking_uri == with_mlflow
