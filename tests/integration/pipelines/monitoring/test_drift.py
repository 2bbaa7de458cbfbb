"""The step `drift` over real profiles, a real MLflow version and a real lake."""

import datetime as dt
import shutil
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
from pipelines.monitoring.profiles.counting import count_file
from pipelines.monitoring.profiles.profile import Profile
from pipelines.monitoring.profiles.record import load_record
from pipelines.monitoring.profiles.table import Profiles
from pipelines.registry.versions import Registry, read_as_of
from pipelines.steps import drift
from pipelines.validation.results_table import SCHEMA, Evidence
from tests.tools.candidates import register
from tests.tools.names import name_for_test

LAST = 9
"""Days of profiles after the first."""
counted: dict[tuple[int, float], Profile] = {}
"""Profiles by day and shift: the versions of all tests are of one model, and have one reference."""


@pytest.fixture
def version(with_mlflow: str, trained: SimpleNamespace, home: Path, request: pytest.FixtureRequest) -> Any:
    shutil.copytree(trained.data, "data")
    name = name_for_test("d-", request.node.name)
    return Registry.open().get_version(name, register(name))


def profiled(
    version: Any, shift: float = 0.0, days: int = LAST + 1, by: str = "", skip: tuple[int, ...] = ()
) -> dt.date:
    """Days of rows drawn from the holdout's, each with a profile by the version, or by another; the last of them."""
    record, first = load_record(Registry.open(), version), read_as_of(version)
    rows = pd.read_parquet("data/features/holdout/data.parquet")
    scores = pd.read_parquet("data/evaluation/predictions.parquet")["score"]
    column = next(
        name for name in load_dataset("flights").features if rows[name].dtype.kind == "f" and rows[name].std() > 0
    )
    for n in set(range(days)) - set(skip):
        if (n, shift) not in counted:
            chosen = np.random.default_rng(n).choice(len(rows), 600)
            drawn = rows.iloc[chosen].assign(score=scores.to_numpy()[chosen])
            drawn[column] += shift * rows[column].std()
            drawn.to_parquet("day.parquet")
            counted[n, shift] = count_file(record.reference, Path("day.parquet"))
        Profiles.open().write(first + dt.timedelta(n), version.name, by or str(version.version), counted[n, shift])
    return first + dt.timedelta(days - 1)


def decide(of: Any, last: dt.date, **fields: Any) -> drift.DriftResult:
    given = {"model_name": of.name, "version": str(of.version), "partition": last, **fields}
    return drift.run(drift.DriftSpec(**given))


def test_a_policy_that_no_history_can_meet_is_refused() -> None:
    given = {"model_name": "flights", "partition": "2013-04-07", "policy": {"at_least": 61, "of_last": 90}}
    with pytest.raises(ValidationError, match="there would never be an alarm"):
        drift.DriftSpec.model_validate(given)
    assert drift.DriftSpec.model_validate({**given, "history_days": 61}).policy.at_least == 61


def test_no_champion_decides_nothing(version: Any) -> None:
    told = decide(version, dt.date(2013, 2, 1), version="")
    assert (told.outcome, told.version) == ("undecided", "")
    assert told.reasons == [f"{version.name} has no champion that was trained as of 2013-02-01 or before"]


def test_the_champion_of_the_day_is_asked_about(version: Any) -> None:
    last = profiled(version)
    Registry.open().client.set_registered_model_alias(version.name, "champion", version.version)
    assert decide(version, last, version="").version == str(version.version)
    before = read_as_of(version) - dt.timedelta(1)  # it may have seen that day's labels
    assert decide(version, before, version="").version == ""


def test_a_version_that_is_younger_than_a_window_is_undecided(version: Any) -> None:
    last = profiled(version, days=5)
    told = decide(version, last)
    assert (told.outcome, told.missing, told.changed) == ("undecided", [], False)
    assert "has not scored 2 of the window's 7 days" in told.reasons[0]
    assert decide(version, last, window_days=5).outcome != "undecided"


def test_a_version_that_was_trained_after_the_day_waits_for_nothing(version: Any) -> None:
    day = read_as_of(version) - dt.timedelta(1)
    told = decide(version, day)
    assert (told.outcome, told.missing) == ("undecided", [])
    assert told.reasons == [f"version 1 was trained as of {day + dt.timedelta(1)}, after {day}"]


def test_a_window_that_lacks_a_profile_is_undecided_and_names_the_day(version: Any) -> None:
    last = profiled(version)
    late = decide(version, last + dt.timedelta(2))
    assert late.outcome == "undecided" and not late.changed
    assert late.missing == [last + dt.timedelta(1), last + dt.timedelta(2)]
    assert "and 1 more" in late.reasons[0]


def test_days_that_another_version_scored_are_not_waited_for(version: Any) -> None:
    """As after a rollback: this one will never score them."""
    last = profiled(version, skip=(5, 6))
    assert decide(version, last).missing == [last - dt.timedelta(4), last - dt.timedelta(3)]
    profiled(version, by="99")
    told = decide(version, last)
    assert (told.outcome, told.missing) == ("undecided", [])
    assert "has not scored 2 of the window's 7 days" in told.reasons[0]


def test_a_day_that_its_validation_refused_is_not_waited_for_and_the_others_decide(version: Any) -> None:
    last = profiled(version, shift=3.0, skip=(6,))
    rules = {"policy": {"bounds": {"psi": 0.2}, "min_weight": 0.0}}
    assert decide(version, last, **rules).missing == [last - dt.timedelta(3)]
    refuse(last - dt.timedelta(3))
    told = decide(version, last, **rules)
    assert (told.outcome, told.missing, told.rows) == ("drift", [], 3_600)


def test_a_day_that_was_withdrawn_after_it_was_scored_does_not_count(version: Any) -> None:
    last = profiled(version)
    assert decide(version, last).rows == 4_200
    refuse(last - dt.timedelta(3))
    told = decide(version, last)
    assert (told.missing, told.rows) == ([], 3_600)


def test_a_day_that_passed_and_is_about_to_be_published_is_waited_for(version: Any) -> None:
    """Its evidence is kept first; a killed validation is tried again."""
    last = profiled(version, skip=(LAST,))
    refuse(last, severity="info")
    assert decide(version, last).missing == [last]
    refuse(last, success=True)
    assert decide(version, last).missing == [last]
    refuse(last, severity="warning")
    assert decide(version, last).missing == [], "so many rows may be bad that nothing is published"


def refuse(day: dt.date, **fields: Any) -> None:
    """The day was judged, and is not published."""
    row = dict.fromkeys(SCHEMA.names) | {"date": day, "dataset": "flights", "success": False, "run": f"r {fields}"}
    row |= {"validated_at": dt.datetime.now(dt.UTC), "place": 0, "severity": "critical", "expectation": "e"}
    Evidence(Lake.open()).add([row | fields], day)


def test_what_was_decided_is_kept_once(version: Any) -> None:
    last = profiled(version, shift=3.0)
    rules = {"policy": {"bounds": {"psi": 0.2}, "min_weight": 0.0}}
    told = decide(version, last, **rules)
    assert (told.outcome, told.rows, told.missing, told.changed) == ("drift", 4_200, [], True)
    assert told.as_of == last + dt.timedelta(1)
    assert len(told.worst) == len(told.reasons) >= 1
    assert not decide(version, last, **rules).changed
    rows = Lake.open().read_partition(told.table, last).to_pandas()
    assert set(rows.loc[rows["drifted"], "name"]) == set(told.worst)
    assert set(rows["outcome"]) == {"drift"} and rows.loc[rows["measure"] == "psi", "bound"].eq(0.2).all()


def test_a_version_without_a_reference_is_told(version: Any) -> None:
    client = Registry.open().client
    bare = client.create_model_version(version.name, "s3://nowhere/model")
    client.set_model_version_tag(version.name, bare.version, "leeway.as_of", "2013-01-25")
    with pytest.raises(DataError):
        decide(version, dt.date(2013, 2, 1), version=str(bare.version))
