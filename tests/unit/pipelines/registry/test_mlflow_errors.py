"""Test that a write which collides with the write of another process is repeated, and no other failure is."""

from __future__ import annotations

import pytest
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import BAD_REQUEST, INTERNAL_ERROR, INVALID_PARAMETER_VALUE

from pipelines.errors import ServiceError
from pipelines.registry.mlflow_errors import ATTEMPTS, write_with_retries


class FailingClient:
    """A client whose first writes fail.

    Args:
        code: error code of MLflow.
        failures: number of writes that fail.
    """

    def __init__(self, code: int, failures: int) -> None:
        self.code, self.failures, self.calls = code, failures, list[tuple[str, ...]]()

    def set_alias(self, *args: str) -> None:
        self.calls.append(args)
        if len(self.calls) <= self.failures:
            raise MlflowException("another process was first", error_code=self.code)


@pytest.mark.parametrize("failures", [0, 1, ATTEMPTS - 1])
def test_a_colliding_write_is_repeated(failures: int) -> None:
    client = FailingClient(BAD_REQUEST, failures)
    write_with_retries(client.set_alias, "flights", "champion", "2")
    assert client.calls == [("flights", "champion", "2")] * (failures + 1)


def test_a_write_that_always_collides_fails() -> None:
    client = FailingClient(BAD_REQUEST, 100)
    with pytest.raises(ServiceError, match="another process was first"):
        write_with_retries(client.set_alias, "flights")
    assert len(client.calls) == ATTEMPTS


@pytest.mark.parametrize("code", [INVALID_PARAMETER_VALUE, INTERNAL_ERROR])
def test_another_failure_is_not_repeated(code: int) -> None:
    client = FailingClient(code, 1)
    with pytest.raises(ServiceError):
        write_with_retries(client.set_alias, "flights")
    assert len(client.calls) == 1
