"""`python -m pipelines serve --model NAME`: score raw rows over HTTP with a registered version."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import ExitStack, redirect_stdout
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.cli.options import DatasetOption, find_dataset_of_model
from pipelines.cli.terminal import write_line
from pipelines.errors import SpecError
from pipelines.settings import create_home

if TYPE_CHECKING:
    from pipelines.dataset import Dataset
    from pipelines.serving.served_model import ServedModel

ONE_THREAD = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}
"""Environment variables that limit the models' libraries to one thread. A variable that is set already is not changed.
With more threads, requests with few rows take longer."""


def run_command(
    model: Annotated[str, typer.Option("--model", metavar="NAME", help="Registered model.")],
    version: Annotated[str, typer.Option(metavar="N", help="Version or alias to serve.")] = "champion",
    host: Annotated[str, typer.Option(help="Address to listen on. The server has no authentication.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0: a free one.")] = 8080,
    dataset: DatasetOption = "",
    lookups: Annotated[
        bool | None,
        typer.Option(
            "--lookups/--no-lookups",
            show_default="if AWS or drydock is configured",
            help="Read features from the online store, to which `materialize` wrote them.",
        ),
    ] = None,
    record: Annotated[
        str, typer.Option(metavar="FOLDER", help="Record key, features and score of each row, for the step `skew`.")
    ] = "",
    example: Annotated[bool, typer.Option("--example", help="Only print a curl command with a published row.")] = False,
) -> None:
    """Serve a registered version: GET /ping, and POST /invocations with raw rows of its dataset.

    Features are computed by the SQL that was compiled at registration; without it, the dataset's present code is
    compiled. SIGTERM ends the server after the requests in progress. Exit code 75: the port is in use, or a service
    does not answer.
    """
    _limit_threads()
    create_home()
    if example:
        _refuse_options(version=version != "champion", lookups=lookups is not None, record=bool(record))
        return _print_example(find_dataset_of_model(model, dataset), _build_address(host, port))
    from pipelines.serving.app import build_app
    from pipelines.serving.served_model import open_model
    from pipelines.serving.server import bind, serve

    load_dataset, folder = _make_dataset_loader(model, dataset), Path(record) if record else None
    with bind(host, port) as listener, ExitStack() as models:
        served_context = open_model(model, version, load_dataset, has_lookups=lookups, record_to=folder)
        with redirect_stdout(sys.stderr):  # MLflow prints to stdout
            served_model = models.enter_context(served_context)
        serve(build_app(served_model), listener, lambda: _report_start(served_model, host, listener.getsockname()[1]))


def _make_dataset_loader(model: str, dataset: str) -> Callable[[], Dataset]:
    """Return a function that loads the dataset: only a version without compiled features needs it.

    A wrong name in --dataset is refused at once.
    """
    load_dataset = partial(find_dataset_of_model, model, dataset)
    if dataset:
        load_dataset()
    return load_dataset


def _limit_threads() -> None:
    for name, value in ONE_THREAD.items():
        os.environ.setdefault(name, value)


def _refuse_options(**options: bool) -> None:
    """Refuse options that have no effect together with --example.

    Args:
        options: name of each option, and whether it was given.
    """
    if used_options := [f"--{name}" for name, is_given in options.items() if is_given]:
        raise SpecError(f"{', '.join(used_options)} has no effect together with --example.", "Leave it out.")


def _print_example(dataset: Dataset, address: str) -> None:
    from pipelines.lake import Lake
    from pipelines.serving.example import build_example_command

    write_line(build_example_command(Lake.open(), dataset, address))


def _build_address(host: str, port: int) -> str:
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/invocations"


def _report_start(model: ServedModel, host: str, port: int) -> None:
    write_line(f"{model.name} version {model.version} answers at {_build_address(host, port)}")
    if model.lookups:
        names = ", ".join(name for lookup in model.lookups.lookups for name in lookup.features)
        write_line(f"read from the online store, with a default for a missing value: {names}")
    if model.row_features.features_of_other_rows:
        names = ", ".join(model.row_features.features_of_other_rows)
        write_line(f"computed from all rows of a request, so a request without all rows of a day changes them: {names}")
    sys.stdout.flush()
