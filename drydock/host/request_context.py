"""The context of a request, which a model's functions may take as one more argument.

It has the methods of the context that SageMaker's inference toolkit (1.10.1) passes to them: the `Context` of
multi-model-server (1.1.11). The toolkit passes one request at a time, so `idx` is always 0. Stand-alone programs import
this module: it needs only the standard library.
"""

from collections.abc import Mapping
from typing import Any

CUSTOM_ATTRIBUTES = "X-Amzn-SageMaker-Custom-Attributes"
"""Header of a request and of a response: any text of the client, or of the model."""
MAX_ATTRIBUTES_CHARS = 1024
"""SageMaker's limit for the custom attributes."""


class RequestProcessor:
    """Headers and status of one request and its response.

    Args:
        headers: The headers of the request.
    """

    def __init__(self, headers: Mapping[str, str]) -> None:
        self._request_headers = dict(headers)
        self._response_headers: dict[str, str] = {}
        self._status, self._phrase = 200, ""

    def get_request_property(self, key: str) -> str | None:
        """Return a header of the request by its exact name; None if the request lacks it."""
        return self._request_headers.get(key)

    def get_request_properties(self) -> dict[str, str]:
        """Return the headers of the request."""
        return self._request_headers

    def report_status(self, code: int, reason_phrase: str = "") -> None:
        """Set the status of the response."""
        self._status, self._phrase = code, reason_phrase

    def get_response_status_code(self) -> int:
        """Return the status of the response."""
        return self._status

    def get_response_status_phrase(self) -> str:
        """Return the reason of the status."""
        return self._phrase

    def add_response_property(self, key: str, value: str) -> None:
        """Set a header of the response."""
        self._response_headers[key] = value

    def get_response_headers(self) -> dict[str, str]:
        """Return the headers of the response that were set."""
        return self._response_headers


class Context:
    """The context: one object for the model, whose `request_processor` belongs to the present request.

    Args:
        model_dir: Folder of the model.
    """

    def __init__(self, model_dir: str) -> None:
        self.system_properties: dict[str, Any] = {"model_dir": model_dir, "gpu_id": None, "batch_size": 1}
        self.request_processor = [RequestProcessor({})]

    def get_request_header(self, idx: int, key: str) -> str | None:
        """Return a header of the request by its exact name; None if the request lacks it."""
        return self.request_processor[idx].get_request_property(key)

    def get_all_request_header(self, idx: int) -> dict[str, str]:
        """Return the headers of the request."""
        return self.request_processor[idx].get_request_properties()

    def set_response_header(self, idx: int, key: str, value: str) -> None:
        """Set a header of the response. SageMaker returns only `CUSTOM_ATTRIBUTES` to the client."""
        self.request_processor[idx].add_response_property(key, value)

    def get_response_headers(self, idx: int) -> dict[str, str]:
        """Return the headers of the response that were set."""
        return self.request_processor[idx].get_response_headers()

    def set_response_content_type(self, idx: int, value: str) -> None:
        """Store a content type, unused: the response has the one that output_fn or transform_fn returns."""
        self.set_response_header(idx, "content-type", value)

    def get_response_content_type(self, idx: int) -> str | None:
        """Return what `set_response_content_type` has set; None if it was not called."""
        return self.get_response_headers(idx).get("content-type")

    def set_response_status(self, code: int = 200, phrase: str = "", idx: int = 0) -> None:
        """Set the status of the response."""
        self.request_processor[idx].report_status(code, phrase)

    def get_response_status(self, idx: int) -> tuple[int, str]:
        """Return the status of the response, and its reason."""
        processor = self.request_processor[idx]
        return processor.get_response_status_code(), processor.get_response_status_phrase()


def find_response_status(context: Context) -> int:
    """Return the HTTP status of the response: 200, unless the model's code has set another one.

    Raises:
        ValueError: It is neither 200 nor the status of an error.
    """
    status = context.get_response_status(0)[0]
    if not isinstance(status, int) or not (status == 200 or 400 <= status < 600):
        raise ValueError(f"the model's code has set the status {status!r}; it must be 200, or 400 to 599")
    return status


def find_response_attributes(context: Context) -> str:
    """Return the custom attributes that the model has set for its response; empty if it has set none.

    Raises:
        ValueError: They are too long, or have other characters than visible ASCII and spaces.
    """
    headers = {name.lower(): value for name, value in context.get_response_headers(0).items()}
    attributes = str(headers.get(CUSTOM_ATTRIBUTES.lower(), ""))
    if len(attributes) > MAX_ATTRIBUTES_CHARS or not (attributes.isascii() and attributes.isprintable()):
        limit = f"at most {MAX_ATTRIBUTES_CHARS} visible ASCII characters"
        raise ValueError(f"the custom attributes of the model's response must be {limit}")
    return attributes
