"""Choose the version that an endpoint will serve, write its package, and return the parameters of its release.

Idempotent: equal versions give equal packages.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field, field_validator

from pipelines.contract import Result
from pipelines.serving.release_policy import RELEASE_AT_ONCE, ReleasePolicy
from pipelines.system.log import log

if TYPE_CHECKING:
    from mlflow.entities.model_registry import ModelVersion

    from pipelines.registry.lifecycle import State
    from pipelines.registry.versions import Registry

ENDPOINT_NAME = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9])*")
"""SageMaker's form of an endpoint's name."""
MAX_NAME_CHARS = 41
"""Longest name of an endpoint. The names of its configurations may have 63 characters: this name, then 5 for the
version and 17 for a digest."""


class ServingSpec(ReleasePolicy):
    """The version that an endpoint will serve, and the parameters of its release."""

    # See `Spec.replaced_fields`: a spec that gives both is refused.
    replaced_fields: ClassVar[Mapping[str, str]] = {"previous": "version"}

    model: str
    """Registered model."""
    version: str = ""
    """Version to serve, a number or an alias; empty: the champion."""
    previous: bool = False
    """Whether to serve the version that the endpoint served before its present one."""
    endpoint: str = Field(min_length=1, max_length=MAX_NAME_CHARS)
    """Name of the endpoint."""
    folder: Path | None = None
    """Folder to write: model.tar.gz; null: the version is only chosen."""
    beside: str = ""
    """Version whose requests the chosen version must be able to answer: if the features differ, the step fails."""

    @field_validator("endpoint")
    @classmethod
    def _check_endpoint(cls, name: str) -> str:
        if not ENDPOINT_NAME.fullmatch(name):
            raise ValueError(f"an endpoint's name has letters, digits, and hyphens between them, unlike {name!r}")
        return name


class ServingResult(Result):
    """The version to serve, and how it is released."""

    model_name: str
    """Registered model."""
    version: str
    """Version to serve."""
    policy: dict[str, Any]
    """The parameters of the release: those of the spec, which section `serving` of params.yaml sets by default. A
    rollback is released at once."""
    is_rollback: bool
    """Whether the endpoint served this version just before its present one. Then neither budget nor alarms are
    checked."""


def run(spec: ServingSpec) -> ServingResult:
    """Choose the version, and write its model.tar.gz to `spec.folder` if one is given.

    Raises:
        DataError: there is no such version, no champion, or no version that the endpoint served before; or the
            version's files are not those that the gate judged, or its features are not those of `beside`. A retry
            cannot help.
        ServiceError: MLflow does not answer. A retry can help.
    """
    from pipelines.registry.lifecycle import Journal
    from pipelines.registry.lifecycle.deployments import is_rollback
    from pipelines.registry.versions import Registry

    registry, state = Registry.open(), Journal.open().read_state(spec.model)
    if spec.previous:
        version = registry.get_version(spec.model, _find_previous_version(spec, state))
    else:
        version = _find_version(registry, spec)
    is_rolling_back = spec.previous or is_rollback(state, spec.endpoint, str(version.version))
    if spec.folder:
        _write_package(spec.folder, version, registry.get_version(spec.model, spec.beside) if spec.beside else None)
        log.info("packed %s version %s for endpoint %s", spec.model, version.version, spec.endpoint)
    policy = spec.build_release()
    return ServingResult(
        model_name=spec.model,
        version=str(version.version),
        policy={**policy, **RELEASE_AT_ONCE} if is_rolling_back else policy,
        is_rollback=is_rolling_back,
    )


def _write_package(target: Path, version: ModelVersion, other_version: ModelVersion | None) -> None:
    """Write the package of a version; if there is another version, check first that both have the same features."""
    from pipelines.registry.artifacts import open_package
    from pipelines.scoring.batch import pack_model
    from pipelines.shadow_test.input_schema import require_same_features
    from pipelines.system.files import replace_folder

    with open_package(version) as package, replace_folder(target) as folder:
        if other_version:
            with open_package(other_version) as other_package:
                require_same_features((version, package), (other_version, other_package))
        pack_model(package, folder / "model.tar.gz", version.name, str(version.version))


def _find_version(registry: Registry, spec: ServingSpec) -> ModelVersion:
    """Return the version that has the number or alias of the spec, or the champion."""
    from pipelines.errors import DataError
    from pipelines.registry.versions import CHAMPION

    if not spec.version and registry.find_champion(spec.model) is None:
        raise DataError(f"{spec.model} has no champion.", "Promote a version, or give the number of one.")
    return registry.find_version(spec.model, spec.version or CHAMPION)


def _find_previous_version(spec: ServingSpec, state: State) -> str:
    """Return the version that the endpoint served before; in a retry, the one that this DAG run has deployed already.

    Raises:
        DataError: the endpoint has served one version, or none. A retry cannot help.
    """
    from pipelines.errors import DataError
    from pipelines.registry.lifecycle.deployments import find_deployment_of_run

    if event := find_deployment_of_run(state, spec.endpoint):
        return event.version
    versions = state.served_versions.get(spec.endpoint, ())
    if len(versions) < 2:
        served_text = f"only version {versions[0]}" if versions else "no version"
        raise DataError(
            f"endpoint {spec.endpoint} has served {served_text} of {spec.model}: there is none before.",
            "Deploy a version by its number.",
        )
    return versions[-2]
