"""Test how the benchmark of real trainings summarizes a ledger; the benchmark itself makes one."""

from benchmarks.costs.real_trainings import summarize
from tests.tools.ledger_rows import make_row

MIB = 2**20


def test_the_errors_are_stated_with_and_without_sizes() -> None:
    rows = [make_row(n, training_s=5 + 2 * n, input_bytes=n * MIB) for n in range(1, 13)]
    facts = summarize(rows)
    assert facts["training 1"] == "1 MiB, 7 s"
    assert facts["training 12"] == "12 MiB, 29 s, predicted with sizes 29.0 s, predicted without sizes 23.0 s"
    assert facts["with sizes, without correction: error in the second half, %"] == 0
    assert facts["without sizes, without correction: error in the second half, %"] > 25
    assert facts["without sizes, corrected: error in the second half, %"] > 3


def test_a_single_prediction_has_one_half() -> None:
    facts = summarize([make_row(n, training_s=10, input_bytes=MIB) for n in range(2)])
    assert facts["with sizes, corrected: error in the second half, %"] == 0
