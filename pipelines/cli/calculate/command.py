"""Build a command from a request: each field of a dataclass is an option."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, get_type_hints

from pipelines.cli.calculate.output import Report, write_report
from pipelines.cli.options import JsonOption


def build_command(request_class: type[Any], calculate: Callable[[Any], Report]) -> Callable[..., None]:
    """Build the function of a command, with a signature from the fields of the request, and --json.

    Args:
        request_class: dataclass whose fields are annotated as options of typer.
        calculate: function from a request to a report; its docstring is the help of the command.
    """

    def command(*, as_json: bool, **values: Any) -> None:
        write_report(calculate(request_class(**values)), as_json=as_json)

    hints = get_type_hints(request_class, include_extras=True)
    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=hints[name], default=parameter.default)
        for name, parameter in inspect.signature(request_class).parameters.items()
    ]
    json_option = inspect.Parameter("as_json", inspect.Parameter.KEYWORD_ONLY, annotation=JsonOption, default=False)
    command.__signature__ = inspect.Signature([*options, json_option])  # type: ignore[attr-defined]
    command.__annotations__ = {**{option.name: option.annotation for option in options}, "as_json": JsonOption}
    command.__doc__ = calculate.__doc__
    return command
