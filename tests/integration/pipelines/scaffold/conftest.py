"""Provide an empty project, and the function that makes a model of a table in it."""

import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from pipelines.scaffold.creation import Creation, create
from pipelines.scaffold.request import Request, refuse_to_ask
from tests.tools import orders_file

LABEL = {"label": "returned"}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    folder.mkdir()
    return folder


@pytest.fixture
def make(home: Path, project: Path, tmp_path: Path) -> Callable[..., Creation]:
    """Return the function that makes the model `orders` of a table, in the folder `project`."""

    def make_model(table: pd.DataFrame, name: str = "orders", **options: Any) -> Creation:
        path = tmp_path / f"{name}.csv"
        table.to_csv(path, index=False)
        return create(Request(name, str(path), **{**LABEL, **options}), project, refuse_to_ask)

    return make_model


@pytest.fixture(scope="module")
def orders() -> pd.DataFrame:
    return orders_file.make_orders()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[[Path], str]]:
    """Return the function that serves a folder by HTTP and gives its address."""
    servers = []

    def serve_folder(folder: Path) -> str:
        handler = partial(SimpleHTTPRequestHandler, directory=str(folder))
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}"

    yield serve_folder
    for server in servers:
        server.shutdown()
        server.server_close()
