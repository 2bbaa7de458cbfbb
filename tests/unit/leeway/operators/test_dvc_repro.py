"""Test that DvcReproOperator asks for the code of the version of its DAG bundle."""

from types import SimpleNamespace
from typing import Any

import pytest
from leeway.operators.dvc_repro import DvcReproOperator
from leeway.operators.step import StepOperator


@pytest.mark.parametrize(
    ("bundle", "version"),
    [(SimpleNamespace(version="a" * 40), "a" * 40), (SimpleNamespace(version=None), ""), (None, "")],
)
def test_spec_has_the_version_of_the_dag_bundle(monkeypatch: pytest.MonkeyPatch, bundle: Any, version: str) -> None:
    """The version is that of each try: a task that is tried again or cleared has the version of its run."""
    monkeypatch.setattr(StepOperator, "execute", lambda self, _: self.build_spec())
    task = DvcReproOperator(task_id="repro", targets=["preprocess"])
    context: Any = {"ti": SimpleNamespace(bundle_instance=bundle)}
    assert task.execute(context)["bundle_version"] == version
