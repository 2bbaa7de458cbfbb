"""Test the step `drift` with real profiles, a real MLflow version and a real lake."""

import datetime as dt
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError

from pipelines.dataset import load_dataset
from pipelines.errors import DataError
from pipelines.lake import Lake
from pipelines.loop import Event, Kind
from pipelines.loop.facts import explain_age
from pipelines.loop.journal import Journal
from pipelines.loop.transitions import build_end
from pipelines.monitoring.profiles.counting import count_file
from pipelines.monitoring.profiles.profile import Profile
from pipelines.monitoring.profiles.record import load_record
from pipelines.monitoring.profiles.table import Profiles
from pipelines.registry.versions import Registry, read_as_of
from pipelines.steps import drift
from pipelines.validation.results_table import SCHEMA, ResultsTable
from tests.tools.candidates import register
from tests.tools.names import name_for_test
from tests.tools.short_gate import shorten_drift_report

LAST = 9
"""Number of days with a profile after the first day."""
profile_cache: dict[tuple[int, float], Profile] = {}
"""Profiles by day and shift. The versions of all tests have the same model, and so the same reference."""


@pytest.fixture(autouse=True)
def short_report() -> Iterator[None]:
    """Do not draw the pictures of the reports."""
    with shorten_drift_report():
        yield


@pytest.fixture
def version(with_mlflow: str, trained: SimpleNamespace, home: Path, request: pytest.FixtureRequest) -> Any:
    """Register the trained model under a name of this test; return the version."""
    shutil.copytree(trained.data, "data")
    name = name_for_test("d-", request.node.name)
    return Registry.open().get_version(name, register(name))


def write_profiles(
    version: Any, shift: float = 0.0, days: int = LAST + 1, by: str = "", skip: tuple[int, ...] = ()
) -> dt.date:
    """Write a profile for each day, of rows drawn from the holdout, for the version or another; return the last day."""
    record, first = load_record(Registry.open(), version), read_as_of(version)
    rows = pd.read_parquet("data/features/holdout/data.parquet")
    scores = pd.read_parquet("data/evaluation/predictions.parquet")["score"]
    column = next(
        name for name in load_dataset("flights").features if rows[name].dtype.kind == "f" and rows[name].std() > 0
    )
    for n in set(range(days)) - set(skip):
        if (n, shift) not in profile_cache:
            positions = np.random.default_rng(n).choice(len(rows), 600)
            sample = rows.iloc[positions].assign(score=scores.to_numpy()[positions])
            sample[column] += shift * rows[column].std()
            sample.to_parquet("day.parquet")
            profile_cache[n, shift] = count_file(record.reference, Path("day.parquet"))
        Profiles.open().write(
            first + dt.timedelta(n), version.name, by or str(version.version), profile_cache[n, shift]
        )
    return first + dt.timedelta(days - 1)


def decide(model_version: Any, last: dt.date, **fields: Any) -> drift.DriftResult:
    """Run the step `drift`."""
    spec = {"model": model_version.name, "version": str(model_version.version), "partition": last, **fields}
    return drift.run(drift.DriftSpec(**{"dataset": "flights", **spec}))


def test_refuses_a_policy_that_no_history_can_meet() -> None:
    spec: dict[str, Any] = {"dataset": "flights", "model": "flights", "partition": "2013-04-07"}
    spec["policy"] = {"at_least": 61, "of_last": 90}
    with pytest.raises(ValidationError, match="there would never be an alarm"):
        drift.DriftSpec.model_validate(spec)
    assert drift.DriftSpec.model_validate({**spec, "history_days": 61}).policy.at_least == 61


def test_is_undecided_without_a_champion(version: Any) -> None:
    result = decide(version, dt.date(2013, 2, 1), version="")
    assert (result.outcome, result.version) == ("undecided", "")
    assert result.reasons == [f"{version.name} has no champion that was trained as of 2013-02-01 or before"]


def test_uses_the_champion_of_the_day(version: Any) -> None:
    last = write_profiles(version)
    Registry.open().client.set_registered_model_alias(version.name, "champion", version.version)
    assert decide(version, last, version="").version == str(version.version)
    before = read_as_of(version) - dt.timedelta(1)  # the version may have seen that day's labels
    assert decide(version, before, version="").version == ""


def test_is_undecided_for_a_version_younger_than_the_window(version: Any) -> None:
    last = write_profiles(version, days=5)
    result = decide(version, last)
    assert (result.outcome, result.missing, result.changed) == ("undecided", [], False)
    assert "has not scored 2 of the window's 7 days" in result.reasons[0]
    assert decide(version, last, window_days=5).outcome != "undecided"


def test_misses_no_day_of_a_version_that_was_trained_after_the_day(version: Any) -> None:
    day = read_as_of(version) - dt.timedelta(1)
    result = decide(version, day)
    assert (result.outcome, result.missing) == ("undecided", [])
    assert result.reasons == [f"version 1 was trained as of {day + dt.timedelta(1)}, after {day}"]


def test_is_undecided_and_names_the_days_without_a_profile(version: Any) -> None:
    last = write_profiles(version)
    result = decide(version, last + dt.timedelta(2))
    assert result.outcome == "undecided" and not result.changed
    assert result.missing == [last + dt.timedelta(1), last + dt.timedelta(2)]
    assert "and 1 more" in result.reasons[0]


def test_requests_a_training_without_drift_where_the_last_one_is_old(
    version: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh_settings: Callable[[], None]
) -> None:
    last, no_alarms = write_profiles(version), {"policy": {"bounds": {"auc": 1.0}}}
    as_of, trained_as_of = last + dt.timedelta(1), read_as_of(version)
    age, params = (as_of - trained_as_of).days, tmp_path / "params.yaml"
    guard = f"guard: {{policy: {{max_age_days: {age}}}}}"
    params.write_text(guard)
    monkeypatch.setenv("LEEWAY_PROJECT", str(tmp_path))
    fresh_settings()
    result = decide(version, last, **no_alarms)
    assert (result.outcome, result.retrain) == ("none", True)
    assert (
        f"as of {trained_as_of}, {age} days before {as_of}; the next is due after {age} days" in result.overdue_reason
    )
    result = decide(version, last, backfill=True, **no_alarms)
    assert (bool(result.overdue_reason), result.retrain) == (True, False)

    def explain(day: dt.date = as_of) -> str:
        return explain_age(version.name, load_dataset("flights"), trained_as_of, day)

    assert not explain(as_of - dt.timedelta(1)), "a day too early"
    params.write_text(f"{guard}\nsnapshot: {{train_days: {age - 2}}}")
    assert f"due after {age - 2} days" in explain(), "the training had fewer days"
    params.write_text("guard: {policy: {max_age_days: 0}}")
    assert not explain()
    params.write_text(guard)
    record_training(version.name, as_of, "passed")
    assert explain(), "the training that this day requested does not change the day's answer"
    record_training(version.name, as_of - dt.timedelta(1), "failed")
    assert explain(), "a training that failed gave no model"
    record_training(version.name, as_of - dt.timedelta(2), "not_passed")
    assert not explain()


def test_drift_of_inputs_requests_a_training_only_where_it_may(version: Any) -> None:
    last = write_profiles(version, shift=3.0)
    rules = {"policy": {"bounds": {"psi": 0.2}, "min_weight": 0.0}}
    assert decide(version, last, **rules).retrain
    result = decide(version, last, **rules, retrain_on="performance")
    assert (result.outcome, result.retrain) == ("drift", False)
    lost = result.model_copy(update={"drifted_columns": ["performance"]})
    spec = drift.DriftSpec(dataset="flights", model="m", partition=last, retrain_on="performance")
    assert drift._requests_training(spec, lost)


def record_training(model: str, as_of: dt.date, outcome: Any) -> None:
    """Record a training that drift started, and its end."""
    run, journal = f"d/{as_of}", Journal.open()
    start = Event.create(Kind.STARTED, model, run, as_of=as_of, trigger="drift")
    journal.append_event(model, lambda _: start)
    journal.append_event(model, lambda history: build_end(model, run, outcome, "", history))


@pytest.mark.soak
def test_misses_no_day_that_another_version_scored(version: Any) -> None:
    """After a rollback, this version never scores the days that the other version scored."""
    last = write_profiles(version, skip=(5, 6))
    assert decide(version, last).missing == [last - dt.timedelta(4), last - dt.timedelta(3)]
    write_profiles(version, by="99")
    result = decide(version, last)
    assert (result.outcome, result.missing) == ("undecided", [])
    assert "has not scored 2 of the window's 7 days" in result.reasons[0]


def test_misses_no_day_that_validation_refused_and_decides_on_the_others(version: Any) -> None:
    last = write_profiles(version, shift=3.0, skip=(6,))
    rules = {"policy": {"bounds": {"psi": 0.2}, "min_weight": 0.0}}
    assert decide(version, last, **rules).missing == [last - dt.timedelta(3)]
    write_validation(last - dt.timedelta(3))
    result = decide(version, last, **rules)
    assert (result.outcome, result.missing, result.rows) == ("drift", [], 3_600)


@pytest.mark.soak
def test_a_day_that_is_withdrawn_after_its_scoring_does_not_count(version: Any) -> None:
    last = write_profiles(version)
    assert decide(version, last).rows == 4_200
    write_validation(last - dt.timedelta(3))
    result = decide(version, last)
    assert (result.missing, result.rows) == ([], 3_600)


@pytest.mark.soak
def test_misses_a_day_that_passed_validation_and_is_not_published_yet(version: Any) -> None:
    """Validation writes its evidence before it publishes. A killed validation is retried."""
    last = write_profiles(version, skip=(LAST,))
    write_validation(last, severity="info")
    assert decide(version, last).missing == [last]
    write_validation(last, success=True)
    assert decide(version, last).missing == [last]
    write_validation(last, severity="warning")
    assert decide(version, last).missing == [], "a day with too many invalid rows is not published"


def write_validation(day: dt.date, **fields: Any) -> None:
    """Write evidence of a validation of the day, which fails unless `fields` say otherwise."""
    row = dict.fromkeys(SCHEMA.names) | {"date": day, "dataset": "flights", "success": False, "run": f"r {fields}"}
    row |= {"validated_at": dt.datetime.now(dt.UTC), "place": 0, "severity": "critical", "expectation": "e"}
    ResultsTable(Lake.open()).add([row | fields], day)


def test_writes_a_decision_once(version: Any) -> None:
    last = write_profiles(version, shift=3.0)
    rules = {"policy": {"bounds": {"psi": 0.2}, "min_weight": 0.0}}
    result = decide(version, last, **rules)
    assert (result.outcome, result.rows, result.missing, result.changed) == ("drift", 4_200, [], True)
    assert result.as_of == last + dt.timedelta(1)
    assert len(result.drifted_columns) == len(result.reasons) >= 1
    assert not decide(version, last, **rules).changed
    rows = Lake.open().read_partition(result.table, last).to_pandas()
    assert set(rows.loc[rows["drifted"], "name"]) == set(result.drifted_columns)
    assert set(rows["outcome"]) == {"drift"} and rows.loc[rows["measure"] == "psi", "bound"].eq(0.2).all()


def test_refuses_a_version_without_a_reference(version: Any) -> None:
    client = Registry.open().client
    version_without_reference = client.create_model_version(version.name, "s3://nowhere/model")
    client.set_model_version_tag(version.name, version_without_reference.version, "leeway.as_of", "2013-01-25")
    with pytest.raises(DataError):
        decide(version, dt.date(2013, 2, 1), version=str(version_without_reference.version))
