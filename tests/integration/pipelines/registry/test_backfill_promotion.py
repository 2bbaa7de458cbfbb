"""What a backfill of the training may do to the registry: judged as of then, and no alias moved. Real MLflow."""

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
from tests.tools.policies import EASY, HARD


@pytest.fixture
def model(home: Path, trained: SimpleNamespace, with_mlflow: str, request: pytest.FixtureRequest) -> str:
    """A registered model's name of the test's own; the working directory has a trained model's data/."""
    shutil.copytree(trained.data, "data")
    return name_for_test("b-", request.node.name)


def candidate(model: str, as_of: str) -> str:
    """A version of `model`, trained as of a day."""
    path = Path("data/snapshot.json")
    write_json(path, {**json.loads(path.read_text()), "as_of": as_of})
    return register(model)


def gate(model: str, version: str, backfill: bool = True, **policy: Any) -> gating.GateResult:
    named = {"model_name": model, "version": version, "verdict": f"{version}.json"}
    return gating.run(gating.GateSpec(**named, policy={**EASY, **policy}, backfill=backfill))


def promote(model: str, version: str, **fields: Any) -> promoting.PromoteResult:
    named = {"model_name": model, "version": version, "verdict": f"{version}.json"}
    return promoting.run(promoting.PromoteSpec(**named, **{"backfill": True, **fields}))


def champion(model: str) -> str:
    from pipelines.registry.versions import Registry

    found = Registry.open().find_champion(model)
    return str(found.version) if found else ""


def tags(model: str, version: str) -> dict[str, str]:
    from pipelines.registry.versions import Registry

    return dict(Registry.open().get_version(model, version).tags)


def test_a_backfill_moves_no_alias_and_tags_what_it_would_have_done(
    model: str, caplog: pytest.LogCaptureFixture
) -> None:
    first = candidate(model, "2013-02-01")
    assert gate(model, first).passed
    with caplog.at_level(logging.INFO, "leeway"):
        told = promote(model, first)
    assert (told.promoted, told.changed, told.previous) == (False, False, "")
    assert "unless promote_in_backfill is set" in told.reason
    said = [line for line in caplog.messages if "promote" in line]
    assert said == [f"{model}: version {first} is not promoted: {told.reason}"]
    assert champion(model) == ""
    assert tags(model, first)["leeway.would_promote_over"] == "none"
    assert tags(model, first)["leeway.verdict"] == "passed"
    assert promote(model, first) == told

    second = candidate(model, "2013-03-01")
    assert gate(model, second).champion == first
    promote(model, second)
    assert tags(model, second)["leeway.would_promote_over"] == first
    assert champion(model) == ""


@pytest.mark.parametrize("fields", [{"in_backfill": True}, {"backfill": False}])
def test_promotes_with_in_backfill_and_outside_of_a_backfill(model: str, fields: dict[str, Any]) -> None:
    """The control of the test above."""
    first = candidate(model, "2013-02-01")
    gate(model, first)
    told = promote(model, first, **fields)
    assert (told.promoted, told.changed, champion(model)) == (True, True, first)
    assert "leeway.would_promote_over" not in tags(model, first)
    again = promote(model, first, **fields)
    assert (again.promoted, again.changed) == (True, False)


def test_a_backfill_does_not_compare_with_a_later_champion(model: str) -> None:
    early, middle = candidate(model, "2013-02-01"), candidate(model, "2013-03-01")
    gate(model, early)
    promote(model, early)
    without = gate(model, middle)
    assert without.champion == early
    before = Path(f"{middle}.json").read_bytes()

    late = candidate(model, "2013-10-01")
    assert gate(model, late, backfill=False).passed
    assert promote(model, late, backfill=False).promoted
    assert champion(model) == late
    candidate(model, "2013-02-20")  # not promoted: it served nobody
    assert gate(model, middle) == without
    assert Path(f"{middle}.json").read_bytes() == before, "the future champion changed no byte"
    # The control: outside of a backfill the champion is the alias's, and a candidate of before it is refused.
    today = gate(model, middle, backfill=False)
    assert (today.champion, today.passed) == (late, False)


def test_a_candidate_of_the_same_moment_is_no_earlier_champion(model: str) -> None:
    first = candidate(model, "2013-03-01")
    gate(model, first)
    assert promote(model, first, in_backfill=True).promoted
    note = Path("data/features/note")
    note.write_text("makes another candidate of the same moment")
    second = candidate(model, "2013-03-01")
    assert second != first
    assert gate(model, second).champion == ""
    third = candidate(model, "2013-03-02")
    assert gate(model, third).champion == first, "the control: a day later it is"


def test_an_alias_moved_by_hand_counts_as_champion(model: str) -> None:
    from pipelines.registry.versions import CHAMPION, Registry

    first, second = candidate(model, "2013-02-01"), candidate(model, "2013-03-01")
    assert gate(model, second).champion == ""
    Registry.open().client.set_registered_model_alias(model, CHAMPION, first)
    assert gate(model, second).champion == first


def test_a_backfill_never_promotes_an_older_version(model: str) -> None:
    late = candidate(model, "2013-10-01")
    gate(model, late)
    promote(model, late, in_backfill=True)
    early = candidate(model, "2013-02-01")
    assert gate(model, early).passed
    told = promote(model, early, in_backfill=True)
    assert (told.promoted, champion(model)) == (False, late)
    assert f"champion {late} is as of 2013-10-01, later than its 2013-02-01" in told.reason
    assert tags(model, early)["leeway.would_promote_over"] == "none"
    with pytest.raises(PromotionError, match="only moves forward"):
        promote(model, early, backfill=False)


def test_a_backfill_does_not_promote_a_failed_version(model: str) -> None:
    version = candidate(model, "2013-02-01")
    assert not gate(model, version, **HARD).passed
    with pytest.raises(PromotionError, match="did not pass the gate"):
        promote(model, version)
    assert "leeway.would_promote_over" not in tags(model, version)
