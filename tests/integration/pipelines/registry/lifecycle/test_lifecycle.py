"""Test the events of the registry and its alias, with a real MLflow, a real lake and versions without files."""

import datetime as dt
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
from pipelines.registry.lifecycle import Journal, Kind, State, find_champion_as_of, record_registration
from pipelines.registry.versions import Registry
from pipelines.scoring.scores import choose_version
from pipelines.steps import decide as deciding
from pipelines.steps import promote as promoting
from pipelines.steps import rollback as rolling
from pipelines.system.files import sha256, write_json
from tests.tools.names import name_for_test


@pytest.fixture
def model(with_mlflow: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the name of this test's model."""
    from pipelines.registry.lifecycle import reconciliation

    monkeypatch.setattr(reconciliation, "RECHECK_DELAY_S", 0.05)
    return name_for_test("l-", request.node.name)


@pytest.fixture
def client(model: str, with_mlflow: str) -> Any:
    """Return a client of MLflow; the model is registered and has no version."""
    from mlflow import MlflowClient

    client = MlflowClient(with_mlflow, with_mlflow)
    client.create_registered_model(model)
    return client


@pytest.fixture
def make_version(model: str, client: Any) -> Callable[..., str]:
    """Return the function that registers a version that passed the gate, against the present champion or another."""

    def make(as_of: str = "2013-03-01", against: str | None = None, *, has_event: bool = True) -> str:
        number = str(client.create_model_version(model, "s3://nowhere/model").version)
        if has_event:
            record_registration(model, number)
        write_verdict(client, model, number, against=against, as_of=as_of)
        return number

    return make


def write_verdict(
    client: Any,
    model: str,
    number: str,
    *,
    against: str | None = None,
    as_of: str = "",
    outcome: str = "passed",
    needs_approval: bool = False,
) -> None:
    """Write the verdict and its tags as the step `gate` does."""
    champion = read_state(model).champion if against is None else against
    verdict = {"model_name": model, "version": number, "champion": champion, "reason": "all is well"}
    write_json(
        Path(f"{number}.json"),
        verdict | {"passed": outcome == "passed", "outcome": outcome, "needs_approval": needs_approval},
    )
    tags = {"verdict": outcome, "verdict_digest": sha256(Path(f"{number}.json"))} | ({"as_of": as_of} if as_of else {})
    for name, value in tags.items():
        client.set_model_version_tag(model, number, f"leeway.{name}", value)


def promote(model: str, number: str, **fields: Any) -> promoting.PromoteResult:
    """Run the step `promote`."""
    return promoting.run(promoting.PromoteSpec(model=model, version=number, verdict=f"{number}.json", **fields))


def decide(model: str, number: str, decision: str = "approve", why: str = "") -> deciding.DecideResult:
    """Run the step `decide`."""
    spec = {"model": model, "version": number, "verdict": f"{number}.json"}
    return deciding.run(deciding.DecideSpec(**spec, decision=decision, why=why))


def rollback(model: str, **fields: Any) -> rolling.RollbackResult:
    """Run the step `rollback`."""
    return rolling.run(rolling.RollbackSpec(model=model, **{"why": "it was wrong", **fields}))


def read_state(model: str) -> State:
    return Journal.open().read_state(model)


def read_alias(client: Any, model: str, name: str = "champion") -> str:
    """Return the version that the alias names; empty where it names none."""
    return str(client.get_registered_model(model).aliases.get(name, ""))


def list_kinds(model: str) -> list[str]:
    return [str(event.kind) for event in read_state(model).events]


def run_cli(*arguments: str) -> str:
    """Run the command and return its stdout."""
    return CliRunner().invoke(registry.app, arguments, catch_exceptions=False).stdout


# promote


def test_a_promotion_records_its_reason_and_evidence(model: str, client: Any, make_version: Callable[..., str]) -> None:
    first, second = make_version(), make_version(against="1")
    promote(model, first)
    promote(model, second)
    repeat = promote(model, second)
    assert (repeat.changed, repeat.promoted) == (False, True)
    assert list_kinds(model) == ["registered", "registered", "promoted", "promoted"]
    last = read_state(model).events[-1]
    assert (last.version, last.from_version, last.to_version) == (second, first, second)
    assert last.why == "all is well"
    assert last.evidence["verdict_digest"] == sha256(Path(f"{second}.json"))
    assert last.evidence["judged_against"] == first
    assert read_alias(client, model) == second == read_state(model).champion
    tags = client.get_model_version(model, second).tags
    assert tags["leeway.promoted_at"] == last.at.isoformat(timespec="seconds")


@pytest.mark.soak
def test_refuses_a_verdict_against_another_champion(model: str, client: Any, make_version: Callable[..., str]) -> None:
    first, second, third = make_version(), make_version(against=""), make_version(against="2")
    promote(model, first)
    with pytest.raises(PromotionError, match="judged against no champion, but version 1 is champion now: run the gate"):
        promote(model, second)
    with pytest.raises(PromotionError, match="judged against version 2, but version 1 is champion now"):
        promote(model, third)
    assert (read_alias(client, model), list_kinds(model)[-1]) == (first, "promoted")
    write_verdict(client, model, second)
    assert promote(model, second).previous == first, (
        "the control: a version with a verdict against the present champion is promoted"
    )


def test_only_force_promotes_an_older_version_and_the_event_says_so(
    model: str, client: Any, make_version: Callable[..., str]
) -> None:
    older, newer = make_version("2013-02-01", against=""), make_version("2013-03-01")
    promote(model, newer)
    with pytest.raises(
        PromotionError, match="before 2013-03-01, the as_of of champion 2: promotion only moves forward"
    ):
        promote(model, older)
    with pytest.raises(SpecError, match="force needs why"):
        promoting.PromoteSpec.parse({"model": model, "version": older, "verdict": "x", "force": True}, "test")
    result = promote(model, older, force=True, why="the newer one is broken")
    assert (result.previous, read_alias(client, model)) == (newer, older)
    last = read_state(model).events[-1]
    assert last.why == "the newer one is broken"
    assert "only moves forward" in last.evidence["forced"][0]


def test_force_does_not_promote_a_failed_version(model: str, client: Any, make_version: Callable[..., str]) -> None:
    number = make_version()
    client.set_model_version_tag(model, number, "leeway.verdict", "failed")
    with pytest.raises(PromotionError, match="did not pass"):
        promote(model, number, force=True, why="please")


@pytest.mark.soak
def test_an_alias_from_before_the_events_becomes_the_first_event(
    model: str, client: Any, make_version: Callable[..., str]
) -> None:
    first, second = make_version("2013-02-01", has_event=False), make_version(against="1", has_event=False)
    client.set_registered_model_alias(model, "champion", first)
    assert promote(model, second).previous == first
    assert list_kinds(model) == ["alias_moved", "promoted"]
    assert read_state(model).earlier_champions == (first,)


def test_refuses_models_and_versions_that_do_not_exist(
    model: str, client: Any, make_version: Callable[..., str]
) -> None:
    make_version()
    for call in (
        lambda: promote(model, "7"),
        lambda: promote("no-such-model", "1"),
        lambda: rollback(model, to="7"),
        lambda: rollback("no-such-model"),
        lambda: run_cli("retire", model, "7", "--why", "x"),
        lambda: run_cli("check", "no-such-model"),
        lambda: run_cli("events", "no-such-model"),
    ):
        with pytest.raises(DataError, match="no "):
            call()
    assert list_kinds(model) == ["registered"]


def test_refuses_to_promote_after_the_champion_was_deleted_in_mlflow(
    model: str, client: Any, make_version: Callable[..., str]
) -> None:
    first, second = make_version(), make_version(against="1")
    promote(model, first)
    promote(model, second)
    third = make_version()
    client.delete_model_version(model, second)
    before = list_kinds(model)
    for call in (lambda: promote(model, third), lambda: run_cli("check", model)):
        with pytest.raises(DataError, match=r"version 2 of .* the recorded champion, but was deleted"):
            call()
    assert list_kinds(model) == before, "a refusal adds no event"
    rollback(model)
    assert read_alias(client, model) == first
    client.delete_model_version(model, first)
    assert "kept" in run_cli("check", model, "--keep")
    assert read_state(model).champion == ""
    write_verdict(client, model, third)
    assert promote(model, third).promoted


def test_refuses_to_promote_a_rejected_version(model: str, client: Any, make_version: Callable[..., str]) -> None:
    from pipelines.registry.lifecycle import Event

    first, second = make_version(), make_version()
    Journal.open().append_event(model, lambda _: Event.create(Kind.REJECTED, model, first, why="too old"))
    Journal.open().append_event(model, lambda _: Event.create(Kind.APPROVED, model, second, why="too old"))
    with pytest.raises(PromotionError, match="rejected it: too old"):
        promote(model, first)
    assert promote(model, second).promoted, "the control: an approved version is promoted"


# rollback


def test_a_rollback_blocks_the_version_that_was_champion(
    model: str, client: Any, make_version: Callable[..., str]
) -> None:
    first, second = make_version(), make_version(against="1")
    promote(model, first)
    promote(model, second)
    result = rollback(model, why="late on Mondays")
    assert (result.version, result.previous, result.changed) == (first, second, True)
    assert read_alias(client, model) == first
    write_verdict(client, model, second)
    with pytest.raises(PromotionError, match="it was rolled back: late on Mondays"):
        promote(model, second)
    with pytest.raises(PromotionError, match="no earlier champion"):
        rollback(model)
    assert list_kinds(model)[-1] == "rolled_back"
    assert promote(model, second, force=True, why="repaired").previous == first
    assert read_state(model).blocked_versions == {}


def test_a_rollback_of_another_champion_changes_nothing(
    model: str, client: Any, make_version: Callable[..., str], monkeypatch: pytest.MonkeyPatch, fresh_settings: Any
) -> None:
    """Two persons see version 3 and roll it back: the second does not take version 2 out as well."""
    for number in (make_version(), make_version(against="1"), make_version(against="2")):
        promote(model, number)
    monkeypatch.setenv("LEEWAY_RUN", "flights_rollback/one")
    fresh_settings()
    assert rollback(model, champion="3").version == "2"
    assert not rollback(model, champion="3").changed, "a retry of the same run is no second rollback, and no error"
    monkeypatch.setenv("LEEWAY_RUN", "flights_rollback/two")
    fresh_settings()
    with pytest.raises(PromotionError, match=r"version 2 of .* is champion, not version 3: nothing was rolled back"):
        rollback(model, champion="3")
    assert read_alias(client, model) == "2"
    assert rollback(model, champion="2").version == "1", "the control"


def test_refuses_a_rollback_without_an_earlier_champion(
    model: str, client: Any, make_version: Callable[..., str]
) -> None:
    first = make_version()
    with pytest.raises(PromotionError, match="no champion: there is nothing to roll back"):
        rollback(model)
    promote(model, first)
    with pytest.raises(PromotionError, match="no earlier champion"):
        rollback(model)
    assert read_alias(client, model) == first


def test_rolls_back_to_a_given_version(model: str, client: Any, make_version: Callable[..., str]) -> None:
    first, second, third = make_version(), make_version(against="1"), make_version(against="2")
    fourth = make_version()
    for number in (first, second, third):
        promote(model, number)
    with pytest.raises(PromotionError, match="it was never champion"):
        rollback(model, to=fourth)
    assert rollback(model, to=first).version == first
    assert not rollback(model, to=first).changed
    assert (read_state(model).earlier_champions, set(read_state(model).blocked_versions)) == ((), {third})
    with pytest.raises(PromotionError, match="it was rolled back"):
        rollback(model, to=third)
    with pytest.raises(PromotionError, match="a rollback to an older version skipped it"):
        rollback(model, to=second)
    assert rollback(model, to=fourth, force=True).version == fourth == read_alias(client, model)


def test_a_version_that_was_rolled_back_is_no_champion_of_the_past(
    model: str, client: Any, make_version: Callable[..., str]
) -> None:
    days = dict(zip("1234", ("2013-02-01", "2013-03-01", "2013-04-01", "2013-05-01"), strict=True))
    registry, moment = Registry.open(), dt.date(2013, 4, 15)

    def find_champion() -> str:
        """Return the champion of the moment. It scores the day, and a backfill compares its candidate with it."""
        version, scorer = find_champion_as_of(registry, model, moment), choose_version(registry, model, "", moment)
        assert version is not None and scorer is not None and scorer.version == version.version
        return str(version.version)

    def promote_next(number: str) -> None:
        assert make_version(days[number]) == number
        promote(model, number)

    for number in "123":
        promote_next(number)
    rollback(model)
    promote_next("4")
    assert find_champion() == "2"
    rollback(model, to="1")
    promote(model, make_version("2013-06-01"))
    assert find_champion() == "1", "the rollback was over version 2, too"
    rollback(model, to="3", force=True)
    promote(model, make_version("2013-07-01"))
    assert find_champion() == "3", "the control: it was champion again"
    run_cli("retire", model, "3", "--why", "superseded")
    assert find_champion() == "3", "a retirement is not about the past"


@pytest.mark.soak
def test_a_run_rolls_back_once_however_often_it_is_retried(
    model: str,
    client: Any,
    make_version: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    fresh_settings: Callable[[], None],
) -> None:
    for number in (make_version(), make_version(against="1"), make_version(against="2")):
        promote(model, number)
    monkeypatch.setenv("LEEWAY_RUN", "flights_rollback/one")
    fresh_settings()
    first, repeat = rollback(model), rollback(model)
    assert (first.changed, repeat.changed, repeat.version, repeat.previous) == (True, False, "2", "3")
    monkeypatch.setenv("LEEWAY_RUN", "flights_rollback/two")
    fresh_settings()
    assert rollback(model).version == "1", "the control: another run rolls back further"


def test_an_overtaken_rollback_changes_nothing(
    model: str, client: Any, make_version: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (make_version(), make_version(against="1")):
        promote(model, number)
    third = make_version()
    append = Journal.append_event

    def promote_and_append(self: Journal, name: str, decide: Any) -> Any:
        monkeypatch.setattr(Journal, "append_event", append)
        promote(model, third)
        return append(self, name, decide)

    monkeypatch.setattr(Journal, "append_event", promote_and_append)
    with pytest.raises(PromotionError, match=r"version 3 of .* became champion meanwhile"):
        rollback(model)
    assert read_alias(client, model) == third


# MLflow fails between event and alias


def break_aliases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make MLflow fail when an alias is set."""
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    def fail(*_: Any) -> None:
        raise MlflowException("connection refused")

    monkeypatch.setattr(MlflowClient, "set_registered_model_alias", fail)


def test_a_retry_completes_what_an_outage_of_mlflow_interrupted(
    model: str, client: Any, make_version: Callable[..., str]
) -> None:
    first, second = make_version(), make_version(against="1")
    promote(model, first)
    with pytest.MonkeyPatch.context() as patch:
        break_aliases(patch)
        with pytest.raises(ServiceError, match=r"champion is 2, but its alias could not be set.*A retry is safe"):
            promote(model, second)
    assert (read_state(model).champion, read_alias(client, model)) == (second, first)
    result = promote(model, second)
    assert (result.promoted, result.changed, read_alias(client, model)) == (True, False, second)
    assert client.get_model_version(model, second).tags["leeway.promoted_over"] == first
    with pytest.MonkeyPatch.context() as patch:
        break_aliases(patch)
        with pytest.raises(ServiceError, match="A retry is safe"):
            rollback(model)
    assert read_alias(client, model) == second
    assert rollback(model).version == first, "a retry completes the rollback and does not roll back twice"
    assert (read_alias(client, model), list_kinds(model).count("rolled_back")) == (first, 1)


# registry check, events, retire


def test_check_finds_an_alias_that_was_moved_by_hand(model: str, client: Any, make_version: Callable[..., str]) -> None:
    first, second = make_version(), make_version(against="1")
    promote(model, first)
    promote(model, second)
    assert run_cli("check", model) == f"{model}: champion is 2, as the events say\n"
    before = len(list_kinds(model))
    client.set_registered_model_alias(model, "champion", first)
    assert "recorded, and put back" in run_cli("check", model)
    assert (read_alias(client, model), len(list_kinds(model))) == (second, before + 1)
    client.set_registered_model_alias(model, "champion", first)
    assert "recorded, and kept" in run_cli("check", model, "--keep")
    assert read_alias(client, model) == first == read_state(model).champion
    client.delete_registered_model_alias(model, "champion")
    assert "named nothing" in run_cli("check", model, "--put-back")
    assert read_alias(client, model) == first
    events = [event for event in read_state(model).events if event.kind is Kind.ALIAS_MOVED]
    assert [(event.from_version, event.to_version) for event in events] == [("2", "1"), ("2", "1"), ("1", "")]
    assert run_cli("check", model) == f"{model}: champion is 1, as the events say\n"
    with pytest.raises(SpecError, match="one of them"):
        run_cli("check", model, "--keep", "--put-back")


@pytest.mark.soak
def test_params_yaml_sets_the_policy_for_moved_aliases(
    model: str,
    client: Any,
    make_version: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fresh_settings: Callable[[], None],
) -> None:
    first, second = make_version(), make_version(against="1")
    promote(model, first)
    promote(model, second)
    monkeypatch.setenv("LEEWAY_PROJECT", str(tmp_path))
    (tmp_path / "params.yaml").write_text("promote: {moved_by_hand: keep}\n")
    fresh_settings()
    client.set_registered_model_alias(model, "champion", first)
    assert "kept" in run_cli("check", model)
    client.set_registered_model_alias(model, "champion", second)
    assert "put back" in run_cli("check", model, "--put-back")


def test_a_promotion_records_an_alias_that_was_moved_by_hand(
    model: str, client: Any, make_version: Callable[..., str], caplog: pytest.LogCaptureFixture
) -> None:
    first, second = make_version(), make_version(against="1")
    promote(model, first)
    promote(model, second)
    third, fourth = make_version(against="2"), make_version(against="1")
    client.set_registered_model_alias(model, "champion", first)
    with caplog.at_level(logging.INFO, "leeway"):
        assert promote(model, third).previous == second
    assert "recorded, and put back" in caplog.text
    client.set_registered_model_alias(model, "champion", first)
    assert promote(model, fourth, moved_by_hand="keep").previous == first
    assert list_kinds(model).count("alias_moved") == 2


def test_the_challenger_alias_follows_the_verdicts(model: str, client: Any, make_version: Callable[..., str]) -> None:
    from pipelines.registry.lifecycle import record_verdict
    from pipelines.registry.versions import Registry

    def record(number: str, outcome: str, *, backfill: bool = False) -> None:
        fields = {"outcome": outcome, "reason": "", "champion": "", "digest": "digest"}
        checks = [{"name": "auc", "value": 0.7}]
        record_verdict(Registry.open(), model, number, **fields, backfill=backfill, checks=checks)

    first, second, third = make_version(), make_version(), make_version()
    record(first, "passed")
    assert (read_alias(client, model, "challenger"), read_alias(client, model)) == (first, "")
    record(first, "passed")
    assert list_kinds(model).count("judged") == 1
    promote(model, first)
    assert read_alias(client, model, "challenger") == ""
    record(second, "passed")
    record(third, "passed", backfill=True)
    assert read_alias(client, model, "challenger") == second
    record(second, "failed")
    assert read_alias(client, model, "challenger") == ""
    record(second, "passed")
    client.set_registered_model_alias(model, "challenger", third)
    run_cli("check", model)
    assert read_alias(client, model, "challenger") == second
    run_cli("retire", model, second, "--why", "superseded")
    assert read_alias(client, model, "challenger") == ""
    assert read_alias(client, model) == first


def test_a_retired_version_is_not_promoted(model: str, client: Any, make_version: Callable[..., str]) -> None:
    first, second = make_version(), make_version(against="1")
    promote(model, first)
    assert run_cli("retire", model, second, "--why", "too slow") == f"{model}: version 2 is retired\n"
    assert "blocked already" in run_cli("retire", model, second, "--why", "too slow")
    assert list_kinds(model).count("retired") == 1
    with pytest.raises(PromotionError, match="it was retired: too slow"):
        promote(model, second)
    with pytest.raises(PromotionError, match=r"version 1 .* is champion and cannot be retired"):
        run_cli("retire", model, first, "--why", "x")


def test_lists_the_events(model: str, client: Any, make_version: Callable[..., str]) -> None:
    first, second = make_version(), make_version(against="1")
    promote(model, first)
    promote(model, second)
    rollback(model, why="too slow")
    lines = run_cli("events", model).splitlines()
    assert len(lines) == 7
    assert "promoted       2 1 -> 2  by " in lines[3]
    assert lines[4].endswith(": too slow")
    assert lines[5:] == ["champion: 1, challenger: none", "version 2 is blocked: it was rolled back: too slow"]
    events = json.loads(run_cli("events", model, "--json"))
    assert [event["kind"] for event in events] == list_kinds(model)
    assert events[-1]["why"] == "too slow"


@pytest.mark.soak
def test_the_events_of_a_model_do_not_depend_on_other_models(
    model: str, client: Any, make_version: Callable[..., str]
) -> None:
    first = make_version()
    for number in range(40):  # the table's old snapshots are deleted meanwhile, its events are not
        record_registration(f"{model}-other", str(number))
    promote(model, first)
    assert list_kinds(model) == ["registered", "promoted"]
    assert [event.version for event in read_state(f"{model}-other").events] == [str(number) for number in range(40)]


# decide


@pytest.mark.parametrize("outcome", ["passed", "undecided"])
def test_a_verdict_that_needs_approval_waits_for_a_person(
    model: str, client: Any, make_version: Callable[..., str], outcome: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = make_version()
    write_verdict(client, model, number, outcome=outcome, needs_approval=True)
    with pytest.raises(PromotionError, match="nobody has approved it"):
        promote(model, number)
    with pytest.raises(PromotionError, match="nobody has approved it"):
        promote(model, number, force=True, why="in a hurry")
    decision = decide(model, number, why="I looked at it")
    assert (decision.approved, decision.changed) == (True, True)
    assert decide(model, number).changed is False
    assert read_alias(client, model, "challenger") == number
    verdict_text = {"passed": "it passed", "undecided": "its verdict is undecided"}[outcome]
    assert promote(model, number, backfill=True).reason.startswith(f"{verdict_text}, and it would have replaced no ")
    result = promote(model, number)
    cause = {"passed": "it passed", "undecided": "a person approved it"}[outcome]
    assert (result.promoted, result.reason) == (True, f"{cause}; it replaces no champion")
    assert list_kinds(model) == ["registered", "approved", "promoted"]
    approval_event = read_state(model).events[1]
    assert (approval_event.why, approval_event.who) == ("I looked at it", decision.who)
    assert approval_event.evidence["verdict_digest"] == sha256(Path(f"{number}.json"))


def test_a_person_can_approve_after_a_rejection(model: str, client: Any, make_version: Callable[..., str]) -> None:
    number = make_version()
    write_verdict(client, model, number, needs_approval=True)
    assert not decide(model, number, "reject", why="too slow").approved
    with pytest.raises(PromotionError, match="rejected it: too slow"):
        promote(model, number)
    decide(model, number)
    assert promote(model, number).promoted


def test_an_approval_holds_for_one_verdict(model: str, client: Any, make_version: Callable[..., str]) -> None:
    number = make_version()
    write_verdict(client, model, number, needs_approval=True)
    decide(model, number)
    write_verdict(client, model, number, needs_approval=True, outcome="undecided")
    with pytest.raises(PromotionError, match="nobody has approved it"):
        promote(model, number)


def test_an_earlier_verdict_can_be_rejected_but_not_approved(
    model: str, client: Any, make_version: Callable[..., str]
) -> None:
    number = make_version()
    write_verdict(client, model, number, needs_approval=True)
    shutil.copy(f"{number}.json", "earlier.json")
    write_verdict(client, model, number, needs_approval=True, outcome="undecided")
    spec = {"model": model, "version": number, "verdict": Path("earlier.json")}
    with pytest.raises(PromotionError, match="is not the gate's latest verdict"):
        deciding.run(deciding.DecideSpec(**spec, decision="approve"))
    assert deciding.run(deciding.DecideSpec(**spec, decision="reject", why="no")).changed
    assert list_kinds(model) == ["registered", "rejected"]


def test_refuses_a_decision_on_a_verdict_that_needs_no_approval(
    model: str, client: Any, make_version: Callable[..., str]
) -> None:
    number = make_version()
    with pytest.raises(PromotionError, match="needs no approval"):
        decide(model, number)
    write_verdict(client, model, number, outcome="failed")
    with pytest.raises(PromotionError, match="needs no approval"):
        decide(model, number)
    write_verdict(client, model, number, needs_approval=True)
    Path(f"{number}.json").write_text(Path(f"{number}.json").read_text().replace("well", "very well"))
    with pytest.raises(PromotionError, match="is not the gate's latest verdict"):
        decide(model, number)
    assert list_kinds(model) == ["registered"]


def test_a_version_without_a_run_has_no_parameters_and_no_metrics(model: str, client: Any) -> None:
    from pipelines.registry.versions import Registry

    version = client.create_model_version(model, "s3://nowhere/model")
    registry = Registry.open()
    assert (registry.get_params(version), registry.get_metrics(version)) == ({}, {})
