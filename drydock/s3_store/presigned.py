"""Refuse presigned requests that have expired, as S3 does. Signatures are not checked, as everywhere in drydock.

The rules are those of S3's documentation: "Authenticating Requests: Using Query Parameters" (Signature Version 4, the
parameters X-Amz-*), the older Signature Version 2 (AWSAccessKeyId, Expires and Signature), and the policy of
browser-based uploads by POST.
"""

import base64
import binascii
import io
import json
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn
from urllib.parse import parse_qsl

from werkzeug.wrappers import Request

from drydock.errors import truncate
from drydock.wsgi import ErrorResponse, WsgiApplication, answer_error

# S3's limit for X-Amz-Expires, and how far the time of a signature may be in the future.
MAX_EXPIRES_S = 604_800
MAX_CLOCK_SKEW = timedelta(minutes=15)
DATE_FORMAT = "%Y%m%dT%H%M%SZ"
V4_NAMES = frozenset(
    f"x-amz-{name}" for name in ("algorithm", "credential", "signature", "date", "signedheaders", "expires")
)
V2_NAMES = frozenset({"awsaccesskeyid", "expires", "signature"})
NOT_A_DATE = """X-Amz-Date must be in the ISO8601 Long Format "yyyyMMdd'T'HHmmss'Z'\""""
TOO_LONG = (
    "X-Amz-Expires must be less than a week (in seconds); "
    f"that is, the given X-Amz-Expires must be less than {MAX_EXPIRES_S} seconds"
)


class InvalidPresignedRequest(Exception):
    """A presigned request, or the policy of an upload, has expired, is not valid yet, or is malformed.

    A retry cannot help, except for a request that is not valid yet.

    Args:
        code: S3's error code.
        message: S3's message.
        details: More elements of the error.
    """

    def __init__(self, code: str, message: str, **details: str) -> None:
        super().__init__(code, message)
        self.error_response = ErrorResponse(
            403 if code == "AccessDenied" else 400, code, message, tuple(details.items())
        )


class PresignedMiddleware:
    """WSGI middleware around S3 that refuses presigned requests that have expired or are not valid yet.

    It runs inside S3Middleware, which has already read the body of an upload into memory.

    Args:
        application: Answers all other requests.
    """

    def __init__(self, application: WsgiApplication) -> None:
        self._application = application

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer one request."""
        try:
            check_request(environ, datetime.now(UTC))
        except InvalidPresignedRequest as error:
            return answer_error(environ, start_response, error.error_response, "s3")
        return self._application(environ, start_response)


def check_request(environ: dict[str, Any], now: datetime) -> None:
    """Check that a presigned request is valid now. Other requests pass.

    Args:
        environ: The request, as WSGI describes it.
        now: The current time, with a time zone.

    Raises:
        InvalidPresignedRequest: The request has expired, is not valid yet, lacks a parameter, or has a malformed one.
    """
    pairs = parse_qsl(environ.get("QUERY_STRING", ""), keep_blank_values=True)
    query = {name.lower(): value for name, value in pairs}
    if "x-amz-signature" in query or "x-amz-algorithm" in query:
        check_v4_query(query, now)
    elif query.keys() >= V2_NAMES and "signatureversion" not in query:  # only URLs of other services have it
        check_v2_query(query, now)
    elif environ["REQUEST_METHOD"] == "POST" and environ.get("CONTENT_TYPE", "").startswith("multipart/form-data"):
        check_policy(_read_policy(environ), now)


def check_v4_query(query: Mapping[str, str], now: datetime) -> None:
    """Check the times of a URL that is presigned by Signature Version 4. A URL for another service than S3 passes.

    Args:
        query: The query parameters, by their names in lower case.
        now: The current time, with a time zone.

    Raises:
        InvalidPresignedRequest: The request has expired, is not valid yet, lacks a parameter, or has a malformed time.
    """
    # The service is the last but one part of KEY/DATE/REGION/SERVICE/aws4_request.
    if query.get("x-amz-credential", "").split("/")[-2:-1] not in ([], ["s3"]):
        return
    if not query.keys() >= V4_NAMES:
        names = "X-Amz-Algorithm, X-Amz-Credential, X-Amz-Signature, X-Amz-Date, X-Amz-SignedHeaders, and X-Amz-Expires"
        _refuse_query(f"Query-string authentication version 4 requires the {names} parameters.")
    try:
        signed_at = datetime.strptime(query["x-amz-date"], DATE_FORMAT).replace(tzinfo=UTC)
    except ValueError:
        _refuse_query(NOT_A_DATE)
    expires_s = _parse_expires(query["x-amz-expires"])
    if signed_at > now + MAX_CLOCK_SKEW:
        raise InvalidPresignedRequest("AccessDenied", "Request is not valid yet", ServerTime=_format_time(now))
    if now > signed_at + timedelta(seconds=expires_s):
        _refuse_expired_url(signed_at + timedelta(seconds=expires_s), now, {"X-Amz-Expires": str(expires_s)})


def check_v2_query(query: Mapping[str, str], now: datetime) -> None:
    """Check the time of a URL that is presigned by Signature Version 2; the arguments are those of `check_v4_query`.

    Raises:
        InvalidPresignedRequest: The request has expired, or its time is malformed.
    """
    try:
        expires_at = datetime.fromtimestamp(int(query["expires"]), UTC)
    except (ValueError, OverflowError, OSError):
        message = f"Invalid date (should be seconds since epoch): {truncate(query['expires'], 60)}"
        raise InvalidPresignedRequest("AccessDenied", message) from None
    if now > expires_at:
        _refuse_expired_url(expires_at, now, {})


def check_policy(policy: str, now: datetime) -> None:
    """Check the expiration of the policy of an upload by POST.

    Args:
        policy: The policy, a JSON object encoded as base64; "" for an upload without a policy, which passes.
        now: The current time, with a time zone.

    Raises:
        InvalidPresignedRequest: The policy has expired, or has no valid expiration.
    """
    if not policy:
        return
    try:
        expiration = datetime.fromisoformat(json.loads(base64.b64decode(policy))["expiration"])
        expires_at = expiration if expiration.tzinfo else expiration.replace(tzinfo=UTC)
    except (ValueError, TypeError, KeyError, RecursionError, binascii.Error):
        raise InvalidPresignedRequest("InvalidPolicyDocument", "Invalid Policy: it has no valid expiration.") from None
    if now > expires_at:
        raise InvalidPresignedRequest("AccessDenied", "Invalid according to Policy: Policy expired.")


def _parse_expires(text: str) -> int:
    """Return X-Amz-Expires in seconds.

    Raises:
        InvalidPresignedRequest: The text is not an integer from 0 to `MAX_EXPIRES_S`.
    """
    try:
        expires_s = int(text)
    except ValueError:
        _refuse_query("X-Amz-Expires should be a number")
    if expires_s < 0:
        _refuse_query("X-Amz-Expires must be non-negative")
    if expires_s > MAX_EXPIRES_S:
        _refuse_query(TOO_LONG)
    return expires_s


def _read_policy(environ: dict[str, Any]) -> str:
    """Return the field `policy` of a form; "" if there is none. The body can be read again afterwards."""
    if not isinstance(environ["wsgi.input"], io.BytesIO):
        return ""  # a request that names no bucket: S3Middleware has not read its body
    fields = {name.lower(): value for name, value in Request(environ, populate_request=False).form.items()}
    environ["wsgi.input"].seek(0)
    return fields.get("policy", "")


def _refuse_query(message: str) -> NoReturn:
    raise InvalidPresignedRequest("AuthorizationQueryParametersError", message)


def _refuse_expired_url(expires_at: datetime, now: datetime, details: Mapping[str, str]) -> NoReturn:
    times = {"Expires": _format_time(expires_at), "ServerTime": _format_time(now)}
    raise InvalidPresignedRequest("AccessDenied", "Request has expired", **details, **times)


def _format_time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"
