"""Copy the documents of Leeway's page to S3, for an Airflow whose API server cannot read LEEWAY_HOME, such as MWAA."""

from __future__ import annotations

import io
import zipfile
from urllib.parse import urlsplit

from pipelines.errors import ServiceError, SpecError
from pipelines.settings import settings
from pipelines.status.writing import FOLDER
from pipelines.system.error_translation import translate_known_error
from pipelines.system.log import log


def upload_documents(uri: str) -> None:
    """Upload all documents in LEEWAY_HOME/status as one zip file, so that a reader never gets a part of them.

    Args:
        uri: s3://BUCKET/KEY.

    Raises:
        SpecError: AWS is not set up here, or the bucket does not exist. A retry cannot help.
        ServiceError: S3 does not answer, or refuses the request. A retry can help.
    """
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    parts = urlsplit(uri)
    content = pack_documents()
    try:
        boto3.client("s3").put_object(Bucket=parts.netloc, Key=parts.path.lstrip("/"), Body=content)
    except ClientError as error:
        if error.response["Error"]["Code"] == "NoSuchBucket":
            raise SpecError(f"LEEWAY_STATUS_COPY: the bucket of {uri} does not exist.", "Create it.") from None
        raise ServiceError(f"S3 refused {uri}: {error}.") from None
    except BotoCoreError as error:
        translation = translate_known_error(error)
        if isinstance(translation, SpecError):  # AWS is not set up here: no credentials, for example
            raise translation from None
        raise ServiceError(f"S3 does not answer: {error}.") from None
    log.info("status: %d bytes copied to %s", len(content), uri)


def pack_documents() -> bytes:
    """Return the documents as a zip file."""
    folder, file = settings().home / FOLDER, io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.rglob("*.json")):
            if not path.name.startswith("."):  # a temporary file of another writer
                archive.write(path, path.relative_to(folder).as_posix())
    return file.getvalue()
