"""Answer CreateModel and ListModels. moto does not check new models, and lists all models on one page."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

from moto.core.responses import ActionResult
from moto.sagemaker.models import Model

from drydock.api import listing
from drydock.api.models.backend import ModelsBackend
from drydock.api.request_reader import RequestReader

MODEL_OPERATIONS = ("CreateModel", "ListModels")


@dataclass(frozen=True)
class ListedModel:
    """A model with the properties that `listing` reads."""

    model: Model
    status = ""
    """A model has no status, but `listing` reads the status of every resource."""

    @property
    def name(self) -> str:
        """ModelName."""
        return str(self.model.model_name)

    @property
    def created_at(self) -> datetime:
        """When the model was created."""
        return cast(datetime, self.model.creation_time).replace(tzinfo=UTC)

    @property
    def modified_at(self) -> datetime:
        """The time of the creation, because a model never changes."""
        return self.created_at

    def summarize(self) -> dict[str, Any]:
        """Return the entry in ListModels."""
        return {"ModelName": self.name, "ModelArn": self.model.arn, "CreationTime": self.created_at}


class ModelResponse(RequestReader):
    """Answers requests for models; moto answers DescribeModel and DeleteModel."""

    def create_model(self) -> ActionResult:
        """Answer CreateModel."""
        request = self.read_request("CreateModel")
        model = self._models_backend.create_model(
            request["ModelName"],
            execution_role_arn=request.get("ExecutionRoleArn"),
            primary_container=request.get("PrimaryContainer"),
            vpc_config=request.get("VpcConfig"),
            containers=request.get("Containers"),
            tags=request.get("Tags"),
        )
        return ActionResult(model.response_create)

    def list_models(self) -> ActionResult:
        """Answer ListModels."""
        request = listing.NEWEST_FIRST | self.read_request("ListModels")
        models = [ListedModel(model) for model in list(self._models_backend.list_models())]
        return ActionResult(listing.list_page(models, request, "Models"))

    @property
    def _models_backend(self) -> ModelsBackend:
        return cast(ModelsBackend, self.sagemaker_backend)
