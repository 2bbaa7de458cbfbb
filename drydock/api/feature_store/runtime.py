"""Answer the requests of Feature Store's runtime, which moto lacks: put, get and delete records."""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn
from urllib.parse import parse_qs

from moto.sagemaker.exceptions import AWSValidationException

from drydock.api.runtime import find_account_id
from drydock.api.validation import validate_request
from drydock.feature_store.group import FeatureGroup, compute_seconds
from drydock.feature_store.records import StoredRecord
from drydock.feature_store.registry import FeatureGroups
from drydock.feature_store.values import (
    InvalidRecord,
    check_feature_names,
    compute_expiry,
    format_time,
    parse_event_time,
    parse_record,
)
from drydock.resources import Owner
from drydock.wsgi import ErrorResponse, WsgiApplication, answer_error, read_signed_region, read_signed_service

SERVICE = "sagemaker-featurestore-runtime"
RECORD_OPERATIONS = ("PutRecord", "GetRecord", "BatchGetRecord", "DeleteRecord")
MAX_BODY_BYTES = 8 << 20
"""Largest body of a request for records."""
_PATH = re.compile(r"/FeatureGroup/(.+)|/BatchGetRecord")
_OPERATIONS = {"PUT": "PutRecord", "GET": "GetRecord", "DELETE": "DeleteRecord", "POST": "BatchGetRecord"}
# Members of a request that are in the URL's query under their own names.
_TEXT_MEMBERS = ("RecordIdentifierValueAsString", "EventTime", "DeletionMode", "ExpirationTimeResponse")
# Members that are lists, by their names in the URL's query.
_LIST_MEMBERS = {"FeatureName": "FeatureNames", "TargetStores": "TargetStores"}
Request = Mapping[str, Any]


class RecordRequestRefused(Exception):
    """A request about a record is refused: the response is `error_response`. A retry cannot help."""

    def __init__(self, error_response: ErrorResponse) -> None:
        super().__init__(error_response.message)
        self.error_response = error_response


class FeatureStoreRuntime:
    """WSGI middleware: answer requests for records.

    Args:
        feature_groups: The feature groups of all accounts and regions.
        application: Answers all other requests.
    """

    def __init__(self, feature_groups: FeatureGroups, application: WsgiApplication) -> None:
        self._groups, self._application = feature_groups, application
        self._handlers = {
            "PutRecord": self._put,
            "GetRecord": self._get,
            "BatchGetRecord": self._get_batch,
            "DeleteRecord": self._delete,
        }

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer one request."""
        match = _PATH.fullmatch(environ.get("PATH_INFO", ""))
        operation = _OPERATIONS.get(environ.get("REQUEST_METHOD", ""), "")
        # BatchGetRecord names its groups in the body, and each other operation names its group in the path.
        is_batch = operation == "BatchGetRecord"
        if not match or not operation or is_batch == bool(match[1]) or read_signed_service(environ) != "sagemaker":
            return self._application(environ, start_response)
        owner = Owner(find_account_id(environ), read_signed_region(environ))
        try:
            request = validate_request(operation, _read_request(environ, match[1]), SERVICE)
            content = self._handlers[operation](owner, request)
        except (AWSValidationException, InvalidRecord) as error:
            return answer_error(environ, start_response, ErrorResponse(400, "ValidationError", str(error)), SERVICE)
        except RecordRequestRefused as error:
            return answer_error(environ, start_response, error.error_response, SERVICE)
        body = json.dumps(content).encode()
        start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
        return [body]

    def _put(self, owner: Owner, request: Request) -> dict[str, Any]:
        group = self._find_group(owner, request)
        identifier, event_time, values = parse_record(group, request["Record"])
        ttl = request.get("TtlDuration") or group.ttl
        expires_at = compute_expiry(event_time, compute_seconds(ttl)) if ttl else None
        self._groups.records.put(owner, group.name, identifier, event_time, values, expires_at)
        return {}

    def _get(self, owner: Owner, request: Request) -> dict[str, Any]:
        group, feature_names = self._find_group(owner, request, missing_status=404), request.get("FeatureNames", ())
        check_feature_names(group, feature_names)
        identifier = request["RecordIdentifierValueAsString"]
        record = self._groups.records.read(owner, group.name, [identifier]).get(identifier)
        return _describe(record, feature_names, request) if record else {}

    def _get_batch(self, owner: Owner, request: Request) -> dict[str, Any]:
        records, errors = list[dict[str, Any]](), list[dict[str, Any]]()
        for item in request["Identifiers"]:
            group_name, identifiers = item["FeatureGroupName"], item["RecordIdentifiersValueAsString"]
            feature_names = item.get("FeatureNames", ())
            group = self._groups.find(owner, group_name)
            if group is None:
                error = {"ErrorCode": "ResourceNotFound", "ErrorMessage": _describe_missing_group(group_name)}
                errors += [_identify(group_name, identifier) | error for identifier in identifiers]
                continue
            check_feature_names(group, feature_names)
            found_records = self._groups.records.read(owner, group.name, identifiers)
            records += [
                _identify(group_name, identifier) | _describe(found_records[identifier], feature_names, request)
                for identifier in identifiers
                if identifier in found_records
            ]
        return {"Records": records, "Errors": errors, "UnprocessedIdentifiers": []}

    def _delete(self, owner: Owner, request: Request) -> dict[str, Any]:
        group, identifier = self._find_group(owner, request), request["RecordIdentifierValueAsString"]
        event_time, records = parse_event_time(group, request["EventTime"]), self._groups.records
        if request.get("DeletionMode") != "HardDelete":
            records.put(owner, group.name, identifier, event_time, values=None)
        elif not records.delete_permanently(owner, group.name, identifier, event_time):
            raise InvalidRecord("EventTime: the stored record is as new as this time, or newer, so it is not deleted.")
        return {}

    def _find_group(self, owner: Owner, request: Request, missing_status: int = 400) -> FeatureGroup:
        """Return the group of a request. Refuse a request for the offline store, which no group has.

        Args:
            owner: Account and region of the request.
            request: The request.
            missing_status: HTTP status if there is no such group: 404, or 400 for PutRecord and DeleteRecord, which
                have no error ResourceNotFound.
        """
        group = self._groups.find(owner, request["FeatureGroupName"])
        if group is None:
            code = "ResourceNotFound" if missing_status == 404 else "ValidationError"
            _refuse(missing_status, code, _describe_missing_group(request["FeatureGroupName"]))
        if "OfflineStore" in request.get("TargetStores", ()):
            raise InvalidRecord(f"TargetStores: FeatureGroup {group.name} has no OfflineStore.")
        return group


def _read_request(environ: dict[str, Any], group_name: str | None) -> dict[str, Any]:
    """Return the members of a request, from its path, its query and its body.

    Args:
        environ: The WSGI environment of the request.
        group_name: The feature group in the path; None if the path has none.
    """
    if environ.get("HTTP_TRANSFER_ENCODING") or int(environ.get("CONTENT_LENGTH") or 0) > MAX_BODY_BYTES:
        _refuse(413, "ValidationError", f"The body must have at most {MAX_BODY_BYTES} bytes, and a Content-Length.")
    query = parse_qs(environ.get("QUERY_STRING", ""), keep_blank_values=True)
    request: dict[str, Any] = {member: query[member][0] for member in _TEXT_MEMBERS if member in query}
    request |= {member: query[key] for key, member in _LIST_MEMBERS.items() if key in query}
    body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    try:
        content = json.loads(body) if body else {}
    except ValueError as error:
        raise AWSValidationException(f"The request body is not JSON: {error}") from None
    if not isinstance(content, dict):
        raise AWSValidationException("The request body is not a JSON object.")
    return {**content, **request, **({"FeatureGroupName": group_name} if group_name else {})}


def _describe(record: StoredRecord, feature_names: Sequence[str], request: Request) -> dict[str, Any]:
    """Return the members of a response for a record, with the named features; without names, with all features."""
    values = {name: value for name, value in record.values.items() if not feature_names or name in feature_names}
    content: dict[str, Any] = {
        "Record": [{"FeatureName": name, "ValueAsString": value} for name, value in values.items()]
    }
    if request.get("ExpirationTimeResponse") == "Enabled" and record.expires_at is not None:
        content["ExpiresAt"] = format_time(record.expires_at)
    return content


def _identify(group: str, identifier: str) -> dict[str, Any]:
    return {"FeatureGroupName": group, "RecordIdentifierValueAsString": identifier}


def _describe_missing_group(name: str) -> str:
    return f"Resource Not Found: Amazon SageMaker can't find a FeatureGroup with name {name}."


def _refuse(status: int, code: str, message: str) -> NoReturn:
    raise RecordRequestRefused(ErrorResponse(status, code, message))
