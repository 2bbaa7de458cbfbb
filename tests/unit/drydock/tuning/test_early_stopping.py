"""Test the median rule of early stopping."""

import pytest

from drydock.tuning.early_stopping import Series, is_worse_than_median
from drydock.tuning.plan import Objective

LOSS, ACCURACY = Objective("loss", is_minimized=True), Objective("accuracy", is_minimized=False)
# The running averages are 4, 3, 2 and 6, 5, 4: their medians at the three steps are 5, 4, 3.
OTHERS: list[Series] = [[4.0, 2.0, 0.0], [6.0, 4.0, 2.0]]


@pytest.mark.parametrize(
    ("series", "is_stopped"),
    [
        ([5.0], False),
        ([5.1], True),
        ([5.0, 4.0, 3.0], False),
        ([5.0, 4.1], True),
        ([5.0, None, 3.0], False),  # a value that is not finite decides nothing
        ([5.0, 4.0, 3.0, 3.1], True),  # the others ended earlier: their averages are those of all their steps
    ],
)
def test_trial_is_compared_with_the_median_of_running_averages(series: Series, is_stopped: bool) -> None:
    assert is_worse_than_median(series, 1, OTHERS, LOSS) is is_stopped
    mirrored = [[value and -value for value in other] for other in OTHERS]
    assert is_worse_than_median([value and -value for value in series], 1, mirrored, ACCURACY) is is_stopped


def test_earlier_steps_and_missing_trials_decide_nothing() -> None:
    assert not is_worse_than_median([9.0, 4.0], 2, OTHERS, LOSS)
    assert not is_worse_than_median([9.0], 1, [], LOSS) and not is_worse_than_median([9.0], 1, [[], [None]], LOSS)
