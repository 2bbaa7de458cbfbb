"""Test the list of SageMaker's operations: it is complete, and the documentation says the same."""

from collections.abc import Set
from pathlib import Path

import botocore.session
import pytest
from moto.core.utils import camelcase_to_underscores
from moto.sagemaker.responses import SageMakerResponse
from moto.sagemakermetrics.responses import SageMakerMetricsResponse
from moto.sagemakerruntime.responses import SageMakerRuntimeResponse

from drydock.api.feature_store.runtime import RECORD_OPERATIONS
from drydock.api.models.responses import MODEL_OPERATIONS
from drydock.api.notebooks.responses import NOTEBOOK_OPERATIONS
from drydock.api.operations import Handling, check_operation, format_operations_table, iter_operations
from drydock.api.responses import OPERATIONS, DrydockResponse

PAGE = Path(__file__).parents[4] / "docs" / "reference" / "drydock.md"
RESPONSES = {
    "sagemaker": DrydockResponse,
    "sagemaker-runtime": SageMakerRuntimeResponse,
    "sagemaker-metrics": SageMakerMetricsResponse,
}


def list_implemented_operations(responses: dict[str, type]) -> set[str]:
    """Return the operations of SageMaker's services for which the classes have a method."""
    session = botocore.session.Session()
    return {
        operation
        for service, response in responses.items()
        for operation in session.get_service_model(service).operation_names
        if hasattr(response, camelcase_to_underscores(operation))
    }


def find_unlisted_operations(implemented_operations: Set[str]) -> set[str]:
    """Return the implemented operations that no group has."""
    return set(implemented_operations) - {name for name, _ in iter_operations()}


def test_every_operation_of_moto_is_listed_once() -> None:
    names = [name for name, _ in iter_operations()]
    assert len(names) == len(set(names))
    assert set(names) == {*list_implemented_operations(RESPONSES), *RECORD_OPERATIONS}
    assert len(names) > 115


def test_operation_that_moto_adds_is_found() -> None:
    class NewerResponse(SageMakerResponse):
        def create_inference_component(self) -> None:
            """Be an operation that moto 5.2.5 does not have."""

    implemented_operations = list_implemented_operations({**RESPONSES, "sagemaker": NewerResponse})
    assert find_unlisted_operations(implemented_operations) == {"CreateInferenceComponent"}


def test_operations_that_run_are_those_of_drydock() -> None:
    # Middlewares answer InvokeEndpoint, and the requests for records. Models and notebook instances are only
    # stored, but drydock checks and lists them.
    operations = {name for name, group in iter_operations() if group.handling is Handling.RUN}
    assert operations | {*MODEL_OPERATIONS, *NOTEBOOK_OPERATIONS} == {
        *OPERATIONS,
        *RECORD_OPERATIONS,
        "InvokeEndpoint",
        "InvokeEndpointAsync",
    }


def test_documentation_has_the_table() -> None:
    table = format_operations_table()
    assert table in PAGE.read_text(), f"replace the table in {PAGE.name} by this one:\n{table}"
    assert all(name in table for name, _ in iter_operations())


@pytest.mark.parametrize("name", ["StartPipelineExecution", "start_pipeline_execution", "startPipelineExecution"])
def test_spelling_of_a_refused_operation_does_not_matter(name: str) -> None:
    with pytest.raises(NotImplementedError, match="executions of pipelines do not run in drydock"):
        check_operation(name)


def test_unknown_operation_is_refused_and_a_stored_one_is_not() -> None:
    with pytest.raises(NotImplementedError, match="CreateInferenceComponent is not implemented by drydock"):
        check_operation("CreateInferenceComponent")
    check_operation("CreateModel")
