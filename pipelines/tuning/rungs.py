"""Compute the number of rounds after which Hyperband judges a trial for the first time.

The module is light, because Airflow's operators import it.
"""

from __future__ import annotations

DEFAULT_ROUNDS = 400
"""Number of rounds from which the rungs are computed if no hyperparameter `num_round` is set."""
REDUCTION = 3
"""Hyperband: a third of the trials continues after each rung, and the next rung has three times as many rounds."""
RUNGS = 3
"""Hyperband: number of rungs with the last one, which is the full number of rounds: 400 rounds give 44, 132 and 400.
With a lower first rung, boosting with a low learning rate would be stopped before its loss has fallen."""


def compute_first_rung(num_round: int) -> int:
    """Return the number of rounds of the first rung.

    Args:
        num_round: largest number of rounds of a trial.
    """
    return max(1, num_round // int(REDUCTION ** (RUNGS - 1)))
