"""Define the options of `python -m pipelines new`, and refuse to ask for one if no person can answer."""

from __future__ import annotations

import datetime as dt
import keyword
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from pipelines.errors import SpecError

YAML_WORDS = ("null", "true", "false", "yes", "no", "on", "off", "y", "n")
"""Words that YAML does not read as texts. No model may have such a name: dvc.yaml and params.yaml contain the name."""
NAME_PATTERN = re.compile(r"[a-z][a-z0-9_]{0,39}")
Option = Literal["source", "table", "key", "time", "label", "task", "positive", "time_format", "rows"]
"""Options for which the command may ask."""
AskFunction = Callable[[Option, str, Sequence[str]], str]
"""Asks for the value of an option. Takes the option, the reason why it is needed, and the values to choose from."""


@dataclass(frozen=True)
class Request:
    """The options of `new`. The value of an empty option is inferred from the sample, or the person is asked for it."""

    name: str
    """Name of the model and of its dataset."""
    source: str = ""
    """Path of a file or a folder, URL of a database, or address of an HTTP API."""
    table: str = ""
    """Table of the database."""
    query: str = ""
    """Query of the database, instead of a table."""
    rows: str = ""
    """Dotted path to the list of rows in a page of the API."""
    task: str = ""
    """binary, multiclass or regression."""
    key: Sequence[str] = ()
    """Columns that identify a row within its day."""
    time: str = ""
    """Column with the time of a row."""
    label: str = ""
    """Column to predict."""
    positive: str = ""
    """Value of the label that means true."""
    known_later: Sequence[str] = ()
    """Columns that are not known yet when the prediction is made."""
    known_before: Sequence[str] = ()
    """Columns that are known when the prediction is made, although they predict the label very well."""
    time_formats: Sequence[str] = ()
    """Formats of the time column."""
    timezone: str = "UTC"
    """Time zone of times without an offset."""
    schedule: str = "0 0 * * *"
    """Cron expression of the times at which days are ingested."""
    label_delay_days: int = 1
    """Days until the label of a day is known."""
    first: dt.date | None = None
    """First day to read, if the source does not report which days it has."""
    last: dt.date | None = None
    """Last day to read, if the source does not report which days it has."""

    def __post_init__(self) -> None:
        """Refuse a name that cannot name a package, a table and a DAG.

        Raises:
            SpecError: the name is not valid. A retry cannot help.
        """
        if keyword.iskeyword(self.name) or self.name in YAML_WORDS:
            message = f"{self.name!r} is a reserved word of Python or YAML."
            raise SpecError(message, "Choose another name, such as orders.")
        if not NAME_PATTERN.fullmatch(self.name):
            hint = "Use at most 40 lowercase letters, digits and underscores, beginning with a letter, such as orders."
            raise SpecError(f"{self.name[:60]!r} is not a name for a model.", hint)


def refuse_to_ask(option: Option, reason: str, choices: Sequence[str]) -> str:
    """Refuse a question, because no person can answer it in this run.

    Raises:
        SpecError: always; the message names the option that answers the question. A retry cannot help.
    """
    listing = f" One of: {', '.join(choices[:20])}." if choices else ""
    raise SpecError(f"{reason}", f"Give --{option.replace('_', '-')}.{listing}")
