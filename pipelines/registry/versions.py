"""Look up and tag the registered versions of models in MLflow."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Self

import mlflow
from mlflow import MlflowClient
from mlflow.entities.model_registry import ModelVersion
from mlflow.exceptions import MlflowException

from pipelines.errors import DataError, InvalidError, ServiceError
from pipelines.registry.mlflow_errors import NOT_FOUND, translate_mlflow_errors, write_with_retries
from pipelines.settings import settings
from pipelines.system.mlflow_server import is_reachable

CHAMPION, CHALLENGER = "champion", "challenger"
"""Aliases of a registered model."""
PROMOTED_TAG = "leeway.promoted_over"
"""Tag of a version that became champion: the champion before it, or "none"."""
WOULD_PROMOTE_TAG = "leeway.would_promote_over"
"""Tag of a version that a backfill would have promoted: the champion that it would have replaced, or "none"."""


class Registry:
    """The registered versions on one MLflow server."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self.client = MlflowClient(uri, uri)

    @classmethod
    def open(cls) -> Self:
        """Connect to the configured MLflow server, and make it the one that the `mlflow` module uses.

        Raises:
            InvalidError: MLFLOW_TRACKING_URI is not set. A retry cannot help.
            ServiceError: the server does not answer. A retry can help.
        """
        uri = settings().mlflow_tracking_uri
        if not uri:
            hint = "Set it to the address of MLflow; `make up` starts one and prints its address."
            raise InvalidError("there is no registry: MLFLOW_TRACKING_URI is not set.", hint)
        if uri.startswith("http") and not is_reachable(uri):
            hint = "Check MLFLOW_TRACKING_URI, and start the server if it is down."
            raise ServiceError(f"MLflow at {uri} does not answer.", hint)
        mlflow.set_tracking_uri(uri)
        return cls(uri)

    def get_version(self, name: str, number: str) -> ModelVersion:
        """Return version `number` of model `name`, with its tags and aliases.

        Raises:
            DataError: there is no such version. A retry cannot help.
            ServiceError: MLflow failed. A retry can help.
        """
        with translate_mlflow_errors():
            try:
                return self.client.get_model_version(name, number)
            except MlflowException as error:
                if error.error_code in NOT_FOUND:
                    raise DataError(f"the registry has no {name} version {number}.") from None
                raise

    def find_version(self, name: str, selector: str) -> ModelVersion:
        """Return the version of model `name` that has this number or this alias.

        Raises:
            DataError: there is no such version. A retry cannot help.
            ServiceError: MLflow failed. A retry can help.
        """
        if selector.isdecimal():
            return self.get_version(name, selector)
        version = self._find_by_alias(name, selector)
        if version is None:
            raise DataError(f"the registry has no {name}@{selector}.", "Give the number of a version, or an alias.")
        return version

    def find_champion(self, name: str) -> ModelVersion | None:
        """Return the version that alias `champion` names; None if the model has no champion.

        Raises:
            ServiceError: MLflow failed. A retry can help.
        """
        return self._find_by_alias(name, CHAMPION)

    def list_versions(self, name: str) -> list[ModelVersion]:
        """Return every version of model `name` with its tags, oldest first; MLflow does not return aliases here."""
        return self._search(f"name = '{name}'")

    def list_versions_with_tag(self, tag: str, value: str) -> list[ModelVersion]:
        """Return the versions of all models with this value of the tag, sorted by model and number; without aliases."""
        return self._search(f"tags.`{tag}` = '{value}'")

    def set_tags(self, name: str, number: str, tags: Mapping[str, str]) -> None:
        """Set tags of a version; its other tags stay. Idempotent.

        Raises:
            ServiceError: MLflow failed. A retry can help.
        """
        for key, value in tags.items():
            write_with_retries(self.client.set_model_version_tag, name, number, key, value)

    def set_description(self, name: str, number: str, text: str) -> None:
        """Set the description of a version, which MLflow's page shows; Markdown. Idempotent.

        Raises:
            ServiceError: MLflow failed. A retry can help.
        """
        write_with_retries(self.client.update_model_version, name, number, text)

    def get_metrics(self, version: ModelVersion) -> dict[str, float]:
        """Return the metrics of the version's run; empty if it has no run, because it was registered by hand."""
        with translate_mlflow_errors():
            return dict(self.client.get_run(version.run_id).data.metrics) if version.run_id else {}

    def get_params(self, version: ModelVersion) -> dict[str, str]:
        """Return the parameters of the version's run; empty if it has no run, because it was registered by hand."""
        with translate_mlflow_errors():
            return dict(self.client.get_run(version.run_id).data.params) if version.run_id else {}

    def _find_by_alias(self, name: str, alias: str) -> ModelVersion | None:
        with translate_mlflow_errors():
            try:
                return self.client.get_model_version_by_alias(name, alias)
            except MlflowException as error:
                if error.error_code in NOT_FOUND:
                    return None
                raise

    def _search(self, query: str) -> list[ModelVersion]:
        with translate_mlflow_errors():
            page, versions = None, []
            while page is None or page.token:
                page = self.client.search_model_versions(query, page_token=page.token if page else None)
                versions += page
        return sorted(versions, key=lambda version: (version.name, int(version.version)))


def read_as_of(version: ModelVersion) -> dt.date:
    """Return the as_of of a version, the moment of its training, from its tags.

    Raises:
        DataError: the version has no tag `leeway.as_of`, because `evaluate` did not register it. A retry cannot help.
    """
    as_of = version.tags.get("leeway.as_of")
    if not as_of:
        raise DataError(
            f"{version.name} version {version.version} has no tag leeway.as_of.", "Register it with `evaluate`."
        )
    return dt.date.fromisoformat(as_of)
