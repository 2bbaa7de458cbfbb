"""Test the bins of a reference, and that equal rows give equal bins."""

import datetime as dt
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from pipelines.errors import DataError
from pipelines.monitoring.profiles import BinPolicy
from pipelines.monitoring.profiles.reference import MAX_OTHER_VALUES, Reference, compute_edges, fit_reference

RANDOM = np.random.default_rng(3)
DIGEST_OF_STORED = "633b11a872d593d3a2064cbe40d28ab369482e1606d0c91cfb20a7b41f7d2328"


def compute_shares(values: np.ndarray, edges: tuple[float, ...]) -> np.ndarray:
    """Compute the share of the values in each bin; numpy has the same bins where no two edges are equal."""
    edges_ = [*edges[:-1], np.nextafter(edges[-1], np.inf)] if edges[-1] == edges[-2] else list(edges)
    return np.histogram(values, edges_)[0] / len(values)


def test_bins_have_near_equal_shares_and_hold_every_training_value() -> None:
    values = RANDOM.lognormal(size=5_000)
    edges = compute_edges(values, 10)
    assert len(edges) == 11 and (edges[0], edges[-1]) == (values.min(), values.max())
    assert compute_shares(values, edges) == pytest.approx(np.full(10, 0.1), abs=0.001)


@pytest.mark.parametrize("values", [[7.0], [0.0, 1.0], [0, 1, 2, 3, 4, 5, 6], [-0.0]])
def test_few_values_have_a_bin_each(values: list[float]) -> None:
    edges = compute_edges(np.array(values * 5, dtype=float), 10)
    assert compute_shares(np.array(values), edges) == pytest.approx(1 / len(values))
    assert len(edges) == len(values) + 1


def test_a_value_with_a_large_share_has_a_bin_of_its_own() -> None:
    """Rain is zero on most days. Rainy days must not share a bin with zero."""
    values = np.concatenate([np.zeros(900), RANDOM.uniform(0.1, 1, 60), np.full(400, 2.0)])
    edges = compute_edges(values, 10)
    shares = compute_shares(values, edges)
    assert shares[0] == pytest.approx(900 / 1360) and shares[-1] == pytest.approx(400 / 1360)


def test_a_column_without_finite_values_has_no_edges(tmp_path: Path) -> None:
    assert compute_edges(np.array([]), 10) == ()
    pd.DataFrame({"x": [np.nan, np.inf, -np.inf]}).to_parquet(tmp_path / "rows.parquet")
    reference = fit_reference(tmp_path / "rows.parquet", {"x": "number"}, "y", BinPolicy())
    assert (reference.numbers[0].edges, reference.numbers[0].center) == ((), 0.0)


def test_frequent_values_have_bins_and_the_others_are_listed(tmp_path: Path) -> None:
    pd.DataFrame({"g": ["b"] * 3 + ["a"] * 3 + ["d", "c", None]}).to_parquet(tmp_path / "rows.parquet")
    reference = fit_reference(tmp_path / "rows.parquet", {"g": "category"}, "y", BinPolicy(values=2)).categories[0]
    assert (reference.values, reference.rest) == (("a", "b"), ("c", "d"))


def test_too_many_other_values_are_not_listed(tmp_path: Path) -> None:
    pd.DataFrame({"g": [f"{n}" for n in range(MAX_OTHER_VALUES + 2)]}).to_parquet(tmp_path / "rows.parquet")
    assert (
        fit_reference(tmp_path / "rows.parquet", {"g": "category"}, "y", BinPolicy(values=1)).categories[0].rest is None
    )


def test_a_reference_is_rebuilt_from_its_json_and_another_has_another_digest(tmp_path: Path) -> None:
    pd.DataFrame({"x": RANDOM.normal(size=99), "g": list("abc") * 33}).to_parquet(tmp_path / "rows.parquet")
    kinds = {"x": "number", "g": "category"}
    reference = fit_reference(tmp_path / "rows.parquet", kinds, "y", BinPolicy())
    rebuilt_reference = Reference.model_validate_json(reference.model_dump_json())
    assert rebuilt_reference == reference and rebuilt_reference.digest == reference.digest
    assert fit_reference(tmp_path / "rows.parquet", kinds, "y", BinPolicy(bins=9)).digest != reference.digest


def test_a_reference_that_an_earlier_version_stored_is_read_and_keeps_its_digest() -> None:
    bins = {"name": "x", "family": "number", "edges": [0.0, 1.0], "center": 0.5}
    curve = {"name": "late", "scores": [0.1, 0.9], "chances": [0.2, 0.8], "edges": [0.0, 0.5, 1.0]}
    stored = {
        "label": "y",
        "numbers": [bins],
        "categories": [{"name": "g", "family": "text", "values": ["a"], "rest": ["b"]}],
        "target": None,
        "losses": None,
        "classes": {"label": "y", "curves": [curve]},
    }
    reference = Reference.model_validate_json(json.dumps(stored))
    assert reference.model_dump(mode="json") == stored
    assert reference.digest == DIGEST_OF_STORED


def test_refuses_missing_features_and_text_as_numbers(tmp_path: Path) -> None:
    pd.DataFrame({"x": ["a"]}).to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(DataError, match="lacks the features z"):
        fit_reference(tmp_path / "rows.parquet", {"x": "category", "z": "number"}, "y", BinPolicy())
    with pytest.raises(DataError, match=r"x is .*string, not a number"):
        fit_reference(tmp_path / "rows.parquet", {"x": "number"}, "y", BinPolicy())


@pytest.mark.parametrize("fields", [{"bins": 1}, {"values": 0}, {"nonsense": 3}])
def test_refuses_an_invalid_policy(fields: dict[str, int]) -> None:
    with pytest.raises(ValidationError):
        BinPolicy.model_validate(fields)


@pytest.mark.parametrize("values", [pa.array([2**53 + 1, 2**62]), pa.array([2**63 + 1, 2**64 - 1], pa.uint64())])
def test_integers_beyond_the_precision_of_a_double_have_bins(values: pa.Array, tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": values}), tmp_path / "train.parquet")
    (column,) = fit_reference(tmp_path / "train.parquet", {"x": "number"}, "late", BinPolicy()).numbers
    assert column.edges[0] == float(values[0].as_py())


@pytest.mark.parametrize("kind", ["number", "category"])
@pytest.mark.parametrize("values", [[[1]], [{"a": 1}], [dt.timedelta(1)], [b"\xff"]])
def test_refuses_values_that_are_neither_numbers_nor_categories(
    kind: str, values: list[object], tmp_path: Path
) -> None:
    pq.write_table(pa.table({"x": values}), tmp_path / "train.parquet")
    with pytest.raises(DataError, match=f"not a {kind}"):
        fit_reference(tmp_path / "train.parquet", {"x": kind}, "late", BinPolicy())
