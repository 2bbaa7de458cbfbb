"""Build a command from a request: each field of a dataclass is an option."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, get_type_hints

import typer

from pipelines.cli.calculate.output import Report, write_report
from pipelines.cli.options import JsonOption, list_given_options
from pipelines.errors import SpecError


def build_command(request_class: type[Any], calculate: Callable[[Any], Report]) -> Callable[..., None]:
    """Build the function of a command, with a signature from the fields of the request, and --json.

    Args:
        request_class: dataclass whose fields are annotated as options of typer. Its attribute `prerequisites` maps a
            field to other fields: at least one of them must be given, too. Its attribute `replaced_by` maps a field to
            the field that takes its place: only one of both may be given.
        calculate: function from a request to a report; its docstring is the help of the command.
    """

    def command(*, context: typer.Context, as_json: bool, **values: Any) -> None:
        _check_options(context, request_class)
        write_report(calculate(request_class(**values)), as_json=as_json)

    hints = get_type_hints(request_class, include_extras=True)
    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=hints[name], default=parameter.default)
        for name, parameter in inspect.signature(request_class).parameters.items()
    ]
    json_option = inspect.Parameter("as_json", inspect.Parameter.KEYWORD_ONLY, annotation=JsonOption, default=False)
    context = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    parameters = [context, *options, json_option]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    command.__doc__ = calculate.__doc__
    return command


def _check_options(context: typer.Context, request_class: type[Any]) -> None:
    """Check that no option is empty, and that each option has an effect.

    Raises:
        SpecError: an option is empty, or has no effect. A retry cannot help.
    """
    given_options = list_given_options(context)
    options = {parameter.name: parameter.opts[0] for parameter in context.command.params}
    for name, required_names in getattr(request_class, "prerequisites", {}).items():
        if name in given_options and given_options.keys().isdisjoint(required_names):
            needed_options = " or ".join(options[needed_name] for needed_name in required_names)
            raise SpecError(
                f"{given_options[name]} has no effect without {needed_options}.",
                f"Leave out {given_options[name]}, or give {needed_options}, too.",
            )
    for name, replacement in getattr(request_class, "replaced_by", {}).items():
        if {name, replacement} <= given_options.keys():
            raise SpecError(
                f"{given_options[name]} has no effect with {given_options[replacement]}.", "Give only one of them."
            )
