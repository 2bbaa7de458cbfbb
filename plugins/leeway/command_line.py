"""The command `leeway`: run what `python -m pipelines`, `python -m stack` and `python -m drydock` run.

This module imports only the standard library and `leeway`, so that it can name the extra of a package that is missing.
"""

from __future__ import annotations

import os
import runpy
import sys
from importlib import import_module
from typing import NoReturn

from leeway import __version__
from leeway.package_checks import MARKERS, ForeignPackageError, require_package

STACK_COMMANDS = {
    "up": "Start drydock, MLflow, the data docs and Airflow on this machine.",
    "down": "Stop what `up` started.",
    "open": "Open the page of the models in the browser.",
    "services": "Print the services' URLs, and whether each service answers.",
    "demo": "Run the whole loop of the example, in a checkout of Leeway.",
    "replay": "Replay a year of the example day by day, in a checkout of Leeway.",
    "backup": "Write all state to one file.",
    "restore": "Restore the state of a backup.",
}
"""The commands of `python -m stack`."""
EXTRAS = {"pipelines": "pipelines", "drydock": "drydock", "stack": "local"}
"""The extra of Leeway that each package needs, as in `pip install "leeway[local]"`."""
HELP = """Usage: leeway COMMAND [OPTIONS]   (leeway COMMAND --help describes the options)

  --version    Print the version.
  --help       Print this text.

Services on this machine; they need leeway[local]:
{stack}
  {drydock:<16}Start the SageMaker-compatible server alone; it needs leeway[drydock].

Steps and commands; they need leeway[pipelines]:
{pipelines}
"""
INVALID_EXIT_CODE = 2
"""Exit code of a request that is wrong, so that a retry cannot help; see `pipelines.errors`."""
SUMMARY_CHARS = 110
"""Largest number of characters of a command's summary in the list of commands."""


def main() -> None:
    """Run the command line, and exit with the command's exit code."""
    command = sys.argv[1] if len(sys.argv) > 1 else "--help"
    if command == "--version":
        sys.stdout.write(f"leeway {__version__}\n")
        return
    # `python -m` does the same: in the folder of a checkout or a workspace, that folder's own code runs.
    if not sys.flags.safe_path:
        sys.path.insert(0, os.getcwd())
    if command in ("--help", "-h"):
        sys.stdout.write(_format_help())
        return
    package = _choose_package(command)
    # drydock's own command line has no command `drydock`.
    arguments = sys.argv[2:] if package == "drydock" else sys.argv[1:]
    try:
        require_package(package)
        sys.argv = [package, *arguments]
        runpy.run_module(package, run_name="__main__", alter_sys=True)
    except ForeignPackageError as error:
        _fail(str(error))
    except ModuleNotFoundError as error:
        _fail(_explain_missing_module(error, command, package))


def _choose_package(command: str) -> str:
    """Return the package that has the command: each step and every unknown command belongs to `pipelines`."""
    if command == "drydock":
        return "drydock"
    return "stack" if command in STACK_COMMANDS else "pipelines"


def _format_help() -> str:
    return HELP.format(
        stack="\n".join(f"  {name:<16}{text}" for name, text in STACK_COMMANDS.items()),
        drydock="drydock",
        pipelines="\n".join(f"  {line}" for line in _list_pipelines_commands()),
    )


def _list_pipelines_commands() -> list[str]:
    """Return a line for each command of `python -m pipelines`, or one line that says what is missing to run them."""
    try:
        require_package("pipelines")
        get_command = import_module("typer.main").get_command
        commands = get_command(import_module("pipelines.cli.app").build_app()).commands
    except ForeignPackageError as error:
        return [str(error)]
    except ModuleNotFoundError as error:
        return [_explain_missing_module(error, "this list", "pipelines")]
    return [f"{name:<16}{command.get_short_help_str(SUMMARY_CHARS)}" for name, command in commands.items()]


def _explain_missing_module(error: ModuleNotFoundError, command: str, package: str) -> str:
    """Return the error line about a module that is not installed.

    Raises:
        ModuleNotFoundError: the module is one of Leeway's own, so its absence is a bug.
    """
    if (error.name or "").partition(".")[0] in (*MARKERS, "leeway"):
        raise error
    return f'{command} needs the package {error.name}: run `pip install "leeway[{EXTRAS[package]}]"`.'


def _fail(text: str) -> NoReturn:
    sys.stderr.write(f"error: {text}\n")
    raise SystemExit(INVALID_EXIT_CODE)
