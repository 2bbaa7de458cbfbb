"""python -m drydock: start the server, or pull the levers of one that runs."""

import logging
import os
import signal
import socket
import sys
import threading
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from drydock import configuration
from drydock.api.server import bind, own, serving
from drydock.errors import CannotStart
from drydock.execution.container import ContainerExecutor
from drydock.execution.engine import engine_available
from drydock.execution.image import Images
from drydock.execution.process import ProcessExecutor
from drydock.host.executor import Executor
from drydock.rehearsal import commands
from drydock.rehearsal.spot_market import Policy, policy_of
from drydock.settings import Settings, machine_cores, machine_memory_gib

EXIT_TRY_AGAIN = 75
LOOK_S = 0.2


class Executors(StrEnum):
    """What runs the jobs."""

    PROCESS = "process"
    DOCKER = "docker"


app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    # Each option is a variable too, for whoever does not write the command line: DRYDOCK_CORES, ...
    context_settings={"auto_envvar_prefix": "DRYDOCK"},
)
commands.add_to(app)


@app.callback(invoke_without_command=True)
def main(
    context: typer.Context,
    host: Annotated[str, typer.Option(help="Address to bind. drydock runs the code it is sent.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to bind; 0 takes a free one.")] = 5005,
    data: Annotated[Path, typer.Option(help="Folder of all that it keeps; one server each.")] = Path(".leeway/drydock"),
    port_file: Annotated[Path | None, typer.Option(help="File to write the port to, once it answers.")] = None,
    config: Annotated[
        Path | None,
        typer.Option(is_eager=True, callback=configuration.load, help="TOML file: these options' names, and [spot]."),
    ] = None,
    executor: Annotated[Executors, typer.Option(help="What runs the jobs.")] = Executors.PROCESS,
    dockerfile: Annotated[
        Path | None, typer.Option(help="With docker: built for images that the engine does not have.")
    ] = None,
    cores: Annotated[int, typer.Option(min=1, help="vCPUs of all running jobs.")] = machine_cores(),
    memory_gib: Annotated[float, typer.Option(min=0.1, help="Memory of all running jobs.")] = machine_memory_gib(),
    stop_grace: Annotated[float, typer.Option(min=0, help="Seconds from SIGTERM to SIGKILL.")] = 120.0,
    checkpoint_interval: Annotated[
        float, typer.Option(min=0.1, help="Seconds between two copies of the checkpoints to S3.")
    ] = 0.5,
    shutdown_grace: Annotated[
        float, typer.Option(min=0, help="Seconds that running jobs get when the server is ended.")
    ] = 5.0,
    s3: Annotated[
        str, typer.Option(metavar="URL", help="S3 server that keeps the buckets; this one, if not given.")
    ] = "",
    s3_patience: Annotated[
        float, typer.Option(min=0, help="Seconds for which a job waits for an S3 that is out or slow.")
    ] = 60.0,
    spot_seed: Annotated[int | None, typer.Option(help="Seed of the interruptions.")] = None,
    spot_interruption_probability: Annotated[
        float | None, typer.Option(help="Chance that a spot job is interrupted within a minute of running.")
    ] = None,
    spot_notice: Annotated[
        float | None, typer.Option(help="Seconds from SIGTERM to SIGKILL at an interruption; 120 if not given.")
    ] = None,
    spot_capacity_back_after: Annotated[
        float | None, typer.Option(help="Seconds until an interrupted job gets instances again; 5 if not given.")
    ] = None,
    verbose: Annotated[bool, typer.Option(help="Log jobs and requests to stderr.")] = False,
) -> None:
    """Serve SageMaker training and processing jobs, S3, CloudWatch Logs (and the rest of moto) on one port."""
    if context.invoked_subcommand is not None:
        return
    _set_up_logging(verbose)
    given = {
        "seed": spot_seed,
        "interruption_probability": spot_interruption_probability,
        "notice_s": spot_notice,
        "capacity_back_after_s": spot_capacity_back_after,
    }
    try:
        policy = policy_of({**configuration.spot(context), **{k: v for k, v in given.items() if v is not None}})
        runs = _executor(executor, dockerfile)
        with own(data), bind(host, port) as listener:
            number = listener.getsockname()[1]
            settings = Settings(
                data=data.resolve(),
                url=_url(host, number),
                cores=cores,
                memory_mb=int(memory_gib * 1024),
                stop_grace_s=stop_grace,
                checkpoint_interval_s=checkpoint_interval,
                shutdown_grace_s=shutdown_grace,
                s3_url=s3.rstrip("/"),
                s3_patience_s=s3_patience,
            )
            _serve(settings, runs, policy, listener, port_file)
    except CannotStart as error:
        typer.echo(f"drydock: {error}", err=True)
        raise typer.Exit(EXIT_TRY_AGAIN) from None


def _serve(
    settings: Settings, executor: Executor, policy: Policy, listener: socket.socket, port_file: Path | None
) -> None:
    ended = _on_signals()
    with serving(settings, executor, policy, listener):
        if port_file is not None:
            _write(port_file, str(listener.getsockname()[1]))
        typer.echo(f"drydock answers at {settings.url}")
        sys.stdout.flush()
        # Python's handlers run in this thread, which sleeps on where the kernel gives the signal to another one.
        while not ended.wait(LOOK_S):
            pass


def _executor(kind: Executors, dockerfile: Path | None) -> Executor:
    if kind is Executors.PROCESS:
        return ProcessExecutor()
    if reason := engine_available():
        raise CannotStart(f"the docker executor needs a docker engine: {reason}")
    return ContainerExecutor(Images(dockerfile))


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
