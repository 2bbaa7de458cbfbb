"""Test that the gate compares what a registered package serves with what the training process scored."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from pipelines.errors import PromotionError
from pipelines.evaluation.gates import FAILED, PASSED, UNDECIDED, Check
from pipelines.registry.versions import Registry
from pipelines.steps import gate as gating
from pipelines.steps import promote as promoting
from tests.tools.candidates import register
from tests.tools.policies import EASY_POLICY

SCORES = Path("data/training/scores.parquet")


def run_gate(name: str, version: str) -> gating.GateResult:
    return gating.run(gating.GateSpec(model_name=name, version=version, policy={**EASY_POLICY, "serving": {}}))


def register_alone(name: str) -> str:
    """Register the candidate with a run and a package of its own; a shared run may have scores already."""
    return register(name, has_own_package=True, training_job=f"job-{name}")


def find_skew(result: gating.GateResult) -> Check:
    """Return the check of the packaged model's scores; the same check must be in the file of the verdict."""
    (check,) = [check for check in result.checks if check.name.startswith("difference between the scores")]
    assert check.model_dump() in json.loads(Path("data/verdict.json").read_text())["checks"]
    return check


def change_package(name: str, version: str, file: str, change: Callable[[str], str], tmp_path: Path) -> None:
    """Replace a file of the registered package by a changed copy."""
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

    repository = get_artifact_repository(Registry.open().client.get_model_version_download_uri(name, version))
    text = Path(repository.download_artifacts(file)).read_text()
    changed_copy = tmp_path / "changed" / Path(file).name
    changed_copy.parent.mkdir()
    changed_copy.write_text(change(text))
    assert changed_copy.read_text() != text
    repository.log_artifact(str(changed_copy), str(Path(file).parent) if "/" in file else None)


def test_a_package_that_gives_the_scores_of_the_training_passes(data: Path, model: str) -> None:
    result = run_gate(model, register(model))
    check = find_skew(result)
    assert (check.outcome, result.outcome) == (PASSED, PASSED), result.reason
    assert check.value is not None and check.value <= 1e-6


def test_refuses_a_package_that_rounds_the_scores(data: Path, model: str, tmp_path: Path) -> None:
    """The model's files are those that were evaluated. Only the code of the package around them is changed."""
    version = register_alone(model)
    score_line = "return self.model.score(pd.DataFrame(model_input))"
    change_package(
        model, version, "serving.py", lambda text: text.replace(score_line, f"{score_line}.round(2)"), tmp_path
    )
    result = run_gate(model, version)
    check = find_skew(result)
    assert (check.outcome, result.outcome) == (FAILED, FAILED)
    assert check.value == pytest.approx(0.005, abs=0.001)
    assert check.reason in result.reason
    with pytest.raises(PromotionError, match="did not pass"):
        promoting.run(promoting.PromoteSpec(model_name=model, version=version, verdict="data/verdict.json"))


def test_refuses_a_package_that_does_not_give_the_scores_of_one_row(data: Path, model: str) -> None:
    scores = pd.read_parquet(SCORES)
    scores.loc[scores.index[-1], "score"] += 0.001
    scores.to_parquet(SCORES)
    result = run_gate(model, register_alone(model))
    check = find_skew(result)
    assert (check.outcome, result.outcome) == (FAILED, FAILED)
    assert check.value == pytest.approx(0.001, abs=1e-6)


@pytest.mark.parametrize("change", [Path.unlink, lambda path: pd.read_parquet(path).head(0).to_parquet(path)])
def test_a_model_without_scores_of_the_training_is_undecided(
    data: Path, model: str, change: Callable[[Path], Any]
) -> None:
    change(SCORES)
    result = run_gate(model, register_alone(model))
    assert (find_skew(result).outcome, result.outcome) == (UNDECIDED, UNDECIDED)
    assert "the training stored no scores" in result.reason
    assert not result.passed


def test_the_folders_of_the_evidence_may_have_any_name(data: Path, model: str) -> None:
    """The gate, `reproduce` and profiles find the artifacts of a version by their names."""
    paths = {"record": data / "training", "evaluation": data / "evaluation", "snapshot": data / "snapshot.json"}
    fields = {name: path.rename(Path(f"my {name}")) for name, path in paths.items()}
    version = register(model, **{**fields, "record": str(fields["record"])})
    policy = {**EASY_POLICY, "serving": {}}
    spec = gating.GateSpec(model_name=model, version=version, policy=policy, evaluation=fields["evaluation"])
    assert find_skew(gating.run(spec)).outcome == PASSED
    run_id = Registry.open().get_version(model, version).run_id
    assert {"evaluation", "training", "snapshot.json", "dvc.lock", "params.yaml"} <= {
        artifact.path for artifact in Registry.open().client.list_artifacts(run_id)
    }
