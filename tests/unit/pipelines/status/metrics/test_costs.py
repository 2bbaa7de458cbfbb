"""Test the metrics of the key figures and of the daily costs on a real ledger."""

import datetime as dt

import pytest

from pipelines.costs.figures.targets import Targets
from pipelines.costs.ledger import Ledger
from pipelines.errors import ServiceError
from pipelines.lake.cached import CachedLake
from pipelines.status.metrics.costs import CostCollector
from pipelines.status.metrics.models import StatusCollector, format_metrics
from tests.unit.pipelines.costs.ledger_rows import make_row

pytestmark = pytest.mark.usefixtures("home")


def add_jobs() -> None:
    """Add a failed job of an hour ago, and a job of 10 USD on each of the last 60 days; yesterday's cost 100 USD.

    The failed job costs nothing, because an hour ago is yesterday for an hour of each day.
    """
    now = dt.datetime.now(dt.UTC)
    rows = [make_row("f", now - dt.timedelta(hours=1), project="p", status="Failed", cost_usd=0.0)]
    for days in range(1, 61):
        day = now - dt.timedelta(days=days)
        rows.append(make_row(f"j{days}", day, project="p", cost_usd=100.0 if days == 1 else 10.0))
    Ledger.open().add([{name: value for name, value in row.items() if name != "date"} for row in rows])


def test_metrics_are_those_of_the_last_week_and_unknown_ones_are_left_out():
    add_jobs()
    lake = CachedLake.open()
    collector = StatusCollector([], lake, costs=CostCollector(lake, Targets(min_job_success=0.5)))
    collector.refresh()
    text = format_metrics(collector)
    assert 'leeway_key_figure_jobs{figure="job_success",project="p"} 7.0' in text
    assert 'leeway_key_figure_job_success_ratio{project="p"} 0.857143' in text
    assert 'leeway_key_figure_met{figure="job_success",project="p"} 1.0' in text
    assert 'leeway_key_figure_queue_wait_seconds{project="p"} 60.0' in text
    assert "leeway_key_figure_gpu_use_ratio{" not in text
    assert 'leeway_cost_day_usd{project="p"} 100.0' in text
    assert 'leeway_cost_day_expected_usd{project="p"} 10.0' in text
    limit = float(text.split('leeway_cost_day_limit_usd{project="p"} ')[1].split()[0])
    assert 10 < limit < 100


def test_costs_that_cannot_be_read_hide_no_model(monkeypatch, caplog):
    add_jobs()
    lake = CachedLake.open()
    collector = StatusCollector([], lake, costs=CostCollector(lake, Targets()))
    collector.refresh()

    def fail(*_):
        raise ServiceError("the catalog does not answer.", "Try again.")

    monkeypatch.setattr("pipelines.status.metrics.costs.read_projects", fail)
    collector.refresh()
    text = format_metrics(collector)
    assert "leeway_key_figure_jobs{" not in text and "leeway_models_read_timestamp_seconds 1" in text
    assert "the costs cannot be read: the catalog does not answer." in caplog.text
