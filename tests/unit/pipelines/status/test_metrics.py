"""Test what the metrics say about models whose states were read or could not be read."""

import datetime as dt

import pytest

from pipelines.errors import ServiceError
from pipelines.status.metrics import StatusCollector, format_metrics
from pipelines.status.model_status import DriftState, ModelStatus


def make_status(model: str, **fields) -> ModelStatus:
    """Return the state of a model about which nothing is known."""
    unknown = dict.fromkeys(("champion_since", "drift", "published_at", "last_training_at", "budget_usd"))
    empty = dict.fromkeys(("champion", "reason", "challenger", "newest_partition", "last_training"), "")
    return ModelStatus(
        model,
        **{
            "health": "no champion",
            "endpoints": {},
            "month_usd": 0.0,
            "project_month_usd": 0.0,
            **unknown,
            **empty,
            **fields,
        },
    )


def test_unreadable_state_hides_no_other_model(caplog):
    def read(model: str) -> ModelStatus:
        if model == "broken":
            raise ServiceError("the lake does not answer.", "Try again.")
        return make_status(model)

    collector = StatusCollector(["broken", "good"], read)
    assert "leeway_models_read_timestamp_seconds 1" not in format_metrics(collector), "nothing was read yet"
    collector.refresh()
    text = format_metrics(collector)
    assert 'leeway_model_status_readable{model="broken"} 0.0' in text
    assert 'leeway_model_status_readable{model="good"} 1.0' in text
    assert 'leeway_model_month_cost_usd{model="good"} 0.0' in text
    assert 'leeway_model_month_cost_usd{model="broken"}' not in text
    assert "the state of model broken cannot be read: the lake does not answer." in caplog.text


def test_unknown_values_are_left_out_and_labels_are_escaped():
    collector = StatusCollector(["a"], lambda model: make_status(model, endpoints={'e"\n': "2"}))
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
    drift = DriftState(dt.date(2013, 1, 3), outcome, "")
    collector = StatusCollector(["a"], lambda model: make_status(model, drift=drift, newest_partition="2013-01-03T05"))
    collector.refresh()
    text = format_metrics(collector)
    assert f'leeway_model_drifted{{model="a"}} {value}' in text
    assert 'leeway_model_newest_partition_timestamp_seconds{model="a"} 1.3571712e+09' in text


def test_states_are_read_again_and_again():
    reads = []

    def read(model: str) -> ModelStatus:
        reads.append(model)
        if len(reads) == 3:
            raise SystemExit  # the end of the process
        return make_status(model)

    with pytest.raises(SystemExit):
        StatusCollector(["a"], read).refresh_forever(0.001)
    assert reads == ["a"] * 3
