"""Compare the measures with numbers of Evidently 0.7.23 and NannyML 0.13.1 (`benchmarks.decisions.drift_tool_numbers`).

Some rows were generated, the others are flights of January and March 2013. Where definitions differ, the test says how.
"""

import datetime as dt
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from benchmarks.decisions import drift_tool_numbers
from pipelines.dataset import Dataset
from pipelines.monitoring import drift
from pipelines.monitoring.class_windows import estimate_class_days
from pipelines.monitoring.drift import distances, performance, regression_errors
from pipelines.monitoring.drift.counts import Array
from pipelines.monitoring.profiles import BinPolicy
from pipelines.monitoring.profiles.class_scores import fit_classes
from pipelines.monitoring.profiles.counting import count_file
from pipelines.monitoring.profiles.losses import fit_losses
from pipelines.monitoring.profiles.profile import Profile
from pipelines.monitoring.profiles.reference import Reference, fit_reference
from pipelines.scored_rows import append_scores

NUMBERS: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("drift_tools.json").read_text())
EVIDENTLY, NANNYML = NUMBERS["Evidently 0.7.23"], NUMBERS["NannyML 0.13.1"]
ORDERS = Dataset(name="orders", key=("id",), label="label", task="multiclass", features={"x": "number"})
CATEGORY_CASES = ["letters", "new letter", "carrier", "origin"]
NUMERIC_CASES = ["points", "normal", "hour", "distance", "dep_delay"]


def read_counts(case: dict[str, Any]) -> tuple[Array, Array]:
    return np.array(case["reference"], dtype=float), np.array(case["window"], dtype=float)


def has_value_on_one_side_only(case: dict[str, Any]) -> bool:
    reference, window = read_counts(case)
    return bool(((reference > 0) != (window > 0)).any())


@pytest.mark.parametrize("name", EVIDENTLY)
def test_psi_equals_that_of_evidently_in_the_same_bins(name: str) -> None:
    psi = float(distances.compute_psi(*read_counts(EVIDENTLY[name])))
    if has_value_on_one_side_only(EVIDENTLY[name]):
        # Evidently puts a share of 0.0001, or less, in an empty bin, and Leeway half a row.
        assert psi != pytest.approx(EVIDENTLY[name]["psi"], rel=1e-3)
        assert (psi > 0.1) == (EVIDENTLY[name]["psi"] > 0.1)
    else:
        assert psi == pytest.approx(EVIDENTLY[name]["psi"], rel=1e-9)


def test_both_ways_to_treat_an_empty_bin_occur() -> None:
    """Negative control of the test above: it compares real and generated cases, with empty bins and without."""
    has_empty_bins = [has_value_on_one_side_only(case) for case in EVIDENTLY.values()]
    assert sum(has_empty_bins) == 3 and len(has_empty_bins) == 9


@pytest.mark.parametrize("name", ["normal", "distance", "dep_delay"])
def test_psi_depends_on_the_bins(name: str) -> None:
    """Evidently cuts the range of both sides into equal bins (Sturges), and Leeway the reference into deciles.

    Delays have a long tail: nearly all rows are in the first of Evidently's bins.
    """
    ours = float(distances.compute_psi(*read_counts(NUMBERS["Leeway's bins"][name])))
    theirs = EVIDENTLY[name]["psi"]
    assert 0.25 < ours / theirs < 4 and ours != pytest.approx(theirs, rel=0.01)
    assert (ours > 0.1) == (theirs > 0.1)


@pytest.mark.parametrize("name", EVIDENTLY)
def test_the_jensen_shannon_distance_equals_that_of_evidently_which_has_base_e(name: str) -> None:
    bits = float(distances.compute_jensen_shannon(*read_counts(EVIDENTLY[name])))
    assert math.sqrt(bits * math.log(2)) == pytest.approx(EVIDENTLY[name]["jensenshannon"], rel=1e-9)


@pytest.mark.parametrize("name", CATEGORY_CASES + NUMERIC_CASES)
def test_the_jensen_shannon_distance_equals_that_of_nannyml(name: str) -> None:
    # NannyML cuts the numbers of the reference by Doane's rule. Values beyond these bins are a bin of their own.
    counts = read_counts(EVIDENTLY[name] if name in CATEGORY_CASES else NANNYML[name])
    assert math.sqrt(distances.compute_jensen_shannon(*counts)) == pytest.approx(
        NANNYML[name]["jensen_shannon"], rel=1e-9
    )


@pytest.mark.parametrize("name", CATEGORY_CASES)
def test_chi_square_equals_that_of_nannyml(name: str) -> None:
    assert distances.compute_chi_square(*read_counts(EVIDENTLY[name])) == pytest.approx(NANNYML[name]["chi2"], rel=1e-9)


@pytest.mark.parametrize("name", ["points", "hour"])
def test_distances_of_values_equal_those_of_both(name: str) -> None:
    """With a bin for each value, the counts lose no information."""
    counts = read_counts(NUMBERS["values"][name])
    # NannyML rounds to 5 digits.
    assert distances.compute_ks_distance(*counts) == pytest.approx(NANNYML[name]["kolmogorov_smirnov"], abs=1e-5)
    values = np.array(NUMBERS["values"][name]["values"])
    edges = np.repeat(values, 2)
    reference, window = np.zeros((2, len(edges) + 1))
    reference[1::2], window[1::2] = counts
    assert distances.compute_wasserstein(reference, window, edges) == pytest.approx(
        EVIDENTLY[name]["wasserstein"], rel=1e-4
    )


def test_the_estimated_auc_equals_that_of_nannyml() -> None:
    histogram = np.array(NUMBERS["scores of March"]["histogram"])
    probabilities = 0.1 + 0.6 * (np.arange(20) + 0.5) / 20
    estimate = performance.estimate_performance(histogram, probabilities, 0.05)["estimated_auc"]
    # NannyML rounds the numbers of rows to 5 digits.
    assert estimate.value == pytest.approx(NANNYML["scores"]["estimated_auc"], abs=1e-6)
    # Negative control: other probabilities give another AUC.
    other_estimate = performance.estimate_performance(histogram, probabilities**2, 0.05)["estimated_auc"]
    assert abs(other_estimate.value - NANNYML["scores"]["estimated_auc"]) > 0.01


@pytest.fixture
def count_window(tmp_path: Path, home: Path) -> Callable[..., Profile]:
    """Return the function that fits a reference to the first rows, and counts the others without their labels."""

    def count(reference: Reference, complete: Callable[[Reference, Path], Reference], *sides: pd.DataFrame) -> Profile:
        paths = [tmp_path / f"{name}.parquet" for name in ("reference", "window")]
        for path, rows in zip(paths, sides, strict=True):
            rows.to_parquet(path)
        return count_file(complete(reference, paths[0]), paths[1])

    return count


def test_the_estimated_errors_are_near_those_of_nannyml(count_window: Callable[..., Profile], tmp_path: Path) -> None:
    """Both learn the errors from the same rows: NannyML with LightGBM, and Leeway with smaller boosters."""
    first, window = (drift_tool_numbers.build_losses(side) for side in ("reference", "window"))
    first.to_parquet(tmp_path / "train.parquet")
    kinds = {"x": "number", "g": "category"}
    reference = fit_reference(tmp_path / "train.parquet", kinds, "label", BinPolicy(), "regression")
    profile = count_window(
        reference,
        lambda reference, path: reference.model_copy(update={"losses": fit_losses(reference, path)}),
        first,
        window.drop(columns="label"),
    )
    assert profile.losses
    estimates = regression_errors.estimate_errors(
        np.array(profile.losses.counts, dtype=float), np.array([profile.losses.sums]), 0.05
    )
    errors = (window["score"] - window["label"]).abs()
    unchanged = (first["score"] - first["label"]).abs().mean()
    for name, value in {"mae": errors.mean(), "rmse": (errors**2).mean() ** 0.5}.items():
        estimate = estimates[f"estimated_{name}"].value
        assert estimate == pytest.approx(NANNYML["losses"][name], rel=0.03)
        # Not farther from the truth than NannyML by more than chance.
        assert abs(estimate - value) < abs(NANNYML["losses"][name] - value) + 0.05
    assert unchanged < 0.75 * errors.mean(), "the window's errors are larger"


def test_the_estimated_performance_of_classes_equals_that_of_nannyml(
    count_window: Callable[..., Profile], tmp_path: Path
) -> None:
    """NannyML's accuracy, recall and precision are exact sums over rows; only the AUC depends on our bins."""

    def build(side: str) -> pd.DataFrame:
        rows = drift_tool_numbers.build_classes(side)
        scores = rows[[f"score_{name}" for name in "abc"]].set_axis(list("abc"), axis=1)
        return append_scores(ORDERS, rows[["label"]], scores)

    first, window = build("reference"), build("window")
    first.assign(x=0.0).to_parquet(tmp_path / "train.parquet")
    reference = fit_reference(tmp_path / "train.parquet", {"x": "number"}, "is_right", BinPolicy())
    profile = count_window(
        reference,
        lambda reference, path: reference.model_copy(update={"classes": fit_classes(path, "label")}),
        first,
        window.drop(columns=["label", "is_right"]),
    )
    performances = estimate_class_days({dt.date(2013, 1, 1): profile}, drift.Policy())
    accuracy = performances["performance", "estimated_accuracy"].value
    assert accuracy == pytest.approx(NANNYML["classes"]["accuracy"], abs=1e-4)
    for name in ("recall", "precision"):
        values = [performances[f"performance/{letter}", f"estimated_{name}"].value for letter in "abc"]
        assert np.mean(values) == pytest.approx(NANNYML["classes"][name], abs=1e-4)
    auc = performances["performance", "estimated_macro_auc"].value
    assert auc == pytest.approx(NANNYML["classes"]["roc_auc"], abs=2e-3)
    # Negative control: without calibration, the accuracy would be the mean probability of the predicted class.
    assert window["score"].mean() > accuracy + 0.05
