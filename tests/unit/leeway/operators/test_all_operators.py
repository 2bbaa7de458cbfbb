"""The operators' faces: documented, templated as they say, and in step with the Specs they fill."""

import inspect
import pickle
import re
from types import SimpleNamespace

import pytest
from airflow.sdk import DAG, Asset
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException, DownstreamTasksSkipped
from leeway.operators.backfill import BackfillOperator
from leeway.operators.batch_score import BatchScoreOperator
from leeway.operators.drift import DriftSensor
from leeway.operators.dvc_repro import DvcReproOperator
from leeway.operators.evaluate import EvaluateOperator
from leeway.operators.gate import GateOperator
from leeway.operators.guard import GuardOperator
from leeway.operators.ingest import IngestOperator
from leeway.operators.mirror import MirrorOperator
from leeway.operators.outcomes import OutcomesOperator
from leeway.operators.profile import ProfileOperator
from leeway.operators.promote import PromoteOperator
from leeway.operators.record_outcome import RecordOutcomeOperator
from leeway.operators.rollback import RollbackOperator
from leeway.operators.score import ScoreOperator
from leeway.operators.spot_training import SpotTrainingOperator
from leeway.operators.step import StepOperator
from leeway.operators.sync import SyncOperator
from leeway.operators.validate import ValidateOperator
from leeway.provider import get_provider_info

from pipelines.errors import SpecError
from pipelines.steps import load_result_class, load_spec_class

ORDERS = Asset(name="orders", uri="x-leeway://lake/orders")
GIVEN = {
    IngestOperator: {"dataset": "flights", "partition": "2013-01-01"},
    ValidateOperator: {"dataset": "flights", "partition": "2013-01-01"},
    SyncOperator: {"dataset": "orders", "asset": ORDERS},
    BackfillOperator: {"dataset": "weather", "first": "2013-01-01", "last": "2013-01-31"},
    DvcReproOperator: {
        "targets": ["preprocess"],
        "workspace": "one",
        "overrides": {"snapshot": {"as_of": "2013-02-01"}},
    },
    EvaluateOperator: {
        "dataset": "flights",
        "workspace": "/w",
        "model": "s3://b/m.tar.gz",
        "record": "s3://b/o.tar.gz",
    },
    GateOperator: {
        "dataset": "flights",
        "workspace": "/w",
        "model_name": "flights",
        "version": "1",
        "backfill": "False",
    },
    PromoteOperator: {"model_name": "flights", "version": "1", "verdict": "/w/verdict.json", "backfill": "True"},
    RollbackOperator: {"model_name": "flights", "why": "it was wrong"},
    GuardOperator: {
        "dataset": "flights",
        "model_name": "flights",
        "request": {"as_of": "2013-04-01", "trigger": "drift", "reason": "psi", "worst": ["carrier"]},
    },
    RecordOutcomeOperator: {"model_name": "flights"},
    ScoreOperator: {"dataset": "flights", "model_name": "flights", "partition": "2013-01-01"},
    ProfileOperator: {"model_name": "flights", "version": "1", "rows": "/w/day.parquet", "partition": "2013-01-01"},
    DriftSensor: {"dataset": "flights", "model_name": "flights", "partition": "2013-04-07", "backfill": "True"},
    OutcomesOperator: {"dataset": "flights", "model_name": "flights", "partition": "2013-01-01"},
}
FROM_ELSEWHERE = {
    "evaluate": {"reference"},
    "profile": {"reference", "engine"},
    "gate": {"policy", "approval", "approval_timeout_h", "approval_default"},
    "guard": {"policy", "run"},
    "promote": {"moved_by_hand"},
    "record_outcome": {"run"},
    "score": {"max_rows", "response", "request"},
    "sync": {"watermark"},
    "drift": {"window_days", "history_days", "label_delay_days", "policy"},
}
"""Fields that params.yaml alone gives, the asset's state store, LEEWAY_RUN, or BatchScoreOperator."""
OPERATORS = [StepOperator, *GIVEN, SpotTrainingOperator, MirrorOperator, BatchScoreOperator]


def made(operator: type, **more: object):
    return operator(task_id="one", **{**GIVEN[operator], **more})


def documented(operator: type) -> dict[str, str]:
    """Argument to its text, of the docstring's section Args."""
    section = inspect.cleandoc(operator.__doc__).split("Args:\n")[1].split("\n\n")[0]
    parts = re.split(r"^    (\w+): ", section, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda one: one.__name__)
def test_every_constructor_argument_is_documented(operator):
    own = set(inspect.signature(operator.__init__).parameters) - {"self", "kwargs"}
    assert set(documented(operator)) == own


def test_argument_without_a_word_is_seen():
    class Quiet(IngestOperator):
        """Says less than it takes.

        Args:
            said: it.
        """

        def __init__(self, *, said: str, unsaid: str, **kwargs: object) -> None: ...

    with pytest.raises(AssertionError):
        test_every_constructor_argument_is_documented(Quiet)


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda one: one.__name__)
def test_templated_is_what_is_said_to_be(operator):
    told = {name for name, text in documented(operator).items() if "(templated)" in text}
    own = set(inspect.signature(operator.__init__).parameters)
    assert told == set(operator.template_fields) & own


@pytest.mark.parametrize("operator", GIVEN, ids=lambda one: one.__name__)
def test_spec_is_one_that_the_step_takes(operator):
    task, fields = made(operator), set(load_spec_class(operator.step).model_fields)
    spec = task.build_spec()
    assert set(spec) <= fields
    assert load_spec_class(operator.step).parse(spec, "operator")
    with pytest.raises(SpecError, match="unknown key"):
        load_spec_class(operator.step).parse({**spec, "colour": "red"}, "operator")


@pytest.mark.parametrize("operator", GIVEN, ids=lambda one: one.__name__)
def test_no_field_of_the_step_is_out_of_reach(operator):
    optional = (set(inspect.signature(operator.__init__).parameters) & set(operator.template_fields)) - {
        *GIVEN[operator]
    }
    everything = made(operator, **{name: {} if name in ("lineage", "training", "window") else "x" for name in optional})
    fields = set(load_spec_class(operator.step).model_fields)
    assert set(everything.build_spec()) == fields - FROM_ELSEWHERE.get(operator.step, set())


def test_field_that_is_not_given_is_left_to_params_and_defaults():
    assert made(IngestOperator).build_spec() == {"dataset": "flights", "partition": "2013-01-01"}
    assert made(IngestOperator, folder="/data").build_spec()["folder"] == "/data"


def test_operator_without_a_step_fails_at_import():
    with pytest.raises(TypeError, match="Nameless must name its step"):
        type("Nameless", (StepOperator,), {})


def test_constructors_only_assign():
    """Templates are rendered later: nothing may be looked at, or asked for, when a DAG is parsed."""
    task = SpotTrainingOperator(
        task_id="train",
        entry_point="no/such.py",
        bundle="no/such.txt",
        channels={"train": "{{ x }}"},
        max_wait_s="{{ y }}",
    )
    assert task.channels == {"train": "{{ x }}"}
    assert task.max_wait_s == "{{ y }}"


def test_result_of_the_step_is_the_task_s(stub, project):
    task = made(IngestOperator, python=stub("result(asked=spec(), env=os.environ['MORE'])"), env={"MORE": "yes"})
    told = task.execute({})
    assert told == {"schema_version": 1, "asked": task.build_spec(), "env": "yes"}


def test_credentials_of_the_source_reach_the_step_and_show_nowhere(stub, project, monkeypatch):
    from leeway.operators import step

    monkeypatch.setattr(step, "build_source_environment", lambda conn_id: {"FLIGHTS_DB_URL": f"secret of {conn_id}"})
    python = stub("result(url=os.environ.get('FLIGHTS_DB_URL'))")
    for operator in (IngestOperator, SyncOperator, BackfillOperator):
        task = made(operator, python=python, source_conn_id="flights_db", env={"MORE": "yes"})
        assert task.run_step(task.step, task.build_spec())["url"] == "secret of flights_db"
        assert task.env == {"MORE": "yes"}
        assert "secret" not in str([getattr(task, name) for name in task.template_fields])
    assert made(IngestOperator, python=python).execute({})["url"] is None


def test_wrong_request_fails_the_task_for_good(stub, project):
    with pytest.raises(AirflowFailException, match="no such day"):
        made(IngestOperator, python=stub("report(2, 'no such day')")).execute({})
    with pytest.raises(AirflowException) as raised:
        made(IngestOperator, python=stub("report(75, 'busy')")).execute({})
    assert type(raised.value) is AirflowException
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)


def test_on_kill_before_anything_runs_does_nothing():
    made(IngestOperator).on_kill()
    SpotTrainingOperator(task_id="train", entry_point="a", bundle="b", channels={}).on_kill()


OUTCOMES = '[(0.5, "failed"), (0.7, "passed"), (0.6, "undecided"), (None, "reported")]'
CHECKS = f'[dict(check="auc", outcome=o, reason=f"auc is {{v}}") for v, o in {OUTCOMES}]'


def gate(stub, passed: bool):
    python = stub(
        f"result(passed={passed}, reason='auc is 0.5', asks=False, checks={CHECKS}, verdict='/w/verdict.json')"
    )
    with DAG("gated"):
        task = made(GateOperator, python=python)
        after = [PromoteOperator(task_id=name, **GIVEN[PromoteOperator]) for name in ("promote", "announce")]
        task >> after
        task >> RecordOutcomeOperator(task_id="record_outcome", model_name="flights").as_teardown()
    pushed: dict[str, object] = {}
    ti = SimpleNamespace(xcom_push=lambda key, value: pushed.update({key: value}), map_index=-1)
    return task, {"ti": ti, "task": task}, pushed


def test_gate_that_says_no_skips_what_follows_and_says_why(stub, project, lines, monkeypatch):
    task, context, pushed = gate(stub, passed=False)
    monkeypatch.setattr(GateOperator, "log", lines)
    with pytest.raises(DownstreamTasksSkipped) as raised:
        task.execute(context)
    assert sorted(raised.value.tasks) == ["announce", "promote"], "a teardown runs"
    assert pushed["return_value"]["reason"] == "auc is 0.5"
    told = ["NO   auc is 0.5", "yes  auc is 0.7", "?    auc is 0.6", "     auc is None", "not promoted: auc is 0.5"]
    assert lines.lines[-5:] == told


def test_gate_that_says_yes_lets_pass(stub, project):
    task, context, pushed = gate(stub, passed=True)
    assert task.execute(context)["passed"] is True
    assert pushed == {}


@pytest.mark.parametrize("operator", [ScoreOperator, OutcomesOperator])
def test_where_nothing_could_be_done_the_task_is_skipped_and_says_why(stub, project, operator):
    pushed: dict[str, object] = {}
    context = {"ti": SimpleNamespace(xcom_push=lambda key, value: pushed.update({key: value}))}
    with pytest.raises(AirflowSkipException, match="no champion yet"):
        made(operator, python=stub("result(scored=0, reason='no champion yet')")).execute(context)
    assert pushed["return_value"]["reason"] == "no champion yet"


@pytest.mark.parametrize("operator", [ScoreOperator, OutcomesOperator])
def test_where_something_was_done_it_is_the_result(stub, project, operator):
    assert made(operator, python=stub("result(scored=7, reason='')")).execute({})["scored"] == 7


HELD = "outcome='held_back', guard='breaker', reason='three did not pass'"


@pytest.mark.parametrize(("alert", "raised"), [(True, AirflowFailException), (False, AirflowSkipException)])
def test_what_is_held_back_is_skipped_and_where_a_person_has_to_look_fails_for_good(stub, project, alert, raised):
    pushed: dict[str, object] = {}
    context = {"ti": SimpleNamespace(xcom_push=lambda key, value: pushed.update({key: value}))}
    with pytest.raises(raised, match="three did not pass"):
        made(GuardOperator, python=stub(f"result({HELD}, alert={alert})")).execute(context)
    assert pushed["return_value"]["guard"] == "breaker"


def test_what_may_start_is_the_result(stub, project):
    python = stub("result(outcome='started', guard='', reason='', alert=False)")
    assert made(GuardOperator, python=python).execute({})["outcome"] == "started"


def test_provider_tells_its_name():
    assert get_provider_info()["package-name"] == "leeway"


@pytest.mark.parametrize("operator", GIVEN, ids=lambda one: one.__name__)
def test_result_is_documented_field_by_field(operator):
    """Its page of the documentation is made of the docstring (tools/reference)."""
    fields = set(load_result_class(operator.step).model_fields) - {"schema_version"}
    told = inspect.cleandoc(operator.__doc__).split("Returns:\n")[1]
    assert load_result_class(operator.step).__name__ in told
    names = re.sub(r" \(.*?\)", "", told.split("`: ")[1]).strip(" .\n")
    assert set(re.split(r",\s+", names)) == fields
