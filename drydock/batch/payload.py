"""Read the payload of a service job: a CreateTrainingJob request, as JSON.

When a job is submitted, only the JSON's syntax and the instances are checked. As on AWS, SageMaker validates the rest
when the job starts.
"""

import json
from typing import Any

from drydock.batch.errors import refuse


def parse_payload(text: str) -> dict[str, Any]:
    """Return the request in a serviceRequestPayload.

    Raises:
        ClientException: The text is not a JSON object.
    """
    try:
        payload = json.loads(text)
    except ValueError as error:
        refuse(f"serviceRequestPayload is not valid JSON: {error}.")
    if not isinstance(payload, dict):
        refuse("serviceRequestPayload must be a JSON object: the request of CreateTrainingJob.")
    return payload


def read_instances(payload: dict[str, Any]) -> tuple[str, int]:
    """Return the instance type and the number of instances of the training job.

    Raises:
        ClientException: The payload has no ResourceConfig with both, or one is not valid.
    """
    resources = payload.get("ResourceConfig")
    instance_type = resources.get("InstanceType") if isinstance(resources, dict) else None
    count = resources.get("InstanceCount") if isinstance(resources, dict) else None
    if not isinstance(instance_type, str) or not isinstance(count, int) or isinstance(count, bool) or count < 1:
        refuse(
            "serviceRequestPayload must have a ResourceConfig with InstanceType and InstanceCount, from which the "
            "capacity of the job is computed."
        )
    return instance_type, count


def read_base_name(payload: dict[str, Any], job_name: str) -> str:
    """Return the base of the training jobs' names: the payload's TrainingJobName, or else the name of the service job.

    Characters that SageMaker does not allow in a name are left out.
    """
    name = payload.get("TrainingJobName")
    text = name if isinstance(name, str) else job_name
    return "".join(letter for letter in text if letter.isascii() and (letter.isalnum() or letter == "-"))
