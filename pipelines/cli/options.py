"""Define the options and values that several groups of commands share."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path
from typing import Annotated

import typer

from pipelines import params
from pipelines.dataset import Dataset, choose_dataset, load_dataset
from pipelines.errors import SpecError
from pipelines.settings import settings

ModelArgument = Annotated[str, typer.Argument(metavar="MODEL", help="Registered model.")]
FirstOption = Annotated[str, typer.Option("--from", metavar="YYYY-MM-DD", help="First day.")]
LastOption = Annotated[str, typer.Option("--to", metavar="YYYY-MM-DD", help="Last day, included.")]
DatasetOption = Annotated[
    str,
    typer.Option(
        "--dataset", metavar="NAME", help="Dataset; needed if the project has several, and no model names it."
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Write JSON to stdout, for programs.")]

DEFAULT = "DEFAULT"
"""Name that click gives to the source of a parameter that the user did not give."""


def refuse_empty_options(context: typer.Context) -> None:
    """Check that no given option of the command is empty.

    Raises:
        SpecError: an option is empty, perhaps because a script's variable is not set. A retry cannot help.
    """
    list_given_options(context)


def list_given_options(context: typer.Context) -> dict[str, str]:
    """Map the name of each parameter that the user gave to the name of its option, such as `first` to `--from`.

    An option that has only spaces and commas is empty, too.

    Raises:
        SpecError: an option is empty, perhaps because a script's variable is not set. A retry cannot help.
    """
    options = {
        parameter.name: parameter.opts[0]
        for parameter in context.command.params
        if getattr(context.get_parameter_source(parameter.name), "name", DEFAULT) != DEFAULT
    }
    for name, option in options.items():
        value = context.params.get(name)
        texts = value if isinstance(value, list | tuple) else [value]
        if any(isinstance(text, str) and not text.strip(" ,") for text in texts):
            raise SpecError(f"{option} is empty.", "Give a value, or leave out the option.")
    return options


def parse_output_path(option: str, text: str) -> Path:
    """Parse the path of a file to write from the text of an option.

    Raises:
        SpecError: the path is not a regular file but, for example, a folder or a device. A retry cannot help.
    """
    path = Path(text)
    if os.path.lexists(path) and not path.is_file():
        raise SpecError(f"{option} {text} is not a regular file.", "Give the path of a file to write.")
    return path


def find_dataset(name: str) -> Dataset:
    """Load the dataset of the option --dataset; if the option is empty, the project's only dataset.

    Raises:
        SpecError: there is no such dataset, or none is named and the project has several. A retry cannot help.
    """
    return load_dataset(name) if name else choose_dataset()


def find_dataset_of_model(model: str, dataset: str) -> Dataset:
    """Load the dataset of a model: the one that its parameters name, or else the one of the option --dataset.

    Raises:
        SpecError: the parameters name another dataset than the option, there is no such dataset, or none is named and
            the project has several. A retry cannot help.
    """
    return find_dataset(params.choose_dataset(params.load(settings().project, model), model, dataset))


def parse_day(option: str, text: str) -> dt.date:
    """Parse a day from the text of an option.

    Raises:
        SpecError: the text is not a day of the form YYYY-MM-DD. A retry cannot help.
    """
    try:
        return dt.date.fromisoformat(text)
    except ValueError:
        raise SpecError(f"{option} {text!r} is not a day.", "Write it as YYYY-MM-DD.") from None


def parse_days(
    first: str, last: str, names: tuple[str, str] = ("--from", "--to")
) -> tuple[dt.date | None, dt.date | None]:
    """Parse the options for the first and the last day; None for an empty option.

    Args:
        first: value of the option for the first day.
        last: value of the option for the last day.
        names: names of the two options, for the errors.

    Raises:
        SpecError: an option is not a day, or the first day is after the last. A retry cannot help.
    """
    begin = parse_day(names[0], first) if first else None
    end = parse_day(names[1], last) if last else None
    if begin and end and begin > end:
        raise SpecError(f"{names[0]} {first} is after {names[1]} {last}.", "Swap the two days.")
    return begin, end


def parse_range(first: str, last: str) -> tuple[dt.date, dt.date]:
    """Parse the options --from and --to; neither may be empty.

    Raises:
        SpecError: an option is not a day, or --from is after --to. A retry cannot help.
    """
    parse_days(first, last)
    return parse_day("--from", first), parse_day("--to", last)
