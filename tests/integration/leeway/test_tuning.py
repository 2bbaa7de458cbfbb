"""Test TuningOperator with a real drydock: its request, its result, and that no trial is paid for twice."""

import asyncio
import json
import logging
import re
import subprocess
import sys
from dataclasses import asdict
from types import SimpleNamespace

import pytest
import yaml
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowException, AirflowFailException, TaskDeferred
from leeway.hooks.sagemaker.wait_for_job import WAITER_TAG
from leeway.hooks.tuning import trials as tuning_trials
from leeway.hooks.tuning.rounds import read_rounds
from leeway.hooks.tuning.trials import list_summaries
from leeway.operators.tuning import TuningOperator
from leeway.triggers.job import JobTrigger

from pipelines.costs.ledger import Ledger
from pipelines.tuning.sagemaker_job import METRIC_REGEX
from tests.tools.killed_worker import kill_worker
from tests.tools.tuning import QUICK_SCRIPT, write_features

LOG = logging.getLogger("tuning")
PLAN = {
    "space": {"rate": {"low": 0.0, "high": 1.0}},
    "strategy": "random",
    "trials": 3,
    "parallel": 2,
    "folds": 2,
    "fold_days": 3,
    "max_trial_s": 600,
}
SCRIPT = "import json" + QUICK_SCRIPT.replace(
    'Path(os.environ["SM_CHANNEL_TRAIN"], "diary")', 'Path(values["--diary"])'
).replace('"--x"', '"--rate"')
SCRIPT += """
folds = [{"loss": loss + 0.01}, {"loss": loss - 0.01}]
(output / "folds.json").write_text(json.dumps({"metric": "logloss", "folds": folds}))
"""
"""The quick script; SageMaker passes a hyperparameter with a name of one letter as -x, not as --x."""


@pytest.fixture
def tuning_project(project):
    """Write a project with a quick training script and a plan; return its folder."""
    (project / "train.py").write_text(SCRIPT)
    for name in ("validation", "holdout"):
        (project / "features" / name).mkdir()
        (project / "features" / name / "rows").write_text(name)
    write_plan(project)
    return project


def write_plan(project, **changes):
    """Write the sections `train` and `tune` of params.yaml."""
    hyperparameters = {"num_round": 4, "rate": 0.5, "diary": str(project.parent / "diary")}
    sections = {"train": {"hyperparameters": hyperparameters}, "tune": {**PLAN, **changes}}
    (project / "params.yaml").write_text(yaml.safe_dump(sections))


@pytest.fixture
def make_task(request, tuning_project):
    """Return the function that makes a new TuningOperator of the same task, as each try of a task does."""

    def make(mode="", **fields):
        features = tuning_project / "features"
        defaults = {
            "entry_point": "train.py",
            "bundle": "bundle.txt",
            "channels": {name: str(features / name) for name in ("train", "validation")},
            "hyperparameters": {"mode": mode} if mode else None,
            "image_uri": "image",
            "max_wait_s": 900,
            "check_interval_s": 1,
        }
        with DAG(re.sub(r"\W+", "-", request.node.name)):
            return TuningOperator(task_id="tune", **{**defaults, **fields})

    return make


def describe(drydock, name):
    """Return the description of a tuning job."""
    return drydock.client("sagemaker").describe_hyper_parameter_tuning_job(HyperParameterTuningJobName=name)


def list_tuning_jobs(drydock):
    """Return the names of all tuning jobs."""
    items, name = "HyperParameterTuningJobSummaries", "HyperParameterTuningJobName"
    return drydock.list_all("list_hyper_parameter_tuning_jobs", items, name)


def list_trials(drydock, name):
    """Return the names of the training jobs of a tuning job."""
    return [job for job in drydock.list_jobs() if job.startswith(f"{name}-")]


def read_starts(project):
    """Return the values of x with which trials began, in the order of their starts."""
    path = project.parent / "diary"
    lines = path.read_text().splitlines() if path.exists() else []
    return [line.split(" ")[1] for line in lines if line.endswith("start 0")]


def test_tuning_completes_and_returns_the_winner(drydock, tuning_project, make_task, context, start, finish, capsys):
    deferral = start(make_task(), context)
    name = deferral.trigger.wait.job_name
    assert len(name) <= 32 and name.endswith("-1")
    result = finish(make_task(), deferral)
    assert (result["tuning_job"], result["status"], result["trials"]) == (name, "Completed", 3)
    assert (result["failed"], result["stopped"], result["attempts"]) == (0, 0, 1)
    x = result["hyperparameters"]["rate"]
    assert result["objective"] == pytest.approx((x - 0.3) ** 2 + 1 / 4)
    assert sorted(read_starts(tuning_project)) != [] and repr(x) in read_starts(tuning_project)
    record = result["record"]
    assert record == {
        "name": name,
        "trials": 3,
        "earlier_trials": 0,
        "stopped": 0,
        "strategy": "random",
        "metric": "logloss",
        "objective": result["objective"],
        "fold_losses": pytest.approx([result["objective"] + 0.01, result["objective"] - 0.01]),
        "hyperparameters": {"rate": x},
    }
    rows = [row for row in Ledger.open().read_rows() if row["name"] in list_trials(drydock, name)]
    assert len(rows) == 3 and {row["task_id"] for row in rows} == {"tune"}
    assert result["cost_usd"] == pytest.approx(sum(row["cost_usd"] for row in rows))
    assert re.search(r"trial .* \(rate .*\) Completed: 0\.\d+", capsys.readouterr().out)
    # Another try collects the same winner, and starts nothing.
    assert make_task().execute(context) == result
    assert len(read_starts(tuning_project)) == 3


def test_request_has_the_plan_and_no_holdout(drydock, tuning_project, make_task, context, start):
    write_plan(tuning_project, strategy="hyperband", seed=5, max_hours=1)
    deferral = start(make_task(instance_type="ml.m5.xlarge", max_run_s="100", environment={"MORE": "yes"}), context)
    name = deferral.trigger.wait.job_name
    job = describe(drydock, name)
    drydock.client("sagemaker").stop_hyper_parameter_tuning_job(HyperParameterTuningJobName=name)
    config, definition = job["HyperParameterTuningJobConfig"], job["TrainingJobDefinition"]
    assert (config["Strategy"], config["RandomSeed"]) == ("Hyperband", 5)
    assert config["StrategyConfig"] == {"HyperbandStrategyConfig": {"MinResource": 1, "MaxResource": 5}}
    assert config["ResourceLimits"] == {
        "MaxNumberOfTrainingJobs": 3,
        "MaxParallelTrainingJobs": 2,
        "MaxRuntimeInSeconds": 3_600,
    }
    assert {channel["ChannelName"] for channel in definition["InputDataConfig"]} == {"train", "validation"}
    assert definition["EnableManagedSpotTraining"] is True
    assert definition["StoppingCondition"] == {"MaxRuntimeInSeconds": 100, "MaxWaitTimeInSeconds": 900}
    assert definition["ResourceConfig"]["InstanceType"] == "ml.m5.xlarge"
    assert definition["CheckpointConfig"]["S3Uri"].startswith("s3://leeway/leeway/checkpoints/")
    assert definition["Environment"]["MORE"] == "yes" and definition["Environment"]["LEEWAY_GIT_COMMIT"]
    static = definition["StaticHyperParameters"]
    assert (static["folds"], static["fold_days"], static["num_round"]) == ("2", "3", "4")
    assert "rate" not in static, "the value of section train gives way to the searched one"


@pytest.mark.soak
def test_worker_killed_after_creating_the_tuning_job_leaves_one(drydock, tuning_project, make_task, context, finish):
    task = make_task()
    names = ("entry_point", "bundle", "image_uri", "max_wait_s", "channels")
    kill_worker(task, names, "leeway.hooks.sagemaker.wait_for_job:_create_job")
    base = task._make_job_task(context).jobs.base
    assert [name for name in list_tuning_jobs(drydock) if name.startswith(base)] == [f"{base}-1"]
    try:
        result = task.execute(context)
    except TaskDeferred as deferral:
        result = finish(make_task(), deferral)
    assert (result["tuning_job"], result["trials"]) == (f"{base}-1", 3)
    assert [name for name in list_tuning_jobs(drydock) if name.startswith(base)] == [f"{base}-1"]
    assert len(read_starts(tuning_project)) == 3, "no trial ran twice"


def test_stopped_tuning_goes_on_with_the_trials_that_are_left(
    drydock, tuning_project, make_task, context, start, finish, until
):
    write_plan(tuning_project, trials=4, parallel=1)
    first = start(make_task(), context)
    name = first.trigger.wait.job_name
    until(lambda: describe(drydock, name)["ObjectiveStatusCounters"]["Succeeded"] >= 1)
    drydock.client("sagemaker").stop_hyper_parameter_tuning_job(HyperParameterTuningJobName=name)
    with pytest.raises(AirflowException, match="was stopped by somebody") as error:
        finish(make_task(), first)
    assert type(error.value) is AirflowException
    finished = describe(drydock, name)["TrainingJobStatusCounters"]["Completed"]
    second = start(make_task(), context)
    next_job = describe(drydock, second.trigger.wait.job_name)
    assert next_job["HyperParameterTuningJobConfig"]["ResourceLimits"]["MaxNumberOfTrainingJobs"] == 4 - finished
    assert next_job["WarmStartConfig"] == {
        "ParentHyperParameterTuningJobs": [{"HyperParameterTuningJobName": name}],
        "WarmStartType": "IdenticalDataAndAlgorithm",
    }
    result = finish(make_task(), second)
    assert (result["tuning_job"], result["attempts"]) == (f"{name[:-1]}2", 2)
    assert result["trials"] - result["stopped"] == 4, "a trial that the end of the tuning job stopped does not count"
    assert result["record"]["stopped"] == result["stopped"] >= 1 and result["pruned"] == 0
    assert result["objective"] == min(
        job["BestTrainingJob"]["FinalHyperParameterTuningJobObjectiveMetric"]["Value"]
        for job in (describe(drydock, name), describe(drydock, result["tuning_job"]))
        if "BestTrainingJob" in job
    )


@pytest.mark.soak
def test_stopped_grid_goes_on_with_the_points_that_are_left(
    drydock, tuning_project, make_task, context, start, finish, until
):
    space = {"rate": [0.1, 0.2, 0.4], "depth": [1, 2]}
    write_plan(tuning_project, strategy="grid", space=space, trials=6, parallel=1)
    first = start(make_task(), context)
    name = first.trigger.wait.job_name
    until(lambda: describe(drydock, name)["TrainingJobStatusCounters"]["Completed"] >= 1)
    drydock.client("sagemaker").stop_hyper_parameter_tuning_job(HyperParameterTuningJobName=name)
    with pytest.raises(AirflowException, match="was stopped by somebody"):
        finish(make_task(), first)
    result = finish(make_task(), start(make_task(), context))
    points = [
        json.dumps(summary["TunedHyperParameters"], sort_keys=True)
        for number in range(1, result["attempts"] + 1)
        for summary in list_summaries(drydock.client("sagemaker"), f"{name[:-1]}{number}", LOG)
        if summary["TrainingJobStatus"] == "Completed"
    ]
    assert len(points) == len(set(points)) == 6, "each point was tried, and none is paid twice"
    assert result["trials"] - result["stopped"] == 6 and result["attempts"] >= 2
    assert result["objective"] == pytest.approx(0.1**2 + 1 / 4)
    assert make_task().execute(context) == result, "another try starts nothing"


@pytest.mark.soak
def test_more_trials_continue_a_completed_tuning(drydock, tuning_project, make_task, context, start, finish):
    write_plan(tuning_project, trials=2)
    finish(make_task(), start(make_task(), context))
    write_plan(tuning_project, trials=3)
    result = finish(make_task(), start(make_task(), context))
    assert (result["trials"], result["attempts"]) == (3, 2)
    assert len(set(read_starts(tuning_project))) == 3
    write_plan(tuning_project, trials=1)
    assert make_task().execute(context)["trials"] == 3, "the trials are paid for: fewer of them start no tuning job"
    # This is the negative control: another space is another search, of which no trial has run.
    write_plan(tuning_project, trials=3, space={"rate": {"low": 0.0, "high": 0.5}})
    assert finish(make_task(), start(make_task(), context))["trials"] == 3
    assert len(read_starts(tuning_project)) == 6


@pytest.mark.soak
def test_search_starts_from_the_tuning_job_of_another_task(drydock, tuning_project, make_task, context, start, finish):
    earlier = finish(make_task(), start(make_task(), context))["tuning_job"]
    context["ti"] = SimpleNamespace(run_id="other", map_index=-1, try_number=1)
    deferral = start(make_task(warm_start=earlier), context)
    job = describe(drydock, deferral.trigger.wait.job_name)
    assert job["WarmStartConfig"] == {
        "ParentHyperParameterTuningJobs": [{"HyperParameterTuningJobName": earlier}],
        "WarmStartType": "TransferLearning",
    }
    record = finish(make_task(warm_start=earlier), deferral)["record"]
    assert (record["trials"], record["earlier_trials"]) == (3, 3)


def test_tuning_is_stopped_when_it_exceeds_its_budget(
    drydock, tuning_project, make_task, context, start, finish, monkeypatch
):
    """The limit of the wait is lowered after the start: before it, the worst case of all trials was allowed."""
    write_plan(tuning_project, budget_usd=1.0)
    deferral = start(make_task(hyperparameters={"round_s": 60}), context)
    assert deferral.trigger.wait.budget_usd == 1.0 and deferral.trigger.wait.price_usd_h
    deferral.trigger = type(deferral.trigger)(**{**deferral.trigger.serialize()[1], "budget_usd": 1e-6})
    with pytest.raises(AirflowFailException, match=r"was stopped: it cost .* USD, and the run's budget_usd"):
        finish(make_task(hyperparameters={"round_s": 60}), deferral)
    assert describe(drydock, deferral.trigger.wait.job_name)["HyperParameterTuningJobStatus"] == "Stopped"


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        ("crash", "trial .*x is wrong"),
        ("silent", r"no line of a trial's log has the objective. The training script must log tuning-objective:NUMBER"),
    ],
)
def test_failed_tuning_says_why(drydock, tuning_project, make_task, context, start, finish, mode, message):
    deferral = start(make_task(mode), context)
    with pytest.raises(AirflowFailException, match=message) as error:
        finish(make_task(mode), deferral)
    assert "\n" not in str(error.value)


def test_objective_that_is_nan_ends_the_tuning_and_is_named(drydock, tuning_project, make_task, context, start, finish):
    write_plan(tuning_project, trials=12)
    deferral = start(make_task("all nan"), context)
    with pytest.raises(
        AirflowFailException, match=r"the last objective in the log of trial .*-001-\w+ is nan"
    ) as error:
        finish(make_task("all nan"), deferral)
    assert "\n" not in str(error.value) and "no line of" not in str(error.value)
    assert len(list_trials(drydock, deferral.trigger.wait.job_name)) <= 6, "nothing runs on"


@pytest.mark.parametrize(
    ("plan", "fields", "message"),
    [
        ({"budget_usd": 0.01}, {}, r"the worst case, 3 trials of 1 x ml.m5.large .* more than the run's budget of"),
        ({}, {"budget_usd": 0.04}, r"more than the run's budget of 0.0400 USD"),
        ({"space": {}}, {}, "the space is empty, so there is nothing to search"),
        ({"trials": 0}, {}, "trials"),
        ({}, {"plan": {"trials": "many"}}, "the plan of the task tune: trials"),
        ({"space": {"rate": {"low": 0, "high": 1, "step": 0.5}}}, {}, "SageMaker's ranges have no step"),
        (
            {"strategy": "hyperband"},
            {"hyperparameters": {"num_round": "many"}},
            "num_round is 'many': it must be a whole",
        ),
        ({}, {"hyperparameters": {"rate": 1}}, "hyperparameters of the task tune has rate"),
        ({}, {"warm_start": "no-such-job"}, "the tuning job no-such-job does not exist"),
        ({"strategy": "hyperband"}, {"warm_start": "a"}, "bayesian and random only, not for hyperband"),
        ({}, {"max_run_s": 1_000}, r"max_wait_s \(900\) must be at least max_run_s"),
        ({}, {"channels": {"train": "s3://leeway/x/", "holdout": "s3://leeway/y/"}}, "not holdout: the gate's holdout"),
        (
            {},
            {"channels": {"train": "s3://leeway/f/train/", "validation": "s3://leeway/f/holdout/"}},
            "channel validation of the task tune is s3://leeway/f/holdout/, which is or contains the holdout",
        ),
        ({}, {"config": {"HyperParameterTuningJobName": "mine"}}, "config must not have HyperParameterTuningJobName"),
        ({}, {"config": {"Colour": "red"}}, "SageMaker would refuse the request: .*Colour"),
    ],
)
def test_wrong_plan_or_field_is_refused_before_anything_is_created(
    drydock, tuning_project, make_task, context, plan, fields, message
):
    write_plan(tuning_project, **plan)
    jobs = list_tuning_jobs(drydock)
    with pytest.raises(AirflowFailException, match=message) as error:
        make_task(**fields).execute(context)
    assert "\n" not in str(error.value)
    assert list_tuning_jobs(drydock) == jobs and read_starts(tuning_project) == []


def test_task_without_a_plan_is_refused(drydock, tuning_project, make_task, context):
    (tuning_project / "params.yaml").write_text("train: {hyperparameters: {num_round: 4}}")
    with pytest.raises(AirflowFailException, match="has no space to search: write section tune"):
        make_task().execute(context)


def test_default_script_is_tuned_without_the_holdout_and_its_trials_are_nested_runs(
    drydock, with_mlflow, make_task, tuning_project, context, start, finish, tmp_path
):
    from mlflow import MlflowClient

    features = tmp_path / "small"
    write_features(features)
    (features / "holdout").mkdir()
    (features / "holdout" / "data.parquet").write_bytes(b"\xff" * 100)
    fixed = {"num_round": 8, "nthread": 1}
    space = {"max_depth": [2, 4], "eta": {"low": 0.1, "high": 0.5, "log": True}}
    sections = {"train": {"hyperparameters": fixed}, "tune": {**PLAN, "space": space, "trials": 2}}
    (tuning_project / "params.yaml").write_text(yaml.safe_dump(sections))
    earlier_uploads = set(drydock.list_uploads())
    channels = {name: str(features / name) for name in ("train", "validation")}
    script = {"entry_point": "pipelines/defaults/training.py", "bundle": "pipelines/defaults/bundle.txt"}
    result = finish(make_task(channels=channels, **script), start(make_task(channels=channels, **script), context))
    record = result["record"]
    assert record["metric"] == "logloss" and len(record["fold_losses"]) == 2
    assert sum(record["fold_losses"]) / 2 == pytest.approx(result["objective"], rel=1e-6)
    assert set(record["hyperparameters"]) == {"max_depth", "eta"} and record["hyperparameters"]["max_depth"] in (2, 4)
    client = MlflowClient(with_mlflow)
    parent = client.get_run(result["run_id"])
    assert parent.data.metrics["objective"] == pytest.approx(result["objective"])
    assert (parent.data.metrics["trials"], parent.info.status) == (2, "FINISHED")
    query = f"tags.`mlflow.parentRunId` = '{result['run_id']}'"
    children = client.search_runs([parent.info.experiment_id], query)
    assert len(children) == 2 and {run.data.tags["leeway.trial_state"] for run in children} == {"complete"}
    assert sum(run.data.metrics["cost_usd"] for run in children) == pytest.approx(result["cost_usd"])
    assert min(run.data.metrics["objective"] for run in children) == pytest.approx(result["objective"])
    report = {path.path for path in client.list_artifacts(result["run_id"], "report")}
    names = ("report.html", "history.png", "rounds.png", "parallel.png", "trials.csv")
    assert {f"report/{name}" for name in names} <= report
    command = [sys.executable, "-m", "pipelines", "tune", "report", "--json", "--tuning", result["run_id"]]
    shown = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert shown["winner"] == record and len(shown["trials"]) == 2
    assert shown["report"] == f"report.html among the artifacts of run {result['run_id']}"
    # Another try records the same rounds once.
    assert make_task(channels=channels, **script).execute(context) == result
    for run in children:
        rounds = client.get_metric_history(run.info.run_id, "objective_of_round")
        assert [metric.step for metric in rounds] == list(range(1, 9))
        assert min(metric.value for metric in rounds) == pytest.approx(run.data.metrics["objective"])
    uploads = set(drydock.list_uploads()) - earlier_uploads
    assert uploads and not [key for key in uploads if "holdout" in key]


@pytest.mark.soak
def test_rounds_of_completed_and_stopped_trials_are_in_their_logs(
    drydock, tuning_project, make_task, context, start, finish, until
):
    write_plan(tuning_project, trials=2, parallel=1)
    deferral = start(make_task(hyperparameters={"round_s": 0.5}), context)
    name = deferral.trigger.wait.job_name
    until(lambda: any("[0]" in line for trial in list_trials(drydock, name) for line in drydock.read_log(trial)))
    stopped = list_trials(drydock, name)[0]
    drydock.stop_job(stopped)
    assert finish(make_task(hyperparameters={"round_s": 0.5}), deferral)["stopped"] == 1
    trials = tuning_trials.list_trials(drydock.client("sagemaker"), [describe(drydock, name)], LOG)
    rounds = read_rounds(drydock.client("logs"), trials, METRIC_REGEX, LOG)
    (completed,) = rounds.keys() - {stopped}
    assert list(rounds[completed]) == [1, 2, 3, 4] and rounds[completed][4] < rounds[completed][1]
    assert list(rounds[stopped]) == list(range(1, len(rounds[stopped]) + 1)) and 0 < len(rounds[stopped]) < 4
    # A regular expression that finds nothing is the negative control.
    assert set(map(len, read_rounds(drydock.client("logs"), trials, "no such text (.*)", LOG).values())) == {0}


def test_clear_or_mark_stops_the_tuning_job_and_its_trials(drydock, make_task, context, start, until):
    deferral = start(make_task(hyperparameters={"round_s": 60}), context)
    name = deferral.trigger.wait.job_name
    trigger = JobTrigger(**asdict(deferral.trigger.wait))
    trigger.task_instance = SimpleNamespace(id="1", task_id="tune", task=None)
    until(lambda: list_trials(drydock, name))

    async def wait_and_kill():
        run = asyncio.create_task(anext(trigger.run()))
        client = drydock.client("sagemaker")
        arn = describe(drydock, name)["HyperParameterTuningJobArn"]
        for _ in range(100):
            if [tag for tag in client.list_tags(ResourceArn=arn)["Tags"] if tag["Key"] == WAITER_TAG]:
                break
            await asyncio.sleep(0.1)
        else:
            pytest.fail("the tuning job has no tag of the trigger that waits for it")
        run.cancel()
        await trigger.on_kill()

    asyncio.run(wait_and_kill())
    until(lambda: describe(drydock, name)["HyperParameterTuningJobStatus"] == "Stopped")
    states = {drydock.describe_job(trial)["TrainingJobStatus"] for trial in list_trials(drydock, name)}
    assert states == {"Stopped"}
