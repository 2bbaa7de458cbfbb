"""The operator that runs a version as the shadow variant of an endpoint, and judges it."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from airflow.sdk.definitions.context import Context
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from leeway.hooks.endpoint.shadow_task import ShadowFields, ShadowTask
from leeway.hooks.endpoint.shadow_wait import ShadowWait, wait_for_shadow
from leeway.hooks.endpoint.task import DeployFields
from leeway.hooks.endpoint.wait import DeploymentWait
from leeway.hooks.step.credentials import build_source_environment
from leeway.operators.deploy import DeployOperator
from leeway.triggers.deployment import DeploymentTrigger
from leeway.triggers.shadow import ShadowTrigger

MAX_REASON_CHARS = 1_500
"""Largest number of characters of the reason in the task's error; the report has the whole reason."""


class ShadowOperator(DeployOperator):
    """Run a version as the shadow variant of an endpoint for some time, then remove it, and judge it.

    The shadow variant gets a copy of each request to the endpoint. Its answers are captured, and clients do not get
    them. The step `shadow` then compares these answers with those of the version that serves: latency, errors,
    agreement, drift of the scores and, where labels are published, the gate's metrics, paired by row. Section `shadow`
    of the parameters has the limits (docs/how-to/serving.md).

    The task is skipped if `shadow_minutes` is 0, if there is no endpoint, if no tag of the endpoint names the version
    that it serves, if it serves this version already, or if it served this version before its present one (a rollback).
    A version with other features than the version that serves is refused before anything is created. The cost of the
    shadow variant's instances is checked against the project's budget.

    The task waits in the triggerer. If a worker is killed, the next try attaches to the shadow, and the shadow's time
    does not begin again. If a person clears the task or sets its state while it waits, the shadow variant is removed.
    Idempotent.

    If the outcome is `failed`, the task fails without a retry. If it is `undecided` (too few requests, or an interval
    that contains a limit), the task succeeds. If the version does not start, the task fails, and is retried only if
    SageMaker failed or had no capacity.

    Args:
        model: registered model (templated).
        version: version to judge, a number or an alias (templated); by default the champion.
        endpoint: name of the endpoint (templated); by default the model's name.
        minutes: how long the shadow runs (templated); by default `shadow_minutes` of section `serving`.
        requests: number of requests after which the shadow ends early (templated); by default `shadow_requests` of
            section `serving`.
        serving: values that replace those of section `serving` of the parameters (templated).
        image_uri: image with SageMaker's inference toolkit (templated); by default the SDK's xgboost image.
        role_arn: execution role of the model (templated); by default the environment's LEEWAY_ROLE_ARN.
        bucket: S3 bucket of model and captured requests (templated); by default LEEWAY_BUCKET.
        prefix: key prefix in the bucket (templated).
        project: project whose budget is checked (templated); by default the one in params.yaml, section `budget`.
        check_interval_s: seconds between two requests for the endpoint's state (templated).
        deferrable: whether to wait in the triggerer; if not, the task waits in the worker.
        python: interpreter of the environment that has the ML libraries (templated); if empty, LEEWAY_PYTHON, or else
            the interpreter that runs Airflow.
        env: more environment variables for the steps (templated). No secrets: they show in the UI.

    Returns:
        `ShadowResult`: model_name, version, champion, endpoint, outcome, reason, checks, requests, rows, labelled_rows,
        page. For a skipped task: model_name, version, champion, endpoint, outcome (skipped), reason. `champion` is the
        version that the endpoint serves.
    """

    step = "shadow"
    job_task_class = ShadowTask
    job_fields_class: ClassVar[type[DeployFields]] = ShadowFields
    template_fields: Sequence[str] = (*DeployOperator.template_fields, "minutes", "requests")

    def __init__(
        self,
        *,
        model: str,
        version: str = "",
        endpoint: str = "",
        minutes: float | str | None = None,
        requests: int | str | None = None,
        serving: Mapping[str, Any] | str | None = None,
        image_uri: str = "",
        role_arn: str = "",
        bucket: str = "",
        prefix: str = "leeway",
        project: str = "",
        check_interval_s: int | str = 5,
        deferrable: bool = True,
        python: str = "",
        env: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            model=model,
            version=version,
            endpoint=endpoint,
            serving=serving,
            image_uri=image_uri,
            role_arn=role_arn,
            bucket=bucket,
            prefix=prefix,
            project=project,
            check_interval_s=check_interval_s,
            deferrable=deferrable,
            python=python,
            env=env,
            **kwargs,
        )
        self.minutes, self.requests = minutes, requests

    def build_step_variables(self) -> Mapping[str, str]:
        """Return the variables that say who acts, and those of AWS: the step `shadow` reads S3 and CloudWatch."""
        aws_variables = build_source_environment(self.aws_conn_id) if self.aws_conn_id else {}
        return {**super().build_step_variables(), **aws_variables}

    def build_trigger(self, wait: DeploymentWait | ShadowWait) -> DeploymentTrigger | ShadowTrigger:  # type: ignore[override]
        """Return the trigger that changes the endpoint, or that waits for the end of the shadow."""
        if isinstance(wait, ShadowWait):
            return ShadowTrigger(**dataclasses.asdict(wait))
        return super().build_trigger(wait)

    def wait_in_worker(self, wait: DeploymentWait | ShadowWait) -> Mapping[str, Any]:
        """Change the endpoint, or wait for the end of the shadow, and return how the wait ended."""
        if isinstance(wait, ShadowWait):
            return dict(asyncio.run(wait_for_shadow(wait, self.log)))
        return super().wait_in_worker(wait)

    def _run_job(self, context: Context, event: Mapping[str, Any] | None, inputs: Mapping[str, Any] | None) -> Any:
        """Return the judgement. If its outcome is `failed` or `skipped`, fail or skip the task.

        The judgement is the task's XCom in each case.
        """
        result = super()._run_job(context, event, inputs)
        outcome, reason = result["outcome"], result["reason"][:MAX_REASON_CHARS]
        if outcome not in ("failed", "skipped"):
            return result
        context["ti"].xcom_push("return_value", result)
        if outcome == "skipped":
            raise AirflowSkipException(f"no shadow of version {result['version']}: {reason}")
        raise AirflowFailException(
            f"version {result['version']} of {self.model} failed as a shadow on endpoint {result['endpoint']}, which "
            f"serves version {result['champion']} as before: {reason}. Report: {result['page']}"
        )
