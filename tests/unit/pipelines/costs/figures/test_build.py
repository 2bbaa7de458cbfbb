"""Test the key figures on rows whose figures are computed by hand, and what is said where the ledger lacks a value."""

import datetime as dt
import math

import pytest

from pipelines.costs.figures.build import build_key_figures
from pipelines.costs.figures.targets import Targets
from pipelines.costs.periods import Period
from pipelines.errors import DataError, SpecError
from tests.unit.pipelines.costs.ledger_rows import BEGIN, HOUR, make_row

WEEK = Period(BEGIN, BEGIN + dt.timedelta(days=7), "a week")


def build(*rows, period=WEEK, **targets):
    """Return the key figures by name."""
    figures = build_key_figures(rows, period, Targets.parse(targets, "targets"))
    return {figure.name: figure for figure in figures}


def test_success_leaves_out_what_a_person_stopped_but_not_what_reached_its_longest_time():
    rows = [make_row(f"j{n}") for n in range(18)]
    rows += [make_row("f", status="Failed"), make_row("s", status="Stopped", secondary_status="Stopped")]
    success = build(*rows)["job_success"]
    assert (success.value, success.target, success.is_met, success.jobs) == (
        pytest.approx(18 / 19, abs=1e-6),
        0.95,
        False,
        19,
    )
    late_row = make_row("l", status="Stopped", secondary_status="MaxWaitTimeExceeded")
    assert build(*rows, late_row)["job_success"].value == 0.9
    assert build(*rows, min_job_success=0.94)["job_success"].is_met
    assert build(*rows[:18])["job_success"].is_met


def test_wait_is_that_of_95_percent_of_the_jobs_and_of_those_with_high_priority():
    rows = [make_row(f"j{n}", first_capacity_s=100.0 * n) for n in range(1, 21)]
    figures = build(*rows)
    assert (figures["queue_wait"].value, figures["queue_wait"].is_met) == (1_900, False)
    assert figures["priority_queue_wait"].value is None
    assert "no job has the priority high" in figures["priority_queue_wait"].reason
    assert figures["priority_queue_wait"].is_met is None
    urgent_figures = build(*rows, make_row("u", first_capacity_s=299.0, priority="high"))
    assert (urgent_figures["priority_queue_wait"].value, urgent_figures["priority_queue_wait"].is_met) == (299, True)


def test_spot_share_and_saving_are_weighted_by_instance_hours():
    on_demand_row = make_row("d", hours=3, instance_count=2, spot=False, cost_usd=6.0, on_demand_usd=6.0)
    processing_row = make_row("p", hours=99, arn="arn:aws:sagemaker:us-east-1:1:processing-job/p", spot=False)
    figures = build(make_row(hours=2), on_demand_row, processing_row)
    assert (figures["spot_share"].value, figures["spot_share"].is_met) == (0.25, False)
    assert (figures["spot_saving"].value, figures["spot_saving"].target, figures["spot_saving"].is_met) == (
        0.5,
        None,
        None,
    )
    assert build(processing_row)["spot_share"].reason == "no training ran in this time"


def test_restored_checkpoints_count_interrupted_jobs_that_started_again():
    good_row = make_row("a", interruptions=2, resumes=2)
    cold_row = make_row("b", interruptions=2, resumes=1, cold_starts=1)
    silent_row = make_row("c", interruptions=1)
    figure = build(good_row, cold_row, silent_row, make_row("d"))["restored_checkpoints"]
    assert (figure.value, figure.jobs, figure.is_met) == (0.5, 2, False)
    assert build(good_row)["restored_checkpoints"].is_met
    assert build(make_row())["restored_checkpoints"].reason == "no job was interrupted"
    old_row = make_row("e", interruptions=1, resumes=None, cold_starts=None)
    assert "none of the 1 interrupted jobs reported" in build(old_row)["restored_checkpoints"].reason


def test_gpu_use_counts_the_gpus_of_an_instance():
    four_row = make_row("a", instance_type="ml.g5.12xlarge", gpu_mean=320.0)  # 80 % of four GPUs
    one_row = make_row("b", instance_type="ml.g5.xlarge", hours=4, gpu_mean=40.0)
    unknown_row = make_row("c", instance_type="ml.g5.xlarge", hours=50)
    figure = build(four_row, one_row, unknown_row, make_row("d"))["gpu_use"]
    assert (figure.value, figure.jobs, figure.is_met) == (pytest.approx(0.6), 2, False)
    assert build(unknown_row)["gpu_use"].reason == "CloudWatch has no data on the utilization of the GPUs"
    assert "no job ran on an instance type with known GPUs" in build(make_row())["gpu_use"].reason


def test_experiment_is_a_dag_run_with_its_attempts():
    run = {"dag_id": "train", "run_id": "r1", "user": "ada"}
    rows = [
        make_row("a", status="Failed", **run),
        make_row("b", BEGIN + 2 * HOUR, **run),
        make_row("c", hours=3, user="bob"),
        make_row("d", status="Failed", dag_id="train", run_id="r2"),
    ]
    figures = build(*rows)
    assert (figures["experiment_usd"].value, figures["experiment_usd"].jobs) == (1.5, 2)
    assert figures["experiments_per_person_week"].value == 1
    assert figures["result_time"].value == 3 * 3_600
    assert (
        build(*rows, period=Period(BEGIN, BEGIN + dt.timedelta(days=14), ""))["experiments_per_person_week"].value
        == 0.5
    )
    assert "has a user" in build(make_row())["experiments_per_person_week"].reason
    assert build(rows[-1])["result_time"].reason == "no training that was created in this time has completed"
    assert build(*rows, max_experiment_usd=1.5)["experiment_usd"].is_met


def test_time_to_a_result_begins_in_the_queue_in_which_the_first_job_waited():
    rows = [make_row("a", queue_s=7_200.0), make_row("b", BEGIN + 2 * HOUR, queue_s=1.0)]
    for row in rows:
        row |= {"dag_id": "train", "run_id": "r1"}
    assert build(*rows)["result_time"].value == (2 + 3) * 3_600
    assert build(make_row(queue_s=None))["result_time"].value == 3_600


def test_nothing_is_known_of_an_empty_ledger_and_jobs_outside_of_the_time_do_not_count():
    for figures in (build(), build(make_row(created=BEGIN - HOUR))):
        assert {figure.value for figure in figures.values()} == {None}
        assert {figure.is_met for figure in figures.values()} == {None}
        assert all(figure.reason for figure in figures.values())


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"training_s": -1}, "training_s is -1"),
        ({"cost_usd": math.nan}, "cost_usd is nan"),
        ({"on_demand_usd": None}, "on_demand_usd is None"),
        ({"ended": BEGIN - HOUR}, "ended (2026-11-02 07:00:00) is before created (2026-11-02 08:00:00)"),
    ],
)
def test_damaged_row_is_named(fields, text):
    with pytest.raises(DataError) as caught:
        build(make_row("j-7", **fields))
    assert f"the ledger's row of j-7 is damaged: {text}." in str(caught.value)


@pytest.mark.parametrize(
    "targets",
    [
        {"min_job_success": 1.01},
        {"min_gpu_use": -0.1},
        {"max_queue_wait_s": -1},
        {"max_result_time_s": math.inf},
        {"x": 1},
    ],
)
def test_target_out_of_range_is_refused(targets):
    with pytest.raises(SpecError) as caught:
        build(**targets)
    assert "\n" not in str(caught.value) and next(iter(targets)) in str(caught.value)
