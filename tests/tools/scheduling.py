"""Balance the test files between xdist's workers by their known durations.

At most half of the workers run a long file, the longest first. A long file starts servers and browsers. If all workers
did so at once, as at the start of a run, each would be several times slower, and would exceed the limits of its tests.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Sequence, Set
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

ROOT = Path(__file__).parents[2]
DURATIONS = ROOT / "tests" / "durations.json"
"""Seconds of each test file, with the set-up and the teardown of its fixtures; `make test STORE=1` replaces it."""
SHARED_FOLDERS = ("tests/integration/leeway/processes/",)
"""Folders whose tests run on one worker, since they share a server that is started once."""
DEFAULT_DURATIONS_S = {"tests/integration": 10.0, "tests/e2e": 100.0}
LONG_S = 60.0
"""A file of this duration or more is long."""
MIN_DURATION_S = 1.0
"""The duration of a file that takes less is not stored, and the file is not ordered."""


def find_scope(node_id: str) -> str:
    """Return the scope of a test, which one worker runs: its file, or its folder where the tests share a server."""
    file = node_id.partition("::")[0]
    return next((folder for folder in SHARED_FOLDERS if file.startswith(folder)), file)


def load_durations() -> dict[str, float]:
    """Return the stored seconds of each scope."""
    seconds: dict[str, float] = defaultdict(float)
    for file, duration in (json.loads(DURATIONS.read_text()) if DURATIONS.exists() else {}).items():
        seconds[find_scope(file)] += duration
    return dict(seconds)


def estimate_duration(scope: str, durations: dict[str, float]) -> float:
    """Return a scope's stored seconds, or the default of its folder."""
    default = next((seconds for folder, seconds in DEFAULT_DURATIONS_S.items() if scope.startswith(folder)), 0.0)
    return durations.get(scope, default)


def choose_scope(queue: Sequence[str], long_scopes: Set[str], long_workers: int, workers: int) -> str:
    """Return the scope that a free worker gets next: the longest, or the shortest if enough workers run a long one.

    Args:
        queue: the scopes that no worker has yet, the longest first.
        long_scopes: the scopes that are long.
        long_workers: number of workers that have a long scope.
        workers: number of all workers.
    """
    if long_workers < max(workers // 2, 1):
        return queue[0]
    return next((scope for scope in reversed(queue) if scope not in long_scopes), queue[0])


class MixedScheduling(LoadFileScheduling):
    """Give each free worker the next scope by `choose_scope`. The order of the collection begins with the longest."""

    def __init__(self, config: pytest.Config, log: Any, long_scopes: Set[str]) -> None:
        super().__init__(config, log)
        self.long_scopes = long_scopes

    def _split_scope(self, nodeid: str) -> str:
        return find_scope(nodeid)

    def _assign_work_unit(self, node: Any) -> None:
        long_workers = sum(self._has_long_scope(work) for work in self.assigned_work.values())
        scope = choose_scope(list(self.workqueue), self.long_scopes, long_workers, len(self.nodes))
        self.workqueue.move_to_end(scope, last=False)
        super()._assign_work_unit(node)

    def _has_long_scope(self, work: dict[str, dict[str, bool]]) -> bool:
        return any(scope in self.long_scopes and not all(tests.values()) for scope, tests in work.items())


class BalancePlugin:
    """Plug-in of pytest that orders the tests for the workers, and measures the durations of the test files.

    Args:
        is_stored: whether this run's durations are written to tests/durations.json.
    """

    def __init__(self, is_stored: bool) -> None:
        self.is_stored = is_stored
        self.seconds: dict[str, float] = defaultdict(float)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if "PYTEST_XDIST_WORKER" not in os.environ:
            return
        durations = load_durations()
        scopes = {find_scope(item.nodeid) for item in items}
        sort_keys = {scope: -estimate_duration(scope, durations) for scope in scopes}
        items.sort(
            key=lambda item: sort_keys[find_scope(item.nodeid)]
        )  # stable: equal scopes stay in the folders' order

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> MixedScheduling:
        config.option.loadscopereorder = False  # keep the order of the collection
        long_scopes = {scope for scope, duration in load_durations().items() if duration >= LONG_S}
        return MixedScheduling(config, log, long_scopes)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid.partition("::")[0]] += report.duration

    def pytest_sessionfinish(self) -> None:
        if self.is_stored and "PYTEST_XDIST_WORKER" not in os.environ:
            rows = {
                file: round(seconds, 1) for file, seconds in sorted(self.seconds.items()) if seconds >= MIN_DURATION_S
            }
            DURATIONS.write_text(json.dumps(rows, indent=1) + "\n")
