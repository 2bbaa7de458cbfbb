"""The default_args of Leeway's DAGs: owner, retries, time limit and notifications."""

from __future__ import annotations

import datetime as dt
from typing import Any, Literal

from leeway.notifiers.lifecycle import build_lifecycle_callbacks


def build_default_args(
    owner: Literal["data", "ml"], *, retries: int = 3, execution_timeout: dt.timedelta = dt.timedelta(minutes=20)
) -> dict[str, Any]:
    """Return the `default_args` of a DAG.

    Args:
        owner: team that is responsible for the tasks.
        retries: number of retries of a task that failed; the delay before a retry grows from 10 seconds to 10 minutes.
        execution_timeout: maximum time of one try in a worker. After a wait in the triggerer, it is counted from zero
            again.
    """
    return {
        "owner": owner,
        "retries": retries,
        "retry_delay": dt.timedelta(seconds=10),
        "retry_exponential_backoff": True,
        "max_retry_delay": dt.timedelta(minutes=10),
        "execution_timeout": execution_timeout,
        **build_lifecycle_callbacks(),
    }
