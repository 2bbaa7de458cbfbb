"""Let pytest capture the logs of the root logger only, to which all loggers of Leeway and drydock propagate.

pytest 9.2 also looks for loggers that do not propagate, six times for each test. With the thousands of loggers of
Airflow, MLflow and their libraries, this search took 4 % of the CPU time of the tests' processes.
"""

from __future__ import annotations

import logging
from typing import Any

from _pytest.logging import catching_logs


def capture_root_logs_only() -> None:
    """Replace the search of pytest in this process."""
    catching_logs.__enter__ = _attach_to_root


def _attach_to_root(capture: Any) -> logging.Handler:
    """Attach the handler to the root logger. `catching_logs.__exit__` detaches it."""
    root = logging.getLogger()
    root.addHandler(capture.handler)
    capture.attached_loggers.append(root)
    if capture.level is not None:
        capture.handler.setLevel(capture.level)
        capture.orig_level = root.level
        root.setLevel(min(root.level, capture.level))
    handler: logging.Handler = capture.handler
    return handler
