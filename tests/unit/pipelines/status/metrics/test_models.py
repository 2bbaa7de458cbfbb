"""Test what the metrics say about models whose states were read or could not be read."""

import datetime as dt

import pytest

from pipelines.errors import ServiceError
from pipelines.lake.cached import CachedLake
from pipelines.status.documents.models import DriftDecision, ModelSummary, Performance, WeekPerformance
from pipelines.status.metrics.models import StatusCollector, format_metrics

pytestmark = pytest.mark.usefixtures("home")


def make_summary(model: str, **fields) -> ModelSummary:
    """Return the state of a model about which nothing is known."""
    unknown = (
        "champion_since",
        "champion_as_of",
        "drift",
        "published_at",
        "last_training",
        "performance",
        "budget_usd",
    )
    empty = dict.fromkeys(("champion", "reason", "challenger", "newest_partition", "project"), "")
    costs = {"month_usd": 0.0, "project_month_usd": 0.0}
    known = {"model": model, "dataset": "d", "health": "no champion", "endpoints": {}}
    return ModelSummary(
        **{**dict.fromkeys((*unknown, "performance", "budget_usd")), **empty, **costs, **known, **fields}
    )


def collect(read, *models: str) -> StatusCollector:
    """Return a collector of the states that `read` returns."""
    return StatusCollector(models, CachedLake.open(), lambda _, model: read(model))


def test_unreadable_state_hides_no_other_model(caplog):
    def read(model: str) -> ModelSummary:
        if model == "broken":
            raise ServiceError("the lake does not answer.", "Try again.")
        return make_summary(model)

    collector = collect(read, "broken", "good")
    assert "leeway_models_read_timestamp_seconds 1" not in format_metrics(collector), "nothing was read yet"
    collector.refresh()
    text = format_metrics(collector)
    assert 'leeway_model_status_readable{model="broken"} 0.0' in text
    assert 'leeway_model_status_readable{model="good"} 1.0' in text
    assert 'leeway_model_month_cost_usd{model="good"} 0.0' in text
    assert 'leeway_model_month_cost_usd{model="broken"}' not in text
    assert "the state of model broken cannot be read: the lake does not answer." in caplog.text


def test_unknown_values_are_left_out_and_labels_are_escaped():
    collector = collect(lambda model: make_summary(model, endpoints={'e"\n': "2"}), "a")
    collector.refresh()
    text = format_metrics(collector)
    assert 'leeway_model_endpoint{endpoint="e\\"\\n",model="a",version="2"} 1.0' in text
    for name in (
        "drifted",
        "champion_since_timestamp_seconds",
        "month_budget_usd",
        "newest_partition_timestamp_seconds",
    ):
        assert f"leeway_model_{name}{{" not in text


@pytest.mark.parametrize(("outcome", "value"), [("drift", 1.0), ("none", 0.0)])
def test_drift_and_hours(outcome, value):
    drift = DriftDecision(day=dt.date(2013, 1, 3), outcome=outcome, reasons="", version="1", report_url="")
    collector = collect(lambda model: make_summary(model, drift=drift, newest_partition="2013-01-03T05"), "a")
    collector.refresh()
    text = format_metrics(collector)
    assert f'leeway_model_drifted{{model="a"}} {value}' in text
    assert 'leeway_model_newest_partition_timestamp_seconds{model="a"} 1.3571712e+09' in text


def test_states_are_read_again_and_again():
    reads = []

    def read(model: str) -> ModelSummary:
        reads.append(model)
        if len(reads) == 3:
            raise SystemExit  # the end of the process
        return make_summary(model)

    with pytest.raises(SystemExit):
        collect(read, "a").refresh_forever(0.001)
    assert reads == ["a"] * 3


def test_performance_is_that_of_the_last_week_and_an_unknown_interval_is_left_out():
    weeks = [
        WeekPerformance(week=dt.date(2013, 1, 7 * n), value=0.6 + n / 10, low=low, high=0.9, rows=9, versions=["1"])
        for n, low in ((1, 0.5), (2, None))
    ]
    performance = Performance(metric="auc", higher_is_better=True, weeks=weeks)
    collector = collect(lambda model: make_summary(model, performance=performance), "a")
    collector.refresh()
    text = format_metrics(collector)
    assert 'leeway_model_performance{metric="auc",model="a"} 0.8' in text
    assert 'leeway_model_performance_high{metric="auc",model="a"} 0.9' in text
    assert "leeway_model_performance_low{" not in text
    assert 'leeway_model_performance_week_timestamp_seconds{model="a"} 1.3581216e+09' in text


def test_lake_that_does_not_answer_makes_no_old_state_look_new(monkeypatch, caplog):
    collector = collect(make_summary, "a")
    collector.refresh()
    before = format_metrics(collector)

    def fail():
        raise ServiceError("the catalog does not answer.", "Try again.")

    monkeypatch.setattr(collector._lake, "refresh", fail)
    collector.refresh()
    after = format_metrics(collector)
    read_at = next(line for line in before.splitlines() if line.startswith("leeway_models_read_timestamp"))
    assert read_at in after and "leeway_model_month_cost_usd{" not in after
    assert 'leeway_model_status_readable{model="a"} 0.0' in after
    assert "the states of the models cannot be read: the catalog does not answer." in caplog.text
