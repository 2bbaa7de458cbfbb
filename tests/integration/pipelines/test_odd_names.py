"""Test names and values that pandas, SQL or a chart could read as something else, such as NA, through all steps."""

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xgboost as xgb

from pipelines.dataset import Dataset
from pipelines.defaults import model as trees
from pipelines.evaluation.gates import Check
from pipelines.lake import Lake
from pipelines.monitoring import drift, windows
from pipelines.monitoring.profiles.counting import count_days
from pipelines.monitoring.profiles.record import ReferenceRecord
from pipelines.steps import evaluate, gate, preprocess, snapshot, train

NUMBERS = ("NA", "nan", "2013", "None", "a $b$ \\frac{", "Größe m²", "it's", 'a "b", c', "missing", "rows")
CATEGORIES = ("null", "N/A", "with space", "column", "運ぶ")
VALUES = ["NA", "nan", "None", "null", "N/A", "", "missing", "2013", "Île", 'a "b", c', "it's", "$x^$", "<b>", None]


DATASET = Dataset(
    name="odd",
    key=("date", "row"),
    label="true",
    features=dict.fromkeys(NUMBERS, "number") | dict.fromkeys(CATEGORIES, "category"),
)


def build_rows(first: str, days: int, seed: int) -> pd.DataFrame:
    """Build rows of features. The label depends on the numbers `NA` and `nan` and on the value NA of `null`."""
    random, count = np.random.default_rng(seed), 400 * days
    date = pd.Timestamp(first) + pd.to_timedelta(np.arange(count) // 400, unit="D")
    rows = pd.DataFrame({"date": date.date, "row": np.arange(count)})
    rows = rows.assign(**{name: random.normal(size=count) for name in NUMBERS})
    rows = rows.assign(**{name: pd.Series(random.choice(np.array(VALUES, dtype=object), count)) for name in CATEGORIES})
    log_odds = 2 * rows["NA"] + rows["nan"] + 2 * (rows["null"] == "NA") - 1
    return rows.assign(true=random.random(count) < 1 / (1 + np.exp(-log_odds)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the features, a trained model and its record; return their folder."""
    folder = tmp_path_factory.mktemp("odd")
    for split, first, days, seed in (("train", "2013-01-01", 14, 1), ("holdout", "2013-01-16", 14, 2)):
        (folder / "features" / split).mkdir(parents=True)
        table = pa.Table.from_pandas(build_rows(first, days, seed), preserve_index=False)
        pq.write_table(table, folder / "features" / split / "data.parquet")
    train = pd.read_parquet(folder / "features/train/data.parquet")
    schema = trees.Schema.fit(train, {"features": dict(DATASET.features), "label": "true"})
    parameters = {"objective": "binary:logistic", "seed": 1}
    trees.Model(xgb.train(parameters, schema.to_matrix(train), 30), schema).save(folder / "model")
    return folder


@pytest.fixture(autouse=True)
def odd_dataset(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Add the dataset `odd`, which has the default features and the default model."""
    package = ModuleType("pipelines.datasets.odd")
    package.DATASET = DATASET  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pipelines.datasets.odd", package)


@pytest.fixture
def evaluation(folder: Path, odd_dataset: None) -> Path:
    """Evaluate the model, once for this file; return the folder of the evidence, which no test changes."""
    evidence = folder / "evaluation"
    if not evidence.exists():
        fields = {"features": folder / "features", "trained_model": str(folder / "model"), "evaluation": evidence}
        evaluate.run(evaluate.EvaluateSpec.parse({"dataset": "odd", **fields}, "test"))
    return evidence


def test_rows_of_the_lake_are_trained_on_as_they_are(home: Path) -> None:
    """The steps snapshot, preprocess, train and evaluate run on the lake, with the training script in a process."""
    rows = build_rows("2013-01-01", 20, 1)
    for day, rows_of_day in rows.groupby("date"):
        Lake.open().write_partition("odd", day, pa.Table.from_pandas(rows_of_day, preserve_index=False))
    window = {"as_of": "2013-01-21", "train_days": 14, "holdout_days": 6, "min_train_days": 4}
    snapshot.run(snapshot.SnapshotSpec.parse({"dataset": "odd", **window}, "test"))
    features = preprocess.run(preprocess.PreprocessSpec(validation_days=2))
    tables = [pq.read_table(features.features / split / "data.parquet") for split in ("train", "validation", "holdout")]
    written = pa.concat_tables(tables).sort_by("row")
    expected = pa.Table.from_pandas(rows, preserve_index=False).take(written["row"])
    assert written.num_rows == 18 * 400
    for name in (*NUMBERS, *CATEGORIES, "true"):
        assert written[name].to_pylist() == expected[name].to_pylist(), name
    result = train.run(train.TrainSpec(dataset="odd", hyperparameters={"num_round": 30, "eta": 0.3}))
    model = trees.load(result.model)
    assert model.schema.categories["null"] == sorted(value for value in VALUES if value is not None)
    assert set(list(model.importance())[:3]) == {"NA", "nan", "null"}, "the features by which the label was made"
    auc = evaluate.run(evaluate.EvaluateSpec(dataset="odd")).metrics["auc"]
    assert auc > 0.75


def run_gate(folder: Path, evaluation: Path, **policy: object) -> list[Check]:
    """Run the gate with all its pictures; return the checks."""
    full_policy = {"min_rows": 100, "bounds": {"auc": {"at_least": 0.5}}, "max_solo_auc": 0.99, **policy}
    spec = {"dataset": "odd", "features": folder / "features", "evaluation": evaluation, "policy": full_policy}
    return gate.run(gate.GateSpec.parse(spec, "test")).checks


@pytest.mark.soak
def test_the_gate_judges_features_of_any_name(folder: Path, evaluation: Path) -> None:
    """Slices are reported here, since there is no champion. Every value has a slice of its own."""
    checks = run_gate(folder, evaluation, slices={"columns": [*CATEGORIES, "2013"][:5], "min_rows": 100})
    assert {check.outcome for check in checks} <= {"passed", "reported"}
    (leak_check,) = [check for check in checks if check.name.startswith("AUC of one feature alone")]
    assert leak_check.name == "AUC of one feature alone (NA)"
    verdict = json.loads(Path("data/verdict.json").read_text())
    assert {f"slices of {name}" for name in CATEGORIES} <= {check["name"] for check in verdict["checks"]}
    page = Path("data/report/report.html").read_text()
    for text in ("Slices by null", "Slices by 運ぶ", "<td>NA</td>", "<td>nan</td>", "<td>None</td>", "&lt;b&gt;"):
        assert text in page, text


@pytest.mark.parametrize("name", ["NA", *(pytest.param(name, marks=pytest.mark.soak) for name in ("it's", 'a "b", c'))])
def test_a_leak_in_a_feature_of_any_name_is_found(folder: Path, evaluation: Path, tmp_path: Path, name: str) -> None:
    features = tmp_path / "features"
    for split in ("train", "holdout"):
        rows = pd.read_parquet(folder / "features" / split / "data.parquet")
        (features / split).mkdir(parents=True)
        rows.assign(**{name: rows["true"].astype(float)}).to_parquet(features / split / "data.parquet")
    spec = {"dataset": "odd", "features": features, "evaluation": evaluation}
    policy = {"min_rows": 100, "bounds": {"auc": {"at_least": 0.5}}, "baseline": [], "stability": None}
    result = gate.run(gate.GateSpec.parse({**spec, "policy": policy}, "test"))
    (check,) = [check for check in result.checks if check.name == f"AUC of one feature alone ({name})"]
    assert (check.outcome, check.value) == ("failed", 1.0)


def test_importance_has_every_name(evaluation: Path) -> None:
    from pipelines.evaluation.tables import read_importance

    importance = read_importance(evaluation / "plots/importance.csv")
    assert set(importance) == {*NUMBERS, *CATEGORIES}
    assert {name for name, share in importance.items() if share > 0.1} <= {"NA", "nan", "null"}


def test_profiles_count_every_value_as_itself(folder: Path, evaluation: Path) -> None:
    record = ReferenceRecord.read(evaluation / "reference.json")
    column = next(column for column in record.reference.categories if column.name == "null")
    assert {*column.values, *(column.rest or ())} == {value for value in VALUES if value is not None}


@pytest.mark.parametrize(
    ("change", "drifted"),
    [
        ({}, set()),
        pytest.param({"NA": lambda rows: rows["NA"] + 2}, {"NA"}, marks=pytest.mark.soak),
        ({"null": lambda rows: rows["null"].replace([None, "nan", "None", "null", "N/A"], "NA")}, {"null"}),
        pytest.param(
            {"N/A": lambda rows: rows["N/A"].where(~rows["N/A"].isin(["NA", "nan", "None", "null"]), None)},
            {"N/A"},
            marks=pytest.mark.soak,
        ),
        pytest.param({"運ぶ": lambda rows: rows["運ぶ"].replace("null", "new")}, {"運ぶ"}, marks=pytest.mark.soak),
    ],
    ids=["none", "number", "other texts become NA", "NA becomes missing", "unseen"],
)
def test_drift_is_found_in_names_and_values_like_na(
    folder: Path, evaluation: Path, tmp_path: Path, change: dict[str, Any], drifted: set[str]
) -> None:
    record = ReferenceRecord.read(evaluation / "reference.json")
    rows = build_rows("2013-02-01", 14, 3)
    score = pd.read_parquet(evaluation / "predictions.parquet")["score"].to_numpy()[: len(rows)]
    rows.assign(**change).assign(score=score).to_parquet(tmp_path / "now.parquet")
    days = count_days(record.reference, tmp_path / "now.parquet", "date")
    weights = dict.fromkeys(DATASET.features, 1.0)
    (window,) = windows.compare_windows(record, days, 14, weights, drift.Policy(min_rows=500, at_least=1, of_last=1), 1)
    decision = drift.decide_each([window.result], drift.Policy(min_rows=500, at_least=1, of_last=1))
    assert {name for name in next(iter(decision)).drifted_columns if name in DATASET.features} == drifted
