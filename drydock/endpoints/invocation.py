"""Invoke an endpoint: choose a variant and an instance, send the request, and return SageMaker's answer or error."""

import http.client
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NoReturn

from drydock.endpoints.faults import VariantFaults
from drydock.endpoints.instances.connection_pool import ModelResponse
from drydock.endpoints.instances.fleet import Fleet
from drydock.endpoints.instances.fleet_options import VariantBusy
from drydock.endpoints.instances.logs import build_log_group
from drydock.endpoints.instances.model_server import TIMEOUT_HEADER
from drydock.endpoints.records import Variant
from drydock.errors import DrydockError, RunFailed, truncate
from drydock.resources import Owner
from drydock.wsgi import ErrorResponse

MAX_BODY_BYTES = 6 * 1024**2
"""SageMaker's limit for the body of a request, and for that of an answer."""
TIMEOUT_S = 60.0
"""SageMaker's limit for the answer of a model. The option --invocation-timeout sets another one."""
# The code of a model may end its process at each request. So a request fails if its connection breaks this many times.
MAX_BROKEN_REQUESTS = 3
RETRY_PAUSE_S = 0.05
MESSAGE_MAX_CHARS = 1024
ENDED_MESSAGE = "The model's process ended while it answered the request."
TIMEOUT_MESSAGE = (
    "Your invocation timed out while waiting for a response from container primary. "
    "Review the latency metrics for each container in Amazon CloudWatch, resolve the issue, and try again."
)


@dataclass(frozen=True)
class Invocation:
    """A request to an endpoint.

    Attributes:
        body: The body, as the model gets it.
        headers: The headers that the model gets.
        target_variant: The variant that must answer; "" to choose one at random, by weight.
        timeout_s: Seconds within which the model must answer.
    """

    body: bytes
    headers: Mapping[str, str]
    target_variant: str = ""
    timeout_s: float = TIMEOUT_S


class InvocationError(DrydockError):
    """The invocation fails, and the client gets an error response.

    Args:
        error_response: The error response.
    """

    def __init__(self, error_response: ErrorResponse) -> None:
        super().__init__(error_response.message)
        self.error_response = error_response


def refuse_invocation(message: str, status: int = 400, code: str = "ValidationError") -> NoReturn:
    """Refuse an invocation.

    Raises:
        InvocationError: Always.
    """
    raise InvocationError(ErrorResponse(status, code, message))


@dataclass(frozen=True)
class InvocationResult:
    """The response of a model, whatever its status.

    Attributes:
        variant: The variant that answered.
        response: The response.
        model_latency_s: Seconds from sending the request to the model until its response, without the wait for an
            instance, plus the delay of faults. If no response comes, the wait counts, too. If a cold start fails, only
            the delay of faults counts.
        instances: How many instances the variant should have; 0 if it is serverless.
    """

    variant: str
    response: ModelResponse
    model_latency_s: float
    instances: int


def should_copy_to_shadow(fleet: Fleet) -> bool:
    """Decide at random whether the shadow variant gets a copy of the next request; False without a shadow variant.

    The probability is the weight of the shadow variant, divided by that of the production variant.
    """
    shadow = fleet.config.shadow
    if shadow is None:
        return False
    (production,) = fleet.config.production_variants
    return random.random() * production.weight < shadow.weight  # noqa: S311  no secret


def invoke_shadow(fleet: Fleet, faults: VariantFaults, request: Invocation) -> InvocationResult | None:
    """Send a request to the shadow variant, and return its answer; None without a shadow variant."""
    shadow = fleet.config.shadow
    return None if shadow is None else _invoke_variant(fleet, shadow, faults, request)


def invoke(fleet: Fleet, faults: VariantFaults, request: Invocation, endpoint: str) -> InvocationResult:
    """Send a request to an instance, and return the model's answer.

    If the instance's process ends meanwhile, the request is sent to another instance, or to the process that replaces
    it. If this happens `MAX_BROKEN_REQUESTS` times, or if a cold start fails, the result has the status 500. Without a
    response in time, it has the status 0.

    Args:
        fleet: The instances.
        faults: The faults of the endpoint's variants.
        request: The request.
        endpoint: The endpoint's name, for messages.

    Raises:
        InvocationError: The variant is unknown: a retry cannot help. Or a serverless variant is busy: a retry can help.
        FleetStopped: The instances were stopped. Another fleet of the endpoint may answer.
    """
    return _invoke_variant(fleet, find_variant(fleet, request.target_variant, endpoint), faults, request)


def _invoke_variant(fleet: Fleet, variant: Variant, faults: VariantFaults, request: Invocation) -> InvocationResult:
    started_at, instances = time.perf_counter(), 0 if variant.serverless else variant.count
    try:
        with fleet.limit_concurrency(variant):
            if failure := faults.apply(variant.name, fleet.config.config_name):
                return InvocationResult(variant.name, failure, time.perf_counter() - started_at, instances)
            fault_s = time.perf_counter() - started_at
            response, model_s = _send(fleet, variant, request)
            return InvocationResult(variant.name, response, fault_s + model_s, instances)
    except VariantBusy as error:
        refuse_invocation(f"Rate exceeded: {error}.", 429, "ThrottlingException")


def refuse_large_answer(result: InvocationResult) -> InvocationResult:
    """Return the result of an invocation, or an error in its place if the answer is larger than SageMaker's limit."""
    response, size = result.response, len(result.response.body)
    if not response.is_success or size <= MAX_BODY_BYTES:
        return result
    text = f"The model's answer of {size} bytes is larger than the limit of {MAX_BODY_BYTES} bytes."
    return replace(result, response=replace(response, status=500, body=text.encode(), content_type="text/plain"))


def check_response(response: ModelResponse, endpoint: str, owner: Owner) -> None:
    """Check that a model has answered a request without an error.

    Args:
        response: The model's response.
        endpoint: The endpoint's name.
        owner: The endpoint's account and region.

    Raises:
        InvocationError: The model answered with an error, or did not answer in time.
    """
    if response.is_success:
        return
    text = truncate(response.body.decode(errors="replace"), MESSAGE_MAX_CHARS)
    side = "client" if 400 <= response.status < 500 else "server"
    message = (
        f'Received {side} error ({response.status}) from primary with message "{text}". '
        f"See the log of the endpoint {endpoint} in account {owner.account_id} for more information."
    )
    group = f"arn:aws:logs:{owner.region}:{owner.account_id}:log-group:{build_log_group(endpoint)}"
    arn = f"{group}:log-stream:{response.log_stream}" if response.log_stream else group
    details = (("OriginalStatusCode", response.status), ("OriginalMessage", text), ("LogStreamArn", arn))
    raise InvocationError(ErrorResponse(424, "ModelError", message, details))


def find_variant(fleet: Fleet, name: str, endpoint: str) -> Variant:
    """Return the variant of this name or, if the name is empty, one at random, by weight.

    Raises:
        InvocationError: There is no variant of this name. A retry cannot help.
    """
    if not name:
        return fleet.choose_variant()
    variants = {variant.name: variant for variant in fleet.config.production_variants}
    if name not in variants:
        refuse_invocation(
            f"Variant {name} not found for Request. The variants of endpoint {endpoint} are {', '.join(variants)}."
        )
    return variants[name]


def _send(fleet: Fleet, variant: Variant, request: Invocation) -> tuple[ModelResponse, float]:
    """Return the response of an instance, with status 0 if there is none in time, and the model's latency, seconds."""
    deadline, broken_count, log_stream = time.monotonic() + request.timeout_s, 0, ""
    headers = {**request.headers, TIMEOUT_HEADER: str(request.timeout_s)}
    started_at = time.perf_counter()
    while broken_count < MAX_BROKEN_REQUESTS:
        try:
            with fleet.use_instance(variant, deadline) as instance:
                if instance is None:
                    break
                if (pool := instance.pool) is None:
                    continue
                log_stream, sent_at = instance.log_stream, time.perf_counter()
                response = pool.post(request.body, headers, max(deadline - time.monotonic(), RETRY_PAUSE_S))
                return replace(response, log_stream=log_stream), time.perf_counter() - sent_at
        except RunFailed as error:
            return ModelResponse(500, error.reason.encode(), "text/plain"), 0.0
        except TimeoutError:
            break
        except (OSError, http.client.HTTPException) as error:
            # If the connection was refused, the model did not get the request: the process has just ended.
            broken_count += not isinstance(error, ConnectionRefusedError)
            time.sleep(RETRY_PAUSE_S)
    status, text = (500, ENDED_MESSAGE) if broken_count == MAX_BROKEN_REQUESTS else (0, TIMEOUT_MESSAGE)
    response = ModelResponse(status, text.encode(), "text/plain", log_stream=log_stream)
    return response, time.perf_counter() - started_at
