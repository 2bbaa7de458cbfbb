"""Test that the gate compares what a registered package serves with what the training process scored."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from pipelines.errors import ConflictError, DataError, PromotionError
from pipelines.evaluation.gates import FAILED, PASSED, UNDECIDED, Check
from pipelines.registry import artifacts
from pipelines.registry.package.digest import PACKAGE_TAG
from pipelines.registry.package.packaging import log_package
from pipelines.registry.scorer import load_scorer
from pipelines.registry.versions import Registry
from pipelines.steps import evaluate as evaluating
from pipelines.steps import gate as gating
from pipelines.steps import promote as promoting
from tests.tools.candidates import register
from tests.tools.packages import append_code, change_package
from tests.tools.policies import EASY_POLICY

NEEDS_PROJECT = "import mlflow\nimport pipelines.lake\n"
SCORES = Path("data/training/scores.parquet")


def run_gate(name: str, version: str) -> gating.GateResult:
    return gating.run(
        gating.GateSpec(dataset="flights", model=name, version=version, policy={**EASY_POLICY, "serving": {}})
    )


def register_alone(name: str) -> str:
    """Register the candidate with a run and a package of its own; a shared run may have scores already."""
    return register(name, has_own_package=True, training_job=f"job-{name}")


def find_skew(result: gating.GateResult) -> Check:
    """Return the check of the packaged model's scores; the same check must be in the file of the verdict."""
    (check,) = [check for check in result.checks if check.name.startswith("difference between the scores")]
    assert check.model_dump() in json.loads(Path("data/verdict.json").read_text())["checks"]
    return check


@pytest.mark.soak
def test_a_package_that_gives_the_scores_of_the_training_passes(data: Path, model: str) -> None:
    result = run_gate(model, register(model))
    check = find_skew(result)
    assert (check.outcome, result.outcome) == (PASSED, PASSED), result.reason
    assert check.value is not None and check.value <= 1e-6


def test_refuses_a_package_that_rounds_the_scores(data: Path, model: str) -> None:
    """The model's files are those that were evaluated. Only the code of the package around them is changed."""
    version = register_alone(model)
    score_line = "return self.model.score(pd.DataFrame(model_input))"
    with change_package(model, version, "serving.py", lambda text: text.replace(score_line, f"{score_line}.round(2)")):
        # The package counts as registered like this.
        digest = artifacts.compute_stored_digest(Registry.open().get_version(model, version))
        Registry.open().set_tags(model, version, {PACKAGE_TAG: digest})
        result = run_gate(model, version)
    check = find_skew(result)
    assert (check.outcome, result.outcome) == (FAILED, FAILED)
    assert check.value == pytest.approx(0.005, abs=0.001)
    assert check.reason in result.reason
    with pytest.raises(PromotionError, match="did not pass"):
        promoting.run(promoting.PromoteSpec(model=model, version=version, verdict="data/verdict.json"))


def test_refuses_a_package_that_needs_the_code_of_the_project(data: Path, model: str) -> None:
    """In the process of the gate the import succeeds, because the project's code is there."""
    version = register_alone(model)
    with change_package(model, version, "serving.py", lambda text: text.replace("import mlflow\n", NEEDS_PROJECT)):
        digest = artifacts.compute_stored_digest(Registry.open().get_version(model, version))
        Registry.open().set_tags(model, version, {PACKAGE_TAG: digest})
        result = run_gate(model, version)
    assert find_skew(result).outcome == PASSED
    (check,) = [check for check in result.checks if "where the project's code is not" in check.name]
    assert (check.outcome, result.outcome) == (FAILED, FAILED)
    assert check.reason.endswith("No module named 'pipelines.lake'")


@pytest.mark.soak
def test_refuses_a_package_that_does_not_give_the_scores_of_one_row(data: Path, model: str) -> None:
    scores = pd.read_parquet(SCORES)
    scores.loc[scores.index[-1], "score"] += 0.001
    scores.to_parquet(SCORES)
    result = run_gate(model, register_alone(model))
    check = find_skew(result)
    assert (check.outcome, result.outcome) == (FAILED, FAILED)
    assert check.value == pytest.approx(0.001, abs=1e-6)


@pytest.mark.parametrize(
    "change",
    [
        Path.unlink,
        pytest.param(lambda path: pd.read_parquet(path).head(0).to_parquet(path), marks=pytest.mark.soak),
    ],
)
def test_a_model_without_scores_of_the_training_is_undecided(
    data: Path, model: str, change: Callable[[Path], Any]
) -> None:
    change(SCORES)
    result = run_gate(model, register_alone(model))
    assert (find_skew(result).outcome, result.outcome) == (UNDECIDED, UNDECIDED)
    assert "the training stored no scores" in result.reason
    assert not result.passed


@pytest.mark.soak
def test_the_folders_of_the_evidence_may_have_any_name(data: Path, model: str) -> None:
    """The gate, `reproduce` and profiles find the artifacts of a version by their names."""
    paths = {"record": data / "training", "evaluation": data / "evaluation", "snapshot": data / "snapshot.json"}
    fields = {name: path.rename(Path(f"my {name}")) for name, path in paths.items()}
    version = register(model, **{**fields, "record": str(fields["record"])})
    policy = {**EASY_POLICY, "serving": {}}
    spec = gating.GateSpec(
        dataset="flights", model=model, version=version, policy=policy, evaluation=fields["evaluation"]
    )
    assert find_skew(gating.run(spec)).outcome == PASSED
    run_id = Registry.open().get_version(model, version).run_id
    assert {"evaluation", "training", "snapshot.json", "dvc.lock", "params.yaml"} <= {
        artifact.path for artifact in Registry.open().client.list_artifacts(run_id)
    }


def test_the_gate_loads_no_package_that_changed_after_the_evaluation(data: Path, model: str, tmp_path: Path) -> None:
    version, marker = register_alone(model), tmp_path / "ran"
    with (
        change_package(model, version, "serving.py", append_code(marker)),
        pytest.raises(DataError, match="are not those that were registered"),
    ):
        run_gate(model, version)
    assert not marker.exists()
    assert run_gate(model, version).passed


def test_the_digest_of_the_verdict_counts_more_than_the_tag(data: Path, model: str, tmp_path: Path) -> None:
    """Whoever can write to MLflow can change a version's files and its tags, but not the events in the lake."""
    number, marker = register_alone(model), tmp_path / "ran"
    run_gate(model, number)
    promoting.run(promoting.PromoteSpec(model=model, version=number, verdict="data/verdict.json"))
    with change_package(model, number, "serving.py", append_code(marker)):
        digest = artifacts.compute_stored_digest(Registry.open().get_version(model, number))
        Registry.open().set_tags(model, number, {PACKAGE_TAG: digest})
        with pytest.raises(DataError, match="are not those that were judged"):
            load_scorer(Registry.open().get_version(model, number))
    assert not marker.exists()
    Registry.open().set_tags(model, number, {PACKAGE_TAG: "0" * 64})
    load_scorer(Registry.open().get_version(model, number))


@pytest.mark.soak
def test_the_gate_loads_no_champion_whose_files_changed(data: Path, model: str, tmp_path: Path) -> None:
    first, marker = register_alone(model), tmp_path / "ran"
    run_gate(model, first)
    promoting.run(promoting.PromoteSpec(model=model, version=first, verdict="data/verdict.json"))
    snapshot = data / "snapshot.json"
    snapshot.write_text(json.dumps({**json.loads(snapshot.read_text()), "as_of": "2013-02-01"}))
    second = register(model)
    before = (data / "verdict.json").read_bytes()
    with (
        change_package(model, first, "serving.py", append_code(marker)),
        pytest.raises(DataError, match=f"the files of {model} version {first} are not those that were judged"),
    ):
        run_gate(model, second)
    assert not marker.exists()
    assert (data / "verdict.json").read_bytes() == before
    assert run_gate(model, second).champion == first


def test_a_version_of_which_nothing_was_recorded_is_loaded_by_the_gate_alone(data: Path, model: str) -> None:
    """A version that was registered by hand has no digest before its first verdict."""
    number = register_alone(model)
    Registry.open().client.delete_model_version_tag(model, number, PACKAGE_TAG)
    with pytest.raises(DataError, match="no digest of the files of"):
        load_scorer(Registry.open().get_version(model, number))
    assert run_gate(model, number).package_digest
    load_scorer(Registry.open().get_version(model, number))


def test_registers_no_model_that_changed_since_it_was_evaluated(
    data: Path, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pipelines.registry import registration

    def change_and_log(candidate: Any) -> str:
        (data / "model/more.json").write_text("{}")
        return log_package(candidate)

    monkeypatch.setattr(registration, "log_package", change_and_log)
    with pytest.raises(ConflictError, match="changed during the registration"):
        evaluating.run(evaluating.EvaluateSpec(dataset="flights", model=model))
    assert not Registry.open().client.search_model_versions(f"name = '{model}'")
