"""The operator that searches for hyperparameters with a SageMaker tuning job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow.providers.amazon.aws.operators.sagemaker import SageMakerTuningOperator

from leeway.hooks.sagemaker.priority import Priority
from leeway.hooks.tuning.fields import TuningFields
from leeway.hooks.tuning.task import TuningTask
from leeway.operators.job import SageMakerJobOperator
from pipelines.tuning.sagemaker_job import METRIC_REGEX


class TuningOperator(SageMakerJobOperator, SageMakerTuningOperator):
    """Search for the hyperparameters of a model: trials on managed spot, judged on folds of the training window.

    Section `tune` of the model's parameters is the plan: space, strategy, number of trials, folds. A trial runs the
    training script with `folds` and `fold_days`, and never reads the holdout.

    The tuning job's name depends on DAG, run, task and map index. After a retry, a cleared task or a killed worker, the
    task finds the tuning job, and waits for it or, if it completed, collects its winner. If it failed or was stopped,
    the next tuning job runs only the trials that are left; with the strategies bayesian and random, it learns from the
    earlier trials. What is left of a grid may take several tuning jobs, one after the other. So no finished trial is
    paid for twice. The task waits in the triggerer, and its log has a line for each trial that starts or ends. If a
    person clears the task or marks its state, the tuning job and its trials are stopped. Each trial is a row in the
    ledger of costs, and an MLflow run below the run of the tuning. Idempotent.

    Args:
        channels: `train` and `validation`, each with a folder or an s3:// prefix (templated). A folder is uploaded,
            unless S3 has the same content already. Other channels are refused, and so is the folder of the holdout.
        plan: keys of section `tune` with other values, such as {"trials": 10} (templated). A value that is "" or
            "None" is left out.
        warm_start: name of an ended tuning job of another task, or several names (templated): the search learns from
            its trials. For the strategies bayesian and random. The key `warm_start` of section `tune` is not used: it
            names a search on this machine.
        entry_point: training script, relative to `code`. By default it is Leeway's own script.
        bundle: text file that lists the other files that the script needs, relative to `code`.
        code: folder of the script, its other files and params.yaml (templated), such as the workspace of
            DvcReproOperator; by default LEEWAY_PROJECT.
        hyperparameters: hyperparameters of all trials (templated), beside those of section `train` of params.yaml,
            which they override. They may not include a searched hyperparameter.
        metric_regex: regular expression of the objective in the log of the script. Less is better.
        role_arn: execution role of the trials (templated); by default the environment's LEEWAY_ROLE_ARN.
        bucket: S3 bucket of channels, code, checkpoints and output (templated); by default LEEWAY_BUCKET.
        prefix: key prefix in the bucket (templated).
        framework: framework of the training image, as the sagemaker SDK names it.
        framework_version: version of the framework's image, as the sagemaker SDK names it.
        image_uri: training image of your own (templated); instead of a framework.
        instance_type: instance type of a trial (templated); by default that of section `tune`.
        instance_count: number of instances of a trial (templated). Leeway's own script trains folds on one instance.
        volume_size_gb: size of each instance's disk, GB (templated).
        spot: whether to use managed spot; if not, instances on demand.
        max_run_s: longest time of a trial, seconds (templated); by default `max_trial_s` of section `tune`.
        max_wait_s: longest time from a trial's creation to its end, seconds, including the wait for spot instances; at
            least max_run_s, by default twice as long (templated).
        budget_usd: highest cost of all trials together, US dollars (templated); by default that of section `tune`. The
            tuning job is not started if all trials together may cost more, and it is stopped when its cost exceeds the
            budget.
        project: project to which the cost is charged (templated); by default the one in params.yaml, section `budget`.
        model: registered model (templated), whose parameters give the plan and the hyperparameters.
        environment: variables of the script (templated). No secrets: they show in the UI.
        config: more fields of the request to CreateHyperParameterTuningJob (templated): mappings are merged into the
            task's own, other values replace the task's. `config` may not have the job's name, its tags or its number of
            trials.
        check_interval_s: seconds between two requests for the state of the tuning job and its trials (templated).
        priority: `low`, `normal` or `high`: which tasks Airflow starts first when the task's pool has few free slots,
            by priority_weight. A job that runs is not interrupted. Empty: normal.
        deferrable: whether to wait in the triggerer; if not, the task waits in the worker.
        python: interpreter of the environment that has the ML libraries (templated); if empty, LEEWAY_PYTHON, or else
            the interpreter that runs Airflow.
        env: more environment variables for the steps (templated). No secrets: they show in the UI.

    Returns:
        tuning_job, tuning_job_arn, status; of the winner training_job, hyperparameters, objective; of all attempts
        together trials, pruned, stopped (by a limit or a person), failed, attempts, cost_usd; record (for `tuning` of
        SpotTrainingOperator); run_id (of the tuning's MLflow run; empty if there is none).
    """

    job_task_class = TuningTask
    job_fields_class = TuningFields
    template_fields: Sequence[str] = (
        *("aws_conn_id", "region_name", "verify", "channels", "plan", "warm_start", "hyperparameters", "role_arn"),
        *("bucket", "prefix", "code", "image_uri", "environment", "config", "python", "env", "budget_usd", "project"),
        *("model", "check_interval_s", "instance_type", "instance_count", "volume_size_gb", "max_run_s", "max_wait_s"),
    )
    ui_color = "#fbe6c9"

    def __init__(
        self,
        *,
        channels: Mapping[str, str],
        plan: Mapping[str, Any] | None = None,
        warm_start: str | Sequence[str] | None = None,
        entry_point: str = "pipelines/defaults/training.py",
        bundle: str = "pipelines/defaults/bundle.txt",
        code: str = "",
        hyperparameters: Mapping[str, Any] | None = None,
        metric_regex: str = METRIC_REGEX,
        role_arn: str = "",
        bucket: str = "",
        prefix: str = "leeway",
        framework: str = "xgboost",
        framework_version: str = "3.2-0",
        image_uri: str = "",
        instance_type: str = "",
        instance_count: int | str = 1,
        volume_size_gb: int | str = 30,
        spot: bool = True,
        max_run_s: int | str | None = None,
        max_wait_s: int | str | None = None,
        budget_usd: float | str | None = None,
        project: str = "",
        model: str = "",
        environment: Mapping[str, str] | None = None,
        config: Mapping[str, Any] | None = None,
        check_interval_s: int | str = 30,
        priority: Priority = "",
        deferrable: bool = True,
        python: str = "",
        env: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(config=config or {}, deferrable=deferrable, priority=priority, **kwargs)
        self.channels, self.plan, self.warm_start, self.metric_regex = channels, plan, warm_start, metric_regex
        self.entry_point, self.bundle, self.code, self.hyperparameters = entry_point, bundle, code, hyperparameters
        self.role_arn, self.bucket, self.prefix, self.image_uri = role_arn, bucket, prefix, image_uri
        self.framework, self.framework_version, self.instance_type = framework, framework_version, instance_type
        self.instance_count, self.volume_size_gb, self.spot = instance_count, volume_size_gb, spot
        self.max_run_s, self.max_wait_s, self.budget_usd = max_run_s, max_wait_s, budget_usd
        self.project, self.model, self.environment = project, model, environment
        self.check_interval_s, self.python, self.env = check_interval_s, python, env
