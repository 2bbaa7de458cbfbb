"""Test that a backfill of the training judges as of its moment and moves no alias, with a real MLflow."""

import json
import logging
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pipelines.errors import PromotionError
from pipelines.steps import gate as gating
from pipelines.steps import promote as promoting
from pipelines.system.files import write_json
from tests.tools.candidates import register
from tests.tools.names import name_for_test
from tests.tools.policies import EASY_POLICY, HARD_POLICY


@pytest.fixture
def model(home: Path, trained: SimpleNamespace, with_mlflow: str, request: pytest.FixtureRequest) -> str:
    """Return the name of this test's model. The working directory has the data/ of a trained model."""
    shutil.copytree(trained.data, "data")
    return name_for_test("b-", request.node.name)


def register_candidate(model: str, as_of: str) -> str:
    """Register a version that was trained as of a day."""
    path = Path("data/snapshot.json")
    write_json(path, {**json.loads(path.read_text()), "as_of": as_of})
    return register(model)


def run_gate(model: str, version: str, backfill: bool = True, **policy: Any) -> gating.GateResult:
    """Run the step `gate`, as a backfill unless `backfill` is false."""
    fields = {"model": model, "version": version, "verdict": f"{version}.json"}
    return gating.run(
        gating.GateSpec(**{"dataset": "flights", **fields}, policy={**EASY_POLICY, **policy}, backfill=backfill)
    )


def promote(model: str, version: str, **fields: Any) -> promoting.PromoteResult:
    """Run the step `promote`, as a backfill unless `fields` say otherwise."""
    spec = {"model": model, "version": version, "verdict": f"{version}.json"}
    return promoting.run(promoting.PromoteSpec(**spec, **{"backfill": True, **fields}))


def find_champion(model: str) -> str:
    """Return the number of the champion; empty where there is none."""
    from pipelines.registry.versions import Registry

    version = Registry.open().find_champion(model)
    return str(version.version) if version else ""


def read_tags(model: str, number: str) -> dict[str, str]:
    from pipelines.registry.versions import Registry

    return dict(Registry.open().get_version(model, number).tags)


def test_a_backfill_moves_no_alias_and_tags_the_version_that_it_would_replace(
    model: str, caplog: pytest.LogCaptureFixture
) -> None:
    first = register_candidate(model, "2013-02-01")
    assert run_gate(model, first).passed
    with caplog.at_level(logging.INFO, "leeway"):
        result = promote(model, first)
    assert (result.promoted, result.changed, result.previous) == (False, False, "")
    assert "unless promote_in_backfill is set" in result.reason
    messages = [line for line in caplog.messages if "promote" in line]
    assert messages == [f"{model}: version {first} is not promoted: {result.reason}"]
    assert find_champion(model) == ""
    assert read_tags(model, first)["leeway.would_promote_over"] == "none"
    assert read_tags(model, first)["leeway.verdict"] == "passed"
    assert promote(model, first) == result

    second = register_candidate(model, "2013-03-01")
    assert run_gate(model, second).champion == first
    promote(model, second)
    assert read_tags(model, second)["leeway.would_promote_over"] == first
    assert find_champion(model) == ""


@pytest.mark.parametrize(
    "fields", [{"promote_in_backfill": True}, pytest.param({"backfill": False}, marks=pytest.mark.soak)]
)
def test_promotes_with_promote_in_backfill_and_outside_of_a_backfill(model: str, fields: dict[str, Any]) -> None:
    """This is the control of the test above."""
    first = register_candidate(model, "2013-02-01")
    run_gate(model, first)
    result = promote(model, first, **fields)
    assert (result.promoted, result.changed, find_champion(model)) == (True, True, first)
    assert "leeway.would_promote_over" not in read_tags(model, first)
    repeat = promote(model, first, **fields)
    assert (repeat.promoted, repeat.changed) == (True, False)


def test_a_backfill_does_not_compare_with_a_later_champion(model: str) -> None:
    early_version, middle_version = register_candidate(model, "2013-02-01"), register_candidate(model, "2013-03-01")
    run_gate(model, early_version)
    promote(model, early_version)
    result = run_gate(model, middle_version)
    assert result.champion == early_version
    before = Path(f"{middle_version}.json").read_bytes()

    late_version = register_candidate(model, "2013-10-01")
    assert run_gate(model, late_version, backfill=False).passed
    assert promote(model, late_version, backfill=False).promoted
    assert find_champion(model) == late_version
    register_candidate(model, "2013-02-20")  # this version is never champion
    assert run_gate(model, middle_version) == result
    assert Path(f"{middle_version}.json").read_bytes() == before, "a later champion changes no byte of the verdict"
    # The control: outside of a backfill, the alias gives the champion, and an older candidate is refused.
    today = run_gate(model, middle_version, backfill=False)
    assert (today.champion, today.passed) == (late_version, False)


@pytest.mark.soak
def test_a_version_of_the_same_as_of_is_not_an_earlier_champion(model: str) -> None:
    first = register_candidate(model, "2013-03-01")
    run_gate(model, first)
    assert promote(model, first, promote_in_backfill=True).promoted
    note = Path("data/features/note")
    note.write_text("changes the features, which makes another candidate")
    second = register_candidate(model, "2013-03-01")
    assert second != first
    assert run_gate(model, second).champion == ""
    third = register_candidate(model, "2013-03-02")
    assert run_gate(model, third).champion == first, "the control: a day later, the first version is champion"


@pytest.mark.soak
def test_an_alias_that_was_moved_by_hand_gives_the_champion(model: str) -> None:
    from pipelines.registry.versions import CHAMPION, Registry

    first, second = register_candidate(model, "2013-02-01"), register_candidate(model, "2013-03-01")
    assert run_gate(model, second).champion == ""
    Registry.open().client.set_registered_model_alias(model, CHAMPION, first)
    assert run_gate(model, second).champion == first


@pytest.mark.soak
def test_a_backfill_never_promotes_an_older_version(model: str) -> None:
    late_version = register_candidate(model, "2013-10-01")
    run_gate(model, late_version)
    promote(model, late_version, promote_in_backfill=True)
    early_version = register_candidate(model, "2013-02-01")
    assert run_gate(model, early_version).passed
    result = promote(model, early_version, promote_in_backfill=True)
    assert (result.promoted, find_champion(model)) == (False, late_version)
    assert f"its as_of 2013-02-01 is before 2013-10-01, the as_of of champion {late_version}" in result.reason
    assert read_tags(model, early_version)["leeway.would_promote_over"] == "none"
    with pytest.raises(PromotionError, match="only moves forward"):
        promote(model, early_version, backfill=False)


@pytest.mark.soak
def test_a_backfill_does_not_promote_a_failed_version(model: str) -> None:
    version = register_candidate(model, "2013-02-01")
    assert not run_gate(model, version, **HARD_POLICY).passed
    with pytest.raises(PromotionError, match="did not pass the gate"):
        promote(model, version)
    assert "leeway.would_promote_over" not in read_tags(model, version)
