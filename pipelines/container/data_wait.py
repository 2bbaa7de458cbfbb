"""Measure the share of the time in which a training reads data, for a script that reads all rows before it trains.

`container/torch/data_wait.py` measures this share for a script that reads its data batch by batch. This module is
part of the training job's bundle, so it imports only the standard library.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping

METRIC = "data_wait_share"
"""Name of the metric in the record that `Tracker` writes, in the job's log and in the ledger of costs. In MLflow,
`training_` precedes it."""


class DataWait:
    """Measure how long a training reads its data, and how long the training runs, from the creation of this object.

    A training that resumes reads its data again. After `load_state_dict`, the share is over all starts of the training.
    """

    def __init__(self) -> None:
        self._started_s, self._waited_s = time.monotonic(), 0.0
        self._earlier_s = 0.0

    def end_reading(self) -> None:
        """Count the time since the creation of this object as reading. Call it once, when all rows have been read."""
        self._waited_s += time.monotonic() - self._started_s

    @property
    def share(self) -> float:
        """Share of the time so far in which the training read its data, from 0 to 1."""
        state = self.state_dict()
        return state["waited_s"] / state["total_s"] if state["total_s"] > 0 else 0.0

    def report(self) -> dict[str, float]:
        """Print the share for the ledger of costs, and return it as a metric for `Tracker.finish`."""
        share = self.share
        sys.stdout.write(f"{METRIC}={share:.3f};\n")
        sys.stdout.flush()
        return {METRIC: round(share, 3)}

    def state_dict(self) -> dict[str, float]:
        """Return the seconds so far, for a checkpoint."""
        return {"waited_s": self._waited_s, "total_s": self._earlier_s + time.monotonic() - self._started_s}

    def load_state_dict(self, state: Mapping[str, float]) -> None:
        """Add the seconds of a checkpoint. A checkpoint of an older script has no seconds: then nothing is added."""
        self._waited_s += float(state.get("waited_s", 0.0))
        self._earlier_s += float(state.get("total_s", 0.0))
