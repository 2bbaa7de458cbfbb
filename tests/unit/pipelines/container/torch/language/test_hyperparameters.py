"""Test the hyperparameters of the template for language models."""

from __future__ import annotations

from dataclasses import asdict, fields

import pytest

from pipelines.container.torch.language.hyperparameters import (
    CHANGEABLE,
    LIMITS,
    WEIGHT_HYPERPARAMETERS,
    Hyperparameters,
    parse_hyperparameters,
)
from pipelines.errors import SpecError


def test_defaults_and_values() -> None:
    assert parse_hyperparameters([]) == Hyperparameters()
    arguments = ["--method", "full", "--epochs", "3", "--packing", "False", "--lora_alpha", "8"]
    expected = Hyperparameters(method="full", epochs=3, packing=False, lora_alpha=8.0)
    assert parse_hyperparameters(arguments) == expected


def test_every_number_has_limits() -> None:
    numbers = {field.name for field in fields(Hyperparameters) if type(field.default) in (int, float)}
    assert numbers == set(LIMITS)
    defaults = asdict(Hyperparameters())
    assert all(low <= defaults[name] <= high for name, (low, high) in LIMITS.items())


def test_strategy_and_rate_follow_the_method() -> None:
    lora, full = Hyperparameters(), Hyperparameters(method="full")
    assert (lora.is_divided, full.is_divided) == (False, True)
    assert Hyperparameters(strategy="fsdp").is_divided and not Hyperparameters(method="full", strategy="ddp").is_divided
    assert (lora.peak_rate, full.peak_rate) == (2e-4, 2e-5)
    assert Hyperparameters(learning_rate=0.5).peak_rate == 0.5


def test_identity_leaves_out_what_may_change() -> None:
    identity = Hyperparameters().build_identity()
    assert set(identity) == {field.name for field in fields(Hyperparameters)} - {*CHANGEABLE, *WEIGHT_HYPERPARAMETERS}
    assert {"batch_size", "precision", "learning_rate", "seed"} <= set(identity)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--num_round", "3"], "unknown hyperparameters: --num_round 3. Use one of: method, precision"),
        (["--epochs", "0"], "hyperparameter epochs: it must be a whole number from 1 to 100000, but is '0'."),
        (["--epochs", "1.5"], "hyperparameter epochs: it must be a whole number"),
        (["--learning_rate", "nan"], "hyperparameter learning_rate: it must be a number from 0 to 10, but is 'nan'."),
        (["--packing", "yes"], "hyperparameter packing: it must be true or false, but is 'yes'."),
        (["--method", "qlora"], "hyperparameter method: invalid choice: 'qlora'"),
    ],
)
def test_wrong_values_are_refused(arguments: list[str], text: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse_hyperparameters(arguments)
    assert text in str(caught.value)
