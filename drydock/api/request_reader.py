"""Read and validate the requests that drydock answers itself."""

import json
from typing import Any

from moto.sagemaker.exceptions import AWSValidationException
from moto.sagemaker.responses import SageMakerResponse

from drydock.api.validation import validate_request


class RequestReader(SageMakerResponse):
    """moto's handler of SageMaker's requests, with a method that reads and validates the raw JSON of a request."""

    def read_request(self, operation: str) -> dict[str, Any]:
        """Return the validated request of an operation.

        Raises:
            AWSValidationException: The body is not JSON, or has a wrong member. A retry cannot help.
        """
        try:
            content = json.loads(self.body)
        except ValueError as error:
            raise AWSValidationException(f"The request body is not JSON: {error}") from error
        return validate_request(operation, content)
