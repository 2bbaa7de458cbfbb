"""Advise on what could cost less, from the ledgers of jobs and of endpoints."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pipelines.costs.charges import HOUR_S, format_usd
from pipelines.costs.endpoints.ledger import get_fleet, get_key
from pipelines.costs.endpoints.right_sizing import list_endpoint_size_advice
from pipelines.costs.endpoints.running import RunningFleet
from pipelines.costs.report import sum_rows
from pipelines.costs.usage.data_waits import list_data_wait_advice
from pipelines.costs.usage.gpu_use import list_gpu_advice
from pipelines.costs.usage.right_sizing import list_size_advice
from pipelines.planning.checkpoints import compute_worthwhile_save_s

DAYS = 30
"""Days before now whose jobs are examined. The saving of spot instances is estimated from the jobs of all days."""
IDLE_DAYS = 7
"""Number of days without a request after which the advice names an endpoint."""
MIN_USD = 0.01
"""Smallest cost that the advice names, USD."""
MIN_WAIT_SHARE, MIN_WAIT_S = 0.2, 600
"""The advice names waits for instances that took at least this share of the jobs' time, and at least these seconds."""
MIN_LOST_SHARE = 0.1
"""The advice names interruptions that undid at least this share of the training time."""

Row = Mapping[str, Any]


def list_advice(
    jobs: Sequence[Row], endpoint_rows: Sequence[Row], fleets: Sequence[RunningFleet], now: dt.datetime
) -> list[str]:
    """List sentences about costs that could be avoided, and about endpoints whose size is not judged; may be empty.

    Args:
        jobs: rows of the ledger of jobs, oldest first.
        endpoint_rows: rows of the ledger of endpoints, oldest first.
        fleets: endpoints that run.
        now: the current moment.
    """
    recent_rows = [row for row in jobs if row["created"] > now - dt.timedelta(DAYS)]
    sentences: list[str] = []
    for model in sorted({row["model"] or "" for row in recent_rows}):
        rows = [row for row in recent_rows if (row["model"] or "") == model]
        spot_rows = [row for row in jobs if (row["model"] or "") == model and row["spot"]]
        sentences += _advise_on_jobs(f"of model {model}" if model else "without a model", rows, spot_rows)
    sentences += [*list_size_advice(jobs, now), *list_gpu_advice(jobs, now), *list_data_wait_advice(jobs, now)]
    sentences += list_endpoint_size_advice(endpoint_rows, fleets, now)
    return [*sentences, *_list_idle_endpoints(endpoint_rows, fleets)]


def _advise_on_jobs(subject: str, rows: Sequence[Row], spot_rows: Sequence[Row]) -> Iterator[str]:
    """Yield the sentences about the jobs of a model.

    Args:
        subject: which jobs, in words: "of model NAME" or "without a model".
        rows: jobs of the model in the last `DAYS` days.
        spot_rows: jobs of the model on spot instances, of any time.
    """
    on_demand_rows = [row for row in rows if not row["spot"]]
    saving_share = sum_rows(spot_rows)["saving"] if spot_rows else 0.0
    saving_usd = sum(row["cost_usd"] for row in on_demand_rows) * saving_share
    if saving_usd >= MIN_USD:
        yield (
            f"{len(on_demand_rows)} job(s) {subject} in the last {DAYS} days ran on demand. On spot instances they "
            f"would have cost about {format_usd(saving_usd)} less, if they saved {saving_share:.0%}, as the spot jobs "
            f"{subject} did."
        )
    failed_rows = [row for row in rows if row["status"] == "Failed"]
    if (failed_usd := sum(row["cost_usd"] for row in failed_rows)) >= MIN_USD:
        yield (
            f"{len(failed_rows)} job(s) {subject} in the last {DAYS} days failed, and cost {format_usd(failed_usd)}."
        )
    waiting_s, training_s, lost_s = (
        sum(row[name] or 0 for row in rows) for name in ("capacity_s", "training_s", "lost_s")
    )
    if waiting_s >= MIN_WAIT_S and waiting_s >= MIN_WAIT_SHARE * (waiting_s + training_s):
        yield (
            f"Waits for instances took {waiting_s / (waiting_s + training_s):.0%} of the time of the jobs {subject} "
            f"in the last {DAYS} days, {waiting_s / HOUR_S:.1f} h: other instance types may be available sooner."
        )
    if training_s and lost_s >= MIN_LOST_SHARE * training_s:
        yield (
            f"Interruptions undid {lost_s / training_s:.0%} of the training time of the jobs {subject} in the last "
            f"{DAYS} days: "
            f"{_advise_on_checkpoints([row for row in rows if row['spot']], lost_s)}"
        )


def _advise_on_checkpoints(rows: Sequence[Row], lost_s: float) -> str:
    """Describe when more frequent checkpoints help. `rows` has only jobs on spot: no others are interrupted."""
    training_s, interruptions = (sum(row[name] or 0 for row in rows) for name in ("training_s", "interruptions"))
    if not training_s or not interruptions:
        return "saving checkpoints more often would reduce the loss."
    save_s = compute_worthwhile_save_s(lost_s / interruptions, training_s / interruptions)
    return (
        f"there was one every {training_s / interruptions / HOUR_S:.1f} h of training, and each undid "
        f"{lost_s / interruptions / 60:.0f} min on average. Saving checkpoints more often would reduce the loss, if a "
        f"save takes less than {save_s:.0f} s."
    )


def _list_idle_endpoints(rows: Iterable[Row], fleets: Iterable[RunningFleet]) -> Iterator[str]:
    """Yield a sentence for each endpoint that runs and had no request in the `IDLE_DAYS` days before its last metering.

    An endpoint that was metered for fewer days, or whose requests are not known, is left out.
    """
    rows_by_key: dict[Any, list[Row]] = {}
    for row in rows:
        rows_by_key.setdefault(get_key(row), []).append(row)
    for running_fleet in fleets:
        fleet_rows = rows_by_key.get(running_fleet.fleet.key, [])
        if not fleet_rows or not running_fleet.usd_h:
            continue
        end = fleet_rows[-1]["end"]
        begin = end - dt.timedelta(IDLE_DAYS)
        recent_rows = [row for row in fleet_rows if row["end"] > begin]
        is_known = fleet_rows[0]["begin"] <= begin and all(row["requests"] is not None for row in recent_rows)
        if is_known and not sum(row["requests"] for row in recent_rows):
            yield (
                f"Endpoint {get_fleet(fleet_rows[-1]).endpoint} had no request in the {IDLE_DAYS} days up to "
                f"{end:%Y-%m-%d}, and costs {format_usd(24 * running_fleet.usd_h)} a day."
            )
