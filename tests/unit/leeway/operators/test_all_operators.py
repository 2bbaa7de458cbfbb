"""Test all operators: their documentation, their templated fields, and the Specs that they fill."""

import inspect
import pickle
import re
from importlib import import_module
from pkgutil import iter_modules
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG, Asset, BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException, DownstreamTasksSkipped
from leeway import lifecycle, operators
from leeway.operators.backfill import BackfillOperator
from leeway.operators.batch_score import BatchScoreOperator
from leeway.operators.cheap_hours import CheapHoursSensor
from leeway.operators.check_lake import CheckLakeOperator
from leeway.operators.collect import CollectOperator
from leeway.operators.deploy import DeployOperator
from leeway.operators.drift import DriftSensor
from leeway.operators.dvc_repro import DvcReproOperator
from leeway.operators.endpoint_rollback import EndpointRollbackOperator
from leeway.operators.evaluate import EvaluateOperator
from leeway.operators.gate import GateOperator
from leeway.operators.guard import GuardOperator
from leeway.operators.ingest import IngestOperator
from leeway.operators.list_versions import ListVersionsOperator
from leeway.operators.materialize import MaterializeOperator
from leeway.operators.meter_endpoints import MeterEndpointsOperator
from leeway.operators.mirror import MirrorOperator
from leeway.operators.outcomes import OutcomesOperator
from leeway.operators.profile import ProfileOperator
from leeway.operators.promote import PromoteOperator
from leeway.operators.record_outcome import RecordOutcomeOperator
from leeway.operators.reset_breaker import ResetBreakerOperator
from leeway.operators.rollback import RollbackOperator
from leeway.operators.score import ScoreOperator
from leeway.operators.shadow import ShadowOperator
from leeway.operators.showback import ShowbackOperator
from leeway.operators.skew import SkewOperator
from leeway.operators.spot_training import SpotTrainingOperator
from leeway.operators.step import StepOperator
from leeway.operators.stop_idle import StopIdleOperator
from leeway.operators.sweep_idle import IdleSweepOperator
from leeway.operators.sync import SyncOperator
from leeway.operators.tuning import TuningOperator
from leeway.operators.undeploy import UndeployOperator
from leeway.operators.validate import ValidateOperator
from leeway.operators.withdraw import WithdrawOperator
from leeway.provider import get_provider_info

from pipelines.errors import SpecError
from pipelines.steps import STEPS, load_result_class, load_spec_class

ORDERS = Asset(name="orders", uri="x-leeway://lake/orders")
ARGUMENTS: dict[type, dict[str, Any]] = {
    IngestOperator: {"dataset": "flights", "partition": "2013-01-01"},
    ValidateOperator: {"dataset": "flights", "partition": "2013-01-01"},
    WithdrawOperator: {"dataset": "flights", "partition": "2013-01-01", "why": "the source was truncated"},
    SyncOperator: {"dataset": "orders", "asset": ORDERS},
    BackfillOperator: {"dataset": "weather", "first": "2013-01-01", "last": "2013-01-31"},
    DvcReproOperator: {
        "targets": ["preprocess"],
        "workspace": "workspace",
        "overrides": {"snapshot": {"as_of": "2013-02-01"}},
    },
    EvaluateOperator: {
        "dataset": "flights",
        "workspace": "/w",
        "trained_model": "s3://b/m.tar.gz",
        "record": "s3://b/o.tar.gz",
    },
    GateOperator: {
        "dataset": "flights",
        "workspace": "/w",
        "model": "flights",
        "version": "1",
        "backfill": "False",
    },
    PromoteOperator: {"model": "flights", "version": "1", "verdict": "/w/verdict.json", "backfill": "True"},
    RollbackOperator: {"model": "flights", "why": "it was wrong"},
    CheckLakeOperator: {"repair": True, "backup": "/backups/monday.tar"},
    GuardOperator: {
        "dataset": "flights",
        "model": "flights",
        "request": {"as_of": "2013-04-01", "trigger": "drift", "reason": "psi", "drifted_columns": ["carrier"]},
    },
    RecordOutcomeOperator: {"model": "flights"},
    ResetBreakerOperator: {"model": "flights", "why": "the label was late"},
    MaterializeOperator: {"dataset": "flights", "model": "flights", "partition": "2013-01-01", "ttl_days": 0},
    SkewOperator: {"dataset": "flights", "model": "flights", "requests": "/requests", "partition": "2013-01-01"},
    ScoreOperator: {"dataset": "flights", "model": "flights", "partition": "2013-01-01"},
    ProfileOperator: {"model": "flights", "version": "1", "rows": "/w/day.parquet", "partition": "2013-01-01"},
    DriftSensor: {"dataset": "flights", "model": "flights", "partition": "2013-04-07", "backfill": "True"},
    CollectOperator: {
        "dataset": "flights",
        "model": "flights",
        "endpoint": "flights",
        "captured": "s3://bucket/captured",
        "partition": "2013-01-01",
    },
    OutcomesOperator: {"dataset": "flights", "model": "flights", "partition": "2013-01-01"},
    ListVersionsOperator: {"dataset": "flights", "model": "flights", "partition": "2013-01-01"},
    UndeployOperator: {"model": "flights"},
    IdleSweepOperator: {},
    StopIdleOperator: {"hours": "24", "delete": "False"},
    MeterEndpointsOperator: {},
    ShowbackOperator: {},
}
NOT_ARGUMENTS = {
    "evaluate": {"reference", "tuning"},
    "profile": {"reference", "engine"},
    "gate": {"policy", "approval", "approval_timeout_h", "approval_default"},
    "guard": {"policy", "run"},
    "promote": {"moved_by_hand"},
    "record_outcome": {"run"},
    "score": {"max_rows", "response", "request"},
    "skew": {"max_share", "min_rows", "on_skew"},
    "sync": {"watermark"},
    "drift": {"window_days", "history_days", "label_delay_days", "policy", "retrain_on"},
}
"""Fields of each step that are no arguments of its operator.

Their values come from params.yaml, the asset's state store, LEEWAY_RUN, BatchScoreOperator or the result
of the training.
"""
OPERATORS = [
    *(StepOperator, *ARGUMENTS, SpotTrainingOperator, MirrorOperator, BatchScoreOperator),
    *(DeployOperator, EndpointRollbackOperator, ShadowOperator, TuningOperator, CheapHoursSensor),
]


def make_task(operator: type, **arguments: object):
    """Return a task of an operator, with valid arguments by default."""
    return operator(task_id="task", **{**ARGUMENTS[operator], **arguments})


def read_argument_docs(operator: type) -> dict[str, str]:
    """Return each argument and its text from the docstring's section Args."""
    section = inspect.cleandoc(operator.__doc__).split("Args:\n")[1].split("\n\n")[0]
    parts = re.split(r"^    (\w+): ", section, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.__name__)
def test_every_constructor_argument_is_documented(operator):
    arguments = set(inspect.signature(operator.__init__).parameters) - {"self", "kwargs"}
    assert set(read_argument_docs(operator)) == arguments


def test_check_finds_an_undocumented_argument():
    class Undocumented(IngestOperator):
        """An operator that documents one of two arguments.

        Args:
            first: the first argument.
        """

        def __init__(self, *, first: str, second: str, **kwargs: object) -> None: ...

    with pytest.raises(AssertionError):
        test_every_constructor_argument_is_documented(Undocumented)


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.__name__)
def test_documentation_says_which_arguments_are_templated(operator):
    documented = {name for name, text in read_argument_docs(operator).items() if "(templated)" in text}
    arguments = set(inspect.signature(operator.__init__).parameters)
    assert documented == set(operator.template_fields) & arguments


@pytest.mark.parametrize("operator", ARGUMENTS, ids=lambda operator: operator.__name__)
def test_step_accepts_the_spec_of_its_operator(operator):
    task, fields = make_task(operator), set(load_spec_class(operator.step).model_fields)
    spec = task.build_spec()
    assert set(spec) <= fields
    assert load_spec_class(operator.step).parse(spec, "operator")
    with pytest.raises(SpecError, match="unknown key"):
        load_spec_class(operator.step).parse({**spec, "colour": "red"}, "operator")


@pytest.mark.parametrize("operator", ARGUMENTS, ids=lambda operator: operator.__name__)
def test_arguments_reach_every_field_of_the_step(operator):
    optional = (set(inspect.signature(operator.__init__).parameters) & set(operator.template_fields)) - {
        *ARGUMENTS[operator]
    }
    task = make_task(operator, **{name: {} if name in ("lineage", "training", "window") else "x" for name in optional})
    fields = set(load_spec_class(operator.step).model_fields)
    assert set(task.build_spec()) == fields - NOT_ARGUMENTS.get(operator.step, set())


def test_spec_has_only_the_fields_that_are_given():
    assert make_task(IngestOperator).build_spec() == {"dataset": "flights", "partition": "2013-01-01"}
    assert make_task(IngestOperator, folder="/data").build_spec()["folder"] == "/data"


def test_operator_without_a_step_fails_at_import():
    with pytest.raises(TypeError, match="Nameless must name its step"):
        type("Nameless", (StepOperator,), {})


def test_constructors_only_assign():
    """Templates are rendered later: parsing a DAG must not read a file or call a service."""
    task = SpotTrainingOperator(
        task_id="train",
        entry_point="no/such.py",
        bundle="no/such.txt",
        channels={"train": "{{ x }}"},
        max_wait_s="{{ y }}",
    )
    assert task.channels == {"train": "{{ x }}"}
    assert task.max_wait_s == "{{ y }}"


def test_task_returns_the_result_of_the_step(write_python, project):
    task = make_task(
        IngestOperator, python=write_python("result(spec=spec(), env=os.environ['VARIABLE'])"), env={"VARIABLE": "yes"}
    )
    result = task.execute({})
    assert result == {"schema_version": 1, "spec": task.build_spec(), "env": "yes"}


def test_credentials_of_the_source_reach_the_step_and_no_templated_field(write_python, project, monkeypatch):
    from leeway.operators import step

    monkeypatch.setattr(step, "build_source_environment", lambda conn_id: {"FLIGHTS_DB_URL": f"secret of {conn_id}"})
    python = write_python("result(url=os.environ.get('FLIGHTS_DB_URL'))")
    for operator in (IngestOperator, SyncOperator, BackfillOperator):
        task = make_task(operator, python=python, source_conn_id="flights_db", env={"VARIABLE": "yes"})
        assert task.run_step(task.step, task.build_spec())["url"] == "secret of flights_db"
        assert task.env == {"VARIABLE": "yes"}
        assert "secret" not in str([getattr(task, name) for name in task.template_fields])
    assert make_task(IngestOperator, python=python).execute({})["url"] is None


def test_wrong_request_is_not_retried_and_temporary_error_is(write_python, project):
    with pytest.raises(AirflowFailException, match="no such day"):
        make_task(IngestOperator, python=write_python("report(2, 'no such day')")).execute({})
    with pytest.raises(AirflowException) as error:
        make_task(IngestOperator, python=write_python("report(75, 'busy')")).execute({})
    assert type(error.value) is AirflowException
    assert str(pickle.loads(pickle.dumps(error.value))) == str(error.value)


def test_on_kill_does_nothing_before_the_task_runs():
    make_task(IngestOperator).on_kill()
    SpotTrainingOperator(task_id="train", entry_point="a", bundle="b", channels={}).on_kill()


OUTCOMES = '[(0.5, "failed"), (0.7, "passed"), (0.6, "undecided"), (None, "reported")]'
CHECKS = f'[dict(check="auc", outcome=outcome, reason=f"auc is {{v}}") for v, outcome in {OUTCOMES}]'


def make_gate(write_python, passed: bool):
    """Return a gate task in a DAG, its context, and the XComs that it pushes."""
    python = write_python(
        f"result(passed={passed}, reason='auc is 0.5', needs_approval=False, checks={CHECKS}, "
        "next_steps=['Set holdout_days to 60.'], verdict='/w/verdict.json')"
    )
    with DAG("gated"):
        task = make_task(GateOperator, python=python)
        next_tasks = [PromoteOperator(task_id=name, **ARGUMENTS[PromoteOperator]) for name in ("promote", "announce")]
        task >> next_tasks
        task >> RecordOutcomeOperator(task_id="record_outcome", model="flights").as_teardown()
    xcoms: dict[str, object] = {}
    ti = SimpleNamespace(xcom_push=lambda key, value: xcoms.update({key: value}), map_index=-1)
    return task, {"ti": ti, "task": task}, xcoms


def test_failed_gate_skips_the_next_tasks_and_logs_why(write_python, project, log, monkeypatch):
    task, context, xcoms = make_gate(write_python, passed=False)
    monkeypatch.setattr(GateOperator, "log", log)
    with pytest.raises(DownstreamTasksSkipped) as error:
        task.execute(context)
    assert sorted(error.value.tasks) == ["announce", "promote"], "a teardown task is not skipped"
    assert xcoms["return_value"]["reason"] == "auc is 0.5"
    lines = ["NO   auc is 0.5", "yes  auc is 0.7", "?    auc is 0.6", "     auc is None"]
    lines.append("not promoted: auc is 0.5. Set holdout_days to 60.")
    assert log.lines[-5:] == lines


def test_passed_gate_returns_its_result(write_python, project):
    task, context, xcoms = make_gate(write_python, passed=True)
    assert task.execute(context)["passed"] is True
    assert xcoms == {}


@pytest.mark.parametrize("operator", [ScoreOperator, OutcomesOperator])
def test_task_without_a_champion_is_skipped_and_says_why(write_python, project, operator):
    xcoms: dict[str, object] = {}
    context = {"ti": SimpleNamespace(xcom_push=lambda key, value: xcoms.update({key: value}))}
    with pytest.raises(AirflowSkipException, match="no champion yet"):
        make_task(operator, python=write_python("result(scored=0, reason='no champion yet')")).execute(context)
    assert xcoms["return_value"]["reason"] == "no champion yet"


@pytest.mark.parametrize("operator", [ScoreOperator, OutcomesOperator])
def test_task_with_a_champion_returns_its_result(write_python, project, operator):
    assert make_task(operator, python=write_python("result(scored=7, reason='')")).execute({})["scored"] == 7


HELD_BACK = "outcome='held_back', guard='breaker', reason='three did not pass'"


@pytest.mark.parametrize(("alert", "error_type"), [(True, AirflowFailException), (False, AirflowSkipException)])
def test_held_back_retraining_fails_with_an_alert_and_is_skipped_without(write_python, project, alert, error_type):
    xcoms: dict[str, object] = {}
    context = {"ti": SimpleNamespace(xcom_push=lambda key, value: xcoms.update({key: value}))}
    with pytest.raises(error_type, match="three did not pass"):
        make_task(GuardOperator, python=write_python(f"result({HELD_BACK}, alert={alert})")).execute(context)
    assert xcoms["return_value"]["guard"] == "breaker"


def test_guard_task_returns_its_result_if_the_retraining_may_start(write_python, project):
    python = write_python("result(outcome='started', guard='', reason='', alert=False)")
    assert make_task(GuardOperator, python=python).execute({})["outcome"] == "started"


SKEW = {"partition": "2013-01-01", "model_name": "flights", "versions": ["2"], "endpoint": "flights"}
SKEW |= {"reason": "2 % differ in distance", "different_shares": {"distance": 0.02}}
SKEW_ASSET = Asset(name="flights_skew", uri="x-leeway://skew/flights")


def run_skew(write_python, **values):
    """Run a task whose step has a result with these values; return the task, its result, its events and its XComs."""
    fields = ", ".join(f"{name}={value!r}" for name, value in {**SKEW, **values}.items())
    task = make_task(SkewOperator, python=write_python(f"result({fields})"), asset=SKEW_ASSET)
    xcoms, event = {}, SimpleNamespace(extra={})
    ti = SimpleNamespace(xcom_push=lambda key, value: xcoms.update({key: value}), task=task)
    try:
        result = task.execute({"ti": ti, "outlet_events": {SKEW_ASSET: event}})
    except AirflowFailException as error:
        result = error
    return task, result, event.extra, xcoms


def test_requests_that_differ_from_the_lake_emit_an_event(write_python, project):
    task, result, extra, _ = run_skew(write_python, outcome="skew", fail=False)
    assert (result["outcome"], task.outlets, extra) == ("skew", [SKEW_ASSET], SKEW)


def test_requests_that_differ_from_the_lake_fail_the_task_if_the_policy_says_so(write_python, project):
    _, error, extra, xcoms = run_skew(write_python, outcome="skew", fail=True)
    assert str(error) == "requests of 2013-01-01 differ from the lake: 2 % differ in distance"
    assert (extra, xcoms["return_value"]["outcome"]) == ({}, "skew")


@pytest.mark.parametrize("outcome", ["ok", "undecided"])
def test_requests_that_are_equal_or_few_neither_fail_the_task_nor_emit_an_event(write_python, project, outcome):
    task, result, extra, _ = run_skew(write_python, outcome=outcome, fail=False)
    assert (result["outcome"], task.outlets, extra) == (outcome, [], {})


def test_captured_requests_are_by_default_where_an_endpoint_of_leeway_captures(monkeypatch):
    monkeypatch.delenv("LEEWAY_BUCKET", raising=False)
    task = CollectOperator(task_id="task", model="flights", version="None", first_day="None", partition="2013-01-01")
    with pytest.raises(AirflowFailException, match="give captured= to the task task, or set LEEWAY_BUCKET"):
        task.build_spec()
    monkeypatch.setenv("LEEWAY_BUCKET", "leeway")
    assert task.build_spec() == {
        **{"dataset": "", "model": "flights", "partition": "2013-01-01"},
        "captured": "s3://leeway/leeway/capture/{version}",
    }


def test_provider_info_has_the_name_of_the_package():
    assert get_provider_info()["package-name"] == "leeway"


@pytest.mark.parametrize("operator", ARGUMENTS, ids=lambda operator: operator.__name__)
def test_result_is_documented_field_by_field(operator):
    """tools/reference makes the operator's page of the documentation from the docstring."""
    fields = set(load_result_class(operator.step).model_fields) - {"schema_version"}
    section = inspect.cleandoc(operator.__doc__).split("Returns:\n")[1]
    assert load_result_class(operator.step).__name__ in section
    names = re.sub(r" \(.*?\)", "", section.split("`: ")[1]).strip(" .\n")
    assert set(re.split(r",\s+", names)) == fields


def test_the_registered_model_has_one_name_in_all_operators_steps_and_factories():
    modules = [import_module(f"leeway.operators.{module.name}") for module in iter_modules(operators.__path__)]
    classes = {item for module in modules for item in vars(module).values() if isinstance(item, type)}
    names = {
        operator.__name__: set(inspect.signature(operator).parameters)
        for operator in classes
        if issubclass(operator, BaseOperator) and operator.__module__.startswith("leeway.")
    }
    names |= {step: set(load_spec_class(step).model_fields) for step in STEPS}
    names |= {name: set(inspect.signature(getattr(lifecycle, name)).parameters) for name in lifecycle.__all__}
    assert len(names) > 50
    assert {name for name, arguments in names.items() if arguments & {"model_name", "register_as"}} == set()
    with_model = {name for name, arguments in names.items() if "model" in arguments}
    assert {
        "GateOperator",
        "EvaluateOperator",
        "MirrorOperator",
        "SpotTrainingOperator",
        "DvcReproOperator",
    } <= with_model
    assert {"gate", "evaluate", "repro", "budget", "charge", "create_lifecycle_dags"} <= with_model
