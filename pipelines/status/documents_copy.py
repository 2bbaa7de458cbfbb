"""Copy the documents of Leeway's page to S3, for an Airflow whose API server cannot read LEEWAY_HOME, such as MWAA."""

from __future__ import annotations

import io
import zipfile
from contextlib import suppress
from urllib.parse import urlsplit

from pipelines.errors import SpecError
from pipelines.settings import settings
from pipelines.status.writing import FOLDER
from pipelines.system.log import log


def upload_documents(uri: str) -> None:
    """Upload all documents in LEEWAY_HOME/status as one zip file, so that a reader never gets a part of them.

    Args:
        uri: s3://BUCKET/KEY.

    Raises:
        SpecError: AWS is not set up here, or the bucket does not exist. A retry cannot help.
        InvalidError: AWS denies the request. A retry cannot help.
        ServiceError: S3 does not answer, or fails. A retry can help.
    """
    import boto3

    from pipelines.system.aws_errors import translate_aws_errors

    parsed_uri = urlsplit(uri)
    content = pack_documents()
    with translate_aws_errors("S3"):
        client = boto3.client("s3")
        try:
            client.put_object(Bucket=parsed_uri.netloc, Key=parsed_uri.path.lstrip("/"), Body=content)
        except client.exceptions.NoSuchBucket:
            raise SpecError(f"LEEWAY_STATUS_COPY: the bucket of {uri} does not exist.", "Create it.") from None
    log.info("status: %d bytes copied to %s", len(content), uri)


def pack_documents() -> bytes:
    """Return the documents as a zip file."""
    folder, file = settings().home / FOLDER, io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.rglob("*.json")):
            if path.name.startswith("."):  # a temporary file of another writer
                continue
            with suppress(FileNotFoundError):  # another writer has just deleted the document of a model that is gone
                archive.writestr(path.relative_to(folder).as_posix(), path.read_bytes())
    return file.getvalue()
