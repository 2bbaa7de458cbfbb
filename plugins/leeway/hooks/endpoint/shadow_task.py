"""Decide whether a version runs as a shadow variant, upload its package, and build its requests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from leeway.hooks.endpoint.client import EndpointClient
from leeway.hooks.endpoint.shadow_requests import Shadow, build_variant_name
from leeway.hooks.endpoint.shadow_run import ShadowRun, remove_shadow
from leeway.hooks.endpoint.task import DeployFields, DeployTask
from leeway.hooks.sagemaker.task import Operation
from pipelines.serving.endpoint_resources import VERSION_TAG

MAX_CHANGE_S = 7_200
"""Seconds that a change of the endpoint may take."""


@dataclass(frozen=True)
class ShadowFields(DeployFields):
    """The rendered fields of ShadowOperator; its docstring describes each."""

    minutes: float | str | None
    requests: int | str | None


@dataclass(frozen=True)
class SkippedShadow:
    """The operation of a task that runs no shadow: its result is known, so it never waits."""

    result: dict[str, Any]
    inputs: dict[str, Any]

    def resume(self, event: Any) -> dict[str, Any]:
        """Return the result at once."""
        return self.result


class ShadowTask(DeployTask):
    """One task that runs a version as a shadow variant for some time, and judges it."""

    fields: ShadowFields
    _variant = ""
    """Name of the shadow variant; empty until this process has chosen the version."""

    def prepare_operation(self, inputs: Mapping[str, Any] | None = None) -> Operation:  # type: ignore[override]
        """Choose the version, and upload it unless this try has done so; or skip the shadow, see `_find_champion`."""
        self.parse_count_field("check_interval_s")
        client = self._create_client()
        if not inputs:
            choice = self.step_hook.run("serving", self._build_spec())
            champion, reason = self._find_champion(client, choice)
            if reason:
                return SkippedShadow(self._build_skipped_result(choice, champion, reason), {})
            # `beside`: the step fails if the version's features are not those of the champion.
            upload = self._upload_inputs(version=choice["version"], beside=champion)
            inputs = {**upload, "champion": champion}
        self._variant = build_variant_name(inputs["version"])
        wait = self._build_wait(MAX_CHANGE_S)
        return ShadowRun(
            client, self._build_shadow(inputs), inputs, self._build_costs(), self.step_hook, wait, self.log
        )

    def stop(self) -> None:
        """Remove the shadow variant, if the endpoint has it and is not being changed. Idempotent."""
        if not self._variant:  # another process began the operation; this one only handles the time-out
            self._variant = build_variant_name(self.step_hook.run("serving", self._build_spec())["version"])
        remove_shadow(self._create_client(), self._variant)

    def kill(self) -> None:
        """Stop the step that this process runs, and remove the shadow variant."""
        super().kill()
        if self._variant:
            remove_shadow(self._create_client(), self._variant)

    def _create_client(self) -> EndpointClient:
        return EndpointClient(self.connection, self._endpoint, self.log)

    def _build_spec(self) -> dict[str, Any]:
        fields = {"shadow_minutes": self.fields.minutes, "shadow_requests": self.fields.requests}
        return super()._build_spec() | {name: value for name, value in fields.items() if value not in (None, "")}

    def _find_champion(self, client: EndpointClient, choice: Mapping[str, Any]) -> tuple[str, str]:
        """Return the version that the endpoint serves, and why the shadow is skipped: empty if it is not skipped."""
        if not choice["policy"]["shadow_minutes"]:
            return "", "shadow_minutes is 0"
        if choice["is_rollback"]:
            return "", "the endpoint served this version before: it is deployed again at once"
        endpoint = client.describe()
        if endpoint is None:
            return "", f"there is no endpoint {client.name} yet"
        champion = client.read_own_tags(endpoint).get(VERSION_TAG, "")
        if not champion:
            return "", f"endpoint {client.name} has no tag {VERSION_TAG}, which names the version that it serves"
        if champion == choice["version"]:
            return champion, f"endpoint {client.name} serves version {champion} already"
        return champion, ""

    def _build_skipped_result(self, choice: Mapping[str, Any], champion: str, reason: str) -> dict[str, Any]:
        names = {"model_name": self.fields.model, "version": choice["version"], "champion": champion}
        return {**names, "endpoint": self._endpoint, "outcome": "skipped", "reason": reason}

    def _build_shadow(self, inputs: Mapping[str, Any]) -> Shadow:
        release = self._build_release(inputs)
        return Shadow(
            model=self.fields.model,
            version=inputs["version"],
            champion=inputs["champion"],
            policy=inputs["policy"],
            model_request=release.model_request,
            capture_uri=self._build_capture_uri(inputs["champion"]),
            tags=release.tags,
            task_identity=self.identity,
            max_tries=self.max_tries,
        )
