"""Call the endpoint of a test whose model answers with its version."""

from __future__ import annotations

import threading
from typing import Any, Self

from botocore.exceptions import ClientError


def invoke(drydock: Any, endpoint: str) -> str:
    """Return the version that answers, or the code of the error."""
    client = drydock.client("sagemaker-runtime")
    try:
        response = client.invoke_endpoint(EndpointName=endpoint, ContentType="text/csv", Body=b"1")
    except ClientError as error:
        return str(error.response["Error"]["Code"])
    return str(response["Body"].read().decode())


class Requests:
    """Requests to an endpoint, one after the other, while the block runs.

    Args:
        drydock: the server.
        endpoint: name of the endpoint.
        pause_s: seconds between two requests.
    """

    def __init__(self, drydock: Any, endpoint: str, pause_s: float = 0.02) -> None:
        self.answers: list[str] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(drydock, endpoint, pause_s))

    def _run(self, drydock: Any, endpoint: str, pause_s: float) -> None:
        while not self._ended.wait(pause_s):
            self.answers.append(invoke(drydock, endpoint))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
