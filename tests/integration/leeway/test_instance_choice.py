"""Test SpotTrainingOperator with instance_type="auto" and a real drydock: the choice, its record, and retries."""

import datetime as dt
import json

import pytest
from airflow.sdk.exceptions import AirflowFailException
from leeway.hooks.training.instance_choice import MAX_CHARS

from pipelines.costs.job_records import CHOICE_VARIABLE
from pipelines.costs.ledger import Ledger
from pipelines.lake import Lake
from tests.tools.ledger_rows import make_row

ALLOWED = ["ml.m5.large", "ml.m5.xlarge", "ml.m5.2xlarge", "ml.m5.4xlarge"]
LONGEST = {"max_run_s": 14_400, "max_wait_s": 18_000}
AUTO = {"instance_type": "auto", "instance_types": ALLOWED, "model": "flights", "deadline": "2h", **LONGEST}


@pytest.fixture
def project(home, project):
    """Set up the project after the home: both set LEEWAY_PROJECT."""
    return project


@pytest.fixture
def add_rows(project):
    """Return the function that adds past jobs of flights to the ledger; they used seven of eight vCPUs for an hour."""

    def add(*rows):
        Ledger.open(Lake.open()).add(rows or [make_row(n, cpu_mean=700, memory_peak=5) for n in range(3)])

    return add


def read_choice(drydock, deferral):
    """Return the instance type and the recorded choice of the job of a deferred task."""
    job = drydock.describe_job(deferral.trigger.wait.job_name)
    return job["ResourceConfig"]["InstanceType"], json.loads(job["Environment"][CHOICE_VARIABLE])


def test_the_cheapest_type_before_the_deadline_is_chosen(
    drydock, project, make_spot_task, context, start, finish, add_rows, capsys
):
    add_rows()
    deferral = start(make_spot_task(**AUTO), context)
    name, choice = read_choice(drydock, deferral)
    # ml.m5.large would take 3.5 hours. ml.m5.xlarge takes 1.75 hours, and is cheaper than an hour of ml.m5.2xlarge.
    assert name == "ml.m5.xlarge" and choice["instance_types"][0] == name
    assert choice["predicted_s"] == pytest.approx(3_600 * 7 / 4)
    assert "the cheapest of 3 that fit" in choice["instance_choice"]
    assert len(json.dumps(choice)) <= MAX_CHARS
    result = finish(make_spot_task(**AUTO), deferral)
    assert result["instance_type"] == name and result["instance_choice"] == choice["instance_choice"]
    assert result["predicted_s"] == choice["predicted_s"]
    assert result["predicted_usd"] is None and choice["uncorrected_usd"] is None, "the saving by spot is not known"
    row = Ledger.open(Lake.open()).read_rows()[-1]
    assert row["name"] == result["training_job"] and row["instance_choice"] == choice["instance_choice"]
    assert row["prediction_basis"] == "scaled"
    assert row["predicted_s"] == choice["predicted_s"] and row["uncorrected_s"] == choice["uncorrected_s"]
    assert "instance type: ml.m5.xlarge: the cheapest of 3" in capsys.readouterr().out


def test_the_size_of_the_channels_decides_the_type(
    drydock, project, make_spot_task, context, start, finish, add_rows, tmp_path
):
    """Past jobs took 10 s for each byte. With its 60 bytes, the job would take 17.5 minutes on ml.m5.xlarge."""
    use = {"cpu_mean": 700, "memory_peak": 5}
    add_rows(*(make_row(n, training_s=10 * size, input_bytes=size, **use) for n, size in enumerate((100, 200, 400))))
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "rows").write_text("x" * 60)
    fields = AUTO | {"channels": {"train": str(tmp_path / "rows")}, "deadline": "15m"}
    deferral = start(make_spot_task(**fields), context)
    name, choice = read_choice(drydock, deferral)
    assert name == "ml.m5.2xlarge" and choice["prediction_basis"] == "sized"
    assert choice["uncorrected_s"] == pytest.approx(600)
    assert drydock.describe_job(deferral.trigger.wait.job_name)["Environment"]["LEEWAY_INPUT_BYTES"] == "60"
    result = finish(make_spot_task(**fields), deferral)
    row = Ledger.open(Lake.open()).read_rows()[-1]
    assert (row["name"], row["input_bytes"], row["prediction_basis"]) == (result["training_job"], 60, "sized")


@pytest.mark.soak
def test_a_tight_deadline_needs_a_larger_type(drydock, project, make_spot_task, context, start, add_rows):
    add_rows()
    assert read_choice(drydock, start(make_spot_task(**AUTO | {"deadline": "61m"}), context))[0] == "ml.m5.2xlarge"


@pytest.mark.soak
def test_a_type_on_which_the_job_would_be_stopped_is_left_out(
    drydock, project, make_spot_task, context, start, add_rows
):
    add_rows()
    fields = AUTO | {"deadline": "", "max_run_s": 6_000, "max_wait_s": 9_000}
    assert read_choice(drydock, start(make_spot_task(**fields), context))[0] == "ml.m5.2xlarge"


@pytest.mark.soak
def test_the_operator_starts_what_was_chosen_within_the_budget(
    drydock, project, make_spot_task, context, start, add_rows
):
    """Four hours, which the job may take, cost 0.92 USD on ml.m5.xlarge, and 1.84 on ml.m5.2xlarge."""
    add_rows(*(make_row(n, cpu_mean=790, memory_peak=5) for n in range(3)))
    on_demand = AUTO | {"deadline": "", "spot": False, "on_no_capacity": "next_instance_type"}
    _, choice = read_choice(drydock, start(make_spot_task(**on_demand, budget_usd=1.0), context))
    assert choice["instance_types"] == ["ml.m5.xlarge", "ml.m5.large"] and choice["predicted_usd"]


@pytest.mark.soak
def test_the_choice_is_within_what_is_left_of_the_month(drydock, project, make_spot_task, context, start, add_rows):
    """Four hours cost 0.92 USD on ml.m5.xlarge, and 1.84 on ml.m5.2xlarge, which is the cheaper one for this job."""
    (project / "params.yaml").write_text("budget: {project: dock, month_usd: 2.0}\n")
    fast = {"training_s": 600, "cpu_mean": 150, "memory_peak": 5}
    slow = {"instance_type": "ml.m5.xlarge", "training_s": 6_000, "cpu_mean": 150, "memory_peak": 5}
    add_rows(*(make_row(n, **fast) for n in range(3)), make_row(3, **slow))
    allowed = AUTO | {"deadline": "", "spot": False, "instance_types": ["ml.m5.xlarge", "ml.m5.2xlarge"]}
    assert read_choice(drydock, start(make_spot_task(**allowed), context))[0] == "ml.m5.2xlarge"
    spent = {"created": dt.datetime.now(dt.UTC), "project": "dock", "cost_usd": 1.0}
    add_rows(make_row(4, **fast, **spent))
    context["ti"].run_id = "later"
    assert read_choice(drydock, start(make_spot_task(**allowed), context))[0] == "ml.m5.xlarge"
    add_rows(make_row(5, **fast, **spent))
    context["ti"].run_id = "last"
    with pytest.raises(AirflowFailException, match=r"over what is left of the month's budget: would fit with 1\.84"):
        make_spot_task(**allowed).execute(context)


def test_a_worst_case_over_the_budget_says_what_would_fit(drydock, project, make_spot_task, context, add_rows):
    add_rows(*(make_row(n, cpu_mean=150, memory_peak=5) for n in range(3)))
    with pytest.raises(AirflowFailException, match=r"would fit with budget_usd=0\.46 or max_run_s=14086") as error:
        make_spot_task(**AUTO | {"deadline": "", "instance_types": ["ml.m5.large"]}, budget_usd=0.45).execute(context)
    assert "costs 0.4600 USD at worst" in str(error.value) and "\n" not in str(error.value)


def test_a_retry_keeps_the_type_of_the_running_job(
    drydock, project, make_spot_task, context, start, finish, add_rows, tmp_path
):
    add_rows()
    first = start(make_spot_task("wait", **AUTO), context)
    # Meanwhile, jobs on ml.m5.large were fast: a new choice would be another one.
    fast = {"instance_type": "ml.m5.large", "training_s": 3_000, "cpu_mean": 150, "memory_peak": 5}
    add_rows(*(make_row(n, **fast) for n in range(10, 16)))
    retry = make_spot_task("wait", **AUTO | {"deadline": "2020-01-01"})
    second = start(retry, context)
    assert second.trigger.wait.job_name == first.trigger.wait.job_name
    (tmp_path / "release").touch()
    result = finish(make_spot_task("wait", **AUTO), second)
    assert result["instance_type"] == "ml.m5.xlarge" and result["attempts"] == 1
    again = make_spot_task("wait", **AUTO).execute(context)
    assert again["training_job"] == result["training_job"]


@pytest.mark.soak
def test_a_new_run_chooses_again(drydock, project, make_spot_task, context, start, add_rows):
    add_rows()
    fast = {"instance_type": "ml.m5.large", "training_s": 3_000, "cpu_mean": 150, "memory_peak": 5}
    add_rows(*(make_row(n, **fast) for n in range(10, 16)))
    assert read_choice(drydock, start(make_spot_task(**AUTO), context))[0] == "ml.m5.large"


def test_without_past_jobs_the_first_allowed_type_is_used(drydock, project, make_spot_task, context, start):
    name, choice = read_choice(drydock, start(make_spot_task(**AUTO), context))
    assert name == "ml.m5.large" and choice["predicted_s"] is None
    assert "the first of the allowed types, because the ledger has no completed training" in choice["instance_choice"]


@pytest.mark.soak
def test_the_types_that_fit_are_tried_in_turn(drydock, project, make_spot_task, context, start, add_rows):
    add_rows()
    task = make_spot_task(**AUTO, on_no_capacity="next_instance_type")
    _, choice = read_choice(drydock, start(task, context))
    assert choice["instance_types"] == ["ml.m5.xlarge", "ml.m5.2xlarge", "ml.m5.4xlarge"]


def test_nothing_that_fits_fails_without_a_retry(drydock, project, make_spot_task, context, add_rows):
    add_rows()
    with pytest.raises(AirflowFailException, match=r"no instance type fits .* The fastest is ml\.m5\.4xlarge"):
        make_spot_task(**AUTO | {"deadline": "5m"}, budget_usd=0.01).execute(context)
    assert not [name for name in drydock.list_jobs() if "nothing-that-fits" in name]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"instance_types": None}, "needs instance_types"),
        ({"instance_types": ["ml.p3.2xlarge"]}, "ml.p3.2xlarge is retired. Use ml.g5.2xlarge"),
        ({"instance_types": ["ml.m5.lage"]}, "'ml.m5.lage' is not an instance type of SageMaker"),
        ({"deadline": str(dt.date(2020, 1, 1))}, "the deadline 2020-01-01 is in the past"),
        ({"instance_type": "ml.m5.large"}, "deadline of the task train has no effect without instance_type='auto'"),
        ({"workload": {"parms": 1}}, "workload: unknown key parms"),
        ({"workload": {"params": 7e9}}, "workload: tokens is missing"),
        ({"workload": {"params": "big", "tokens": 1}}, "workload: params 'big' is not a number"),
        ({"workload": "7e9"}, "workload of the task train must be a mapping .*: it is '7e9'"),
        ({"instance_types": "ml.m5.large"}, r"instance_types of the task train must be a list, .* is 'ml\.m5\.large'"),
        ({"instance_types": 5}, "instance_types of the task train must be a list, .*: it is 5"),
    ],
)
def test_wrong_fields_are_one_clear_line(fields, message, drydock, project, make_spot_task, context):
    with pytest.raises(AirflowFailException, match=message):
        make_spot_task(**AUTO | fields).execute(context)


def test_the_size_of_a_language_model_decides_where_it_fits(drydock, project, make_spot_task, context):
    with pytest.raises(AirflowFailException, match=r"no instance type fits .* it has no GPU"):
        make_spot_task(**AUTO | {"workload": {"params": 7e9, "tokens": 1e9, "method": "lora"}}).execute(context)
