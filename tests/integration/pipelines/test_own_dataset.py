"""Test a dataset of two files in a project of its own: from its source to a judged version, by the command line."""

import datetime as dt
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from pipelines.dataset import list_datasets, load_dataset
from pipelines.errors import DataError, SpecError
from pipelines.lake import Lake
from pipelines.steps import ingest, preprocess, snapshot, validate
from tests.conftest import set_home
from tests.tools import forking, torch_jobs
from tests.tools.names import name_for_test
from tests.tools.policies import EASY_POLICY

ROOT = Path(__file__).parents[3]
DESCRIPTION = """
from pipelines.dataset import Dataset

DATASET = Dataset(
    name="arrivals",
    key=("date", "carrier", "flight", "origin"),
    label="late",
    known_later=("dep_time", "dep_delay", "arr_time", "arr_delay", "air_time", "late"),
    features={"sched_dep_time": "number", "distance": "number", "carrier": "category", "origin": "category"},
)
"""
SOURCE = "from pipelines.datasets.flights.source import open_source\n"
SUITE = {
    "name": "arrivals",
    "expectations": [
        {"type": "expect_table_row_count_to_be_between", "kwargs": {"min_value": 1}, "severity": "critical"},
        {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "date"}, "severity": "critical"},
    ],
}
PARAMS = {
    "snapshot": {"as_of": "2013-01-10", "train_days": 4, "holdout_days": 3, "min_train_days": 3},
    "preprocess": {"validation_days": 2},
    "train": {"hyperparameters": {"num_round": 20, "max_depth": 3, "nthread": 1}},
    "gate": {"policy": {**EASY_POLICY, "serving": {}}},
}

SHORT_GATE = """
from pipelines.cli.app import main
from pipelines.evaluation.gates import serving
serving.MAX_TIMING_S = 0.2
main()
"""
"""A command line whose gate times fewer calls of the package: that takes a third of its CPU time."""


def write_dataset(folder: Path, **files: str) -> Path:
    """Write the files of the dataset `arrivals` below `folder`; return the dataset's folder."""
    package = folder / "arrivals"
    package.mkdir(parents=True)
    for name, text in {"__init__": DESCRIPTION, "source": SOURCE, **files}.items():
        (package / f"{name}.py").write_text(text)
    return package


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return the folder of a project with the dataset `arrivals`, its suite and its parameters, and nothing else."""
    folder = tmp_path / "project"
    write_dataset(folder / "datasets")
    (folder / "expectations").mkdir()
    (folder / "expectations/arrivals.json").write_text(json.dumps(SUITE))
    (folder / "params.yaml").write_text(yaml.safe_dump(PARAMS))
    return folder


@pytest.fixture
def run_in_project(project: Path, commands: Any, mlflow_uri: str) -> Callable[..., Any]:
    """Return the function that runs a step in the project's folder; it returns the step's result."""

    def run(*arguments: str) -> Any:
        variables = {"LEEWAY_PROJECT": str(project), "LEEWAY_HOME": str(project / ".leeway")}
        options = {"env": {**variables, "MLFLOW_TRACKING_URI": mlflow_uri}, "cwd": project}
        if arguments[0] == "gate":
            command = (sys.executable, "-c", SHORT_GATE, *arguments)
            process = commands.run(*command, executable_of_child=forking.ensure_stand_in(), **options)
        else:
            process = commands.run_step(*arguments, **options)
        assert process.code == 0, process.err
        return json.loads(process.out)

    return run


def read_measures(column: str) -> set[str]:
    """Return the measures that the last window has for a column of drift."""
    rows = Lake.open().read_partition("drift_results", dt.date(2013, 1, 11)).to_pylist()
    return {row["measure"] for row in rows if row["name"] == column}


@pytest.mark.soak
def test_two_files_are_a_dataset(run_in_project: Callable[..., Any], request: pytest.FixtureRequest) -> None:
    model = name_for_test("own-", request.node.name)
    run_in_project("backfill", "--first", "2013-01-01", "--last", "2013-01-09")
    run_in_project("snapshot")
    run_in_project("preprocess")
    assert run_in_project("train")["training_job"].startswith("local-arrivals-")
    version = run_in_project("evaluate", "--model", model)["version"]
    verdict = run_in_project("gate", "--model", model, "--version", version)
    outcomes = {check["name"]: check["outcome"] for check in verdict["checks"]}
    assert verdict["outcome"] == "passed", verdict["reason"]
    assert outcomes["the packaged model can be loaded where the project's code is not"] == "passed"


def test_the_torch_template_is_judged_by_the_gate(
    project: Path, run_in_project: Callable[..., Any], request: pytest.FixtureRequest
) -> None:
    """The commands of templates/torch/README.md make it the dataset's training."""
    pytest.importorskip("torch", reason=torch_jobs.REASON)
    text = (ROOT / "templates/torch/README.md").read_text()
    (block,) = re.findall(r"```bash\n(.*?)```", text, re.DOTALL)
    (project / "templates").symlink_to(ROOT / "templates")
    subprocess.run(["/bin/sh", "-ec", block.replace("orders", "arrivals")], cwd=project, check=True)
    sections = {**PARAMS, "train": {"hyperparameters": {"epochs": 8, "batch_rows": 256, "learning_rate": 0.01}}}
    (project / "params.yaml").write_text(yaml.safe_dump(sections))
    model = name_for_test("torch-", request.node.name)
    run_in_project("backfill", "--first", "2013-01-01", "--last", "2013-01-09")
    run_in_project("snapshot")
    run_in_project("preprocess")
    run_in_project("train")
    version = run_in_project("evaluate", "--model", model)["version"]
    verdict = run_in_project("gate", "--model", model, "--version", version)
    outcomes = {check["name"]: check["outcome"] for check in verdict["checks"]}
    assert verdict["outcome"] == "passed", verdict["reason"]
    assert outcomes["the packaged model can be loaded where the project's code is not"] == "passed"
    assert outcomes["difference between the scores of the packaged model and of the training"] == "passed"


OWN_METRICS = """
import numpy as np

from pipelines.evaluation.own_metrics import make_metric

def compute_share(label, score):
    return float((np.abs(score - label) <= 15).mean())

METRICS = {"within_15": make_metric(compute_share, greater_is_better=True, task="regression")}
"""
REGRESSION_POLICY = {
    "min_rows": 100,
    "group_by": "date",
    "min_groups": 2,
    "bounds": {"rmse": {"at_most": 500.0}, "within_15": {"at_least": 0.01}},
    "baseline": [],
    "stability": {"max_drop": 0.9},
    "max_solo_auc": 0.9,
}


def write_quantile_policy(project: Path) -> None:
    """Write parameters that train quantiles, bound their coverage, and compare with the champion by the median."""
    bounds = {"coverage/0.1-0.9": {"at_least": 0.2, "at_most": 1.0}, "pinball/0.9": {"at_most": 100.0}}
    policy = {**REGRESSION_POLICY, "bounds": bounds, "champion": [{"metric": "mae", "margin": 50.0}]}
    hyperparameters = {**PARAMS["train"]["hyperparameters"], "quantiles": [0.1, 0.5, 0.9]}
    sections = {**PARAMS, "train": {"hyperparameters": hyperparameters}, "gate": {"policy": policy}}
    (project / "params.yaml").write_text(yaml.safe_dump(sections))


@pytest.mark.soak
def test_a_regression_is_trained_judged_served_and_compared_with_its_labels(
    project: Path, run_in_project: Callable[..., Any], request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "datasets/arrivals/__init__.py").write_text(REGRESSION)
    (project / "datasets/arrivals/metrics.py").write_text(OWN_METRICS)
    (project / "params.yaml").write_text(yaml.safe_dump({**PARAMS, "gate": {"policy": REGRESSION_POLICY}}))
    model = name_for_test("regression-", request.node.name)
    run_in_project("backfill", "--first", "2013-01-01", "--last", "2013-01-11")
    run_in_project("snapshot")
    run_in_project("preprocess")
    run_in_project("train")
    evaluation = run_in_project("evaluate", "--model", model)
    metrics = evaluation["metrics"]
    assert {"rmse", "mae", "median_ae", "r2", "bias", "baseline_rmse", "within_15"} <= metrics.keys()
    assert 0 < metrics["mae"] < metrics["rmse"]
    assert 0 < metrics["within_15"] < 1
    assert (project / "data/evaluation/evaluation.png").exists()
    verdict = run_in_project("gate", "--model", model, "--version", evaluation["version"])
    outcomes = {check["name"]: check["outcome"] for check in verdict["checks"]}
    assert verdict["outcome"] == "passed", verdict["reason"]
    assert outcomes["the packaged model can be loaded where the project's code is not"] == "passed"
    set_home(monkeypatch, project / ".leeway", project)
    (metric,) = [check for check in verdict["checks"] if check["name"] == "within_15"]
    assert metric["value"] == pytest.approx(metrics["within_15"])
    assert metric["low"] < metric["value"] < metric["high"]
    run_in_project("promote", "--model", model, "--version", evaluation["version"], "--verdict", "data/verdict.json")
    for day in ("2013-01-10", "2013-01-11"):
        scored = run_in_project("score", "--partition", day, "--model", model)
        identity = ("--partition", day, "--model", model, "--version", evaluation["version"])
        profile = run_in_project("profile", *identity, "--rows", scored["rows"])
        assert profile["rows"] >= profile["labelled"] > 100
    outcomes = run_in_project("outcomes", "--partition", "2013-01-10", "--model", model)
    assert outcomes["outcomes"] > 100
    drift = run_in_project("drift", *identity, "--dataset", "arrivals", "--window-days", "2")
    assert drift["outcome"] == "none", drift["reasons"]
    assert {"mae", "estimated_mae", "estimated_rmse"} <= read_measures("performance")
    write_quantile_policy(project)
    run_in_project("train")
    second = run_in_project("evaluate", "--model", model)
    assert {"pinball", "pinball/0.1", "pinball/0.9", "coverage/0.1-0.9"} <= second["metrics"].keys()
    assert 0.3 < second["metrics"]["coverage/0.1-0.9"] < 1.0
    identity = ("--model", model, "--version", second["version"])
    verdict = run_in_project("gate", *identity)
    outcomes = {check["name"]: check["outcome"] for check in verdict["checks"]}
    assert verdict["champion"] == evaluation["version"]
    assert outcomes["coverage/0.1-0.9"] == "passed", verdict["reason"]
    assert outcomes["difference between the scores of the packaged model and of the training"] == "passed"
    assert (project / "data/report/quantiles.png").exists()
    scored = run_in_project("score", "--partition", "2013-01-11", *identity)
    rows = Lake.open().read_partition("arrivals_predictions", dt.date(2013, 1, 11)).to_pandas()
    rows = rows[rows["model_version"] == second["version"]]
    quantiles = pd.DataFrame([dict(values) for values in rows["scores"]])
    assert len(rows) == scored["scored"] > 100
    assert (quantiles["0.1"] <= quantiles["0.5"]).all() and (quantiles["0.5"] <= quantiles["0.9"]).all()
    assert quantiles["0.5"].tolist() == rows["score"].tolist()


PROBLEM = (
    "error: the gate's policy names the metric 'mea', which models of the task regression do not have. "
    "They have rmse, mae, median_ae, r2, bias, within_15."
)


def write_bound(project: Path, metric: str) -> None:
    """Write parameters whose gate has a bound on a metric."""
    bounds = {**REGRESSION_POLICY["bounds"], metric: {"at_most": 60.0}}
    sections = {**PARAMS, "gate": {"policy": {**REGRESSION_POLICY, "bounds": bounds}}}
    (project / "params.yaml").write_text(yaml.safe_dump(sections))


@pytest.fixture
def run_refused(project: Path, commands: Any) -> Callable[[str], str]:
    """Return the function that runs a step of a regression with metrics of its own; the step must refuse its input."""
    (project / "datasets/arrivals/__init__.py").write_text(REGRESSION)
    (project / "datasets/arrivals/metrics.py").write_text(OWN_METRICS)

    def run(step: str) -> str:
        variables = {"LEEWAY_PROJECT": str(project), "LEEWAY_HOME": str(project / ".leeway")}
        process = commands.run_step(step, env=variables, cwd=project)
        assert (process.code, process.out) == (2, "")
        return str(process.err)

    return run


def test_a_misspelt_metric_of_the_gate_is_refused_by_the_first_stage(
    project: Path, run_refused: Callable[[str], str]
) -> None:
    """A metric of the dataset's metrics.py is known."""
    write_bound(project, "mea")
    assert PROBLEM in run_refused("snapshot")
    assert not (project / "data").exists()


@pytest.mark.soak
def test_a_misspelt_metric_of_the_gate_is_refused_by_the_training(
    project: Path, run_in_project: Callable[..., Any], run_refused: Callable[[str], str]
) -> None:
    write_bound(project, "mae")
    run_in_project("backfill", "--first", "2013-01-01", "--last", "2013-01-11")
    run_in_project("snapshot")
    run_in_project("preprocess")
    write_bound(project, "mea")
    assert PROBLEM in run_refused("train")
    assert not (project / "data/model").exists()


CLASS_SOURCE = """
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.datasets.flights import source

class Source(source.FlightsSource):
    def read(self, partition):
        rows = super().read(partition).read_all()
        delay = rows["arr_delay"]
        label = pc.if_else(pc.greater(delay, 30), "late", pc.if_else(pc.less(delay, 0), "early", "on time"))
        rows = rows.append_column("arrival", label)
        return pa.RecordBatchReader.from_batches(rows.schema, rows.to_batches())

def open_source(folder=None):
    return Source(folder or source.find_package_data())
"""
MULTICLASS = DESCRIPTION.replace('label="late"', 'label="arrival", task="multiclass"').replace(
    '"late"),', '"late", "arrival"),'
)
MULTICLASS_POLICY = {
    "min_rows": 100,
    "group_by": "date",
    "min_groups": 2,
    "bounds": {"accuracy": {"at_least": 0.05}, "recall/on time": {"at_least": 0.0}},
    "baseline": [],
    "stability": {"max_drop": 0.9},
    "max_solo_auc": 0.9,
}


def check_judged_multiclass_model(project: Path, run_in_project: Callable[..., Any], model: str) -> str:
    """Train a multiclass model and check its metrics and its verdict; return its version."""
    (project / "datasets/arrivals/__init__.py").write_text(MULTICLASS)
    (project / "datasets/arrivals/source.py").write_text(CLASS_SOURCE)
    (project / "params.yaml").write_text(yaml.safe_dump({**PARAMS, "gate": {"policy": MULTICLASS_POLICY}}))
    run_in_project("backfill", "--first", "2013-01-01", "--last", "2013-01-11")
    run_in_project("snapshot")
    run_in_project("preprocess")
    run_in_project("train")
    evaluation = run_in_project("evaluate", "--model", model)
    metrics = evaluation["metrics"]
    assert {"log_loss", "macro_auc", "accuracy", "ece", "recall/early", "recall/on time"} <= metrics.keys()
    assert 0.3 < metrics["accuracy"] < 0.99
    assert (project / "data/evaluation/evaluation.png").exists()
    confusion = (project / "data/evaluation/plots/confusion.csv").read_text().splitlines()
    assert (confusion[0], len(confusion)) == ("label,predicted,rows", 10)
    verdict = run_in_project("gate", "--model", model, "--version", evaluation["version"])
    outcomes = {check["name"]: check["outcome"] for check in verdict["checks"]}
    assert verdict["outcome"] == "passed", verdict["reason"]
    assert outcomes["the packaged model can be loaded where the project's code is not"] == "passed"
    assert outcomes["difference between the scores of the packaged model and of the training"] == "passed"
    return str(evaluation["version"])


def test_a_multiclass_model_is_trained_and_judged(
    project: Path, run_in_project: Callable[..., Any], request: pytest.FixtureRequest
) -> None:
    check_judged_multiclass_model(project, run_in_project, name_for_test("multiclass-", request.node.name))


@pytest.mark.soak
def test_a_multiclass_model_is_judged_served_and_compared_with_its_labels(
    project: Path, run_in_project: Callable[..., Any], request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model is promoted, and a second one is then compared with it as champion."""
    model = name_for_test("multiclass-", request.node.name)
    version = check_judged_multiclass_model(project, run_in_project, model)
    identity = ("--model", model, "--version", version)
    run_in_project("promote", *identity, "--verdict", "data/verdict.json")
    for day in ("2013-01-10", "2013-01-11"):
        scored = run_in_project("score", "--partition", day, "--model", model)
        profile = run_in_project("profile", "--partition", day, *identity, "--rows", scored["rows"])
        assert profile["rows"] >= profile["labelled"] > 100
    outcomes = run_in_project("outcomes", "--partition", "2013-01-10", "--model", model)
    assert outcomes["outcomes"] > 100
    set_home(monkeypatch, project / ".leeway", project)
    rows = pq.read_table(scored["rows"]).to_pandas()
    assert set(rows["predicted"]) <= {"early", "late", "on time"}
    assert (rows["is_right"].dropna() == (rows["predicted"] == rows["arrival"])[rows["is_right"].notna()]).all()
    assert rows["score"].between(1 / 3, 1).all()
    for table in ("arrivals_predictions", "arrivals_outcomes"):
        stored = Lake.open().read_partition(table, dt.date(2013, 1, 10)).to_pandas()
        assert {frozenset(dict(scores)) for scores in stored["scores"]} == {frozenset(("early", "late", "on time"))}
        assert [max(dict(scores).values()) for scores in stored["scores"]] == stored["score"].tolist()
    drift = run_in_project(
        "drift", "--partition", "2013-01-11", *identity, "--window-days", "2", "--dataset", "arrivals"
    )
    assert drift["outcome"] == "none", drift["reasons"]
    assert {"estimated_accuracy", "estimated_auc"} <= read_measures("performance")
    assert {"recall", "estimated_recall", "estimated_precision"} <= read_measures("performance/early")
    run_in_project("train", "--hyperparameters", json.dumps({"num_round": 5}))
    second = run_in_project("evaluate", "--model", model)
    verdict = run_in_project("gate", "--model", model, "--version", second["version"])
    assert verdict["champion"] == version
    assert "macro_auc against the champion's" in {check["name"] for check in verdict["checks"]}


def test_leeway_datasets_names_other_folders(home: Path, tmp_path: Path, commands: Any) -> None:
    write_dataset(tmp_path / "ours")
    command = (sys.executable, "-c", "from pipelines.dataset import list_datasets; print(*list_datasets())")
    project, all_names = {"LEEWAY_PROJECT": str(tmp_path)}, "arrivals flight_delay flight_status flights weather\n"
    assert commands.run(*command, env={**project, "LEEWAY_DATASETS": "ours"}).out == all_names
    assert commands.run(*command, env={"LEEWAY_DATASETS": str(tmp_path / "ours")}).out == all_names
    assert commands.run(*command, env=project).out == "flight_delay flight_status flights weather\n", (
        "the negative control"
    )
    step = ("ingest", "--dataset", "x", "--partition", "2013-01-01")
    process = commands.run_step(*step, env={**project, "LEEWAY_DATASETS": "none"})
    assert (process.code, process.out) == (2, "")
    assert f"LEEWAY_DATASETS: {tmp_path}/none is not a folder" in process.err


@pytest.fixture
def add_folder(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder whose packages are datasets of this process."""
    from pipelines import datasets

    monkeypatch.setattr(datasets, "__path__", [*datasets.__path__, str(tmp_path / "ours")])
    for name in [name for name in sys.modules if name.startswith("pipelines.datasets.arrivals")]:
        monkeypatch.delitem(sys.modules, name)
    return tmp_path / "ours"


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("import no_such_module", "there is no module no_such_module"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("x = (", r"SyntaxError: '\(' was never closed"),
    ],
)
def test_a_package_that_cannot_be_imported_is_one_line(add_folder: Path, code: str, problem: str) -> None:
    write_dataset(add_folder, __init__=code)
    with pytest.raises(SpecError, match=rf"^the dataset 'arrivals' cannot be loaded: {problem}") as error:
        load_dataset("arrivals")
    assert "\n" not in str(error.value)
    assert list_datasets() == ["flight_delay", "flight_status", "flights", "weather"]


def test_two_packages_of_one_name_are_refused(add_folder: Path) -> None:
    write_dataset(add_folder).rename(add_folder / "weather")
    with pytest.raises(SpecError, match=r"two packages are called weather: .*pipelines/datasets/weather and .*ours"):
        load_dataset("weather")


def test_the_training_uses_the_files_of_the_package_before_the_defaults(add_folder: Path) -> None:
    package = write_dataset(add_folder, model="from pipelines.defaults.model import load\n")
    dataset = load_dataset("arrivals")
    assert dataset.package == package
    assert dataset.find_file("model.py") == package / "model.py"
    assert dataset.find_file("training.py").parent.name == "defaults"
    files = dataset.locate_bundle()
    assert files["pipelines/datasets/arrivals/model.py"] == package / "model.py"
    assert all(path.is_file() for path in files.values())
    assert dataset.import_module("model").__name__ == "pipelines.datasets.arrivals.model"
    (package / "model.py").unlink()
    assert "pipelines/datasets/arrivals/model.py" not in dataset.locate_bundle(), "the negative control"


TEXT_LABEL = DESCRIPTION.replace('label="late"', 'label="tailnum", task="regression"')
NUMBER_LABEL = DESCRIPTION.replace('label="late"', 'label="arr_delay"')
NO_CLASS = DESCRIPTION.replace('label="late"', 'label="weather_temp", task="multiclass"')
TWO_CLASSES = DESCRIPTION.replace('label="late"', 'label="late", task="multiclass"')
NO_LABEL = DESCRIPTION.replace('label="late"', 'label="delayed"')


@pytest.mark.parametrize(
    ("description", "problem"),
    [
        (NUMBER_LABEL, "the label arr_delay of arrivals is int32: it must be true or false"),
        (TEXT_LABEL, "the label tailnum of arrivals is string: it must be an integer or a float"),
        (NO_LABEL, "the rows of arrivals have no column delayed, its label"),
        (NO_CLASS, "the label weather_temp of arrivals is double: it must be a text or an integer"),
        (TWO_CLASSES, "the label late of arrivals is bool: it must be a text or an integer"),
    ],
)
def test_a_label_that_does_not_fit_the_task_is_refused_before_a_day_is_published(
    add_folder: Path, project: Path, monkeypatch: pytest.MonkeyPatch, description: str, problem: str
) -> None:
    write_dataset(add_folder, __init__=description)
    set_home(monkeypatch, project / ".leeway", project)
    fields = {"dataset": "arrivals", "partition": "2013-01-02"}
    ingest.run(ingest.IngestSpec.parse(fields, "test"))
    with pytest.raises(DataError, match=problem):
        validate.run(validate.ValidateSpec.parse(fields, "test"))
    assert Lake.open().count_rows_by_day("arrivals") == {}


CLASSES = DESCRIPTION.replace('label="late"', 'label="dest", task="multiclass"')
REGRESSION = DESCRIPTION.replace('label="late"', 'label="arr_delay", task="regression"')


@pytest.mark.parametrize(
    ("description", "label", "values", "problem"),
    [
        (DESCRIPTION, "late", lambda day: pa.scalar(day > 5), "each row of train has the label false"),
        (REGRESSION, "arr_delay", lambda day: pa.scalar(3.5), "each row of train has the label 3.5"),
        (
            REGRESSION,
            "arr_delay",
            lambda day: pa.scalar(float("inf") if day == 6 else float(day)),
            "[0-9]+ of [0-9]+ rows of holdout have a label that is NaN or infinite",
        ),
        (CLASSES, "dest", lambda day: pa.scalar("BOS"), "each row of train has the label BOS"),
        (
            CLASSES,
            "dest",
            lambda day: pa.scalar("new" if day == 6 else ("BOS", "LAX")[day % 2]),
            "[0-9]+ rows of holdout have a label that no row of train has, such as 'new'",
        ),
    ],
)
def test_labels_that_cannot_be_learned_are_refused_before_the_training(
    add_folder: Path,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    description: str,
    label: str,
    values: Callable[[int], pa.Scalar],
    problem: str,
    day_rows: Callable[[str], pa.Table],
) -> None:
    write_dataset(add_folder, __init__=description)
    set_home(monkeypatch, project / ".leeway", project)
    for number in range(1, 10):
        day = dt.date(2013, 1, number)
        rows = day_rows(str(day))
        column = pa.repeat(values(number), len(rows))
        Lake.open().write_partition("arrivals", day, rows.set_column(rows.schema.get_field_index(label), label, column))
    monkeypatch.chdir(project)
    snapshot.run(snapshot.SnapshotSpec.parse({"dataset": "arrivals", **PARAMS["snapshot"]}, "test"))
    with pytest.raises(DataError, match=problem):
        preprocess.run(preprocess.PreprocessSpec(validation_days=2))
    assert not Path("data/features").exists()
