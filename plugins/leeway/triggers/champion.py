"""The asset of a model's champion, and the trigger that emits its events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from airflow.sdk import Asset, AssetWatcher
from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from leeway.hooks.sagemaker.aws_errors import format_error_line
from leeway.hooks.step.champion import needs_library, read_champion

CHAMPION = "champion"
"""Key in the asset's state store: version of the last event, or the one that was champion at the first check; empty if
none was."""
CHECK_INTERVAL_S = 10.0
"""Seconds between two checks of MLflow, by default."""
MIN_CHILD_INTERVAL_S = 60.0
"""Smallest number of seconds between two checks if each starts a child process with MLflow's library, which uses a CPU
for seconds; see `needs_library`."""


def build_champion_asset(model: str, check_interval_s: float = CHECK_INTERVAL_S) -> Asset:
    """Return the asset of a model's champion. It gets an event each time that another version becomes champion.

    Airflow watches the registry while a DAG that the asset starts is active and not paused.

    Args:
        model: registered model.
        check_interval_s: seconds between two checks of MLflow.
    """
    trigger = ChampionTrigger(model=model, check_interval_s=check_interval_s)
    watcher = AssetWatcher(name=f"{model}_champion", trigger=trigger)
    return Asset(name=f"{model}_champion", uri=f"x-leeway://champion/{model}", watchers=[watcher])


class ChampionTrigger(BaseEventTrigger):
    """Emit one event for each change of a model's champion, whoever changed it: a task, a command, or a person.

    The first check only stores the champion. If the champion changed while this trigger did not run (the DAG was
    paused, or the triggerer was down), the next check emits one event. There is no event while MLflow does not answer,
    or if the alias was removed. The version of an event is stored only at the next check, when Airflow has surely
    stored the event. So if the triggerer is killed in between, the event is emitted twice, and never lost.

    Args:
        model: registered model.
        check_interval_s: seconds between two checks of MLflow.
    """

    def __init__(self, *, model: str, check_interval_s: float = CHECK_INTERVAL_S) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.model, self.check_interval_s = model, check_interval_s
        self._unstored_version = ""
        """Version of the last event, until it is in the asset's state store; then empty."""
        self._problem = ""
        self._pause_s = check_interval_s

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class and the arguments from which the triggerer recreates this trigger."""
        return f"{type(self).__module__}.{type(self).__qualname__}", {
            "model": self.model,
            "check_interval_s": self.check_interval_s,
        }

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield an event for each change, with its `champion` and the champion before it, `previous`."""
        while True:
            event = None
            try:
                event = await self._check()
                self._problem = ""
            except Exception as error:
                self._log_problem(format_error_line(error))
            if event:
                self._unstored_version = event["champion"]
                yield TriggerEvent(event)  # type: ignore[no-untyped-call]
            await asyncio.sleep(self._pause_s)

    async def _check(self) -> dict[str, str] | None:
        """Store the version of the last event, and return the event of a change; None if nothing has changed."""
        store: Any = self.asset_state_store
        if self._unstored_version:
            await store.aset(CHAMPION, self._unstored_version)
            self._unstored_version = ""
        previous = await store.aget(CHAMPION)
        self._pause_s = max(self.check_interval_s, MIN_CHILD_INTERVAL_S if needs_library() else 0)
        champion = await asyncio.to_thread(read_champion, self.model)
        if previous is None:
            self.log.info("%s: the champion is %s; each later change has an event", self.model, champion or "none yet")
            await store.aset(CHAMPION, champion)
            return None
        if champion in ("", previous):
            return None
        self.log.info("%s: the champion was %s and is %s", self.model, previous or "none", champion)
        return {"champion": champion, "previous": previous}

    def _log_problem(self, line: str) -> None:
        """Log why the champion cannot be read, once for each reason."""
        if line != self._problem:
            self.log.warning("%s: cannot read the champion, so there is no event: %s", self.model, line)
        self._problem = line
