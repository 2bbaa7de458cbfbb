"""Meter the endpoints of one region: write what they cost since the last metering into the lake."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Iterator

from pipelines.costs.endpoints.fleets import Usage, measure_instances, split_by_day
from pipelines.costs.endpoints.ledger import EndpointLedger, Row, build_row, find_last_rows
from pipelines.costs.prices import find_price, find_serverless_price
from pipelines.errors import DataError
from pipelines.serving.metering.history import get_endpoint, read_deployments
from pipelines.serving.metering.observation import Observer
from pipelines.serving.metering.windows import Window, WindowFinder, apply_correction
from pipelines.system.log import log

METRICS_DELAY = dt.timedelta(minutes=5)
"""Time after which CloudWatch has the requests of a minute."""


def meter_endpoints(now: dt.datetime) -> list[Row]:
    """Write the rows of all fleets since they were last metered, until now. No hour is charged twice.

    A serverless variant is metered in whole hours of UTC that are over.

    Args:
        now: the current moment, with time zone.

    Returns:
        The rows that were added to the ledger.

    Raises:
        SpecError: no AWS region is configured. A retry cannot help.
        DataError: some endpoints have no known price; the others are metered, and these will be from where they were
            last metered. A retry cannot help.
        ServiceError: AWS does not answer. A retry can help.
        ConflictError: other writers kept changing the ledger. A retry can help.
    """
    observer, ledger = Observer(), EndpointLedger.open()
    last_rows = find_last_rows(row for row in ledger.read_rows() if row["region"] == observer.region)
    events = [event for event in read_deployments() if get_endpoint(event)[0] == observer.region]
    finder = WindowFinder(last_rows, events, observer.list_live_fleets(), observer.find_last_sign, now)
    windows_by_endpoint: dict[str, list[Window]] = defaultdict(list)
    for window in finder.find():
        windows_by_endpoint[window.fleet.endpoint].append(window)
    rows, failures = [], []
    for endpoint, windows in windows_by_endpoint.items():
        try:  # all fleets of an endpoint or none: a later fleet begins where the endpoint was last metered
            rows += [row for window in windows for row in _build_rows(window, observer, now)]
        except DataError as error:
            failures.append(f"{endpoint}: {error.message}")
            log.error("endpoint %s: %s", endpoint, error)
    added_rows = ledger.add(rows)
    if failures:
        message = f"{len(failures)} of {len(windows_by_endpoint)} endpoints were not metered: {failures[0]}"
        raise DataError(message, "The others were metered. Give the price (LEEWAY_PRICES), and run it again.")
    return added_rows


def _build_rows(window: Window, observer: Observer, now: dt.datetime) -> Iterator[Row]:
    if window.fleet.memory_mb:
        yield from _build_serverless_rows(window, observer, now)
        return
    fleet, count = window.fleet, window.count
    price = find_price(fleet.instance_type, fleet.region, "Hosting")
    changes = apply_correction(window, observer.read_changes(fleet.endpoint, fleet.variant))
    for begin, end in split_by_day(window.begin, window.end):
        usage = measure_instances(begin, end, count, changes)
        yield build_row(fleet, (begin, end), usage, price, running=window.running or end < window.end)
        count = usage.count


def _build_serverless_rows(window: Window, observer: Observer, now: dt.datetime) -> Iterator[Row]:
    """Build the rows of the whole hours of a serverless variant.

    CloudWatch's requests name no configuration. So an hour in which a configuration was replaced counts for the next
    one. CloudWatch keeps the requests of a variant that was deleted: it counts as running until an hour had none.
    """
    last_end = _floor_hour(window.end if window.replaced else now - METRICS_DELAY)
    begin = _floor_hour(window.begin)
    if last_end < begin or (last_end == begin and not window.replaced):
        return
    price = find_serverless_price(window.fleet.region)
    for time in split_by_day(begin, last_end):
        usage = observer.read_requests(window.fleet, *time) if time[0] < time[1] else Usage()
        running = time[1] < last_end or window.running or (not window.replaced and usage.requests > 0)
        yield build_row(window.fleet, time, usage, price, running=running)


def _floor_hour(moment: dt.datetime) -> dt.datetime:
    return moment.replace(minute=0, second=0, microsecond=0)
