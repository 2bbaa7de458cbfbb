"""Compute the number of rounds after which Hyperband judges a trial for the first time.

The module imports little, because Airflow's operators import it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipelines.errors import SpecError

DEFAULT_ROUNDS = 400
"""Number of rounds from which the rungs are computed if no hyperparameter `num_round` is set."""
REDUCTION = 3
"""Hyperband: a third of the trials continues after each rung, and the next rung has three times as many rounds."""
RUNGS = 3
"""Hyperband: number of rungs. The last rung is the full number of rounds: 400 rounds give the rungs 44, 132 and 400.
With a lower first rung, boosting with a low learning rate would be stopped before its loss has fallen."""


def get_num_round(hyperparameters: Mapping[str, Any]) -> int:
    """Return the largest number of rounds of a trial: the hyperparameter `num_round`.

    Raises:
        SpecError: `num_round` is not a whole number of at least 1. A retry cannot help.
    """
    value = hyperparameters.get("num_round", DEFAULT_ROUNDS)
    try:
        num_round = int(str(value))
    except ValueError:
        num_round = 0
    if num_round < 1:
        raise SpecError(
            f"num_round is {str(value)[:60]!r}: it must be a whole number of at least 1, because it decides after "
            "which rounds a trial is judged.",
            "Correct train.hyperparameters.",
        )
    return num_round


def compute_first_rung(num_round: int) -> int:
    """Return the number of rounds of the first rung.

    Args:
        num_round: largest number of rounds of a trial.
    """
    return max(1, num_round // int(REDUCTION ** (RUNGS - 1)))
