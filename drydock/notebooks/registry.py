"""The notebook instances and Studio apps of all accounts and regions, and their CPU in CloudWatch."""

import logging
import sqlite3
import threading
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime

from moto.cloudwatch.models import cloudwatch_backends
from moto.core.utils import utcnow

from drydock.cloudwatch.statistics import HistogramDatum
from drydock.cloudwatch.stored_metrics import StoredMetrics
from drydock.notebooks.item import APP, NOTEBOOK, NotebookItem
from drydock.resources import Owner, Resources
from drydock.store import Store

log = logging.getLogger(__name__)

NAMESPACE, METRIC, DIMENSION = "/aws/sagemaker/NotebookInstances", "CPUUtilization", "NotebookInstanceName"
"""SageMaker's names for the metric of a notebook instance's CPU."""
PERIOD_S = 60.0
"""Seconds between two values of the CPU."""


class Notebooks:
    """The stored notebook instances and Studio apps, together called items. Safe for several threads.

    Args:
        store: The server's storage.
    """

    def __init__(self, store: Store) -> None:
        self._resources = {kind: Resources(store, kind) for kind in (NOTEBOOK, APP)}
        self._stored_metrics = StoredMetrics(store)
        self._lock, self._close_event = threading.RLock(), threading.Event()
        self._items: dict[tuple[Owner, str], dict[str, NotebookItem]] = defaultdict(dict)
        # The CPU in the newest minute of each notebook instance, by owner and name.
        self._data: dict[tuple[Owner, str], HistogramDatum] = {}
        for kind, resources in self._resources.items():
            for owner, text in resources.iterate():
                item = NotebookItem.load(text)
                self._items[owner, kind][item.name] = item
        self._thread = threading.Thread(target=self._run, name="notebooks", daemon=True)

    def start(self) -> None:
        """Start to publish the CPU of the notebook instances, each minute."""
        self._thread.start()

    def close(self) -> None:
        """Stop publishing."""
        self._close_event.set()
        if self._thread.is_alive():
            self._thread.join()

    def get_items(self, owner: Owner, kind: str) -> dict[str, NotebookItem]:
        """Return the items of a kind by their names. Remove deleted notebook instances from the store first."""
        with self._lock:
            items = self._items[owner, kind]
            for item in [item for item in items.values() if item.kind == NOTEBOOK and item.status == "Deleted"]:
                del items[item.name]
                self._resources[kind].delete(owner, item.name)
            return items

    def find(self, owner: Owner, kind: str, name: str) -> NotebookItem | None:
        """Return an item; None if it does not exist."""
        return self.get_items(owner, kind).get(name)

    def add(self, owner: Owner, item: NotebookItem) -> bool:
        """Store a new item. Return False, and store nothing, if the name is in use. A deleted app's name is free."""
        with self._lock:
            items = self.get_items(owner, item.kind)
            if item.name in items and items[item.name].status != "Deleted":
                return False
            items[item.name] = item
            self.save(owner, item)
        self._record_start(owner, item)
        return True

    def change(self, owner: Owner, item: NotebookItem, action: str) -> None:
        """Begin an action (start, stop or delete) on an item, and store that."""
        with self._lock:
            item.change(action)
            self.save(owner, item)
        if action == "start":
            self._record_start(owner, item)

    def save(self, owner: Owner, item: NotebookItem) -> None:
        """Store an item and its tags."""
        self._resources[item.kind].write(owner, item.name, item.dump())

    def record_use(self, kind: str, name: str, cpu_percent: float) -> bool:
        """Simulate that somebody uses the items with a name now, in all accounts and regions.

        Args:
            kind: NOTEBOOK or APP.
            name: Name of the notebook instance, or AppName.
            cpu_percent: CPU of the notebook instance in this minute; 100 is one core.

        Returns:
            Whether at least one item with this name is InService. Only such items are changed.
        """
        matches = [
            (owner, item)
            for owner, item in self._iterate()
            if (item.kind, item.name.rpartition("/")[2]) == (kind, name) and item.status == "InService"
        ]
        for owner, item in matches:
            with self._lock:
                item.used_at = datetime.now(UTC)
                self.save(owner, item)
            if kind == NOTEBOOK:
                self._record(owner, item.name, cpu_percent)
        return bool(matches)

    def delete_all(self, owner: Owner) -> None:
        """Delete all items of an owner at once."""
        with self._lock:
            for kind, resources in self._resources.items():
                resources.delete_all(owner)
                self._items[owner, kind].clear()

    def _iterate(self) -> Iterator[tuple[Owner, NotebookItem]]:
        for owner, kind in list(self._items):
            for item in list(self.get_items(owner, kind).values()):
                yield owner, item

    def _run(self) -> None:
        while not self._close_event.wait(PERIOD_S):
            for owner, item in self._iterate():
                if item.kind == NOTEBOOK and item.status == "InService":
                    self._record(owner, item.name, 0.0)  # nothing runs in it

    def _record_start(self, owner: Owner, item: NotebookItem) -> None:
        if item.kind == NOTEBOOK:
            self._record(owner, item.name, 0.0)

    def _record(self, owner: Owner, name: str, cpu_percent: float) -> None:
        """Add a value to the current minute of a notebook instance, and store the minute."""
        minute = utcnow().replace(second=0, microsecond=0)
        # Before the lock is taken: moto's reset locks all backends, then waits for this lock. In the other order, both
        # could wait forever.
        metric_data = cloudwatch_backends[owner.account_id][owner.region].metric_data
        with self._lock:
            datum = self._data.get((owner, name))
            if datum is None or datum.timestamp != minute:
                dimensions = [{"Name": DIMENSION, "Value": name}]
                datum = HistogramDatum(NAMESPACE, METRIC, dimensions, minute, "Percent", cpu_percent)
                self._data[owner, name] = datum
                metric_data.append(datum)
            else:
                datum.add(cpu_percent)
            try:
                self._stored_metrics.write([self._stored_metrics.build_row(owner, datum)])
            except sqlite3.Error as error:
                log.warning("cannot store the CPU of notebook instances: %s", error)
