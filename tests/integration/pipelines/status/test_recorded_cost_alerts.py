"""Test the alerts on costs and key figures on series that the collector exported while a real ledger grew for 12 days.

The clock is simulated: every twelve hours, the jobs that have ended come into the ledger, and the collector reads it.
Each alert has a project that must raise it, and one that comes close and must not.
"""

import datetime as dt
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipelines.costs.figures.targets import Targets
from pipelines.costs.ledger import Ledger
from pipelines.lake.cached import CachedLake
from pipelines.status.metrics.costs import CostCollector
from pipelines.status.metrics.models import StatusCollector, format_metrics
from tests.tools.recorded_alerts import Export, find_wrong_alerts, parse_export
from tests.unit.pipelines.costs.ledger_rows import make_row

START = dt.datetime(2026, 11, 2, tzinfo=dt.UTC)
"""When the recording begins: midnight."""
DAY = dt.timedelta(days=1)
HOURS = 12
"""Hours between two readings of the ledger."""
MINUTES = 60
"""Minutes between two samples of a series: the longest time for which a condition must hold."""
RECORDED_DAYS = 12
BAD_DAY = 3
"""Number of the day on which all the bad things happen, from 0. Its jobs end at 11:00."""
ALERTS_OF_WEEK = {"LeewayGpusIdle of idle", "LeewayQueueLong of waiting", "LeewayJobsFail of failing"}
"""Alerts on key figures: those of the last seven days."""
ALERT_OF_DAY = "LeewayCostJump of jumping"
"""Alert on the last whole day."""
HALF_DAY = dt.timedelta(hours=12)
GPU_TYPE = "ml.g5.12xlarge"
"""Instance type with four GPUs."""

Row = dict[str, Any]


def list_daily_jobs(project: str, count: int = 1, first: int = -8, **fields: Any) -> Iterator[Row]:
    """Yield the same jobs of an hour on each day from `first` on: `count` of them, created between 9:20 and 10:00."""
    for day in range(first, RECORDED_DAYS):
        for number in range(count):
            created = START + day * DAY + dt.timedelta(hours=10, minutes=-10 * number)
            yield make_row(f"{project}-{day}-{number}", created, **{"project": project, "cost_usd": 1.0, **fields})


def change_bad_day(rows: Iterator[Row], *changes: Mapping[str, Any]) -> Iterator[Row]:
    """Yield the rows, and change the first of the bad day, each by one of the changes."""
    left_changes = list(changes)
    for row in rows:
        is_changed = row["created"].date() == (START + BAD_DAY * DAY).date() and left_changes
        yield row | left_changes.pop(0) if is_changed else row
    assert not left_changes


def list_jobs() -> list[Row]:
    """List all jobs, by their end."""
    gpus = {"instance_type": GPU_TYPE, "gpu_mean": 0.52 * 400}
    wait = {"queue_s": 4_000.0, "first_capacity_s": 4_000.0}
    failed = {"status": "Failed", "secondary_status": "Failed"}
    short = make_row("short", START + BAD_DAY * DAY + HALF_DAY / 2, 1 / 12, project="busy", **gpus) | {"gpu_mean": 0.0}
    rows = [
        *change_bad_day(list_daily_jobs("idle", **gpus), {"gpu_mean": 0.2 * 400}),
        *(*list_daily_jobs("busy", **gpus), short),  # a mean that is not weighted by hours would be below 50 %
        *change_bad_day(list_daily_jobs("waiting"), wait),
        # One in 21 jobs waits as long, and the next one a little less than two hours.
        *change_bad_day(list_daily_jobs("served", count=3), wait, {"first_capacity_s": 7_100.0}),
        *change_bad_day(list_daily_jobs("failing", count=5), failed, failed),
        *change_bad_day(list_daily_jobs("working", count=5), failed, {"status": "Stopped", "secondary_status": ""}),
        *change_bad_day(list_daily_jobs("small"), failed),  # a single job
        *change_bad_day(list_daily_jobs("jumping", first=-56, cost_usd=10.0), {"cost_usd": 100.0}),
        *change_bad_day(list_daily_jobs("even", first=-56, cost_usd=10.0), {"cost_usd": 15.0}),
        *list_daily_jobs("new", first=BAD_DAY, cost_usd=900.0),
    ]
    return sorted(rows, key=lambda row: row["ended"])


def record() -> Iterator[Export]:
    """Let the clock and the ledger go on, and export the metrics every twelve hours."""
    rows, lake, now = list_jobs(), CachedLake.open(), START
    collector = StatusCollector([], lake, costs=CostCollector(lake, Targets(), lambda: now))
    while now < START + RECORDED_DAYS * DAY:
        ended_rows, rows = [row for row in rows if row["ended"] <= now], [row for row in rows if row["ended"] > now]
        if ended_rows:
            Ledger.open().add([{name: value for name, value in row.items() if name != "date"} for row in ended_rows])
        collector.refresh()
        yield parse_export(now.timestamp(), format_metrics(collector))
        now += HALF_DAY


def list_expected_alerts(exports: list[Export]) -> list[set[str]]:
    """List the alerts that each state must raise: for a week from the bad day on, and on the day after it."""
    alerts = []
    for one in exports:
        age = dt.datetime.fromtimestamp(one.at_s, dt.UTC) - START - BAD_DAY * DAY
        is_in_week = HALF_DAY <= age < HALF_DAY + 7 * DAY
        alerts.append((ALERTS_OF_WEEK if is_in_week else set()) | ({ALERT_OF_DAY} if DAY <= age < 2 * DAY else set()))
    return alerts


@pytest.fixture(scope="module")
def exports(save_home: Callable[..., Any]) -> list[Export]:
    """Record the metrics of twelve days."""
    exports: list[Export] = []
    save_home(lambda: exports.extend(record()))
    return exports


def change_samples(exports: list[Export], old: str, new: str, convert: Callable[[float], float]) -> list[Export]:
    """Replace a text in the names of the series, and convert the values of those that have it."""
    return [
        replace(
            one,
            samples={
                name.replace(old, new): convert(value) if old in name else value for name, value in one.samples.items()
            },
        )
        for one in exports
    ]


needs_promtool = pytest.mark.skipif(not shutil.which("promtool"), reason="needs promtool (Debian's package prometheus)")


@needs_promtool
def test_bad_days_raise_the_alerts_and_other_days_and_projects_raise_none(
    exports: list[Export], tmp_path: Path
) -> None:
    expected = list_expected_alerts(exports)
    assert [len(alerts) for alerts in expected] == [0] * 7 + [3, 4, 4] + [3] * 11 + [0] * 3
    assert find_wrong_alerts(exports, expected, HOURS, MINUTES, tmp_path) == set()


def scale(factor: float) -> Callable[[float], float]:
    """Return the function that multiplies by a factor."""
    return lambda value: value * factor


def keep(value: float) -> float:
    """Return the value as it is."""
    return value


def invert(share: float) -> float:
    """Return the other part of a share."""
    return 1 - share


@needs_promtool
@pytest.mark.parametrize(
    ("old", "new", "convert", "wrong_alerts"),
    [
        ("gpu_use_ratio", "gpu_use_share", keep, "LeewayGpusIdle of idle"),
        pytest.param("gpu_use_ratio", "gpu_use_ratio", scale(100), "LeewayGpusIdle of idle", marks=pytest.mark.soak),
        pytest.param(
            "gpu_use_ratio",
            "gpu_use_ratio",
            invert,
            "LeewayGpusIdle of busy, LeewayGpusIdle of idle",
            marks=pytest.mark.soak,
        ),
        pytest.param(
            'gpu_use_ratio{project="',
            'gpu_use_ratio{team="',
            keep,
            "LeewayGpusIdle, LeewayGpusIdle of idle",
            marks=pytest.mark.soak,
        ),
        ("queue_wait_seconds", "queue_wait_minutes", keep, "LeewayQueueLong of waiting"),
        pytest.param(
            "queue_wait_seconds",
            "queue_wait_seconds",
            scale(1 / 60),
            "LeewayQueueLong of waiting",
            marks=pytest.mark.soak,
        ),
        ("job_success_ratio", "job_failure_ratio", keep, "LeewayJobsFail of failing"),
        pytest.param(
            'figure="job_success"', 'figure="success"', keep, "LeewayJobsFail of failing", marks=pytest.mark.soak
        ),
        pytest.param(
            'figure="job_success"',
            'figure="job_success"',
            scale(1 / 5),
            "LeewayJobsFail of failing",
            marks=pytest.mark.soak,
        ),
        ("cost_day_usd", "cost_day_eur", keep, "LeewayCostJump of jumping"),
        pytest.param(
            "cost_day_usd", "cost_day_usd", scale(1 / 100), "LeewayCostJump of jumping", marks=pytest.mark.soak
        ),
    ],
)
def test_metric_with_another_name_label_unit_or_meaning_is_found(
    exports: list[Export], tmp_path: Path, old: str, new: str, convert: Callable[[float], float], wrong_alerts: str
) -> None:
    first_exports = exports[: 2 * BAD_DAY + 4]
    expected = list_expected_alerts(first_exports)
    changed_exports = change_samples(first_exports, old, new, convert)
    assert ", ".join(sorted(find_wrong_alerts(changed_exports, expected, HOURS, MINUTES, tmp_path))) == wrong_alerts
