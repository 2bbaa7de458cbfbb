"""Meter the endpoints of one region: write what they cost since the last metering into the lake."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from pipelines.costs.endpoints.fleets import Usage, compute_instance_usage, split_by_day
from pipelines.costs.endpoints.ledger import EndpointLedger, Row, build_row, find_last_rows
from pipelines.costs.prices import find_price, find_serverless_price
from pipelines.errors import DataError
from pipelines.serving.metering.history import get_endpoint, read_deployments
from pipelines.serving.metering.observation import Observer
from pipelines.serving.metering.unmetered_periods import UnmeteredPeriod, UnmeteredPeriodFinder, add_missing_change
from pipelines.serving.metering.variant_use import Times
from pipelines.system.log import log

METRICS_DELAY = dt.timedelta(minutes=5)
"""Time after which CloudWatch has the requests of a minute."""


def meter_endpoints(now: dt.datetime) -> list[Row]:
    """Write the costs of all fleets from their last metering until now. No hour is charged twice.

    A serverless variant is metered in whole hours of UTC that are over.

    Args:
        now: the current moment, with time zone.

    Returns:
        The rows that were added to the ledger.

    Raises:
        SpecError: no AWS region is configured. A retry cannot help.
        DataError: some endpoints have no known price; the others are metered. A retry cannot help until the price is
            known; the next metering then charges the missed hours, too.
        ServiceError: AWS does not answer. A retry can help.
        ConflictError: other writers kept changing the ledger. A retry can help.
    """
    observer, ledger = Observer(), EndpointLedger.open()
    last_rows = find_last_rows(row for row in ledger.read_rows() if row["region"] == observer.region)
    events = [event for event in read_deployments() if get_endpoint(event)[0] == observer.region]
    finder = UnmeteredPeriodFinder(last_rows, events, observer.list_live_fleets(), observer.find_last_report, now)
    periods_by_endpoint: dict[str, list[UnmeteredPeriod]] = defaultdict(list)
    for period in finder.find():
        periods_by_endpoint[period.fleet.endpoint].append(period)
    rows, failures = [], []
    for endpoint, periods in periods_by_endpoint.items():
        try:  # all fleets of an endpoint get rows, or none: the next metering finds the periods from all these rows
            rows += [row for period in periods for row in _build_rows(period, periods, observer, now)]
        except DataError as error:
            failures.append(f"{endpoint}: {error.message}")
            log.error("endpoint %s: %s", endpoint, error)
    added_rows = ledger.add(rows)
    if failures:
        message = f"{len(failures)} of {len(periods_by_endpoint)} endpoints were not metered: {failures[0]}"
        raise DataError(message, "The others were metered. Give the price (LEEWAY_PRICES), and meter again.")
    return added_rows


def _build_rows(
    period: UnmeteredPeriod, periods: Sequence[UnmeteredPeriod], observer: Observer, now: dt.datetime
) -> Iterator[Row]:
    """Build the rows of a period, a row for each day.

    Args:
        period: the period.
        periods: all periods of the endpoint.
        observer: reads AWS.
        now: the current moment.
    """
    if period.fleet.memory_mb:
        yield from _build_serverless_rows(period, observer, now)
        return
    fleet, count, other_times = period.fleet, period.instance_count, _list_other_times(period, periods)
    price = find_price(fleet.instance_type, fleet.region, "Hosting")
    is_scaled = observer.is_scaled(fleet) if period.is_running else None
    changes = add_missing_change(period, observer.read_changes(fleet.endpoint, fleet.variant))
    for begin, end in split_by_day(period.begin, period.end):
        usage = compute_instance_usage(begin, end, count, changes)
        # Requests are counted by whole hours. Those of an hour that is not over are counted in the next row, if any.
        hours = _floor_hour(begin), _floor_hour(end)
        requests = observer.read_requests(fleet, *hours).requests if hours[0] < hours[1] else 0
        usage = replace(usage, requests=requests)
        resource_use = observer.read_resource_use(fleet, (begin, end), other_times, now)
        is_running = period.is_running or end < period.end
        yield build_row(
            fleet,
            (begin, end),
            usage,
            price,
            is_running=is_running,
            resource_use=resource_use,
            is_scaled=is_scaled,
        )
        count = usage.instance_count


def _list_other_times(period: UnmeteredPeriod, periods: Sequence[UnmeteredPeriod]) -> list[Times]:
    """Return when other fleets of a period's variant ran. During a release, two fleets of a variant run at a time."""
    return [
        (other.begin, other.end)
        for other in periods
        if other.fleet.variant == period.fleet.variant and other.fleet.key != period.fleet.key
    ]


def _build_serverless_rows(period: UnmeteredPeriod, observer: Observer, now: dt.datetime) -> Iterator[Row]:
    """Build the rows of the whole hours of a serverless variant.

    CloudWatch's metrics do not name the configuration. So the hour in which a configuration was replaced is charged to
    its successor. CloudWatch keeps the metrics of a deleted variant. So such a variant is recorded as running until its
    newest row has no requests.
    """
    metered_until = _floor_hour(period.end if period.is_replaced else now - METRICS_DELAY)
    begin = _floor_hour(period.begin)
    if metered_until < begin or (metered_until == begin and not period.is_replaced):
        return
    price = find_serverless_price(period.fleet.region)
    for day_part in split_by_day(begin, metered_until):
        usage = observer.read_requests(period.fleet, *day_part) if day_part[0] < day_part[1] else Usage()
        is_running = day_part[1] < metered_until or period.is_running or (not period.is_replaced and usage.requests > 0)
        yield build_row(period.fleet, day_part, usage, price, is_running=is_running)


def _floor_hour(moment: dt.datetime) -> dt.datetime:
    return moment.replace(minute=0, second=0, microsecond=0)
