"""`python -m drydock`: start the server, or send a command to a running server."""

import dataclasses
import logging
import math
import os
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit

import typer

from drydock import configuration, options
from drydock.api.http.own_hosts import parse_host_names
from drydock.api.server import lock_data_folder, open_listener, run_server
from drydock.errors import InvalidSetting, StartFailed
from drydock.execution.container import ContainerExecutor
from drydock.execution.engine import find_engine_problem
from drydock.execution.image import Images
from drydock.execution.process import ProcessExecutor
from drydock.faults import commands
from drydock.faults.spot_market import SpotPolicy
from drydock.faults.spot_policy import parse_policy
from drydock.host.executor import Executor
from drydock.options import ExecutorName
from drydock.settings import Settings, get_machine_memory_gib, get_usable_cores

# 2 is also typer's exit code for a wrong option. 75 is EX_TEMPFAIL of sysexits.h: a retry can help.
EXIT_INVALID, EXIT_TRY_AGAIN = 2, 75
# Seconds between two checks for a signal.
SIGNAL_CHECK_S = 0.2
# Longest time for which a thread runs Python code while others wait, seconds (Python's default: 0.005). While a thread
# prepares an instance, the thread of a request has to wait several times, each time up to this number of seconds.
THREAD_SWITCH_S = 0.001
MACHINE_CORES, MACHINE_MEMORY_GIB = get_usable_cores(), get_machine_memory_gib()

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"auto_envvar_prefix": "DRYDOCK"},
)
commands.add_commands(app)


@app.callback(invoke_without_command=True)
def main(
    context: typer.Context,
    host: options.Host = "127.0.0.1",
    port: options.Port = 5005,
    own_hosts: options.OwnHosts = "",
    data: options.Data = Path(".leeway/drydock"),
    port_file: options.PortFile = None,
    config: options.Config = None,
    executor: options.Executor = ExecutorName.PROCESS,
    dockerfile: options.Dockerfile = None,
    cores: options.Cores = MACHINE_CORES,
    memory_gib: options.MemoryGib = MACHINE_MEMORY_GIB,
    stop_grace: options.StopGrace = 120.0,
    checkpoint_interval: options.CheckpointInterval = 0.5,
    shutdown_grace: options.ShutdownGrace = 5.0,
    invocation_timeout: options.InvocationTimeout = 60.0,
    serverless_idle: options.ServerlessIdle = 300.0,
    scaling_period: options.ScalingPeriod = 60.0,
    s3: options.S3 = "",
    s3_patience: options.S3Patience = 60.0,
    spot_seed: options.SpotSeed = None,
    spot_interruption_probability: options.SpotInterruptionProbability = None,
    spot_notice: options.SpotNotice = None,
    spot_no_capacity: options.SpotNoCapacity = None,
    invented_answers: options.InventedAnswers = False,
    verbose: options.Verbose = False,
) -> None:
    """Serve SageMaker jobs, S3, CloudWatch Logs and the other services of moto on one port."""
    if context.invoked_subcommand is not None:
        return _refuse_options_of_server(context)
    _set_up_logging(verbose)
    timing = (stop_grace, checkpoint_interval, shutdown_grace, invocation_timeout, serverless_idle, scaling_period)
    try:
        _check_options(s3, (memory_gib, *timing, s3_patience))
        sizes, hosts = (cores, int(memory_gib * 1024)), (host, *parse_host_names(own_hosts))
        settings = Settings(data.resolve(), "", *sizes, *timing, s3.rstrip("/"), s3_patience, invented_answers, hosts)
        policy = _read_policy(context, spot_seed, spot_interruption_probability, spot_notice, spot_no_capacity)
        _serve(settings, _create_executor(context, executor, dockerfile), policy, (host, port), port_file)
    except (StartFailed, InvalidSetting) as error:
        _exit_with(error)


def _is_on_command_line(context: typer.Context, name: str) -> bool:
    """Return whether an option is on the command line; False if an environment variable or the default sets it."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _refuse_options_of_server(context: typer.Context) -> None:
    """Refuse options of the server that stand before a command: they have no effect on the command."""
    server_options = [f"--{name.replace('_', '-')}" for name in context.params if _is_on_command_line(context, name)]
    if server_options:
        command = context.invoked_subcommand
        _exit_with(
            InvalidSetting(f"{', '.join(server_options)}: only the server has this option; give --url to {command}")
        )


def _exit_with(error: StartFailed | InvalidSetting) -> NoReturn:
    """Write the error as one line, and end the program with its exit code."""
    typer.echo(f"drydock: {error}", err=True)
    raise typer.Exit(EXIT_TRY_AGAIN if isinstance(error, StartFailed) else EXIT_INVALID) from None


def _check_options(s3: str, numbers: Sequence[float]) -> None:
    """Check that the numbers are finite, and that the URL of the S3 server is valid. typer checks neither.

    Raises:
        InvalidSetting: A number is not finite, or the S3 server has no valid URL. A retry cannot help.
    """
    if not all(map(math.isfinite, numbers)):
        raise InvalidSetting("numeric options must be finite")
    try:
        parts = urlsplit(s3)
        is_valid = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # the port is not a number, or the bracket of an IPv6 address is not closed
        is_valid = False
    if s3 and not (is_valid and s3.isprintable() and " " not in s3):
        raise InvalidSetting(f"--s3 must have the form http://HOST:PORT or https://HOST, not {s3!r}")


def _read_policy(
    context: typer.Context,
    seed: int | None,
    interruption_probability: float | None,
    notice_s: float | None,
    no_capacity_s: float | None,
) -> SpotPolicy:
    """Return the spot policy: the configuration file's table [spot], overridden by the options that have a value."""
    options_by_name = {
        "seed": seed,
        "interruption_probability": interruption_probability,
        "notice_s": notice_s,
        "no_capacity_s": no_capacity_s,
    }
    overrides = {name: value for name, value in options_by_name.items() if value is not None}
    return parse_policy({**configuration.get_spot_table(context), **overrides})


def _serve(
    settings: Settings, executor: Executor, policy: SpotPolicy, address: tuple[str, int], port_file: Path | None
) -> None:
    """Serve until SIGTERM or SIGINT. `settings.url` is still "": the port is known once it is bound."""
    with lock_data_folder(settings.data), open_listener(*address) as listener:
        url = _build_url(address[0], listener.getsockname()[1])
        _serve_until_signal(dataclasses.replace(settings, url=url), executor, policy, listener, port_file)


def _serve_until_signal(
    settings: Settings, executor: Executor, policy: SpotPolicy, listener: socket.socket, port_file: Path | None
) -> None:
    stop_event = _catch_signals()
    sys.setswitchinterval(THREAD_SWITCH_S)
    with run_server(settings, executor, policy, listener):
        if port_file is not None:
            _write_atomically(port_file, str(listener.getsockname()[1]))
        typer.echo(f"drydock answers at {settings.url}")
        sys.stdout.flush()
        # Python runs signal handlers only in this, the main thread. A signal that another thread gets does not wake it.
        while not stop_event.wait(SIGNAL_CHECK_S):
            pass


def _create_executor(context: typer.Context, name: ExecutorName, dockerfile: Path | None) -> Executor:
    if _is_on_command_line(context, "dockerfile") and name is not ExecutorName.DOCKER:
        raise InvalidSetting("--dockerfile has no effect without --executor docker")
    if name is ExecutorName.PROCESS:
        return ProcessExecutor()
    if problem := find_engine_problem():
        raise StartFailed(f"the docker executor needs a docker engine: {problem}")
    return ContainerExecutor(Images(dockerfile))


def _build_url(host: str, port: int) -> str:
    # A client cannot connect to the address that means "every address of this machine".
    client_host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # noqa: S104
    return f"http://{client_host}:{port}"


def _catch_signals() -> threading.Event:
    """Return an event that SIGTERM and SIGINT set from now on."""
    stop_event = threading.Event()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signal_number, lambda *_: stop_event.set())
    return stop_event


def _write_atomically(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary_path = path.with_name(f".{path.name}.{os.getpid()}")
    temporary_path.write_text(text, encoding="utf-8")
    temporary_path.replace(path)


def _set_up_logging(verbose: bool) -> None:
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.WARNING)
    logging.getLogger("drydock").setLevel(logging.INFO if verbose else logging.WARNING)
    logging.getLogger("werkzeug").setLevel(logging.INFO if verbose else logging.ERROR)


if __name__ == "__main__":
    app()
