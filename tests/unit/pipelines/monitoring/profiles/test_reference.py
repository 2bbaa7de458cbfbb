"""A reference: bins made of the training's rows, the same from the same rows."""

import datetime as dt
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from pipelines.errors import DataError
from pipelines.monitoring.profiles import Policy
from pipelines.monitoring.profiles.reference import MAX_REST, Reference, edges_of, fit

RANDOM = np.random.default_rng(3)


def shares(values: np.ndarray, edges: tuple[float, ...]) -> np.ndarray:
    """Of the values in each bin; numpy's bins are ours where no two edges are equal."""
    edges_ = [*edges[:-1], np.nextafter(edges[-1], np.inf)] if edges[-1] == edges[-2] else list(edges)
    return np.histogram(values, edges_)[0] / len(values)


def test_bins_have_near_equal_shares_and_hold_every_training_value() -> None:
    values = RANDOM.lognormal(size=5_000)
    edges = edges_of(values, 10)
    assert len(edges) == 11 and (edges[0], edges[-1]) == (values.min(), values.max())
    assert shares(values, edges) == pytest.approx(np.full(10, 0.1), abs=0.001)


@pytest.mark.parametrize("values", [[7.0], [0.0, 1.0], [0, 1, 2, 3, 4, 5, 6], [-0.0]])
def test_few_values_have_a_bin_each(values: list[float]) -> None:
    edges = edges_of(np.array(values * 5, dtype=float), 10)
    assert shares(np.array(values), edges) == pytest.approx(1 / len(values))
    assert len(edges) == len(values) + 1


def test_a_value_with_a_large_share_has_a_bin_of_its_own() -> None:
    """Rain is zero on most days: how often it is more must not vanish in one bin with zero."""
    values = np.concatenate([np.zeros(900), RANDOM.uniform(0.1, 1, 60), np.full(400, 2.0)])
    edges = edges_of(values, 10)
    told = shares(values, edges)
    assert told[0] == pytest.approx(900 / 1360) and told[-1] == pytest.approx(400 / 1360)


def test_no_finite_value_gives_no_edges(tmp_path: Path) -> None:
    assert edges_of(np.array([]), 10) == ()
    pd.DataFrame({"x": [np.nan, np.inf, -np.inf]}).to_parquet(tmp_path / "rows.parquet")
    made = fit(tmp_path / "rows.parquet", {"x": "number"}, "y", Policy())
    assert (made.numbers[0].edges, made.numbers[0].center) == ((), 0.0)


def test_frequent_values_have_bins_and_the_others_are_remembered(tmp_path: Path) -> None:
    pd.DataFrame({"g": ["b"] * 3 + ["a"] * 3 + ["d", "c", None]}).to_parquet(tmp_path / "rows.parquet")
    made = fit(tmp_path / "rows.parquet", {"g": "category"}, "y", Policy(values=2)).categories[0]
    assert (made.values, made.rest) == (("a", "b"), ("c", "d"))


def test_too_many_other_values_are_not_remembered(tmp_path: Path) -> None:
    pd.DataFrame({"g": [f"{n}" for n in range(MAX_REST + 2)]}).to_parquet(tmp_path / "rows.parquet")
    assert fit(tmp_path / "rows.parquet", {"g": "category"}, "y", Policy(values=1)).categories[0].rest is None


def test_its_json_is_it_and_its_digest_tells_another(tmp_path: Path) -> None:
    pd.DataFrame({"x": RANDOM.normal(size=99), "g": list("abc") * 33}).to_parquet(tmp_path / "rows.parquet")
    kinds = {"x": "number", "g": "category"}
    made = fit(tmp_path / "rows.parquet", kinds, "y", Policy())
    again = Reference.model_validate_json(made.model_dump_json())
    assert again == made and again.digest == made.digest
    assert fit(tmp_path / "rows.parquet", kinds, "y", Policy(bins=9)).digest != made.digest


def test_what_cannot_be_fitted_is_told(tmp_path: Path) -> None:
    pd.DataFrame({"x": ["a"]}).to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(DataError, match="lacks the features z"):
        fit(tmp_path / "rows.parquet", {"x": "category", "z": "number"}, "y", Policy())
    with pytest.raises(DataError, match=r"x is .*string, not a number"):
        fit(tmp_path / "rows.parquet", {"x": "number"}, "y", Policy())


@pytest.mark.parametrize("wrong", [{"bins": 1}, {"values": 0}, {"nonsense": 3}])
def test_a_wrong_policy_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValidationError):
        Policy.model_validate(wrong)


@pytest.mark.parametrize("values", [pa.array([2**53 + 1, 2**62]), pa.array([2**63 + 1, 2**64 - 1], pa.uint64())])
def test_whole_numbers_beyond_a_doubles_digits_have_bins(values: pa.Array, tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": values}), tmp_path / "train.parquet")
    (column,) = fit(tmp_path / "train.parquet", {"x": "number"}, "late", Policy()).numbers
    assert column.edges[0] == float(values[0].as_py())


@pytest.mark.parametrize("kind", ["number", "category"])
@pytest.mark.parametrize("values", [[[1]], [{"a": 1}], [dt.timedelta(1)], [b"\xff"]])
def test_what_is_neither_number_nor_category_is_told(kind: str, values: list[object], tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": values}), tmp_path / "train.parquet")
    with pytest.raises(DataError, match=f"not a {kind}"):
        fit(tmp_path / "train.parquet", {"x": kind}, "late", Policy())
