"""The command line of the steps: a command a step, an option a field of its Spec; and commands for people.

Values come, later over earlier, from the spec's defaults, the step's section of params.yaml, `--spec`, the options.
People's lines go to stderr, the Result as JSON to `--out` (stdout where it is not given). Exit codes: 0 done; 2 the
request or the data is wrong; 75 try again; anything else is a bug (LEEWAY_DEBUG=1 shows the traceback).
"""

from __future__ import annotations

import ctypes
import inspect
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
import yaml
from pydantic.fields import FieldInfo
from typer.exceptions import Abort, TyperException

from pipelines import params
from pipelines.contract import Report
from pipelines.errors import SpecError
from pipelines.settings import settings
from pipelines.steps import STEPS, result_of, runner_of, spec_of, summary_of
from pipelines.system.error_translation import translate_error
from pipelines.system.log import log_to_stderr

PR_SET_PDEATHSIG = 1
PEOPLES = ("backtest", "costs", "docs", "expectations", "lineage", "loop", "quarantine", "registry")
"""Commands for people, each with its own sub-commands, in the module cli/NAME.py."""
ARGUMENT = "without_a_name"
"""Parameter of what is given as `Spec.argument`."""
COMMON = {
    "spec": (str, typer.Option("--spec", metavar="FILE", help="YAML or JSON file with the fields; - for stdin.")),
    "out": (str, typer.Option("--out", metavar="FILE", help="File for the result; stdout where it is not given.")),
    "schema": (bool, typer.Option("--schema", help="Print the JSON Schema of spec and result; do nothing.")),
}


def main() -> None:
    """Runs the command line; exits with the step's code."""
    log_to_stderr()
    _take_the_group_along()
    app = _commands(*sys.argv[1:2])
    try:
        app(prog_name="python -m pipelines", standalone_mode=False)
    except TyperException as error:
        said = error.format_message() if hasattr(error, "format_message") else str(error)
        if said:  # nothing was asked for: the help was shown, and no more is to say
            sys.stderr.write(f"error: {said} See python -m pipelines --help.\n")
        raise SystemExit(2) from None
    except (Abort, KeyboardInterrupt):
        raise SystemExit(130) from None
    except Exception as error:  # of a command for people; a step's are told where it runs
        _fail(error, "")


def _commands(named: str = "") -> typer.Typer:
    """The command of that name, or all: each day's steps would pay for what the others import."""
    app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__, pretty_exceptions_enable=False)
    app.callback()(lambda: None)  # of one command typer would make the whole app
    for name in [named] if named in (*STEPS, *PEOPLES) else (*STEPS, *PEOPLES):
        if name in STEPS:
            app.command(name, help=summary_of(name))(_command(name))
        else:
            app.add_typer(import_module(f"pipelines.cli.{name}").app, name=name)
    return app


def _command(step: str) -> Callable[..., None]:
    """The function behind one command, with a signature made of the step's Spec."""
    fields, bare = spec_of(step).model_fields, spec_of(step).argument

    def command(*, spec: str, out: str, schema: bool, **given: Any) -> None:
        if given.get(ARGUMENT) is not None:
            given[bare] = given[ARGUMENT]
        given.pop(ARGUMENT, None)
        if schema:
            _print_schema(step)
        else:
            _finish(step, spec, out, {name: value for name, value in given.items() if value is not None})

    options = {name: Annotated[kind, option] for name, (kind, option) in COMMON.items()}
    options |= {name: Annotated[str | None, _option(name, field)] for name, field in fields.items()}
    if bare:
        options[ARGUMENT] = Annotated[str | None, typer.Argument(metavar=bare.upper(), help=f"The same as --{bare}.")]
    defaults = {"spec": "", "out": "", "schema": False}
    command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=defaults.get(name))
            for name, kind in options.items()
        ]
    )
    command.__annotations__ = dict(options)
    return command


def _option(name: str, field: FieldInfo) -> Any:
    default = "required" if field.is_required() else f"default: {field.get_default(call_default_factory=True)}"
    return typer.Option(f"--{name.replace('_', '-')}", metavar="VALUE", help=f"{field.description} ({default})")


def _value(given: str, field: FieldInfo) -> Any:
    """A list or a mapping is given as JSON; everything else as it stands."""
    if given.startswith(("[", "{")) and field.annotation is not str:
        try:
            return json.loads(given)
        except ValueError as error:
            raise SpecError(f"{given[:80]} is not JSON: {error}.") from None
    return given


def _finish(step: str, file: str, out: str, given: dict[str, str]) -> None:
    """Runs the step, writes what came of it, and exits with its code."""
    try:
        fields = spec_of(step).model_fields
        chosen = {name: _value(value, fields[name]) for name, value in given.items()}
        values = params.load_section(settings().project, step) | _from_file(file) | chosen
        with redirect_stdout(sys.stderr):  # stdout is the result's; MLflow prints its run's address there
            result = runner_of(step)(spec_of(step).parse(values, step))
        _write(out, result.model_dump_json(indent=2))
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except Exception as error:
        _fail(error, out)


def _from_file(file: str) -> dict[str, Any]:
    if not file:
        return {}
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
        loaded = yaml.safe_load(text)
    except (OSError, ValueError, yaml.YAMLError) as error:  # ValueError: not UTF-8, or a date such as 2013-02-30
        raise SpecError(f"--spec {file}: {error}.") from None
    if not isinstance(loaded, dict):
        raise SpecError(f"--spec {file}: a mapping of fields is wanted.")
    return loaded


def _fail(error: Exception, out: str) -> NoReturn:
    """One clear line, the report in the place of the result, the exit code."""
    known = translate_error(error)
    if os.environ.get("LEEWAY_DEBUG"):
        traceback.print_exception(error)
    sys.stderr.write(f"error: {known}\n")
    try:
        if out:
            _write(out, Report.from_error(known).model_dump_json(indent=2))
    except OSError as second:
        sys.stderr.write(f"error: the report could not be written to {out}: {second.strerror}\n")
    raise SystemExit(known.exit_code)


def _write(out: str, text: str) -> None:
    if not out:
        sys.stdout.write(f"{text}\n")
        return
    path = Path(out)
    if path.exists() and not path.is_file():  # a pipe or a device: cannot be replaced
        path.write_text(f"{text}\n", encoding="utf-8")
        return
    from pipelines.system.files import replace_file

    with replace_file(path) as making:
        making.write_text(f"{text}\n", encoding="utf-8")


def _print_schema(step: str) -> None:
    both = {"spec": spec_of(step).model_json_schema(), "result": result_of(step).model_json_schema()}
    sys.stdout.write(json.dumps(both, indent=2) + "\n")


def _take_the_group_along() -> None:
    """A step that an operator started ends with its operator, and takes its own children along.

    Such a step leads its process group and has LEEWAY_PARENT in its environment: the kernel sends it SIGTERM when
    that process dies, be it by SIGKILL (prctl(2), PR_SET_PDEATHSIG).
    """
    parent = os.environ.pop("LEEWAY_PARENT", "")
    if not parent or os.getpgrp() != os.getpid():
        return

    def stop(signum: int, _: Any) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.killpg(0, signal.SIGTERM)
        raise SystemExit(128 + signum)

    signal.signal(signal.SIGTERM, stop)
    with suppress(OSError, AttributeError):  # Linux only; elsewhere a killed operator leaves its step to end by itself
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != int(parent):
        os.kill(os.getpid(), signal.SIGTERM)
