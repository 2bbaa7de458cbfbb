"""Create SageMaker models without replacing existing ones, and find the container of a transform job's model."""

import threading
from collections.abc import Mapping
from typing import Any

from moto.sagemaker.exceptions import AWSValidationException
from moto.sagemaker.models import Model

from drydock.api.refusing_backend import RefusingBackend
from drydock.jobs.transform import rules


class ModelsBackend(RefusingBackend):
    """moto's SageMaker backend of one account and region, with SageMaker's checks of models, which moto lacks."""

    def __init__(self, region_name: str, account_id: str) -> None:
        super().__init__(region_name, account_id)
        self._model_lock = threading.Lock()

    def create_model(self, model_name: str, *args: Any, **kwargs: Any) -> Model:
        """Create a model.

        Raises:
            AWSValidationException: A model of this name exists; moto would replace it. A retry cannot help.
        """
        with self._model_lock:
            if existing_model := self._models.get(model_name):
                raise AWSValidationException(f'Cannot create already existing model "{existing_model.arn}".')
            return super().create_model(model_name, *args, **kwargs)

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
