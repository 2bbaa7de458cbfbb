"""Profiles in the lake, by the step and by a registered version's own reference."""

import datetime as dt
import json
import shutil
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pipelines.errors import DataError, SpecError
from pipelines.lake import Lake
from pipelines.monitoring.profiles import Policy, counting
from pipelines.monitoring.profiles.counting import count_file
from pipelines.monitoring.profiles.profile import Profile, sum_profiles
from pipelines.monitoring.profiles.record import Record
from pipelines.monitoring.profiles.reference import Reference, fit_reference
from pipelines.monitoring.profiles.table import TABLE, Profiles
from pipelines.settings import settings
from pipelines.steps import profile

DAY = dt.date(2013, 4, 1)
NEXT = DAY + dt.timedelta(days=1)


@pytest.fixture
def rows(home: Path, tmp_path: Path) -> Path:
    random = np.random.default_rng(1)
    frame = pd.DataFrame({"x": random.normal(size=500), "g": random.choice(list("ab"), 500)})
    frame.assign(score=random.random(500), late=random.random(500) < 0.3).to_parquet(tmp_path / "rows.parquet")
    return tmp_path / "rows.parquet"


@pytest.fixture
def reference(rows: Path) -> Reference:
    return fit_reference(rows, {"x": "number", "g": "category"}, "late", Policy())


@pytest.fixture
def made(reference: Reference, rows: Path) -> Profile:
    return count_file(reference, rows, sketch_rows=1_000)


def snapshots() -> int:
    return len(Lake.open().catalog.load_table(("leeway", TABLE)).snapshots())


def test_a_profile_is_kept_and_read_again(made: Profile) -> None:
    kept = Profiles.open()
    assert kept.read_window(DAY, NEXT, "flights", "2") == {}
    assert kept.write(DAY, "flights", "2", made)
    assert kept.read_window(DAY, NEXT, "flights", "2", sketches=True) == {DAY: made}
    assert {one.sketch for one in kept.read_window(DAY, DAY, "flights", "2")[DAY].columns} == {b""}
    for other in ((NEXT, NEXT, "flights", "2"), (DAY, DAY, "flights", "1"), (DAY, DAY, "trains", "2")):
        assert kept.read_window(*other) == {}


def test_equal_rows_again_commit_nothing_and_others_replace(reference: Reference, made: Profile, rows: Path) -> None:
    kept = Profiles.open()
    kept.write(DAY, "flights", "2", made)
    before = snapshots()
    again = count_file(reference, rows, sketch_rows=1_000)
    assert again.is_equivalent(made)  # not to the bit: a sketch flips coins, and threads add up in their own order
    assert not kept.write(DAY, "flights", "2", again)
    assert snapshots() == before
    pd.read_parquet(rows)[1:].to_parquet(rows)
    fewer = count_file(reference, rows)
    assert kept.write(DAY, "flights", "2", fewer) and snapshots() > before
    assert kept.read_window(DAY, DAY, "flights", "2", sketches=True) == {DAY: fewer}


def test_other_days_and_other_versions_stay(made: Profile) -> None:
    kept, days = Profiles.open(), [dt.date(2013, 3, 31), DAY, NEXT]
    for day in reversed(days):  # they may arrive in any order
        kept.write(day, "flights", "2", made)
    kept.write(DAY, "flights", "3", made)
    assert list(kept.read_window(days[0], NEXT, "flights", "2")) == days
    assert list(kept.read_window(days[0], NEXT, "flights", "3")) == [DAY]
    assert sum_profiles(kept.read_window(days[0], NEXT, "flights", "2").values()).rows == 1_500


def test_versions_of_two_references_do_not_add_up(made: Profile, rows: Path) -> None:
    other = fit_reference(rows, {"x": "number", "g": "category"}, "late", Policy(bins=4))
    kept = Profiles.open()
    kept.write(DAY, "flights", "2", made)
    kept.write(NEXT, "flights", "2", count_file(other, rows))
    with pytest.raises(DataError, match="different references"):
        sum_profiles(kept.read_window(DAY, NEXT, "flights", "2").values())


def _put(number: int, made: Profile) -> None:
    Profiles.open().write(DAY + dt.timedelta(number % 4), "flights", str(number // 4), made)


def test_writers_of_a_month_at_once_lose_nothing(made: Profile) -> None:
    with ProcessPoolExecutor(4, mp_context=get_context("fork")) as pool:
        list(pool.map(_put, range(8), [made] * 8))
    for version in ("0", "1"):
        assert len(Profiles.open().read_window(DAY, DAY + dt.timedelta(9), "flights", version)) == 4


def step(rows: Path, **fields: Any) -> profile.ProfileResult:
    return profile.run(profile.ProfileSpec(**{"partition": DAY, "rows": rows, "model_name": "flights", **fields}))


@pytest.fixture
def record(reference: Reference, made: Profile, tmp_path: Path) -> Path:
    Record(reference, {DAY: made}, {DAY: made}).write(tmp_path / "reference.json")
    return tmp_path / "reference.json"


def test_the_step_profiles_a_file(rows: Path, record: Path, made: Profile) -> None:
    told = step(rows, version="2", reference=record)
    assert (told.rows, told.labelled, told.vanished, told.retyped, told.empty, told.changed) == (
        500,
        500,
        [],
        {},
        [],
        True,
    )
    assert Profiles.open().read_window(DAY, DAY, "flights", "2")[DAY].joint.counts == made.joint.counts
    assert not step(rows, version="2", reference=record).changed


def test_rows_that_are_scored_anew_meanwhile_are_counted_anew(
    rows: Path, record: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another run scores the day again, and profiles that, while this one counts: the older rows may not stay."""
    newer = rows.with_suffix(".newer")
    pd.read_parquet(rows)[:100].to_parquet(newer)

    def counted(*arguments: Any) -> Profile:
        made = count_file(*arguments)
        if newer.exists():
            newer.replace(rows)
            step(rows, version="2", reference=record)
        return made

    monkeypatch.setattr(counting, "count_file", counted)
    assert step(rows, version="2", reference=record).rows == 100
    assert Profiles.open().read_window(DAY, DAY, "flights", "2")[DAY].rows == 100


def test_the_step_tells_what_vanished_and_what_is_not_what_it_was(rows: Path, record: Path) -> None:
    frame = pd.read_parquet(rows)
    frame.drop(columns="x").assign(g=None).to_parquet(rows)
    told = step(rows, version="2", reference=record)
    assert (told.vanished, told.retyped, told.empty) == (["x"], {}, ["g"])
    frame.assign(x="much").to_parquet(rows)
    assert list(step(rows, version="2", reference=record).retyped) == ["x"]
    frame[:0].to_parquet(rows)
    told = step(rows, version="2", reference=record)
    assert (told.rows, told.vanished, told.changed) == (0, [], True)


def test_an_alias_needs_the_registry(rows: Path, record: Path) -> None:
    with pytest.raises(SpecError, match="version champion is an alias"):
        step(rows, version="champion", reference=record)


@pytest.mark.parametrize("text", ["{", "[]", '{"reference": 3}', '{"reference": {"label": ""}, "training": []}'])
def test_what_is_no_reference_is_told(text: str, rows: Path, tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text(text)
    with pytest.raises(DataError, match=r"other.json is no.*evaluate"):
        step(rows, version="2", reference=tmp_path / "other.json")
    with pytest.raises(DataError, match=r"gone.json does not exist"):
        step(rows, version="2", reference=tmp_path / "gone.json")


def test_by_the_command_line(commands: Any, rows: Path, record: Path) -> None:
    asked = ("profile", "--model-name", "flights", "--version", "2", "--partition", "2013-04-01", "--rows", str(rows))
    done = commands.step(*asked, "--reference", str(record))
    assert done.code == 0, done.err
    assert json.loads(done.out)["rows"] == 500 and "500 rows, 500 labelled; vanished: none" in done.err
    wrong = commands.step(*asked[:-1], "gone.parquet", "--reference", str(record))
    assert wrong.code == 2 and "gone.parquet cannot be read as a Parquet file" in wrong.err


def test_evaluate_keeps_the_reference_with_the_version(
    with_mlflow: str, trained: SimpleNamespace, tmp_path: Path, home: Path
) -> None:
    from pipelines.steps import evaluate

    shutil.copytree(trained.data, tmp_path / "data")
    told = evaluate.run(evaluate.EvaluateSpec(register_as="profiled", training_job="job-of-profiles"))
    record = Record.read(tmp_path / "data/evaluation/reference.json")
    training, holdout = (sum_profiles(days.values()) for days in (record.training, record.holdout))
    assert (training.rows, holdout.rows) == (trained.features.rows_train, trained.features.rows_holdout)
    assert max(record.training) < min(record.holdout)
    assert sum(holdout["score"].counts) == sum(holdout.joint.counts) == holdout.rows
    assert not [one.name for one in holdout.columns if one.absent]

    scored = tmp_path / "scored.parquet"
    features = pd.read_parquet(tmp_path / "data/features/holdout/data.parquet")
    features.drop(columns="late").assign(score=0.25).to_parquet(scored)
    done = step(scored, model_name="profiled", version=told.version)
    assert (done.rows, done.labelled, done.reference) == (len(features), 0, record.reference.digest)
    assert Profiles.open().read_window(DAY, DAY, "profiled", told.version)[DAY]["score"].counts[6] == len(features)


def test_the_reference_is_the_same_bytes_again(trained: SimpleNamespace, tmp_path: Path, home: Path) -> None:
    from pipelines.steps import evaluate

    shutil.copytree(trained.data, tmp_path / "data")
    evaluate.run(evaluate.EvaluateSpec())
    once = (trained.data / "evaluation/reference.json").read_bytes()
    assert (tmp_path / "data/evaluation/reference.json").read_bytes() == once
    evaluate.run(evaluate.EvaluateSpec.parse({"reference": {"bins": 5}}, "test"))
    assert (tmp_path / "data/evaluation/reference.json").read_bytes() != once


def test_a_version_without_a_reference_is_told(
    with_mlflow: str, rows: Path, monkeypatch: pytest.MonkeyPatch, fresh_settings: Callable[[], None]
) -> None:
    from mlflow import MlflowClient

    client = MlflowClient(with_mlflow, with_mlflow)
    run = client.create_run(client.create_experiment("without-reference"))
    client.create_registered_model("without-reference")
    client.create_model_version("without-reference", run.info.artifact_uri, run.info.run_id)
    with pytest.raises(DataError, match=r"without-reference version 1 has no evaluation/reference.json"):
        step(rows, model_name="without-reference", version="1")
    with pytest.raises(DataError, match="no without-reference version 7"):
        step(rows, model_name="without-reference", version="7")
    assert settings().mlflow_tracking_uri == with_mlflow
