"""Check the fields of a tuning task, upload the inputs of its trials, and build its request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from airflow.providers.amazon.aws.hooks.s3 import S3Hook
from airflow.sdk.exceptions import AirflowFailException

from leeway.hooks.sagemaker import request_checks
from leeway.hooks.sagemaker.description import is_live
from leeway.hooks.sagemaker.machines import Machine
from leeway.hooks.training.script_task import ScriptTask
from leeway.hooks.tuning.attempts import TuningAttempts
from leeway.hooks.tuning.fields import TuningFields
from leeway.hooks.tuning.requests import MAX_PARENTS, WARM_START_STRATEGIES, TuningJobs, TuningTemplate
from pipelines.errors import LeewayError
from pipelines.tuning.plan import PlanSpec
from pipelines.tuning.sagemaker_job import CHANNELS

EMPTY_VALUES = ("", "None", None)
"""Values of a field that is not set; Jinja renders a null param to the text None."""
HOLDOUT = "holdout"
"""Folder in which `preprocess` writes the holdout, beside those of the channels."""


def is_holdout(channel: str) -> bool:
    """Return whether a channel is the folder or prefix of the holdout, or a folder that contains it, by its name.

    A copy of the holdout under another name is not recognized, nor is a prefix of S3 that contains the holdout.
    """
    if channel.startswith("s3://"):
        return channel.rstrip("/").rpartition("/")[2] == HOLDOUT
    folder = Path(channel).resolve()
    return folder.name == HOLDOUT or (folder / HOLDOUT).is_dir()


class TuningTask(ScriptTask):
    """One task that searches for hyperparameters."""

    jobs_class = TuningJobs
    fields: TuningFields
    _plan: PlanSpec | None = None

    def prepare_operation(self, inputs: Mapping[str, Any] | None = None) -> TuningAttempts:
        """Check the fields, upload the code and the channels, and return the attempts; see `AwsTask`."""
        self._set_defaults()
        machine, costs = self._build_machine(), self.build_costs()
        parents = self._list_parents()
        if not inputs:
            self._check_parents(parents)
            inputs = self.upload_inputs()
        template = self._build_template(self.build_request(self.bucket, inputs), machine, parents)
        s3 = self.connection.create_hook(S3Hook)
        return TuningAttempts(self.jobs, s3, template, costs, self.build_wait_template(), self.log)

    @property
    def plan(self) -> PlanSpec:
        """Section `tune` of the model's parameters; the keys of the operator's `plan` replace those of the section.

        Raises:
            AirflowFailException: the plan is not valid. A retry cannot help.
        """
        if self._plan is None:
            own_values = {name: value for name, value in (self.fields.plan or {}).items() if value not in EMPTY_VALUES}
            section = {
                name: value for name, value in self.load_section("tune").items() if name in PlanSpec.model_fields
            }
            # The section's `warm_start` is for searches on this machine. The operator's `warm_start` names tuning jobs.
            values = {**section, **own_values, "warm_start": ""}
            if "space" not in values:
                raise AirflowFailException(
                    f"{self.task_label} has no space to search: write section tune, with the key space, into the "
                    "parameters of the model."
                )
            try:
                self._plan = PlanSpec.parse(values, f"the plan of {self.task_label}")
            except LeewayError as error:
                raise AirflowFailException(str(error)) from None
        return self._plan

    def build_hyperparameters(self) -> dict[str, Any]:
        """Return the hyperparameters of section `train`, the operator and the folds, without the searched ones."""
        own_values, plan = dict(self.fields.hyperparameters or {}), self.plan
        if searched_names := sorted(own_values.keys() & plan.space.keys()):
            raise AirflowFailException(
                f"hyperparameters of {self.task_label} has {', '.join(searched_names)}, for which the plan searches a "
                "value: remove it from one of the two."
            )
        section = self.load_section("train").get("hyperparameters", {})
        fixed_values = {name: value for name, value in section.items() if name not in plan.space}
        return {**fixed_values, **own_values, "folds": plan.folds, "fold_days": plan.fold_days}

    def check_request(self, bucket: str, draft: Mapping[str, Any]) -> None:
        """Check the request before anything is uploaded: `draft` has placeholders for the addresses of the inputs."""
        template = self._build_template(self.build_request(bucket, draft), self._build_machine(), self._list_parents())
        try:
            request = template.build_request()
        except LeewayError as error:
            raise AirflowFailException(str(error)) from None
        shape = self.hook.conn.meta.service_model.operation_model("CreateHyperParameterTuningJob").input_shape
        request_checks.check_shape({"HyperParameterTuningJobName": self.jobs.build_name(1), **request}, shape)
        definition = request["TrainingJobDefinition"]
        request_checks.check_checkpoint_folder(definition, bucket)
        names = [str(channel["ChannelName"]) for channel in definition["InputDataConfig"]]
        self._check_channels(names)

    def _check_channels(self, names: list[str]) -> None:
        """Check that a trial reads no other channels than those of the training window, by their names and paths."""
        if other_names := sorted(set(names) - set(CHANNELS)):
            raise AirflowFailException(
                f"a trial of {self.task_label} may read the channels {' and '.join(CHANNELS)} only, not "
                f"{', '.join(other_names)}: the gate's holdout must stay unseen."
            )
        for name, channel in self.fields.channels.items():
            if is_holdout(str(channel)):
                raise AirflowFailException(
                    f"channel {name} of {self.task_label} is {channel}, which is or contains the holdout that "
                    "preprocess writes: the gate's holdout must stay unseen."
                )

    def _set_defaults(self) -> None:
        """Set the fields that the operator does not set to the values of the plan."""
        plan, fields = self.plan, self.fields
        max_run_s = plan.max_trial_s if fields.max_run_s in EMPTY_VALUES else fields.max_run_s
        self.fields = replace(
            fields,
            instance_type=fields.instance_type or plan.instance_type,
            max_run_s=max_run_s,
            max_wait_s=self._compute_max_wait_s(max_run_s) if fields.max_wait_s in EMPTY_VALUES else fields.max_wait_s,
            budget_usd=plan.budget_usd if fields.budget_usd in EMPTY_VALUES else fields.budget_usd,
        )

    def _compute_max_wait_s(self, max_run_s: Any) -> int:
        """Return the default of `max_wait_s`: twice the longest time of a trial."""
        return 2 * request_checks.parse_count(self.describe_field("max_run_s"), max_run_s)

    def _build_machine(self) -> Machine:
        (instance_type,) = request_checks.check_instance_types(
            self.task_label, self.fields.instance_type, instance_types=None, policies=["fail"], policy="fail"
        )
        return self.build_machine(instance_type)

    def _build_template(self, training: Mapping[str, Any], machine: Machine, parents: list[str]) -> TuningTemplate:
        fields = self.fields
        return TuningTemplate(training, machine, self.plan, fields.metric_regex, parents, fields.config or {})

    def _list_parents(self) -> list[str]:
        """Return the names of the tuning jobs to start from."""
        value = self.fields.warm_start
        names = [name for name in ([value] if isinstance(value, str) else value or []) if name not in EMPTY_VALUES]
        if names and self.plan.strategy not in WARM_START_STRATEGIES:
            raise AirflowFailException(
                f"warm_start of {self.task_label}: SageMaker accepts it for the strategies "
                f"{' and '.join(WARM_START_STRATEGIES)} only, not for {self.plan.strategy}."
            )
        if len(names) > MAX_PARENTS:
            raise AirflowFailException(f"warm_start of {self.task_label} names more than {MAX_PARENTS} tuning jobs.")
        return names

    def _check_parents(self, names: list[str]) -> None:
        """Check that each tuning job exists and has ended."""
        for name in names:
            job = self.jobs.describe(name)
            if job is None or is_live(job):
                problem = "does not exist" if job is None else "has not ended"
                raise AirflowFailException(f"warm_start of {self.task_label}: the tuning job {name} {problem}.")
