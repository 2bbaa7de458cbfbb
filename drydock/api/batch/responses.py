"""Answer requests to AWS Batch.

drydock answers those about queues for training jobs and about scheduling policies; moto answers all others.
"""

import json
from typing import Any
from urllib.parse import unquote

from moto.batch.responses import BatchResponse
from moto.core.common_types import TYPE_RESPONSE
from moto.sagemaker.exceptions import AWSValidationException

from drydock.api.batch.operations import NAMES_BY_LOWER_CASE, OPERATIONS, SHARED_OPERATIONS, TAG_OPERATIONS
from drydock.api.validation import validate_request
from drydock.batch.errors import ClientException, refuse
from drydock.batch.queues import BatchQueues
from drydock.batch.requests.environments import SAGEMAKER_TRAINING
from drydock.batch.requests.tags import has_resource
from drydock.jobs.rules import check_owner
from drydock.resources import Owner


class ServiceJobResponse(BatchResponse):
    """Answers requests about queues for training jobs, and about all that belongs to them: see `OPERATIONS`.

    Scheduling policies are answered by drydock, too, even those for queues of containers. moto answers the other
    requests.
    """

    def call_action(self) -> TYPE_RESPONSE:
        """Answer one request."""
        try:
            operation = self._find_operation()
            response = self._answer(operation) if operation else None
        except AWSValidationException as error:  # raised by checks that drydock's SageMaker uses, too
            return _build_error_response(ClientException(error.message))
        except ClientException as error:
            return _build_error_response(error)
        if response is None:
            return super().call_action()
        return 200, self.response_headers, json.dumps(response)

    def _find_operation(self) -> str | None:
        action = self._get_action()
        return TAG_OPERATIONS.get(self.method) if action == "tags" else NAMES_BY_LOWER_CASE.get(action)

    def _answer(self, operation: str) -> dict[str, Any] | None:
        """Return the response to a request; None for a request that moto must answer.

        drydock answers all requests for one of `OPERATIONS`. For one of `SHARED_OPERATIONS`, it answers the requests
        about queues for training jobs, and moto those about queues for containers.
        """
        request, batch = validate_request(operation, self._read_request(operation), service="batch"), self._batch
        check_owner(self._owner.account_id, self._owner.region)
        with batch.lock:
            if operation in OPERATIONS:
                return OPERATIONS[operation](batch, self._owner, request)
            if operation == "DescribeJobQueues":
                return self._describe_job_queues(request)
            if operation == "CreateJobQueue":
                is_for_training = _is_new_training_queue(request)
                self._check_queue_name(request["jobQueueName"], is_for_training=is_for_training)
            else:
                is_for_training = self._is_about_training_queue(request)
            return SHARED_OPERATIONS[operation](batch, self._owner, request) if is_for_training else None

    def _is_about_training_queue(self, request: dict[str, Any]) -> bool:
        """Return whether a request is about an existing queue for training jobs.

        For a request about tags, any resource of such queues counts, such as a service environment.
        """
        if "resourceArn" in request:
            return has_resource(self._batch, self._owner, request)
        return self._batch.tables.queues.find(self._owner, request["jobQueue"]) is not None

    def _read_request(self, operation: str) -> Any:
        if operation not in TAG_OPERATIONS.values():
            return self._parse_body()
        arn = unquote(self.path).partition("/v1/tags/")[2]
        content: dict[str, Any] = self._parse_body() if operation == "TagResource" else {}
        if operation == "UntagResource":
            content["tagKeys"] = self.querystring.get("tagKeys", [])
        return {**content, "resourceArn": arn}

    def _parse_body(self) -> Any:
        try:
            return json.loads(self.body or "{}")
        except ValueError as error:
            refuse(f"The request body is not JSON: {error}")

    def _describe_job_queues(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return a page of drydock's queues; the last page has the queues of moto, too."""
        response = SHARED_OPERATIONS["DescribeJobQueues"](self._batch, self._owner, request)
        if "nextToken" not in response:
            response["jobQueues"] += self.batch_backend.describe_job_queues(request.get("jobQueues"))
        return response

    def _check_queue_name(self, name: str, *, is_for_training: bool) -> None:
        """Refuse the name of a new queue if a queue of the other kind (for training jobs, for containers) has it."""
        other_queue: Any = (
            self.batch_backend.get_job_queue_by_name(name)
            if is_for_training
            else self._batch.tables.queues.find(self._owner, name)
        )
        if other_queue is not None:
            refuse("Object already exists")

    @property
    def _owner(self) -> Owner:
        return Owner(self.current_account, self.region)

    @property
    def _batch(self) -> BatchQueues:
        batch: BatchQueues = self.batch_backend.queues
        return batch


def _build_error_response(error: ClientException) -> TYPE_RESPONSE:
    return error.code, dict(error.get_headers()), error.get_body()


def _is_new_training_queue(request: dict[str, Any]) -> bool:
    """Return whether a CreateJobQueue request creates a queue for training jobs."""
    return "serviceEnvironmentOrder" in request or request.get("jobQueueType") == SAGEMAKER_TRAINING
