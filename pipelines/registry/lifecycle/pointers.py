"""What MLflow says of a registered model itself: its aliases and tags."""

from __future__ import annotations

from mlflow.exceptions import MlflowException

from pipelines.errors import DataError
from pipelines.registry.mlflow_errors import outages, put
from pipelines.registry.versions import Registry


def standing(registry: Registry, model: str) -> tuple[dict[str, str], dict[str, str]]:
    """Alias to version, and the tags, of a registered model.

    Raises:
        DataError: there is no such model.
        ServiceError: MLflow failed. A retry can help.
    """
    with outages():
        try:
            found = registry.client.get_registered_model(model)
        except MlflowException as error:
            if error.error_code in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
                raise DataError(f"the registry has no model {model!r}.") from None
            raise
    return {alias: str(version) for alias, version in found.aliases.items()}, dict(found.tags)


def point(registry: Registry, model: str, alias: str, version: str) -> None:
    """The alias names the version; it is gone where that is empty."""
    if version:
        put(registry.client.set_registered_model_alias, model, alias, version)
    else:
        with outages():
            registry.client.delete_registered_model_alias(model, alias)


def mark(registry: Registry, model: str, tag: str, value: str) -> None:
    """The registered model has the tag."""
    put(registry.client.set_registered_model_tag, model, tag, value)


def there(registry: Registry, model: str, version: str) -> bool:
    """Whether there is such a version."""
    try:
        return bool(version and registry.version(model, version))
    except DataError:
        return False
