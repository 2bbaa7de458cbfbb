"""Test the scoring of published days with the champion, with a real lake, MLflow and model."""

import datetime as dt
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.dataset import load_dataset
from pipelines.errors import DataError, ServiceError, SpecError
from pipelines.lake import Lake
from pipelines.steps import preprocess, rollback, score, snapshot
from pipelines.system.files import sha256
from tests.tools.packages import append_code, change_package

FLIGHTS = load_dataset("flights")
DAY, NEXT = dt.date(2013, 2, 1), dt.date(2013, 2, 2)
Publish = Callable[..., pa.Table]


def run(day: dt.date = DAY, **fields: Any) -> score.ScoreResult:
    return score.run(score.ScoreSpec(**{"dataset": "flights", "model": "scored", "partition": day, **fields}))


def read_predictions(day: dt.date = DAY) -> pd.DataFrame:
    return Lake.open().read_partition("flights_predictions", day).to_pandas()


def count_snapshots() -> int:
    return len(Lake.open().catalog.load_table(("leeway", "flights_predictions")).snapshots())


def change_columns(rows: pa.Table, **columns: list[Any]) -> pa.Table:
    for name, values in columns.items():
        field = rows.schema.field(name)
        rows = rows.set_column(rows.schema.get_field_index(name), field, pa.array(values, field.type))
    return rows


def test_each_row_of_the_day_has_a_prediction(publish: Publish, champion: str) -> None:
    rows = publish()
    before = dt.datetime.now(dt.UTC)
    result = run()
    assert (result.scored, result.version, result.changed, result.reason) == (rows.num_rows, champion, True, "")
    predictions = read_predictions()
    columns = [*FLIGHTS.key, "score", "model_name", "model_version", "scored_at"]
    assert list(predictions.columns) == columns
    keys = predictions[list(FLIGHTS.key)].sort_values(list(FLIGHTS.key)).to_records(index=False).tolist()
    expected_keys = rows.select(FLIGHTS.key).to_pandas().sort_values(list(FLIGHTS.key)).to_records(index=False).tolist()
    assert keys == expected_keys
    assert predictions["score"].between(0, 1).all() and predictions["score"].std() > 0.01
    assert set(predictions["model_name"]) == {"scored"} and set(predictions["model_version"]) == {champion}
    (scored_at,) = set(predictions["scored_at"])
    assert before <= scored_at <= dt.datetime.now(dt.UTC) and str(scored_at.tz) == "UTC"


def test_scores_the_features_that_training_would_use(publish: Publish, champion: str, trained: Any) -> None:
    """Scoring builds the same bytes of features as `preprocess`, and gives them the scores of the trained model."""
    for n in range(-12, 1):
        publish(DAY + dt.timedelta(n))
    snapshot.run(
        snapshot.SnapshotSpec(
            dataset="flights", as_of=DAY + dt.timedelta(2), train_days=10, holdout_days=1, min_train_days=4
        )
    )
    preprocess.run(preprocess.PreprocessSpec(validation_days=2))
    features = pq.read_table("data/features/holdout/data.parquet")
    result = run()
    scored_rows = pq.read_table(result.rows)
    assert scored_rows.column_names == [*features.column_names, "score"]
    assert scored_rows.num_rows > features.num_rows, "flights that never get a label are scored, too"
    labelled_rows = scored_rows.filter(pa.compute.is_valid(scored_rows["late"]))
    assert labelled_rows.drop_columns(["score"]).equals(features)
    expected = FLIGHTS.load_model(trained.data / "model").score(scored_rows.to_pandas())
    assert np.array_equal(scored_rows["score"].to_numpy().astype(np.float32), expected)
    stored_scores = read_predictions().set_index(list(FLIGHTS.key))["score"]
    assert stored_scores.equals(scored_rows.to_pandas().set_index(list(FLIGHTS.key))["score"])


def test_scoring_again_commits_nothing(publish: Publish, champion: str) -> None:
    publish()
    first, digest = run(), sha256(run().rows)
    repeat = run()
    assert first.changed and not repeat.changed
    assert repeat == first.model_copy(update={"changed": False})
    assert count_snapshots() == 1
    assert sha256(repeat.rows) == digest


def test_labels_that_arrive_change_no_prediction(publish: Publish, champion: str) -> None:
    """When labels arrive, the day is published again. The predictions and their time stay as they were."""

    def remove_later_columns(rows: pa.Table) -> pa.Table:
        return change_columns(rows, **{name: [None] * rows.num_rows for name in FLIGHTS.known_later})

    publish(change=remove_later_columns)
    result = run()
    before = read_predictions()
    assert pq.read_table(result.rows)["late"].null_count == result.scored
    publish()
    result = run()
    assert not result.changed
    assert read_predictions().equals(before)
    assert pq.read_table(result.rows)["late"].null_count < 50


def test_changed_rows_replace_the_predictions(publish: Publish, champion: str) -> None:
    """This is the control of the two tests before it."""
    rows = publish()
    run()
    before = read_predictions()
    publish(change=lambda table: change_columns(table, sched_dep_time=[2359] * table.num_rows).slice(0, 500))
    result = run()
    assert result.changed and result.scored == 500 < rows.num_rows
    after = read_predictions()
    assert len(after) == 500 and after["scored_at"].min() > before["scored_at"].max()
    assert not np.isclose(after["score"], before["score"][:500]).all()


def test_another_champion_adds_its_predictions_and_changes_no_other_day(
    publish: Publish, make_champion: Callable[[str], str]
) -> None:
    publish(), publish(NEXT)
    first = make_champion("2013-01-25")
    run(), run(NEXT)
    before, next_day = read_predictions(), read_predictions(NEXT)
    second = make_champion("2013-02-01")
    result = run()
    assert (result.version, result.changed) == (second, True) and second != first
    after = read_predictions()
    assert after[after["model_version"] == first].reset_index(drop=True).equals(before)
    assert len(after) == 2 * len(before)
    assert read_predictions(NEXT).equals(next_day)
    assert not run(version=first).changed, "a version can be given by its number, whichever is champion"
    assert Lake.open().count_rows_by_day("flights_predictions") == {DAY: 2 * len(before), NEXT: len(next_day)}


@pytest.mark.soak
def test_after_a_rollback_only_the_days_of_the_removed_version_are_scored(
    publish: Publish, make_champion: Callable[[str], str]
) -> None:
    """As docs/how-to/runbooks/rollback.md says."""
    publish(), publish(NEXT)
    first = make_champion("2013-01-25")
    run()
    second = make_champion("2013-02-01")
    run(), run(NEXT)
    before, next_day = read_predictions(), read_predictions(NEXT)
    assert set(next_day["model_version"]) == {second}
    result = rollback.run(rollback.RollbackSpec(model="scored", why="worse", to=first, force=True))
    assert (result.version, result.previous) == (first, second)
    scored_before, scored_now = run(), run(NEXT)
    assert (scored_before.version, scored_before.changed) == (first, False), "the day of both versions needs nothing"
    assert read_predictions().equals(before)
    assert (scored_now.version, scored_now.changed) == (first, True)
    after = read_predictions(NEXT)
    assert set(after["model_version"]) == {first, second}
    assert after[after["model_version"] == second].reset_index(drop=True).equals(next_day), "its predictions stay"


@pytest.mark.parametrize("version", ["", "1"])
def test_scores_nothing_without_a_champion(
    publish: Publish, register_candidate: Callable[[str], str], with_mlflow: str, version: str
) -> None:
    publish()
    number = register_candidate("2013-01-25")
    result = run(version=version and number)
    if version:
        assert result.scored > 0, "a version that is given by its number needs no champion"
        return
    assert (result.scored, result.version, result.rows, result.changed) == (0, "", None, False)
    assert result.reason == "scored has no champion that was trained as of 2013-02-01 or before."
    assert Lake.open().count_rows_by_day("flights_predictions") == {}


def test_a_day_is_never_scored_by_a_champion_that_may_have_seen_its_labels(
    publish: Publish, make_champion: Callable[[str], str]
) -> None:
    publish()
    make_champion("2013-02-03")
    assert run().reason == "scored has no champion that was trained as of 2013-02-01 or before."
    earlier = make_champion("2013-01-25")
    later_version = make_champion("2013-02-03")
    assert run().version == earlier != later_version
    publish(day := dt.date(2013, 2, 3))
    assert run(day).version == later_version


def test_refuses_a_day_that_is_not_published(publish: Publish, champion: str) -> None:
    with pytest.raises(DataError, match=r"flights has no partition 2013-02-01\. Publish it first"):
        run()
    publish()
    Lake.open().clear_partition("flights", DAY)
    with pytest.raises(DataError, match="flights has no partition 2013-02-01"):
        run()


def test_refuses_a_dataset_without_a_label(champion: str) -> None:
    with pytest.raises(SpecError, match="weather has no label"):
        run(dataset="weather")


@pytest.mark.parametrize("version", ["999", "newest"])
def test_refuses_a_version_that_does_not_exist(publish: Publish, champion: str, version: str) -> None:
    publish()
    with pytest.raises(DataError, match=f"no scored version {version}"):
        run(version=version)


def test_refuses_a_champion_that_cannot_be_loaded(
    publish: Publish, champion: str, make_champion: Callable[[str], str], with_mlflow: str
) -> None:
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

    from pipelines.registry.versions import Registry

    publish()
    run()
    before = read_predictions()
    broken_version = make_champion("2013-01-31")  # no other test uses this version
    uri = Registry.open().client.get_model_version_download_uri("scored", broken_version)
    get_artifact_repository(uri).delete_artifacts()
    with pytest.raises(DataError, match=f"scored version {broken_version} has no model files: .* rollback"):
        run()
    assert read_predictions().equals(before)


def count_lines(text: str) -> str:
    return f"{text}# one more line\n"


@pytest.mark.parametrize(
    "file",
    [
        "serving.py",
        "MLmodel",
        "more.py",
        *(
            pytest.param(name, marks=pytest.mark.soak)
            for name in (
                "requirements.txt",
                "code/pipelines/defaults/model.py",
                "code/sitecustomize.py",
                "artifacts/model/more.py",
            )
        ),
    ],
)
def test_runs_nothing_of_a_package_that_is_not_the_registered_one(
    publish: Publish, champion: str, tmp_path: Path, file: str
) -> None:
    publish()
    marker = tmp_path / "ran"
    change = append_code(marker) if file.endswith(".py") else count_lines
    with (
        change_package("scored", champion, file, change),
        pytest.raises(DataError, match=f"the files of scored version {champion} are not those that were registered"),
    ):
        run()
    assert not marker.exists()
    assert Lake.open().count_rows_by_day("flights_predictions") == {}
    assert run().version == champion


def test_scores_with_the_files_that_were_checked(
    publish: Publish, champion: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that change in MLflow after the check, and before the model is loaded, are not loaded."""
    from pipelines.registry import artifacts
    from pipelines.registry.package.digest import check_package

    publish()
    marker = tmp_path / "ran"
    with ExitStack() as changes:

        def check_and_change(*arguments: Any) -> str:
            digest = check_package(*arguments)
            changes.enter_context(change_package("scored", champion, "serving.py", append_code(marker)))
            return digest

        monkeypatch.setattr(artifacts, "check_package", check_and_change)
        assert run().version == champion
    assert not marker.exists()


def test_refuses_a_dataset_without_a_feature_of_the_model(
    publish: Publish, champion: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish()
    fewer = {name: kind for name, kind in FLIGHTS.features.items() if name != "distance"}
    monkeypatch.setattr("pipelines.datasets.flights.DATASET", replace(FLIGHTS, features=fewer))
    with pytest.raises(DataError, match=r"trained with features that flights does not have: .*distance"):
        run()


@pytest.mark.parametrize("column", ["distance", pytest.param("plane_year", marks=pytest.mark.soak)])
def test_refuses_rows_without_a_column_of_the_features(publish: Publish, champion: str, column: str) -> None:
    publish(change=lambda rows: rows.drop_columns([column]))
    with pytest.raises(DataError, match=rf"the features of flights .*{column}"):
        run()
    assert Lake.open().count_rows_by_day("flights_predictions") == {}


def test_refuses_a_score_that_is_not_a_number(publish: Publish, champion: str, monkeypatch: pytest.MonkeyPatch) -> None:
    publish()
    run()
    before = read_predictions()
    load_broken_scorer = lambda version: lambda rows: np.where(np.arange(len(rows)) < 2, np.nan, 0.5)  # noqa: E731
    monkeypatch.setattr("pipelines.registry.scorer.load_scorer", load_broken_scorer)
    with pytest.raises(DataError, match=r"score is not a number for 2 of \d+ rows\. Nothing was written"):
        run()
    assert read_predictions().equals(before)


def test_rows_that_are_published_while_they_are_scored_are_scored_again(
    publish: Publish, champion: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pipelines.scoring import scores

    rows = publish()
    store_scores = scores.store_scores

    def publish_and_store(*arguments: Any) -> Any:
        monkeypatch.setattr(scores, "store_scores", store_scores)
        publish(change=lambda table: table.slice(0, 500))
        return store_scores(*arguments)

    monkeypatch.setattr(scores, "store_scores", publish_and_store)
    assert rows.num_rows > run().scored == len(read_predictions()) == 500


def test_a_registry_that_does_not_answer_is_a_service_error(
    publish: Publish, fresh_settings: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    publish()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    fresh_settings()
    with pytest.raises(ServiceError, match="does not answer"):
        run()
