"""Scoring of published days with the champion: a real lake, a real MLflow, a real model."""

import datetime as dt
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.dataset import load_dataset
from pipelines.errors import DataError, ServiceError, SpecError
from pipelines.lake import Lake
from pipelines.steps import preprocess, score, snapshot
from pipelines.system.files import sha256

FLIGHTS = load_dataset("flights")
DAY, NEXT = dt.date(2013, 2, 1), dt.date(2013, 2, 2)
Publish = Callable[..., pa.Table]


def run(day: dt.date = DAY, **fields: Any) -> score.ScoreResult:
    return score.run(score.ScoreSpec(**{"model_name": "scored", "partition": day, **fields}))


def predictions(day: dt.date = DAY) -> pd.DataFrame:
    return Lake.open().read_partition("flights_predictions", day).to_pandas()


def snapshots() -> int:
    return len(Lake.open().catalog.load_table(("leeway", "flights_predictions")).snapshots())


def changed(rows: pa.Table, **new: list[Any]) -> pa.Table:
    for name, values in new.items():
        field = rows.schema.field(name)
        rows = rows.set_column(rows.schema.get_field_index(name), field, pa.array(values, field.type))
    return rows


def test_each_row_of_the_day_has_a_prediction(publish: Publish, champion: str) -> None:
    rows = publish()
    before = dt.datetime.now(dt.UTC)
    told = run()
    assert (told.scored, told.version, told.changed, told.reason) == (rows.num_rows, champion, True, "")
    made = predictions()
    columns = [*FLIGHTS.key, "score", "model_name", "model_version", "scored_at"]
    assert list(made.columns) == columns
    keys = made[list(FLIGHTS.key)].sort_values(list(FLIGHTS.key)).to_records(index=False).tolist()
    wanted = rows.select(FLIGHTS.key).to_pandas().sort_values(list(FLIGHTS.key)).to_records(index=False).tolist()
    assert keys == wanted
    assert made["score"].between(0, 1).all() and made["score"].std() > 0.01
    assert set(made["model_name"]) == {"scored"} and set(made["model_version"]) == {champion}
    (at,) = set(made["scored_at"])
    assert before <= at <= dt.datetime.now(dt.UTC) and str(at.tz) == "UTC"


def test_what_is_scored_is_what_would_be_trained_on(publish: Publish, champion: str, trained: Any) -> None:
    """The same bytes of features as `preprocess` makes of the day, and the score that the trained model gives them."""
    for n in range(-12, 1):
        publish(DAY + dt.timedelta(n))
    snapshot.run(snapshot.SnapshotSpec(as_of=DAY + dt.timedelta(2), train_days=10, holdout_days=1, min_train_days=4))
    preprocess.run(preprocess.PreprocessSpec(validation_days=2))
    built = pq.read_table("data/features/holdout/data.parquet")
    told = run()
    scored = pq.read_table(told.rows)
    assert scored.column_names == [*built.column_names, "score"]
    assert scored.num_rows > built.num_rows, "flights that never got a label are scored, too"
    labelled = scored.filter(pa.compute.is_valid(scored["late"]))
    assert labelled.drop_columns(["score"]).equals(built)
    expected = FLIGHTS.load_model(trained.data / "model").score(scored.to_pandas())
    assert np.array_equal(scored["score"].to_numpy().astype(np.float32), expected)
    kept = predictions().set_index(list(FLIGHTS.key))["score"]
    assert kept.equals(scored.to_pandas().set_index(list(FLIGHTS.key))["score"])


def test_the_same_again_commits_nothing(publish: Publish, champion: str) -> None:
    publish()
    first, file = run(), sha256(run().rows)
    again = run()
    assert first.changed and not again.changed
    assert again == first.model_copy(update={"changed": False})
    assert snapshots() == 1
    assert sha256(again.rows) == file


def test_what_is_known_later_changes_no_score(publish: Publish, champion: str) -> None:
    """Labels that arrive are another publication of the day: the predictions stay as they were, with their moment."""

    def unknown(rows: pa.Table) -> pa.Table:
        return changed(rows, **{name: [None] * rows.num_rows for name in FLIGHTS.later_known})

    publish(change=unknown)
    told = run()
    before = predictions()
    assert pq.read_table(told.rows)["late"].null_count == told.scored
    publish()
    told = run()
    assert not told.changed
    assert predictions().equals(before)
    assert pq.read_table(told.rows)["late"].null_count < 50


def test_rows_that_changed_replace_the_predictions(publish: Publish, champion: str) -> None:
    """The control of the two before."""
    rows = publish()
    run()
    before = predictions()
    publish(change=lambda had: changed(had, sched_dep_time=[2359] * had.num_rows).slice(0, 500))
    told = run()
    assert told.changed and told.scored == 500 < rows.num_rows
    after = predictions()
    assert len(after) == 500 and after["scored_at"].min() > before["scored_at"].max()
    assert not np.isclose(after["score"], before["score"][:500]).all()


def test_another_champion_adds_its_own_and_other_days_stay(publish: Publish, crown: Callable[[str], str]) -> None:
    publish(), publish(NEXT)
    first = crown("2013-01-25")
    run(), run(NEXT)
    before, other = predictions(), predictions(NEXT)
    second = crown("2013-02-01")
    told = run()
    assert (told.version, told.changed) == (second, True) and second != first
    after = predictions()
    assert after[after["model_version"] == first].reset_index(drop=True).equals(before)
    assert len(after) == 2 * len(before)
    assert predictions(NEXT).equals(other)
    assert not run(version=first).changed, "of a version by its number, whoever is champion"
    assert Lake.open().count_rows_by_day("flights_predictions") == {DAY: 2 * len(before), NEXT: len(other)}


@pytest.mark.parametrize("version", ["", "1"])
def test_without_a_champion_nothing_is_scored(
    publish: Publish, candidates: Callable[[str], str], with_mlflow: str, version: str
) -> None:
    publish()
    number = candidates("2013-01-25")
    told = run(version=version and number)
    if version:
        assert told.scored > 0, "a version by its number needs none"
        return
    assert (told.scored, told.version, told.rows, told.changed) == (0, "", None, False)
    assert told.reason == "scored has no champion that was trained as of 2013-02-01 or before."
    assert Lake.open().count_rows_by_day("flights_predictions") == {}


def test_a_day_is_never_scored_by_a_champion_that_may_have_seen_its_labels(
    publish: Publish, crown: Callable[[str], str]
) -> None:
    publish()
    crown("2013-02-03")
    assert run().reason == "scored has no champion that was trained as of 2013-02-01 or before."
    then = crown("2013-01-25")
    later = crown("2013-02-03")
    assert run().version == then != later
    publish(day := dt.date(2013, 2, 3))
    assert run(day).version == later


def test_a_day_that_is_not_published(publish: Publish, champion: str) -> None:
    with pytest.raises(DataError, match=r"flights has no partition 2013-02-01\. Publish it first"):
        run()
    publish()
    Lake.open().clear_partition("flights", DAY)
    with pytest.raises(DataError, match="flights has no partition 2013-02-01"):
        run()


def test_a_dataset_of_which_nothing_is_predicted(champion: str) -> None:
    with pytest.raises(SpecError, match="weather has no label"):
        run(dataset="weather")


@pytest.mark.parametrize("version", ["999", "newest"])
def test_a_version_that_is_not_there(publish: Publish, champion: str, version: str) -> None:
    publish()
    with pytest.raises(DataError, match=f"no scored version {version}"):
        run(version=version)


def test_a_champion_that_cannot_be_loaded(
    publish: Publish, champion: str, crown: Callable[[str], str], with_mlflow: str
) -> None:
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

    from pipelines.registry.versions import Registry

    publish()
    run()
    before = predictions()
    broken = crown("2013-01-31")  # of no other test
    where = Registry.open().client.get_model_version_download_uri("scored", broken)
    get_artifact_repository(where).delete_artifacts()
    with pytest.raises(DataError, match=f"scored version {broken} cannot be loaded: .* rollback"):
        run()
    assert predictions().equals(before)


def test_a_feature_that_the_model_wants_and_the_dataset_lacks(
    publish: Publish, champion: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish()
    fewer = {name: kind for name, kind in FLIGHTS.features.items() if name != "distance"}
    monkeypatch.setattr("pipelines.datasets.flights.DATASET", replace(FLIGHTS, features=fewer))
    with pytest.raises(DataError, match=r"trained with features that flights does not have: .*distance"):
        run()


@pytest.mark.parametrize("column", ["distance", "plane_year"])
def test_a_column_that_the_features_want_and_the_rows_lack(publish: Publish, champion: str, column: str) -> None:
    publish(change=lambda rows: rows.drop_columns([column]))
    with pytest.raises(DataError, match=rf"the features of flights .*{column}"):
        run()
    assert Lake.open().count_rows_by_day("flights_predictions") == {}


def test_a_score_that_is_no_number(publish: Publish, champion: str, monkeypatch: pytest.MonkeyPatch) -> None:
    publish()
    run()
    before = predictions()
    broken = lambda version: lambda rows: np.where(np.arange(len(rows)) < 2, np.nan, 0.5)  # noqa: E731
    monkeypatch.setattr("pipelines.registry.scorer.load_scorer", broken)
    with pytest.raises(DataError, match=r"score is not a number for 2 of \d+ rows\. Nothing was written"):
        run()
    assert predictions().equals(before)


def test_rows_that_are_published_while_they_are_scored_are_scored_again(
    publish: Publish, champion: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pipelines.scoring import scores

    rows = publish()
    slow = scores.store_scores

    def overtaken(*given: Any) -> Any:
        monkeypatch.setattr(scores, "store_scores", slow)
        publish(change=lambda had: had.slice(0, 500))
        return slow(*given)

    monkeypatch.setattr(scores, "store_scores", overtaken)
    assert rows.num_rows > run().scored == len(predictions()) == 500


def test_no_registry(publish: Publish, fresh_settings: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    publish()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    fresh_settings()
    with pytest.raises(ServiceError, match="does not answer"):
        run()
