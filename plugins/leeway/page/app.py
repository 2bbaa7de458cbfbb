"""Answer the page's requests for documents and for its script. Every route needs a login; Airflow's permissions apply.

Without `from __future__ import annotations`: FastAPI has to resolve the types of the routes' parameters.
"""

import hashlib
import json
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any

from airflow.api_fastapi.auth.managers.models.resource_details import AccessView
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_view
from fastapi import Depends, FastAPI, Header, HTTPException, Request, Response
from fastapi.responses import JSONResponse

from leeway.page import documents
from leeway.page.errors import MissingDocumentError
from leeway.page.permissions import select_readable_models, send_permissions

STATIC = Path(__file__).with_name("static")
WATCHED_HEADER = "X-Leeway-Watched-At"
"""Header with the time at which the lake was last checked for changes, UTC."""
HEADERS = {"Cache-Control": "private, no-cache", "X-Content-Type-Options": "nosniff"}
"""Headers of every response that this module builds. A browser may cache a response, and asks each time whether it
has changed."""
COLORS = {"icon.svg": ("#334155", "#f8fafc"), "icon-dark.svg": ("#e4e4e7", "none")}
"""Maps each icon to the colors of its lines and of their edge. If the page is open, Airflow's light theme shows the
icon on dark blue; there the edge makes it visible."""
ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24" fill="none" stroke-linejoin="round">'
    '<path stroke="{1}" stroke-width="4.5" d="{2}"/><path stroke="{0}" stroke-width="2" d="{2}"/></svg>'
)
LINES = "M4 18 12 4l8 14zM12 4v14M3 21h18"
"""Path of the icon's lines, in the syntax of SVG."""
IfNoneMatch = Annotated[str, Header()]


@cache
def create_app() -> FastAPI:
    """Create the application. Its routes have no documentation page, which would be open to everybody."""
    app = FastAPI(
        title="Leeway",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        dependencies=[Depends(requires_access_view(AccessView.WEBSITE))],
    )
    app.add_exception_handler(MissingDocumentError, _answer_missing_document)
    dependencies = [Depends(documents.record_request)]
    app.get("/documents/models", dependencies=dependencies)(send_models)
    app.get("/documents/models/{name}", dependencies=dependencies)(send_model)
    app.get("/documents/data/{name}", dependencies=dependencies)(send_dataset)
    app.get("/documents/costs", dependencies=dependencies)(send_costs)
    app.get("/documents/jobs", dependencies=dependencies)(send_jobs)
    app.get("/permissions/{name}")(send_permissions)
    app.get("/leeway.js")(send_script)
    app.get("/{name}.svg")(send_icon)
    return app


def send_models(user: GetUserDep, if_none_match: IfNoneMatch = "") -> Response:
    """Send the list of models."""
    return _send(documents.read_models(partial(select_readable_models, user)), if_none_match)


def send_model(name: str, user: GetUserDep, if_none_match: IfNoneMatch = "") -> Response:
    """Send the details of a model."""
    documents.check_name(name, "model")
    if not select_readable_models(user, [name]):
        raise HTTPException(403, f"You may not read the runs of {name}_train, so you may not read about {name}.")
    return _send(documents.read_model(name), if_none_match)


def send_dataset(name: str, user: GetUserDep, if_none_match: IfNoneMatch = "") -> Response:
    """Send the state of a dataset."""
    return _send(documents.read_dataset(name, partial(select_readable_models, user)), if_none_match)


def send_costs(user: GetUserDep, if_none_match: IfNoneMatch = "") -> Response:
    """Send the costs."""
    return _send(documents.read_costs(partial(select_readable_models, user)), if_none_match)


def send_jobs(user: GetUserDep, if_none_match: IfNoneMatch = "") -> Response:
    """Send the jobs that run."""
    return _send(documents.read_jobs(partial(select_readable_models, user)), if_none_match)


def send_script(if_none_match: IfNoneMatch = "") -> Response:
    """Send the script that draws the page."""
    return _send_bytes(_read_script(), "text/javascript", if_none_match)


def send_icon(name: str) -> Response:
    """Send the icon in the navigation, for light or dark pages."""
    colors = COLORS.get(f"{name}.svg")
    if colors is None:
        raise HTTPException(404, "there is no such icon.")
    return Response(ICON.format(*colors, LINES), media_type="image/svg+xml", headers=HEADERS)


def _send(document: dict[str, Any], if_none_match: str) -> Response:
    body = json.dumps(document, separators=(",", ":")).encode()
    response = _send_bytes(body, "application/json", if_none_match)
    if watched_at := documents.find_last_check_time():
        response.headers[WATCHED_HEADER] = f"{watched_at:%Y-%m-%dT%H:%M:%SZ}"
    return response


def _send_bytes(body: bytes, media_type: str, if_none_match: str) -> Response:
    """Send a body, or 304 without one if the browser has it already."""
    headers = {**HEADERS, "ETag": f'"{hashlib.sha256(body).hexdigest()[:32]}"'}
    if headers["ETag"] in if_none_match:
        return Response(status_code=304, headers=headers)
    return Response(body, media_type=media_type, headers=headers)


@cache
def _read_script() -> bytes:
    return (STATIC / "leeway.js").read_bytes()


async def _answer_missing_document(_: Request, error: Exception) -> Response:
    return JSONResponse({"detail": str(error)}, 404, HEADERS)
