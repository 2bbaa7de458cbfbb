"""Create SageMaker models, refuse names that are in use, store the models, and find a model's container."""

import json
import threading
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from moto.sagemaker.exceptions import AWSValidationException
from moto.sagemaker.models import Model

from drydock.api.refusing_backend import RefusingBackend
from drydock.jobs.rules import refuse
from drydock.jobs.transform import rules
from drydock.resources import Owner, Resources
from drydock.store import Store


class ModelsBackend(RefusingBackend):
    """moto's SageMaker backend of one account and region, with SageMaker's checks of models, which moto lacks.

    Args:
        store: Storage of the models.
        region_name: The region.
        account_id: The account.
    """

    def __init__(self, store: Store, region_name: str, account_id: str) -> None:
        super().__init__(region_name, account_id)
        self._model_lock, self._owner = threading.Lock(), Owner(account_id, region_name)
        self._models_store = Resources(store, "model")
        for text in self._models_store.list_texts(self._owner):
            content = json.loads(text)
            model = super().create_model(**content["arguments"])
            model.creation_time = datetime.fromisoformat(content["created"])

    def create_model(self, model_name: str, **kwargs: Any) -> Model:
        """Create a model.

        Raises:
            AWSValidationException: A model of this name exists (moto would replace it), or the containers are not
                valid. A retry cannot help.
        """
        _check_containers(kwargs.get("primary_container"), kwargs.get("containers") or [])
        with self._model_lock:
            if existing_model := self._models.get(model_name):
                raise AWSValidationException(f'Cannot create already existing model "{existing_model.arn}".')
            model = super().create_model(model_name, **kwargs)
            self.save_model(model)
            return model

    def delete_model(self, model_name: str) -> None:
        """Delete a model.

        Raises:
            MissingModel: The model does not exist. A retry cannot help.
        """
        super().delete_model(model_name)
        self._models_store.delete(self._owner, model_name)

    def save_model(self, model: Model) -> None:
        """Store a model and its tags."""
        arguments = {
            "model_name": model.model_name,
            "execution_role_arn": model.execution_role_arn,
            "primary_container": model.primary_container,
            "vpc_config": model.vpc_config,
            "containers": model.containers,
            "tags": model.tags,
        }
        text = json.dumps({"arguments": arguments, "created": model.creation_time.isoformat()})
        self._models_store.write(self._owner, model.model_name, text)

    def find_container(self, name: str) -> Mapping[str, Any]:
        """Return the container of a model.

        Raises:
            AWSValidationException: The model does not exist, or drydock cannot run it. A retry cannot help.
        """
        model: Model | None = self._models.get(name)
        if model is None:
            arn = f"arn:aws:sagemaker:{self.region_name}:{self.account_id}:model/{name}"
            raise AWSValidationException(f"Could not find model '{arn}'.")
        definitions = (model.primary_container, *model.containers)
        containers: list[Mapping[str, Any]] = [definition for definition in definitions if definition]
        rules.check_model(containers, name)
        return containers[0]


def _check_containers(primary: Mapping[str, Any] | None, other_containers: Sequence[Mapping[str, Any]]) -> None:
    """Check the containers of a model, as SageMaker does.

    There must be at least one, each with an image or a model package, and with at most one source of model data.
    """
    if primary and other_containers:
        refuse("A model must have either PrimaryContainer or Containers, not both.")
    containers = [container for container in (primary, *other_containers) if container]
    if not containers:
        refuse("A model must have PrimaryContainer or Containers.")
    for container in containers:
        if not container.get("Image") and not container.get("ModelPackageName"):
            refuse("A container must have Image or ModelPackageName.")
        if "ModelDataUrl" in container and "ModelDataSource" in container:
            refuse("A container must have either ModelDataUrl or ModelDataSource, not both.")
