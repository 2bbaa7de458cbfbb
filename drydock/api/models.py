"""moto's models, whose names are taken once, and the container of one that is asked to transform."""

import threading
from collections.abc import Mapping
from typing import Any

from moto.sagemaker.exceptions import AWSValidationException
from moto.sagemaker.models import Model, SageMakerModelBackend

from drydock.jobs.transform import rules


class ModelsBackend(SageMakerModelBackend):
    """moto's SageMaker of one account and region, with SageMaker's refusals where a model is concerned."""

    def __init__(self, region_name: str, account_id: str) -> None:
        super().__init__(region_name, account_id)
        self._making = threading.Lock()

    def create_model(self, model_name: str, *given: Any, **more: Any) -> Model:
        """The model is there.

        Raises:
            AWSValidationException: One of this name was there before; moto would put the new one in its place.
        """
        with self._making:
            if before := self._models.get(model_name):
                raise AWSValidationException(f'Cannot create already existing model "{before.arn}".')
            return super().create_model(model_name, *given, **more)

    def container(self, name: str) -> Mapping[str, Any]:
        """Return the container of a model.

        Raises:
            AWSValidationException: There is no such model, or it is none that drydock runs.
        """
        model: Model | None = self._models.get(name)
        if model is None:
            arn = f"arn:aws:sagemaker:{self.region_name}:{self.account_id}:model/{name}"
            raise AWSValidationException(f"Could not find model '{arn}'.")
        containers: list[Mapping[str, Any]] = [one for one in (model.primary_container, *model.containers) if one]
        rules.check_model(containers, name)
        return containers[0]
