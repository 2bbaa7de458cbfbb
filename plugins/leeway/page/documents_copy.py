"""Fetch the documents of the page from S3 if the API server and the steps share no folder, as on MWAA.

`python -m pipelines status --write` copies them to S3 as one zip file, if LEEWAY_STATUS_COPY is set. The API server
unpacks a new copy to its own LEEWAY_HOME/status, from which it sends them.
"""

from __future__ import annotations

import io
import json
import logging
import os
import re
import threading
import time
import zipfile
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pipelines.settings import settings
from pipelines.system.files import replace_file

CHECK_S = 30.0
"""Seconds between two requests to S3: a copy is written every few minutes."""
TIMEOUT_S = 5
"""Longest wait for a connection to S3, and for its answer, seconds. The first visitors wait at most as long for the
first copy."""
DOCUMENT = re.compile(r"(?:(?:models|data)/)?[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}\.json")
"""Allowed names of files in a copy. No other is unpacked."""
MAX_BYTES = 64 << 20
"""Largest size of all documents of a copy, bytes."""
MODELS_FILE = "models.json"
"""The list of models. A copy without it would leave the old list, which names documents that are gone."""
LAST_CHECK_FILE = "watched"
"""File whose modification time the page shows as the time of the last check of the lake for changes. The
same name is in `leeway.page.documents`, which imports this module."""
NOT_MODIFIED = "304"
"""S3's error code if the copy still has the ETag that the request names."""
log = logging.getLogger(__name__)


class DocumentsCopy:
    """The copy of the documents in S3: when this process last checked it, and which version it unpacked."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._last_check_s: float | None = None
        """Time of the last check, of the monotonic clock; None before the first one."""
        self._etag = ""
        """ETag of the version that was unpacked last; empty before the first one."""
        self._problem = ""
        """Error that was logged last; empty after a check without an error."""
        self._client: Any = None

    def refresh(self) -> None:
        """Unpack the copy in a thread if it is new. Meanwhile, the page shows the documents in LEEWAY_HOME/status.

        Only the first visitors of this process wait for the copy, because there may be no documents yet.
        """
        uri = settings().status_copy
        if not uri:
            return
        with self._lock:
            is_first = self._last_check_s is None
            if self._thread is None and (is_first or time.monotonic() - (self._last_check_s or 0) >= CHECK_S):
                self._thread = threading.Thread(target=self._check, args=(uri,), daemon=True)
                self._thread.start()
        if is_first:
            self.wait_for_check(TIMEOUT_S)

    def wait_for_check(self, timeout_s: float) -> None:
        """Wait until no thread reads the copy, at most for `timeout_s` seconds."""
        if thread := self._thread:
            thread.join(timeout_s)

    def _check(self, uri: str) -> None:
        """Unpack the copy if it is new. If S3 does not answer, log this once; the documents stay as they are."""
        try:
            self._fetch(uri)
            self._problem = ""
        except Exception as error:  # the page says how old its documents are
            problem = " ".join(str(error).split())[:300]
            if problem != self._problem:
                log.warning("%s cannot be read, so the page shows older documents: %s", uri, problem)
            self._problem = problem
        with self._lock:
            self._last_check_s, self._thread = time.monotonic(), None

    def _fetch(self, uri: str) -> None:
        from botocore.exceptions import ClientError

        location = urlsplit(uri)
        condition = {"IfNoneMatch": self._etag} if self._etag else {}
        try:
            response = self._connect().get_object(Bucket=location.netloc, Key=location.path.lstrip("/"), **condition)
        except ClientError as error:
            if error.response["Error"]["Code"] == NOT_MODIFIED:
                return
            raise
        if response["ContentLength"] > MAX_BYTES:
            raise ValueError(f"it has {response['ContentLength']} bytes, more than {MAX_BYTES}")
        folder = settings().home / "status"
        unpack(response["Body"].read(), folder)
        written_s = response["LastModified"].timestamp()
        # The page shows this file's time, which must be that of the copy. The file gets it before it appears in the
        # folder, so a visitor never sees the present time.
        with replace_file(folder / LAST_CHECK_FILE) as temporary:
            os.utime(temporary, (written_s, written_s))
        self._etag = response["ETag"]

    def _connect(self) -> Any:
        """Return a client of S3 with the process's own credentials, such as those of MWAA's role."""
        if self._client is None:
            import boto3
            from botocore.config import Config

            config = Config(connect_timeout=TIMEOUT_S, read_timeout=TIMEOUT_S, retries={"total_max_attempts": 1})
            self._client = boto3.client("s3", config=config)
        return self._client


def unpack(content: bytes, folder: Path) -> None:
    """Replace the documents in a folder with the documents of a zip file.

    The list of models, which names the other documents, is replaced last.

    Raises:
        ValueError: the zip file is too large, lacks the list of models, or has a file that is not a document, or whose
            JSON is damaged. Nothing was changed.
        zipfile.BadZipFile: the zip file is damaged. Nothing was changed.
    """
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        entries = archive.infolist()
        if sum(entry.file_size for entry in entries) > MAX_BYTES:
            raise ValueError(f"the copy of the documents has more than {MAX_BYTES} bytes")
        if names := [entry.filename for entry in entries if not DOCUMENT.fullmatch(entry.filename)]:
            raise ValueError(f"the copy of the documents has the file {names[0]!r}")
        if all(entry.filename != MODELS_FILE for entry in entries):
            raise ValueError(f"the copy of the documents lacks {MODELS_FILE}")
        documents = {entry.filename: archive.read(entry) for entry in entries}
    for name, text in documents.items():
        _check_json(name, text)
    for name in sorted(documents, key=lambda name: name == MODELS_FILE):  # True, the list, is last
        with replace_file(folder / name) as temporary:
            temporary.write_bytes(documents[name])
    for path in folder.glob("*/*.json"):
        if path.relative_to(folder).as_posix() not in documents:
            path.unlink(missing_ok=True)


def _check_json(name: str, text: bytes) -> None:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError(f"the copy of the documents has the file {name!r}, which is not valid JSON") from None


shared_copy = DocumentsCopy()
"""The copy of this process."""
