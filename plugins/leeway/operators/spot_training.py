"""The operator that trains on SageMaker managed spot instances."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from airflow.providers.amazon.aws.operators.sagemaker import SageMakerTrainingOperator
from airflow.triggers.base import BaseTrigger

from leeway.hooks.sagemaker.machines import OnNoCapacity
from leeway.hooks.sagemaker.priority import Priority
from leeway.hooks.sagemaker.wait import JobWait
from leeway.hooks.step import metrics
from leeway.hooks.training.fields import TrainingFields
from leeway.hooks.training.queue.wait import QueuedJobWait
from leeway.hooks.training.queue.wait_in_queue import submit_and_wait_for_job
from leeway.hooks.training.task import TrainingTask
from leeway.operators.job import SageMakerJobOperator
from leeway.triggers.queued_job import QueuedJobTrigger


class SpotTrainingOperator(SageMakerJobOperator, SageMakerTrainingOperator):
    """Train a model on SageMaker managed spot instances.

    The job's name depends on DAG, run, task and map index. Before the task starts a job, it looks for a job with that
    name and the same inputs. If the job runs, the task waits for it; if it completed, the task collects its result. If
    it failed, was stopped or has other inputs, the task starts a job with the next name, which resumes from the same
    checkpoints if the inputs are the same. So no second job is paid for after a retry, a killed worker, or a clear of a
    task that succeeded. The task waits in the triggerer, and shows the job's log in its own. If a person clears the
    waiting task or marks its state, the job is stopped. Idempotent.

    Args:
        channels: for each channel, its name and a folder or an s3:// prefix (templated). A folder is uploaded, unless
            S3 has the same content already.
        entry_point: training script, relative to `code`. The job runs `python NAME --hyperparameter value ...`. By
            default it is Leeway's own script, which trains gradient-boosted trees.
        bundle: text file that lists the other files that the script needs, relative to `code`.
        code: folder of the script, its other files and params.yaml (templated), such as the workspace of
            DvcReproOperator, so that features and model come from the same commit; by default LEEWAY_PROJECT.
        hyperparameters: hyperparameters of the script (templated); they override those of section `train` of
            params.yaml.
        tuning: record of the tuning that found hyperparameters: `tune.output["record"]` of TuningOperator (templated).
            Its hyperparameters replace those of section `train`, and the gate's report compares the tuning's best
            trial with this training.
        role_arn: execution role of the job (templated); by default the environment's LEEWAY_ROLE_ARN.
        bucket: S3 bucket of channels, code, checkpoints and models (templated); by default LEEWAY_BUCKET.
        prefix: key prefix in the bucket (templated).
        framework: framework of the training image, as the sagemaker SDK names it.
        framework_version: version of the framework's image, as the sagemaker SDK names it.
        image_uri: training image of your own (templated); instead of a framework.
        instance_type: instance type, such as ml.m5.large (templated). With "auto", it is chosen among instance_types:
            the cheapest with which the job ends before the deadline and within max_run_s and max_wait_s, and whose
            highest possible cost is within budget_usd. The prediction uses past jobs in the ledger and the size of the
            channels, or `workload`. A retry that finds a job of this task uses the instance type of that job.
        instance_types: several types to try in turn with on_no_capacity="next_instance_type" (templated); instead of
            instance_type. With instance_type="auto", the types that are allowed, or patterns such as ml.m5.*; the
            first one that may start is used if nothing is known about the training.
        deadline: when the training must have ended (templated), for instance_type="auto": a duration such as 24h, or a
            time in UTC, such as {{ data_interval_end + macros.timedelta(hours=6) }}. The wait in a job_queue is not
            predicted: the deadline must leave time for this wait.
        workload: size of the language model that is trained (templated), for instance_type="auto", in place of past
            jobs: {"params": 7e9, "tokens": 1e9, "method": "lora"}.
        instance_count: number of instances (templated). With another number, a new job starts, which resumes from
            the same checkpoints.
        distribution: what starts the script on each instance (templated), as in the sagemaker SDK:
            {"torch_distributed": {"enabled": True}}, or {"mpi": {"enabled": True, "processes_per_host": 1,
            "custom_mpi_options": ""}}. Without it, each instance runs the script, which finds the others by SM_HOSTS.
        sharded_channels: names of the channels whose objects are divided among the instances (templated); each instance
            gets all objects of the channels that are not listed. Leeway's own script divides the rows itself, so
            no channel needs to be listed.
        volume_size_gb: size of each instance's disk, GB (templated).
        spot: whether to use managed spot; if not, instances on demand.
        max_run_s: longest training time, seconds (templated).
        max_wait_s: longest time from the job's creation to its end, seconds, including the wait for spot instances; at
            least max_run_s (templated).
        on_no_capacity: what to do after a job that got no instance within max_wait_s. `fail`: the task fails.
            `next_instance_type`: the next of instance_types is tried. `on_demand`: all types are tried, then the first
            type on demand. The next job resumes from the same checkpoints.
        budget_usd: highest cost of all the task's jobs together, US dollars (templated). A job is not started if its
            highest possible cost is above the budget, and it is stopped when its cost exceeds the budget. None: no
            such limit.
        project: project to which the cost is charged (templated); by default the one in params.yaml, section `budget`.
        model: registered model that is trained (templated). Its parameters give the default hyperparameters, and the
            ledger of costs names it.
        environment: variables of the script in the job (templated); see `env` for the steps. No secrets: they show
            in the UI.
        config: more fields of the request to CreateTrainingJob (templated): mappings are merged into the task's own,
            other values replace the task's. `config` may not have TrainingJobName or Tags.
        check_interval_s: seconds between two requests for the job's state (templated).
        priority: `low`, `normal` or `high`: which tasks Airflow starts first when the task's pool has few free slots,
            by priority_weight; with a queue, also which job goes first within its share. A job that runs is not
            interrupted, unless its queue has quota shares with preemption. Empty: normal.
        job_queue: name or ARN of a queue of AWS Batch for training jobs (templated): the job is submitted to it as a
            service job, waits there, and starts when there is room. Empty: the job is started at once.
        share: the share of the queue's instances that the job counts towards (templated): a share identifier (letters
            and digits only) if the queue has fair share, the name of a quota share if it has quota shares. Leave it
            empty for other queues.
        max_queue_s: longest wait in the queue, seconds (templated). A job that waits longer is taken out of the queue,
            and the task fails. The wait is not part of max_wait_s, max_run_s or the cost.
        deferrable: whether to wait in the triggerer; if not, the task waits in the worker.
        python: interpreter of the environment that has the ML libraries (templated); if empty, LEEWAY_PYTHON, or else
            the interpreter that runs Airflow.
        env: more environment variables for the steps on the worker (templated). No secrets: they show in the UI.

    Returns:
        training_job, training_job_arn, status, model, record (s3:// addresses), instance_type, tuning,
        instance_choice (why the type was chosen; empty if the task names it), predicted_s, predicted_usd (None if the
        saving by spot is not known); with a queue, service_job (its id); and of all attempts together: attempts,
        switches (changes of the instance type, or to on demand: from, to, reason, job), training_s, billable_s,
        cost_usd, price_usd_h, saving (share that spot saved), interruptions, lost_s (training that interruptions lost),
        capacity_s (wait for instances), queue_s (0 without a queue).
    """

    job_task_class = TrainingTask
    job_fields_class = TrainingFields
    template_fields: Sequence[str] = (
        *(
            "aws_conn_id",
            "region_name",
            "verify",
            "channels",
            "hyperparameters",
            "role_arn",
            "bucket",
            "prefix",
            "code",
        ),
        *("image_uri", "environment", "config", "python", "env", "budget_usd", "project", "model", "check_interval_s"),
        *("instance_type", "instance_types", "instance_count", "volume_size_gb", "max_run_s", "max_wait_s"),
        *("distribution", "sharded_channels", "tuning", "deadline", "workload", "job_queue", "share", "max_queue_s"),
    )
    ui_color = "#fbe6c9"

    def __init__(
        self,
        *,
        channels: Mapping[str, str],
        entry_point: str = "pipelines/defaults/training.py",
        bundle: str = "pipelines/defaults/bundle.txt",
        code: str = "",
        hyperparameters: Mapping[str, Any] | None = None,
        tuning: Mapping[str, Any] | None = None,
        role_arn: str = "",
        bucket: str = "",
        prefix: str = "leeway",
        framework: str = "xgboost",
        framework_version: str = "3.2-0",
        image_uri: str = "",
        instance_type: str = "ml.m5.large",
        instance_types: Sequence[str] | None = None,
        deadline: str = "",
        workload: Mapping[str, Any] | None = None,
        instance_count: int | str = 1,
        distribution: Mapping[str, Any] | None = None,
        sharded_channels: Sequence[str] = (),
        volume_size_gb: int | str = 30,
        spot: bool = True,
        max_run_s: int | str = 3_600,
        max_wait_s: int | str = 7_200,
        on_no_capacity: OnNoCapacity = "fail",
        budget_usd: float | str | None = None,
        project: str = "",
        model: str = "",
        environment: Mapping[str, str] | None = None,
        config: Mapping[str, Any] | None = None,
        check_interval_s: int | str = 30,
        priority: Priority = "",
        job_queue: str = "",
        share: str = "",
        max_queue_s: int | str = 604_800,
        deferrable: bool = True,
        python: str = "",
        env: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(config=config or {}, deferrable=deferrable, priority=priority, **kwargs)
        self.entry_point, self.bundle, self.channels, self.code = entry_point, bundle, channels, code
        self.hyperparameters, self.role_arn, self.bucket, self.prefix = hyperparameters, role_arn, bucket, prefix
        self.framework, self.framework_version, self.image_uri = framework, framework_version, image_uri
        self.instance_type, self.instance_types, self.instance_count = instance_type, instance_types, instance_count
        self.distribution, self.sharded_channels, self.tuning = distribution, sharded_channels, tuning
        self.deadline, self.workload = deadline, workload
        self.volume_size_gb, self.spot, self.max_run_s, self.max_wait_s = volume_size_gb, spot, max_run_s, max_wait_s
        self.on_no_capacity, self.budget_usd, self.project, self.model = on_no_capacity, budget_usd, project, model
        self.environment, self.check_interval_s, self.python, self.env = environment, check_interval_s, python, env
        self.job_queue, self.share, self.max_queue_s = job_queue, share, max_queue_s

    def build_trigger(self, wait: JobWait) -> BaseTrigger:
        """Return the trigger that starts the job, or submits it to the queue, and waits for its end."""
        return QueuedJobTrigger(**asdict(wait)) if isinstance(wait, QueuedJobWait) else super().build_trigger(wait)

    def wait_in_worker(self, wait: JobWait) -> Mapping[str, Any]:
        """Start the job, or submit it to the queue, wait for its end in this process, and return how the wait ended."""
        if isinstance(wait, QueuedJobWait):
            return asyncio.run(submit_and_wait_for_job(wait, self.log))
        return super().wait_in_worker(wait)

    def report_metrics(self, result: Mapping[str, Any]) -> None:
        """Send the training's costs as Airflow metrics."""
        metrics.count_training(result, self.model)
