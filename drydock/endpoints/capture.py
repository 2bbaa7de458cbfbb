"""Write captured requests and answers to S3 as SageMaker's DataCaptureConfig does: JSON lines, one folder per hour."""

import base64
import json
import logging
import random
import tempfile
import threading
import uuid
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from drydock.endpoints.instances.connection_pool import ModelResponse
from drydock.endpoints.invocation import Invocation
from drydock.jobs.work import TRANSFER_ERRORS
from drydock.resources import Owner
from drydock.settings import Settings
from drydock.transfer.objects import ObjectStore, join_uri

log = logging.getLogger(__name__)

FLUSH_S = 2.0
"""Seconds for which captured lines wait in memory. If the server is killed, these lines are lost."""
MAX_WAITING_CHARS = 64 << 20
"""Most characters that wait in memory. While S3 does not answer, or is too slow, further lines are lost."""


class Target(NamedTuple):
    """Where captured lines are written: the endpoint's account and region, and the parts of the folder's URI."""

    owner: Owner
    uri: str
    endpoint: str
    variant: str


class DataCapture:
    """Captures requests and answers. Safe for several threads.

    Args:
        settings: The server's settings.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lines: defaultdict[Target, list[str]] = defaultdict(list)
        self._waiting_chars = 0
        self._lost_counts: Counter[str] = Counter()
        self._lock, self._stop_event = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="capture", daemon=True)

    def start(self) -> None:
        """Begin to write captured lines, in the background."""
        self._thread.start()

    def close(self) -> None:
        """Write the lines that wait in memory. Lines that are captured later are not written."""
        self._stop_event.set()
        if self._thread.is_alive():
            self._thread.join()

    def record(
        self,
        owner: Owner,
        endpoint: str,
        variant: str,
        config: Mapping[str, Any] | None,
        request: Invocation,
        response: ModelResponse,
        requested_at: datetime,
    ) -> None:
        """Capture an invocation, if capture is enabled and the random sample (InitialSamplingPercentage) includes it.

        Args:
            owner: The endpoint's account and region.
            endpoint: EndpointName.
            variant: VariantName.
            config: DataCaptureConfig; None if the endpoint has none.
            request: The request.
            response: The model's response.
            requested_at: When the request came, UTC.
        """
        if not config or not config.get("EnableCapture"):
            return
        if random.random() * 100 >= config["InitialSamplingPercentage"]:  # noqa: S311  no secret
            return
        line = json.dumps(build_event(config, request, response, requested_at))
        self._add(Target(owner, config["DestinationS3Uri"], endpoint, variant), [line])

    def _add(self, target: Target, lines: Sequence[str]) -> None:
        """Add lines to those that wait in memory for the next write. Drop the lines for which there is no space."""
        with self._lock:
            for line in lines:
                if self._waiting_chars + len(line) <= MAX_WAITING_CHARS:
                    self._waiting_chars += len(line)
                    self._lines[target].append(line)
                else:
                    self._lost_counts[target.endpoint] += 1

    def _run(self) -> None:
        is_closing = False
        while not is_closing:
            is_closing = self._stop_event.wait(FLUSH_S)
            with self._lock:
                lines, self._lines, self._waiting_chars = self._lines, defaultdict(list), 0
            for target, target_lines in lines.items():
                self._write(target, target_lines)
            self._report_lost_lines(is_closing)

    def _report_lost_lines(self, is_closing: bool) -> None:
        """Log how many captured requests of each endpoint are lost, since the last report."""
        with self._lock:
            if is_closing:  # nothing writes the lines whose last write has failed
                for target, lines in self._lines.items():
                    self._lost_counts[target.endpoint] += len(lines)
            lost_counts, self._lost_counts = self._lost_counts, Counter()
        for endpoint, count in lost_counts.items():
            log.error("captured requests of %s: %d are lost, as they could not be written to S3", endpoint, count)

    def _write(self, target: Target, lines: Sequence[str]) -> None:
        settings, owner = self._settings, target.owner
        objects = ObjectStore(settings.objects_url, owner.account_id, owner.region, settings.s3_retry_s)
        moment = datetime.now(UTC)
        name = f"{moment:%M-%S-%f}-{uuid.uuid4()}.jsonl"
        uri = join_uri(target.uri, target.endpoint, target.variant, f"{moment:%Y/%m/%d/%H}", name)
        try:
            with tempfile.TemporaryFile() as file:
                file.write(("\n".join(lines) + "\n").encode())
                file.flush()  # `write` reads the file through another descriptor
                # Without retries, which would delay other lines. If this write fails, the next flush writes the lines.
                objects.get_store_without_retries().write(file, uri)
        except TRANSFER_ERRORS as error:
            log.warning("captured requests of %s cannot be written to %s: %s", target.endpoint, uri, error)
            self._add(target, lines)


def build_event(
    config: Mapping[str, Any], request: Invocation, response: ModelResponse, requested_at: datetime
) -> dict[str, Any]:
    """Build the captured line of an invocation, in the form that SageMaker writes.

    Args:
        config: DataCaptureConfig.
        request: The request.
        response: The model's response.
        requested_at: When the request came, UTC.
    """
    modes = {option["CaptureMode"] for option in config["CaptureOptions"]}
    capture: dict[str, Any] = {}
    if modes & {"Input", "InputAndOutput"}:
        content_type = request.headers.get("Content-Type", "")
        capture["endpointInput"] = _build_part(config, "INPUT", content_type, request.body)
    if modes & {"Output", "InputAndOutput"}:
        capture["endpointOutput"] = _build_part(config, "OUTPUT", response.content_type, response.body)
    metadata: dict[str, Any] = {"eventId": str(uuid.uuid4()), "inferenceTime": f"{requested_at:%Y-%m-%dT%H:%M:%SZ}"}
    if inference_id := request.headers.get("X-Amzn-SageMaker-Inference-Id"):
        metadata["inferenceId"] = inference_id
    if attributes := request.headers.get("X-Amzn-SageMaker-Custom-Attributes"):
        metadata["customAttributes"] = [attributes]
    return {"captureData": capture, "eventMetadata": metadata, "eventVersion": "0"}


def _build_part(config: Mapping[str, Any], mode: str, content_type: str, body: bytes) -> dict[str, str]:
    """Return a request or an answer as captured.

    A body is stored as text if CaptureContentTypeHeader names its content type, and as base64 otherwise (botocore's
    description of this member).
    """
    header = config.get("CaptureContentTypeHeader", {})
    media_type = content_type.partition(";")[0].strip()
    encoding = "BASE64"
    if media_type in header.get("JsonContentTypes", ()):
        encoding = "JSON"
    elif media_type in header.get("CsvContentTypes", ()):
        encoding = "CSV"
    try:
        data = body.decode() if encoding != "BASE64" else base64.b64encode(body).decode()
    except UnicodeDecodeError:
        encoding, data = "BASE64", base64.b64encode(body).decode()
    return {"observedContentType": content_type, "mode": mode, "data": data, "encoding": encoding}
