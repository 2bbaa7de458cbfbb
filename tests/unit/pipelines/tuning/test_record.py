"""Test the record of a tuning: what reports say about the winner's refit, and whether the record is stale."""

import pytest

from pipelines.tuning.record import TuningRecord

RECORD = TuningRecord(
    name="tune-flights-1",
    trials=50,
    strategy="hyperband",
    metric="logloss",
    objective=0.421,
    fold_losses=[0.41, 0.42, 0.433],
    hyperparameters={"eta": 0.1, "max_depth": 6, "booster": "dart"},
)


@pytest.mark.parametrize(
    ("values", "changes"),
    [
        ({"eta": 0.1, "max_depth": 6, "booster": "dart", "seed": 1}, []),
        ({"eta": "0.1", "max_depth": 6.0, "booster": "dart"}, []),
        ({"eta": 0.2, "max_depth": 6, "booster": "gbtree"}, ["booster", "eta"]),
        ({}, ["booster", "eta", "max_depth"]),
    ],
)
def test_which_hyperparameters_changed(values: dict[str, object], changes: list[str]) -> None:
    assert RECORD.list_changes(values) == changes


def test_the_refit_is_beside_the_best_of_many() -> None:
    assert RECORD.describe(0.4251, 0.43, []) == (
        "50 trials ran (hyperband); the winner's mean logloss on 3 folds was 0.4210 (best of 50: optimistic); "
        "its refit on the whole window has 0.4251 on validation and 0.4300 on the holdout"
    )
    assert RECORD.describe(None, None, []).endswith("(best of 50: optimistic)")


def test_stopped_trials_are_counted_and_cannot_be_the_best() -> None:
    record = RECORD.model_copy(update={"trials": 9, "stopped": 2})
    text = record.describe(None, None, [])
    assert text.startswith("9 trials ran, 2 of them stopped by a limit or a person (")
    assert "(best of 7: optimistic)" in text


@pytest.mark.parametrize(
    ("trials", "earlier_trials", "text"),
    [
        (1, 100, "1 trial ran, after a warm start from 100 earlier ones (hyperband); "),
        (2, 1, "2 trials ran, after a warm start from 1 earlier one (hyperband); "),
        (1, 0, "1 trial ran (hyperband); "),
    ],
)
def test_trials_of_a_warm_start_are_counted_beside_the_own(trials: int, earlier_trials: int, text: str) -> None:
    record = RECORD.model_copy(update={"trials": trials, "earlier_trials": earlier_trials})
    description = record.describe(None, None, [])
    assert description.startswith(text)
    assert ("(best of 1 after 100 earlier: optimistic)" in description) == (earlier_trials == 100)


def test_a_record_of_an_earlier_release_has_no_earlier_trials() -> None:
    values = RECORD.model_dump(exclude={"earlier_trials", "stopped"})
    assert TuningRecord.model_validate(values) == RECORD


def test_a_stale_record_says_what_changed() -> None:
    text = RECORD.describe(None, 0.43, ["eta"])
    assert text.endswith(
        "this training is not the winner's refit: eta changed since the tuning; this training has 0.4300 on the holdout"
    )
