"""Read and write the aliases and tags of a registered model in MLflow."""

from __future__ import annotations

from mlflow.exceptions import MlflowException

from pipelines.errors import DataError
from pipelines.registry.mlflow_errors import NOT_FOUND, translate_mlflow_errors, write_with_retries
from pipelines.registry.versions import Registry


def get_aliases_and_tags(registry: Registry, model: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return the aliases of a registered model (alias to version), and its tags (tag to value).

    Raises:
        DataError: there is no such model. A retry cannot help.
        ServiceError: MLflow failed. A retry can help.
    """
    with translate_mlflow_errors():
        try:
            registered_model = registry.client.get_registered_model(model)
        except MlflowException as error:
            if error.error_code in NOT_FOUND:
                raise DataError(f"the registry has no model {model!r}.") from None
            raise
    aliases = {alias: str(version) for alias, version in registered_model.aliases.items()}
    return aliases, dict(registered_model.tags)


def set_alias(registry: Registry, model: str, alias: str, version: str) -> None:
    """Set an alias to a version, or delete the alias if `version` is empty. Idempotent.

    Raises:
        ServiceError: MLflow failed. A retry can help.
    """
    if version:
        write_with_retries(registry.client.set_registered_model_alias, model, alias, version)
    else:
        with translate_mlflow_errors():
            registry.client.delete_registered_model_alias(model, alias)


def set_model_tag(registry: Registry, model: str, tag: str, value: str) -> None:
    """Set a tag of the registered model. Idempotent.

    Raises:
        ServiceError: MLflow failed. A retry can help.
    """
    write_with_retries(registry.client.set_registered_model_tag, model, tag, value)


def has_version(registry: Registry, model: str, version: str) -> bool:
    """Return whether MLflow has this version; False if `version` is empty.

    Raises:
        ServiceError: MLflow failed. A retry can help.
    """
    try:
        return bool(version and registry.get_version(model, version))
    except DataError:
        return False
