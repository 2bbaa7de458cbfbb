"""Find the times in which fleets ran and that are not in the ledger yet.

What is known of a fleet: the last row of the ledger, the events of its model, and SageMaker's description of the
endpoint if it exists. Each alone has gaps: rows end at the last metering, events name only deployments by Leeway, and
SageMaker describes only what exists now.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pipelines.costs.endpoints.fleets import Change, Fleet, Key
from pipelines.costs.endpoints.ledger import get_fleet
from pipelines.registry.lifecycle import Event, Kind
from pipelines.serving.metering.history import DeployedFleet, find_end, list_deployed_fleets
from pipelines.serving.metering.observation import LiveFleet

FindLastSign = Callable[[Fleet, dt.datetime, dt.datetime], dt.datetime | None]


@dataclass(frozen=True)
class Window:
    """A time in which a fleet ran, and that is not in the ledger."""

    fleet: Fleet
    begin: dt.datetime
    end: dt.datetime
    count: int
    """Number of instances at the begin."""
    running: bool
    """Whether the fleet still runs at the end."""
    replaced: bool = False
    """Whether the fleet ended because another one of the endpoint replaced it."""
    correction: Change | None = None
    """Number of instances now, and the moment of the endpoint's last change; None if the number is not known."""


class WindowFinder:
    """Finds the windows of one region.

    Args:
        last_rows: last row of each fleet in the ledger.
        events: events about endpoints, oldest first.
        live_fleets: fleets of the endpoints that exist.
        find_last_sign: returns the last moment at which a fleet's instances reported their CPU.
        now: the current moment.
    """

    def __init__(
        self,
        last_rows: Mapping[Key, Mapping[str, Any]],
        events: Sequence[Event],
        live_fleets: Sequence[LiveFleet],
        find_last_sign: FindLastSign,
        now: dt.datetime,
    ) -> None:
        self._last_rows, self._events, self._find_last_sign, self._now = last_rows, events, find_last_sign, now
        self._live_windows = {item.fleet.key: (item, self._make_live_window(item)) for item in live_fleets}

    def find(self) -> list[Window]:
        """Return the windows of all fleets. The window of a fleet that ended at its last metering has no length."""
        live_windows = [window for _, window in self._live_windows.values() if window.begin < window.end]
        return [*live_windows, *self._find_ended()]

    def _make_live_window(self, live: LiveFleet) -> Window:
        """Return the window of a fleet that exists: it begins where the last one ended."""
        last_row = self._last_rows.get(live.fleet.key)
        begin, count = live.begin, live.first_count
        if last_row and last_row["end"] >= live.begin:
            begin, count = last_row["end"], last_row["instances"]
        elif metered_ends := [
            row["end"] for key, row in self._last_rows.items() if key[:2] == live.fleet.key[:2] and row["end"] > begin
        ]:  # the endpoint was metered without this fleet: a configuration may be older than its use
            begin = max(metered_ends)
        correction = None if live.count is None else Change(live.changed, live.count)
        return Window(live.fleet, begin, max(begin, self._now), count, running=True, correction=correction)

    def _find_ended(self) -> Iterator[Window]:
        for key, row in self._last_rows.items():
            if row["running"] and not self._continues(key, row["end"]):
                yield self._end(Window(get_fleet(row), row["end"], row["end"], row["instances"], running=False))
        for item in list_deployed_fleets(self._events):
            if not self._is_metered(item):
                window = Window(item.fleet, item.begin, item.begin, item.count, running=False)
                yield replace(window, end=item.end, replaced=item.replaced) if item.end else self._end(window)

    def _continues(self, key: Key, moment: dt.datetime) -> bool:
        """Return whether a fleet that ran at a moment is the one that exists now, not an earlier one of its name."""
        live = self._live_windows.get(key)
        return live is not None and live[0].begin <= moment

    def _is_metered(self, item: DeployedFleet) -> bool:
        """Return whether the ledger has the deployment, or will have it by another window."""
        last_row = self._last_rows.get(item.fleet.key)
        if last_row and last_row["end"] >= item.begin:
            return True
        live = self._live_windows.get(item.fleet.key)
        return live is not None and (item.end is None or live[1].begin < item.end)

    def _end(self, window: Window) -> Window:
        """Return the window with its end: by an event, else by what replaced the fleet, else by CloudWatch."""
        successors = [
            other.begin
            for live, other in self._live_windows.values()
            if live.fleet.key[:2] == window.fleet.key[:2] and not live.is_pending
        ]
        end: dt.datetime | None
        if event := find_end(self._events, window.fleet, window.begin):
            end, is_replaced = event.at, event.kind is Kind.DEPLOYED
        else:
            end = min(successors, default=None) or self._find_last_sign(window.fleet, window.begin, self._now)
            is_replaced = bool(successors)
        end = max(window.begin, min(end or window.begin, self._now))
        return replace(window, end=end, replaced=is_replaced)


def apply_correction(window: Window, changes: Iterable[Change]) -> list[Change]:
    """Return the changes of a fleet in its window, so that the number at its end is the one that SageMaker says.

    A change by hand is no scaling activity. The last change of the endpoint is taken for its moment.
    """
    inner_changes = sorted((item for item in changes if window.begin < item.at <= window.end), key=lambda item: item.at)
    correction, last = window.correction, inner_changes[-1] if inner_changes else Change(window.begin, window.count)
    if correction is None or correction.count == last.count:
        return inner_changes
    return [*inner_changes, Change(min(max(correction.at, last.at), window.end), correction.count)]
