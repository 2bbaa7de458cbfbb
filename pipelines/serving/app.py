"""Answer HTTP requests with the scores of a model: GET /ping and POST /invocations, as SageMaker's containers do."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route

from pipelines.container.serving.feature_query import FeatureError
from pipelines.container.serving.media_types import choose_type
from pipelines.container.serving.request_ids import INFERENCE_ID, choose_id
from pipelines.container.serving.tables import JSON, MAX_BYTES, BadRequest
from pipelines.errors import MAX_CHARS, LeewayError
from pipelines.escaping import escape
from pipelines.serving.batches import Request
from pipelines.serving.scoring_queue import ScoringQueue
from pipelines.serving.served_model import ServedModel
from pipelines.system.log import log

BODY_TIMEOUT_S = 60.0
"""Longest time that the body of a request may take to arrive, seconds."""
MAX_PENDING_REQUESTS = 64
"""Largest number of requests that are read or scored at a time. Their bodies take at most 384 MiB together."""
ID_HEADERS = (INFERENCE_ID, "x-request-id")
"""Headers that may hold the request's id; the first one with a valid id decides."""
Headers = dict[str, str]


def build_app(model: ServedModel) -> Starlette:
    """Build the app that answers with the scores of a loaded model."""
    handlers = RouteHandlers(model)
    routes = [
        Route("/ping", handlers.ping, methods=["GET"]),
        Route("/invocations", handlers.invoke, methods=["POST"]),
    ]
    return Starlette(routes=routes, exception_handlers={HTTPException: _answer_http_exception})


class RouteHandlers:
    """The handlers of the app's two routes."""

    def __init__(self, model: ServedModel) -> None:
        self._model, self._queue, self._pending_count = model, ScoringQueue(model), 0

    async def ping(self, _: HttpRequest) -> Response:
        """Answer with the version, its features of other rows, and the outcomes of all lookups since the start."""
        model = self._model
        features = {"features_of_other_rows": list(model.row_features.features_of_other_rows)}
        lookups = model.lookups.describe() if model.lookups else {}
        return _answer({"model": model.name, "version": model.version, **features, **lookups})

    async def invoke(self, request: HttpRequest) -> Response:
        """Answer with the scores of the rows, or with one line that says what is wrong."""
        request_id = choose_id(map(request.headers.get, ID_HEADERS))
        headers = {"x-request-id": request_id}
        if self._pending_count >= MAX_PENDING_REQUESTS:
            message = f"the server has {MAX_PENDING_REQUESTS} requests in progress: try again"
            return _answer_error(message, 503, {**headers, "retry-after": "1"})
        self._pending_count += 1
        try:
            return await self._score(request, request_id, headers)
        except Exception as error:  # a model can raise anything; the server continues
            return _answer_error(*_describe_failure(error, request_id), headers)
        finally:
            self._pending_count -= 1

    async def _score(self, request: HttpRequest, request_id: str, headers: Headers) -> Response:
        choose_type(request.headers.get("accept", ""), JSON)  # raises an error if the client does not accept JSON
        body, content_type = await _read_body(request), request.headers.get("content-type", "")
        model, scores = self._model, await self._queue.score(Request(body, content_type))
        origin = {"model": model.name, "version": model.version, "request_id": request_id}
        lookups = {"lookups": scores.lookups} if model.lookups else {}
        return _answer({**origin, "scores": scores.scores, **lookups}, headers=headers)


def _describe_failure(error: Exception, request_id: str) -> tuple[str, int]:
    """Return the message and the status of the answer to an error. An error that the client did not cause is logged."""
    if isinstance(error, BadRequest):
        return str(error), error.status_code
    if isinstance(error, TimeoutError):
        return f"the body did not arrive within {BODY_TIMEOUT_S:.0f} s", 408
    if isinstance(error, ClientDisconnect):
        return "the client closed the connection", 400
    if isinstance(error, LeewayError | FeatureError):
        log.error("request %s: %s", request_id, error)
        return getattr(error, "message", str(error)), 500
    log.error("request %s failed", request_id, exc_info=error)
    return f"the model failed: {type(error).__name__}", 500


async def _read_body(request: HttpRequest) -> bytes:
    """Read the body, of which at most `MAX_BYTES` are kept in memory.

    Raises:
        BadRequest: the body is larger than `MAX_BYTES`.
        TimeoutError: the body did not arrive within `BODY_TIMEOUT_S` seconds.
    """
    announced_bytes = request.headers.get("content-length", "")
    if announced_bytes.isdecimal() and int(announced_bytes[:20]) > MAX_BYTES:
        raise BadRequest(f"the body has {announced_bytes[:20]} bytes: send at most {MAX_BYTES}", 413)
    body = bytearray()
    async with asyncio.timeout(BODY_TIMEOUT_S):
        async for chunk in request.stream():
            if len(body) + len(chunk) > MAX_BYTES:
                raise BadRequest(f"the body has more than {MAX_BYTES} bytes: send fewer rows", 413)
            body += chunk
    return bytes(body)


async def _answer_http_exception(_: HttpRequest, error: Exception) -> Response:
    """Answer a request for an unknown path or method, in the same JSON form as all other errors."""
    assert isinstance(error, HTTPException)
    message = f"{error.detail}: the server has GET /ping and POST /invocations"
    return _answer_error(message, error.status_code, dict(error.headers or {}))


def _answer_error(message: str, status_code: int, headers: Headers) -> Response:
    """Answer with an error in one line. A long message is cut: it can have a name from the request, of any length."""
    line = escape(" ".join(message[: 2 * MAX_CHARS].split()))
    return _answer({"error": line[:MAX_CHARS]}, status_code, headers)


def _answer(content: dict[str, Any], status_code: int = 200, headers: Headers | None = None) -> Response:
    return Response(json.dumps(content), status_code, headers, media_type=JSON)
