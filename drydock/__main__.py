"""python -m drydock: start the server."""

import logging
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Annotated

import typer

from drydock.errors import CannotStart
from drydock.server import bind, own, serving
from drydock.settings import Settings, machine_slots

EXIT_TRY_AGAIN = 75

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    host: Annotated[str, typer.Option(help="Address to bind. drydock runs the code it is sent.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to bind; 0 takes a free one.")] = 5005,
    data: Annotated[Path, typer.Option(help="Folder of the jobs' trees; one server each.")] = Path(".leeway/drydock"),
    port_file: Annotated[Path | None, typer.Option(help="File to write the port to, once it answers.")] = None,
    slots: Annotated[int, typer.Option(min=1, help="Jobs that run at once.")] = machine_slots(),
    stop_grace: Annotated[float, typer.Option(min=0, help="Seconds from SIGTERM to SIGKILL.")] = 120.0,
    checkpoint_interval: Annotated[
        float, typer.Option(min=0.1, help="Seconds between two copies of the checkpoints to S3.")
    ] = 5.0,
    shutdown_grace: Annotated[
        float, typer.Option(min=0, help="Seconds that running jobs get when the server is ended.")
    ] = 5.0,
    verbose: Annotated[bool, typer.Option(help="Log jobs and requests to stderr.")] = False,
) -> None:
    """Serve SageMaker training jobs, S3, CloudWatch Logs (and the rest of moto) on one port."""
    _set_up_logging(verbose)
    try:
        with own(data), bind(host, port) as listener:
            number = listener.getsockname()[1]
            settings = Settings(
                data=data.resolve(),
                url=_url(host, number),
                slots=slots,
                stop_grace_s=stop_grace,
                checkpoint_interval_s=checkpoint_interval,
                shutdown_grace_s=shutdown_grace,
            )
            ended = _on_signals()
            with serving(settings, listener):
                if port_file is not None:
                    _write(port_file, str(number))
                typer.echo(f"drydock answers at {settings.url}")
                sys.stdout.flush()
                ended.wait()
    except CannotStart as error:
        typer.echo(f"drydock: {error}", err=True)
        raise typer.Exit(EXIT_TRY_AGAIN) from None


def _url(host: str, port: int) -> str:
    # A client on this machine cannot connect to "every address".
    reachable = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # noqa: S104
    return f"http://{reachable}:{port}"


def _on_signals() -> threading.Event:
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    return ended


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)


def _set_up_logging(verbose: bool) -> None:
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.WARNING)
    logging.getLogger("drydock").setLevel(logging.INFO if verbose else logging.WARNING)
    logging.getLogger("werkzeug").setLevel(logging.INFO if verbose else logging.ERROR)


if __name__ == "__main__":
    app()
