"""The registry's memory: real MLflow, a real lake, versions of a real (small) MLflow model."""

import json
import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pipelines.cli import registry
from pipelines.errors import DataError, PromotionError, ServiceError, SpecError
from pipelines.registry.lifecycle import Journal, Kind, State, record_registration
from pipelines.steps import decide as deciding
from pipelines.steps import promote as promoting
from pipelines.steps import rollback as rolling
from pipelines.system.files import sha256, write_json
from tests.tools.names import name_for_test


@pytest.fixture
def model(with_mlflow: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A registered model's name of the test's own."""
    from pipelines.registry.lifecycle import reconciliation

    monkeypatch.setattr(reconciliation, "RECHECK_DELAY_S", 0.05)
    return name_for_test("l-", request.node.name)


@pytest.fixture
def client(model: str, with_mlflow: str) -> Any:
    from mlflow import MlflowClient

    made = MlflowClient(with_mlflow, with_mlflow)
    made.create_registered_model(model)
    return made


@pytest.fixture
def version(model: str, client: Any) -> Callable[..., str]:
    """Registers a version that passed the gate against the champion of now, or against another."""

    def make(as_of: str = "2013-03-01", against: str | None = None, *, told: bool = True) -> str:
        number = str(client.create_model_version(model, "s3://nowhere/model").version)
        if told:
            record_registration(model, number)
        judge(client, model, number, against=against, as_of=as_of)
        return number

    return make


def judge(
    client: Any,
    model: str,
    number: str,
    *,
    against: str | None = None,
    as_of: str = "",
    outcome: str = "passed",
    asks: bool = False,
) -> None:
    """A verdict, as `gate` writes it."""
    champion = state(model).champion if against is None else against
    told = {"model_name": model, "version": number, "champion": champion, "reason": "all is well"}
    write_json(Path(f"{number}.json"), told | {"passed": outcome == "passed", "outcome": outcome, "asks": asks})
    tags = {"verdict": outcome, "verdict_digest": sha256(Path(f"{number}.json"))} | ({"as_of": as_of} if as_of else {})
    for name, value in tags.items():
        client.set_model_version_tag(model, number, f"leeway.{name}", value)


def promote(model: str, number: str, **fields: Any) -> promoting.PromoteResult:
    return promoting.run(promoting.PromoteSpec(model_name=model, version=number, verdict=f"{number}.json", **fields))


def decide(model: str, number: str, decision: str = "approve", why: str = "") -> deciding.DecideResult:
    named = {"model_name": model, "version": number, "verdict": f"{number}.json"}
    return deciding.run(deciding.DecideSpec(**named, decision=decision, why=why))


def rollback(model: str, **fields: Any) -> rolling.RollbackResult:
    return rolling.run(rolling.RollbackSpec(model_name=model, **{"why": "it was wrong", **fields}))


def state(model: str) -> State:
    return Journal.open().state(model)


def alias(client: Any, model: str, name: str = "champion") -> str:
    return str(client.get_registered_model(model).aliases.get(name, ""))


def kinds(model: str) -> list[str]:
    return [str(one.kind) for one in state(model).events]


def cli(*arguments: str) -> str:
    return CliRunner().invoke(registry.app, arguments, catch_exceptions=False).stdout


# promote


def test_a_promotion_records_who_why_and_evidence(model: str, client: Any, version: Callable[..., str]) -> None:
    first, second = version(), version(against="1")
    promote(model, first)
    promote(model, second)
    again = promote(model, second)
    assert (again.changed, again.promoted) == (False, True)
    assert kinds(model) == ["registered", "registered", "promoted", "promoted"]
    last = state(model).events[-1]
    assert (last.version, last.from_version, last.to_version) == (second, first, second)
    assert last.why == "all is well"
    assert last.evidence["verdict_digest"] == sha256(Path(f"{second}.json"))
    assert last.evidence["judged_against"] == first
    assert alias(client, model) == second == state(model).champion
    tags = client.get_model_version(model, second).tags
    assert tags["leeway.promoted_at"] == last.at.isoformat(timespec="seconds")


def test_refuses_a_verdict_against_another_champion(model: str, client: Any, version: Callable[..., str]) -> None:
    first, second, third = version(), version(against=""), version(against="2")
    promote(model, first)
    with pytest.raises(PromotionError, match="judged against no champion, but version 1 is champion now: run the gate"):
        promote(model, second)
    with pytest.raises(PromotionError, match="judged against version 2, but version 1 is champion now"):
        promote(model, third)
    assert (alias(client, model), kinds(model)[-1]) == (first, "promoted")
    judge(client, model, second)
    assert promote(model, second).previous == first, "the control: judged against today's it is promoted"


def test_only_force_promotes_an_older_version_and_is_recorded(
    model: str, client: Any, version: Callable[..., str]
) -> None:
    older, newer = version("2013-02-01", against=""), version("2013-03-01")
    promote(model, newer)
    with pytest.raises(PromotionError, match="only moves forward, and champion 2 is as of 2013-03-01"):
        promote(model, older)
    with pytest.raises(SpecError, match="force needs why"):
        promoting.PromoteSpec.parse({"model_name": model, "version": older, "verdict": "x", "force": True}, "here")
    done = promote(model, older, force=True, why="the newer one is broken")
    assert (done.previous, alias(client, model)) == (newer, older)
    last = state(model).events[-1]
    assert last.why == "the newer one is broken"
    assert "only moves forward" in last.evidence["forced"][0]


def test_force_does_not_promote_a_failed_version(model: str, client: Any, version: Callable[..., str]) -> None:
    number = version()
    client.set_model_version_tag(model, number, "leeway.verdict", "failed")
    with pytest.raises(PromotionError, match="did not pass"):
        promote(model, number, force=True, why="please")


def test_an_alias_that_is_older_than_the_events_becomes_the_first_event(
    model: str, client: Any, version: Callable[..., str]
) -> None:
    first, second = version("2013-02-01", told=False), version(against="1", told=False)
    client.set_registered_model_alias(model, "champion", first)
    assert promote(model, second).previous == first
    assert kinds(model) == ["alias_moved", "promoted"]
    assert state(model).previous == (first,)


def test_refuses_models_and_versions_that_do_not_exist(model: str, client: Any, version: Callable[..., str]) -> None:
    version()
    for call in (
        lambda: promote(model, "7"),
        lambda: promote("no-such-model", "1"),
        lambda: rollback(model, to="7"),
        lambda: rollback("no-such-model"),
        lambda: cli("retire", model, "7", "--why", "x"),
        lambda: cli("check", "no-such-model"),
        lambda: cli("events", "no-such-model"),
    ):
        with pytest.raises(DataError, match="no "):
            call()
    assert kinds(model) == ["registered"]


def test_a_champion_that_was_deleted_in_mlflow(model: str, client: Any, version: Callable[..., str]) -> None:
    first, second = version(), version(against="1")
    promote(model, first)
    promote(model, second)
    third = version()
    client.delete_model_version(model, second)
    before = kinds(model)
    for call in (lambda: promote(model, third), lambda: cli("check", model)):
        with pytest.raises(DataError, match=r"version 2 of .* champion by the events, but was deleted"):
            call()
    assert kinds(model) == before, "nothing changed"
    rollback(model)
    assert alias(client, model) == first
    client.delete_model_version(model, first)
    assert "kept" in cli("check", model, "--keep")
    assert state(model).champion == ""
    judge(client, model, third)
    assert promote(model, third).promoted


def test_refuses_to_promote_a_rejected_version(model: str, client: Any, version: Callable[..., str]) -> None:
    from pipelines.registry.lifecycle import Event

    first, second = version(), version()
    for kind, number in ((Kind.REJECTED, first), (Kind.APPROVED, second)):
        Journal.open().change(model, lambda _, kind=kind, number=number: Event.create(kind, model, number, why="I say"))
    with pytest.raises(PromotionError, match="rejected it: I say"):
        promote(model, first)
    assert promote(model, second).promoted, "the control"


# rollback


def test_a_rollback_blocks_the_version_that_it_takes_out(model: str, client: Any, version: Callable[..., str]) -> None:
    first, second = version(), version(against="1")
    promote(model, first)
    promote(model, second)
    done = rollback(model, why="late on Mondays")
    assert (done.version, done.previous, done.changed) == (first, second, True)
    assert alias(client, model) == first
    judge(client, model, second)
    with pytest.raises(PromotionError, match="it was rolled back: late on Mondays"):
        promote(model, second)
    with pytest.raises(PromotionError, match="nothing to roll back to"):
        rollback(model)
    assert kinds(model)[-1] == "rolled_back"
    assert promote(model, second, force=True, why="mended").previous == first
    assert state(model).blocked == {}


def test_refuses_a_rollback_without_an_earlier_champion(model: str, client: Any, version: Callable[..., str]) -> None:
    first = version()
    with pytest.raises(PromotionError, match="no champion: there is nothing to roll back"):
        rollback(model)
    promote(model, first)
    with pytest.raises(PromotionError, match="no champion before it"):
        rollback(model)
    assert alias(client, model) == first


def test_rolls_back_to_a_given_version(model: str, client: Any, version: Callable[..., str]) -> None:
    one, two, three = version(), version(against="1"), version(against="2")
    other = version()
    for number in (one, two, three):
        promote(model, number)
    with pytest.raises(PromotionError, match="it was never champion"):
        rollback(model, to=other)
    assert rollback(model, to=one).version == one
    assert not rollback(model, to=one).changed
    assert (state(model).previous, set(state(model).blocked)) == ((), {three})
    with pytest.raises(PromotionError, match="it was rolled back"):
        rollback(model, to=three)
    assert rollback(model, to=other, force=True).version == other == alias(client, model)


def test_a_run_rolls_back_once_however_often_it_is_retried(
    model: str,
    client: Any,
    version: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    fresh_settings: Callable[[], None],
) -> None:
    for number in (version(), version(against="1"), version(against="2")):
        promote(model, number)
    monkeypatch.setenv("LEEWAY_RUN", "flights_rollback/one")
    fresh_settings()
    first, again = rollback(model), rollback(model)
    assert (first.changed, again.changed, again.version, again.previous) == (True, False, "2", "3")
    monkeypatch.setenv("LEEWAY_RUN", "flights_rollback/two")
    fresh_settings()
    assert rollback(model).version == "1", "the control: another run goes back further"


def test_an_overtaken_rollback_changes_nothing(
    model: str, client: Any, version: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (version(), version(against="1")):
        promote(model, number)
    third = version()
    real = Journal.change

    def overtaken(self: Journal, name: str, decide: Any) -> Any:
        monkeypatch.setattr(Journal, "change", real)
        promote(model, third)
        return real(self, name, decide)

    monkeypatch.setattr(Journal, "change", overtaken)
    with pytest.raises(PromotionError, match=r"version 3 of .* became champion meanwhile"):
        rollback(model)
    assert alias(client, model) == third


# MLflow that goes away between event and alias


def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    def away(*_: Any) -> None:
        raise MlflowException("connection refused")

    monkeypatch.setattr(MlflowClient, "set_registered_model_alias", away)


def test_a_retry_completes_what_an_outage_of_mlflow_interrupted(
    model: str, client: Any, version: Callable[..., str]
) -> None:
    first, second = version(), version(against="1")
    promote(model, first)
    with pytest.MonkeyPatch.context() as patch:
        broken(patch)
        with pytest.raises(ServiceError, match=r"champion is 2, but its alias could not be set.*A retry is safe"):
            promote(model, second)
    assert (state(model).champion, alias(client, model)) == (second, first)
    done = promote(model, second)
    assert (done.promoted, done.changed, alias(client, model)) == (True, False, second)
    assert client.get_model_version(model, second).tags["leeway.promoted_over"] == first
    with pytest.MonkeyPatch.context() as patch:
        broken(patch)
        with pytest.raises(ServiceError, match="A retry is safe"):
            rollback(model)
    assert alias(client, model) == second
    assert rollback(model).version == first, "asked again, it is completed, and not done twice"
    assert (alias(client, model), kinds(model).count("rolled_back")) == (first, 1)


# registry check, events, retire


def test_check_finds_an_alias_that_was_moved_by_hand(model: str, client: Any, version: Callable[..., str]) -> None:
    first, second = version(), version(against="1")
    promote(model, first)
    promote(model, second)
    assert cli("check", model) == f"{model}: champion is 2, as the events say\n"
    before = len(kinds(model))
    client.set_registered_model_alias(model, "champion", first)
    assert "recorded, and put back" in cli("check", model)
    assert (alias(client, model), len(kinds(model))) == (second, before + 1)
    client.set_registered_model_alias(model, "champion", first)
    assert "recorded, and kept" in cli("check", model, "--keep")
    assert alias(client, model) == first == state(model).champion
    client.delete_registered_model_alias(model, "champion")
    assert "named nothing" in cli("check", model, "--put-back")
    assert alias(client, model) == first
    moved = [one for one in state(model).events if one.kind is Kind.ALIAS_MOVED]
    assert [(one.from_version, one.to_version) for one in moved] == [("2", "1"), ("2", "1"), ("1", "")]
    assert cli("check", model) == f"{model}: champion is 1, as the events say\n"
    with pytest.raises(SpecError, match="one of them"):
        cli("check", model, "--keep", "--put-back")


def test_the_policy_for_moved_aliases_is_in_params_yaml(
    model: str,
    client: Any,
    version: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fresh_settings: Callable[[], None],
) -> None:
    first, second = version(), version(against="1")
    promote(model, first)
    promote(model, second)
    monkeypatch.setenv("LEEWAY_PROJECT", str(tmp_path))
    (tmp_path / "params.yaml").write_text("promote: {moved_by_hand: keep}\n")
    fresh_settings()
    client.set_registered_model_alias(model, "champion", first)
    assert "kept" in cli("check", model)
    client.set_registered_model_alias(model, "champion", second)
    assert "put back" in cli("check", model, "--put-back")


def test_a_promotion_records_an_alias_that_was_moved_by_hand(
    model: str, client: Any, version: Callable[..., str], caplog: pytest.LogCaptureFixture
) -> None:
    first, second = version(), version(against="1")
    promote(model, first)
    promote(model, second)
    third, fourth = version(against="2"), version(against="1")
    client.set_registered_model_alias(model, "champion", first)
    with caplog.at_level(logging.INFO, "leeway"):
        assert promote(model, third).previous == second
    assert "recorded, and put back" in caplog.text
    client.set_registered_model_alias(model, "champion", first)
    assert promote(model, fourth, moved_by_hand="keep").previous == first
    assert kinds(model).count("alias_moved") == 2


def test_the_challenger_alias_follows_the_verdicts(model: str, client: Any, version: Callable[..., str]) -> None:
    from pipelines.registry.lifecycle import record_verdict
    from pipelines.registry.versions import Registry

    def record(number: str, outcome: str, *, backfill: bool = False) -> None:
        fields = {"outcome": outcome, "reason": "", "champion": "", "digest": "digest"}
        record_verdict(Registry.open(), model, number, **fields, backfill=backfill)

    first, second, third = version(), version(), version()
    record(first, "passed")
    assert (alias(client, model, "challenger"), alias(client, model)) == (first, "")
    record(first, "passed")
    assert kinds(model).count("judged") == 1
    promote(model, first)
    assert alias(client, model, "challenger") == ""
    record(second, "passed")
    record(third, "passed", backfill=True)
    assert alias(client, model, "challenger") == second
    record(second, "failed")
    assert alias(client, model, "challenger") == ""
    record(second, "passed")
    client.set_registered_model_alias(model, "challenger", third)
    cli("check", model)
    assert alias(client, model, "challenger") == second
    cli("retire", model, second, "--why", "superseded")
    assert alias(client, model, "challenger") == ""
    assert alias(client, model) == first


def test_a_retired_version_is_not_promoted(model: str, client: Any, version: Callable[..., str]) -> None:
    first, second = version(), version(against="1")
    promote(model, first)
    assert cli("retire", model, second, "--why", "too slow") == f"{model}: version 2 is retired\n"
    assert "blocked already" in cli("retire", model, second, "--why", "too slow")
    assert kinds(model).count("retired") == 1
    with pytest.raises(PromotionError, match="it was retired: too slow"):
        promote(model, second)
    with pytest.raises(PromotionError, match=r"version 1 .* is champion and cannot be retired"):
        cli("retire", model, first, "--why", "x")


def test_lists_the_events(model: str, client: Any, version: Callable[..., str]) -> None:
    first, second = version(), version(against="1")
    promote(model, first)
    promote(model, second)
    rollback(model, why="too slow")
    lines = cli("events", model).splitlines()
    assert len(lines) == 7
    assert "promoted       2 1 -> 2  by " in lines[3]
    assert lines[4].endswith(": too slow")
    assert lines[5:] == ["champion: 1, challenger: none", "version 2 is blocked: it was rolled back: too slow"]
    told = json.loads(cli("events", model, "--json"))
    assert [one["kind"] for one in told] == kinds(model)
    assert told[-1]["why"] == "too slow"


def test_the_events_of_a_model_do_not_depend_on_other_models(
    model: str, client: Any, version: Callable[..., str]
) -> None:
    first = version()
    for number in range(40):  # snapshots are forgotten on the way, events are not
        record_registration(f"{model}-other", str(number))
    promote(model, first)
    assert kinds(model) == ["registered", "promoted"]
    assert [one.version for one in state(f"{model}-other").events] == [str(number) for number in range(40)]


# a person's decision


@pytest.mark.parametrize("outcome", ["passed", "undecided"])
def test_a_verdict_that_needs_approval_waits_for_a_person(
    model: str, client: Any, version: Callable[..., str], outcome: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = version()
    judge(client, model, number, outcome=outcome, asks=True)
    with pytest.raises(PromotionError, match="nobody has approved it"):
        promote(model, number)
    with pytest.raises(PromotionError, match="nobody has approved it"):
        promote(model, number, force=True, why="in a hurry")
    told = decide(model, number, why="I looked at it")
    assert (told.approved, told.changed) == (True, True)
    assert decide(model, number).changed is False
    assert alias(client, model, "challenger") == number
    assert promote(model, number).promoted
    assert kinds(model) == ["registered", "approved", "promoted"]
    approved = state(model).events[1]
    assert (approved.why, approved.who) == ("I looked at it", told.who)
    assert approved.evidence["verdict_digest"] == sha256(Path(f"{number}.json"))


def test_a_person_can_approve_after_a_rejection(model: str, client: Any, version: Callable[..., str]) -> None:
    number = version()
    judge(client, model, number, asks=True)
    assert not decide(model, number, "reject", why="too slow").approved
    with pytest.raises(PromotionError, match="rejected it: too slow"):
        promote(model, number)
    decide(model, number)
    assert promote(model, number).promoted


def test_an_approval_holds_for_one_verdict(model: str, client: Any, version: Callable[..., str]) -> None:
    number = version()
    judge(client, model, number, asks=True)
    decide(model, number)
    judge(client, model, number, asks=True, outcome="undecided")
    with pytest.raises(PromotionError, match="nobody has approved it"):
        promote(model, number)


def test_an_earlier_verdict_can_be_rejected_but_not_approved(
    model: str, client: Any, version: Callable[..., str]
) -> None:
    number = version()
    judge(client, model, number, asks=True)
    shutil.copy(f"{number}.json", "earlier.json")
    judge(client, model, number, asks=True, outcome="undecided")
    named = {"model_name": model, "version": number, "verdict": Path("earlier.json")}
    with pytest.raises(PromotionError, match="not the verdict that the gate recorded"):
        deciding.run(deciding.DecideSpec(**named, decision="approve"))
    assert deciding.run(deciding.DecideSpec(**named, decision="reject", why="no")).changed
    assert kinds(model) == ["registered", "rejected"]


def test_refuses_a_decision_on_a_verdict_that_needs_no_approval(
    model: str, client: Any, version: Callable[..., str]
) -> None:
    number = version()
    with pytest.raises(PromotionError, match="needs no approval"):
        decide(model, number)
    judge(client, model, number, outcome="failed")
    with pytest.raises(PromotionError, match="needs no approval"):
        decide(model, number)
    judge(client, model, number, asks=True)
    Path(f"{number}.json").write_text(Path(f"{number}.json").read_text().replace("well", "very well"))
    with pytest.raises(PromotionError, match="not the verdict that the gate recorded"):
        decide(model, number)
    assert kinds(model) == ["registered"]
