"""Find the periods in which fleets ran and that are not in the ledger yet.

There are three sources: the last row of a fleet in the ledger, the events of its model, and SageMaker's description of
its endpoint. None of them is complete: rows end at the last metering, events exist only for deployments by Leeway, and
SageMaker describes only what exists now.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pipelines.costs.endpoints.fleets import CountChange, Fleet, Key
from pipelines.costs.endpoints.ledger import get_fleet
from pipelines.registry.lifecycle import Event, Kind
from pipelines.serving.metering.history import DeployedFleet, find_end, list_deployed_fleets
from pipelines.serving.metering.observation import LiveFleet

FindLastReport = Callable[[Fleet, dt.datetime, dt.datetime], dt.datetime | None]


@dataclass(frozen=True)
class UnmeteredPeriod:
    """A period in which a fleet ran, and that is not in the ledger."""

    fleet: Fleet
    begin: dt.datetime
    end: dt.datetime
    instance_count: int
    """Number of instances at the beginning."""
    is_running: bool
    """Whether the fleet still runs at the end."""
    is_replaced: bool = False
    """Whether the fleet ended because another fleet of the endpoint replaced it."""
    last_change: CountChange | None = None
    """Moment of the endpoint's last change, and the number of instances now; None if the number is not known."""


class UnmeteredPeriodFinder:
    """Finds the unmetered periods of one region.

    Args:
        last_rows: last row of each fleet in the ledger.
        events: events about endpoints, oldest first.
        live_fleets: fleets of the endpoints that exist.
        find_last_report: returns the last moment, between two moments, for which CloudWatch has the CPU utilization of
            a fleet.
        now: the current moment.
    """

    def __init__(
        self,
        last_rows: Mapping[Key, Mapping[str, Any]],
        events: Sequence[Event],
        live_fleets: Sequence[LiveFleet],
        find_last_report: FindLastReport,
        now: dt.datetime,
    ) -> None:
        self._last_rows, self._events, self._find_last_report, self._now = last_rows, events, find_last_report, now
        # Maps the key of each fleet that exists to the fleet and its period.
        self._live_periods = {item.fleet.key: (item, self._make_live_period(item)) for item in live_fleets}

    def find(self) -> list[UnmeteredPeriod]:
        """Return the periods of all fleets.

        If a fleet ended at its last metering, its period has no length. The row of this period then records
        that the fleet ended.
        """
        live_periods = [period for _, period in self._live_periods.values() if period.begin < period.end]
        return [*live_periods, *self._find_ended_periods()]

    def _make_live_period(self, live: LiveFleet) -> UnmeteredPeriod:
        """Build the period of a fleet that exists: from its last metering until now."""
        last_row = self._last_rows.get(live.fleet.key)
        begin, count = live.begin, live.initial_count
        if last_row and last_row["end"] >= live.begin:
            begin, count = last_row["end"], last_row["instances"]
        elif metered_ends := [
            row["end"]
            for key, row in self._last_rows.items()
            if _have_same_endpoint(key, live.fleet.key) and row["end"] > begin
        ]:  # `begin` is when the configuration was created: until it was used, an earlier fleet ran and was metered
            begin = max(metered_ends)
        last_change = None if live.count is None else CountChange(live.changed_at, live.count)
        end = max(begin, self._now)
        return UnmeteredPeriod(live.fleet, begin, end, count, is_running=True, last_change=last_change)

    def _find_ended_periods(self) -> Iterator[UnmeteredPeriod]:
        for key, row in self._last_rows.items():
            if row["running"] and not self._is_still_running(key, row["end"]):
                yield self._set_end(
                    UnmeteredPeriod(get_fleet(row), row["end"], row["end"], row["instances"], is_running=False)
                )
        for item in list_deployed_fleets(self._events):
            if not self._is_metered(item):
                period = UnmeteredPeriod(item.fleet, item.begin, item.begin, item.instance_count, is_running=False)
                yield replace(period, end=item.end, is_replaced=item.is_replaced) if item.end else self._set_end(period)

    def _is_still_running(self, key: Key, moment: dt.datetime) -> bool:
        """Return whether the fleet that ran at a moment still exists. A later fleet may have the same key."""
        live = self._live_periods.get(key)
        return live is not None and live[0].begin <= moment

    def _is_metered(self, item: DeployedFleet) -> bool:
        """Return whether the ledger has rows of the deployment, or the period of an existing fleet covers it."""
        last_row = self._last_rows.get(item.fleet.key)
        if last_row and last_row["end"] >= item.begin:
            return True
        live = self._live_periods.get(item.fleet.key)
        return live is not None and (item.end is None or live[1].begin < item.end)

    def _set_end(self, period: UnmeteredPeriod) -> UnmeteredPeriod:
        """Return the period with its end: from an event, else when the next fleet begins, else from CloudWatch.

        If none of them gives an end, the period has no length.
        """
        next_begins = [
            other.begin
            for live, other in self._live_periods.values()
            if _have_same_endpoint(live.fleet.key, period.fleet.key) and not live.is_pending
        ]
        end: dt.datetime | None
        if event := find_end(self._events, period.fleet, period.begin):
            end, is_replaced = event.at, event.kind is Kind.DEPLOYED
        else:
            end = min(next_begins, default=None) or self._find_last_report(period.fleet, period.begin, self._now)
            is_replaced = bool(next_begins)
        end = max(period.begin, min(end or period.begin, self._now))
        return replace(period, end=end, is_replaced=is_replaced)


def _have_same_endpoint(key: Key, other_key: Key) -> bool:
    return key[:2] == other_key[:2]  # region and endpoint


def add_missing_change(period: UnmeteredPeriod, changes: Iterable[CountChange]) -> list[CountChange]:
    """Return the changes of a fleet in its period. One is added if they do not lead to the present number of instances.

    This is the case after a change by hand, which is not a scaling activity. The added change has the time of the
    endpoint's last change.
    """
    inner_changes = sorted((item for item in changes if period.begin < item.at <= period.end), key=lambda item: item.at)
    last_change, initial_change = period.last_change, CountChange(period.begin, period.instance_count)
    newest_change = inner_changes[-1] if inner_changes else initial_change
    if last_change is None or last_change.count == newest_change.count:
        return inner_changes
    return [*inner_changes, CountChange(min(max(last_change.at, newest_change.at), period.end), last_change.count)]
