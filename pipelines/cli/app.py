"""Run a step, or a command for people. Each step is a command, and each field of its Spec is an option.

A field's value comes from its option, else from `--spec`, else from the step's section of the model's params.yaml, else
from this section of the project's params.yaml, else from the default. In a project with one dataset, this dataset is
the default of every step that needs one. Log lines go to stderr, the Result as JSON to `--out`. Without `--out` it goes
to stdout, but a stage of `dvc repro` does not write it to a terminal. Exit codes: 0 done; 2 the request or the data is
wrong; 75 try again; 130 and 143 a signal ended the command; any other code is a bug, and its traceback is written. With
LEEWAY_DEBUG=1, the traceback of any error is written.
"""

from __future__ import annotations

import inspect
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
import yaml
from typer.exceptions import Abort, TyperException

from pipelines import __version__
from pipelines.cli.step_commands.options import build_option, complete_flags, parse_value
from pipelines.cli.step_commands.request import build_request, describe_request, describe_result
from pipelines.contract import Report
from pipelines.errors import LeewayError, SpecError
from pipelines.escaping import escape
from pipelines.settings import create_home
from pipelines.steps import STEPS, load_result_class, load_run_function, load_spec_class, read_summary
from pipelines.system.error_translation import translate_error
from pipelines.system.log import log_to_stderr
from pipelines.system.parent_process import end_with_parent
from pipelines.system.strict_yaml import describe_yaml_error, load_yaml
from pipelines.system.traces import record_span

BUG_EXIT_CODE = LeewayError.exit_code
GROUPS = (
    "ab",
    "backtest",
    "calculate",
    "code",
    "costs",
    "docs",
    "expectations",
    "lake",
    "lineage",
    "loop",
    "prices",
    "quarantine",
    "registry",
    "tune",
)
"""Groups of commands for people, each in the module or package cli/NAME. `tune` is also a step, which runs if none of
the group's commands is named."""
COMMANDS = ("check", "metrics", "new", "plan", "serve", "skew_history", "status")
"""Single commands for people, each the function `run_command` of the module cli/commands/NAME.py."""
POSITIONAL = "positional"
"""Name of the parameter for a step's positional argument, such as `reproduce flights@3`. Its value is that of the field
that `Spec.argument` names."""
COMMON_OPTIONS = {
    "spec": (str, typer.Option("--spec", metavar="FILE", help="YAML or JSON file with the fields; - for stdin.")),
    "out": (str, typer.Option("--out", metavar="FILE", help="File for the result (default: stdout).")),
    "schema": (
        bool,
        typer.Option("--schema", help="Print the JSON Schema of spec and result, and do not run the step."),
    ),
}
"""Maps the name of each option that every step has to its type and to its description for typer."""


def main() -> None:
    """Run the command line. After an error, exit with the error's exit code."""
    log_to_stderr()
    _stop_with_operator()
    _check_version(sys.argv[1:])
    app = build_app(*sys.argv[1:2])
    try:
        app(complete_flags(sys.argv[1:]), prog_name="python -m pipelines", standalone_mode=False)
    except TyperException as error:
        message = error.format_message() if hasattr(error, "format_message") else str(error)
        if message:  # empty if typer has shown the help
            sys.stderr.write(f"error: {escape(message)} See python -m pipelines --help.\n")
        raise SystemExit(2) from None
    except (Abort, KeyboardInterrupt):
        raise SystemExit(130) from None
    except Exception as error:  # from a command for people; `_run_step` handles the errors of a step
        _exit_with_error(error, out="")


def build_app(command: str = "") -> typer.Typer:
    """Build the app with only the command that is run, because the import of all commands would slow down every step.

    If the command is not known, the app has all commands.
    """
    app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__, pretty_exceptions_enable=False)
    app.callback()(lambda: None)  # without a callback, typer drops the name of a single command
    names = tuple(dict.fromkeys((*STEPS, *GROUPS, *COMMANDS)))
    for name in [command] if command in names else names:
        if name in COMMANDS:
            app.command(name)(import_module(f"pipelines.cli.commands.{name}").run_command)
        elif name not in GROUPS:
            app.command(name, help=read_summary(name))(_build_command(name))
        else:
            group = import_module(f"pipelines.cli.{name}").app
            if name in STEPS:
                group.callback(invoke_without_command=True, help=read_summary(name))(_build_callback(name))
            app.add_typer(group, name=name)
    return app


def _build_callback(step: str) -> Callable[..., None]:
    """Build the function of a step that has commands of its own. It runs the step if no such command is named."""
    command = _build_command(step)

    def callback(*, context: typer.Context, **values: Any) -> None:
        subcommand = context.invoked_subcommand
        if subcommand is None:
            command(**values)
        elif any(value not in (None, "", False) for value in values.values()):
            raise SpecError(f"an option before {subcommand} has no effect.", f"Write it after {subcommand}.")

    parameters = inspect.signature(command).parameters.values()
    context = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    callback.__signature__ = inspect.Signature([context, *parameters])  # type: ignore[attr-defined]
    callback.__annotations__ = {"context": typer.Context, **command.__annotations__}
    return callback


def _build_command(step: str) -> Callable[..., None]:
    """Build the function of a step's command, with a signature from the step's Spec."""
    fields, positional = load_spec_class(step).model_fields, load_spec_class(step).argument

    def command(*, spec: str, out: str, schema: bool, **values: Any) -> None:
        argument = values.pop(POSITIONAL, None)
        if argument is not None and values[positional] not in (None, argument):
            raise SpecError(f"{argument!r} and --{positional} {values[positional]!r} differ.", "Give one of them.")
        if argument is not None:
            values[positional] = argument
        options = {name: value for name, value in values.items() if value is not None}
        if schema and (spec or options):
            message = "--schema does not run the step, so other options have no effect."
            raise SpecError(message, "Give no other option than --out.")
        if schema:
            _write(out, _format_schema(step))
        else:
            _run_step(step, spec, out, options)

    types = {name: Annotated[option_type, option] for name, (option_type, option) in COMMON_OPTIONS.items()}
    types |= {name: Annotated[str | None, build_option(name, field)] for name, field in fields.items()}
    if positional:
        types[POSITIONAL] = Annotated[
            str | None, typer.Argument(metavar=positional.upper(), help=f"The same as --{positional}.")
        ]
    defaults = {"spec": "", "out": "", "schema": False}
    command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=option_type, default=defaults.get(name))
            for name, option_type in types.items()
        ]
    )
    command.__annotations__ = dict(types)
    return command


def _run_step(step: str, spec_file: str, out: str, options: dict[str, str]) -> None:
    """Run the step and write its result. After an error, write an error report instead, and exit with the error's code.

    If `out` is empty, the result goes to stdout, and no error report is written.
    """
    try:
        fields = load_spec_class(step).model_fields
        option_values = {name: parse_value(name, value, fields[name]) for name, value in options.items()}
        field_values = _read_spec(spec_file) | option_values
        with record_span(f"step.{step}") as attributes:
            request = build_request(step, field_values)
            attributes.update(describe_request(request))
            create_home()
            with redirect_stdout(sys.stderr):  # stdout is for the result, and MLflow prints there
                result = load_run_function(step)(request)
            attributes.update(describe_result(result))
        # In a stage of `dvc repro`, a terminal shows only the log. A pipe or a file still gets the result.
        if out or not (os.environ.get("DVC_STAGE") and sys.stdout.isatty()):
            _write(out, result.model_dump_json(indent=2))
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except Exception as error:
        _exit_with_error(error, out)


def _read_spec(spec_file: str) -> dict[str, Any]:
    if not spec_file:
        return {}
    try:
        text = sys.stdin.read() if spec_file == "-" else Path(spec_file).read_text(encoding="utf-8")
        values = load_yaml(text)
    except yaml.YAMLError as error:
        raise SpecError(f"--spec {spec_file}: {describe_yaml_error(error)}.") from None
    except (OSError, ValueError) as error:  # ValueError: not UTF-8, or a date such as 2013-02-30
        raise SpecError(f"--spec {spec_file}: {error}.") from None
    if not isinstance(values, dict):
        raise SpecError(f"--spec {spec_file} is not a mapping of fields.", "Write one line `FIELD: VALUE` per field.")
    return values


def _exit_with_error(error: Exception, out: str) -> NoReturn:
    """Write the error to stderr on one line, and an error report to the file `out`; exit with the error's code.

    Without `out`, no report is written. For a bug, or with LEEWAY_DEBUG, the traceback comes before the line.
    """
    leeway_error = translate_error(error)
    is_bug = leeway_error is not error and leeway_error.exit_code == BUG_EXIT_CODE
    if os.environ.get("LEEWAY_DEBUG") or is_bug:
        traceback.print_exception(error)
    sys.stderr.write(f"error: {leeway_error}\n")
    try:
        if out:
            _write(out, Report.from_error(leeway_error).model_dump_json(indent=2))
    except OSError as write_error:
        sys.stderr.write(f"error: the report could not be written to {escape(out)}: {write_error.strerror}\n")
    raise SystemExit(leeway_error.exit_code)


def _write(out: str, text: str) -> None:
    """Write the text to the file `out`, or to stdout if `out` is empty."""
    if not out:
        sys.stdout.write(f"{text}\n")
        return
    path = Path(out)
    if path.exists() and not path.is_file():  # a pipe or a device cannot be replaced
        path.write_text(f"{text}\n", encoding="utf-8")
        return
    from pipelines.system.files import replace_file

    with replace_file(path) as temporary:
        temporary.write_text(f"{text}\n", encoding="utf-8")


def _format_schema(step: str) -> str:
    schemas = {"spec": load_spec_class(step).model_json_schema(), "result": load_result_class(step).model_json_schema()}
    return json.dumps(schemas, indent=2)


def _check_version(arguments: Sequence[str]) -> None:
    """End with an error if the operator that started this step has another version of Leeway: its Specs may differ."""
    operators_version = os.environ.pop("LEEWAY_OPERATORS_VERSION", __version__)
    if operators_version == __version__:
        return
    out = arguments[arguments.index("--out") + 1] if "--out" in arguments[:-1] else ""
    message = f"Airflow has Leeway {operators_version}, and {sys.executable}, which runs the steps, has {__version__}."
    hint = f'Install the same version in both: pip install "leeway[pipelines]=={operators_version}".'
    _exit_with_error(SpecError(message, hint), out)


def _stop_with_operator() -> None:
    """Make the kernel stop this step and its child processes when the operator that started it ends.

    A step that an operator started leads its process group and has LEEWAY_PARENT in its environment.
    """
    operator_pid = os.environ.pop("LEEWAY_PARENT", "")
    if not operator_pid or os.getpgrp() != os.getpid():
        return

    def stop(signum: int, _: Any) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.killpg(0, signal.SIGTERM)
        raise SystemExit(128 + signum)

    signal.signal(signal.SIGTERM, stop)
    end_with_parent(int(operator_pid))  # Linux only; elsewhere the step of a killed operator runs to its end
