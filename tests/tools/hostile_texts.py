"""Fill each text of a document of Leeway's page with HTML that would run a script, and that names its field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

SCRIPT = "window.hacked=1"
ADDRESSES = (
    f"javascript:{SCRIPT}",
    f'http://127.0.0.1:9/"onmouseover="{SCRIPT}"',
    f"data:text/html,<script>opener.{SCRIPT}</script>",
    f"JaVaScRiPt:{SCRIPT}",
    f" java\nscript:{SCRIPT}",
    f"vbscript:{SCRIPT}",
    "//127.0.0.1:9/no-scheme",
)
"""Addresses that no link may open, and one that a link may: its quotes must not end the attribute."""
SHARED_PLACES: Mapping[str, str] = {
    **dict.fromkeys(("version", "from_version", "to_version", "champion", "challenger", "rollback_version"), "version"),
    **dict.fromkeys(("versions", "endpoints"), "version"),
    **dict.fromkeys(("CostDocument.month", "MonthCost.month"), "month"),
}
"""Maps fields that the page compares with each other to the place that their texts name, so that they stay equal."""
NAMES = frozenset({"model", "dataset"})
"""Fields that name a DAG of Airflow, too."""


def mark(place: str) -> str:
    """Return HTML that would run a script, and that names a place."""
    return f"""'"><img src=x onerror="{SCRIPT}" alt={place}><script>{SCRIPT}</script>"""


class HostileTexts:
    """Fills documents.

    Args:
        plain_name: name of a model and of a dataset that stays, so that the page finds their DAGs in Airflow.
    """

    def __init__(self, plain_name: str) -> None:
        self._plain_name, self._numbers = plain_name, count()

    def fill(self, message: BaseModel) -> dict[str, Any]:
        """Return the fields of a message. Texts that are empty stay empty, because they mean that there is nothing."""
        fields = type(message).model_fields
        return {
            name: getattr(message, name)
            if get_origin(field.annotation) is Literal
            else self._fill_value(f"{type(message).__name__}.{name}", getattr(message, name))
            for name, field in fields.items()
        }

    def _fill_value(self, place: str, value: Any) -> Any:
        if isinstance(value, BaseModel):
            return self.fill(value)
        if isinstance(value, list):
            return [self._fill_value(place, item) for item in value]
        if isinstance(value, dict):
            return {f"{key}{mark(f'{place}.key')}": self._fill_value(place, item) for key, item in value.items()}
        if isinstance(value, str) and value:
            return self._fill_text(place, value)
        return value

    def _fill_text(self, place: str, text: str) -> str:
        name = place.rpartition(".")[2]
        if name.endswith("url"):
            return ADDRESSES[next(self._numbers) % len(ADDRESSES)]
        if name in NAMES and text == self._plain_name:
            return text
        return text + mark(find_place(place))


def find_place(place: str) -> str:
    """Return the place that the text of a field names."""
    return SHARED_PLACES.get(place) or SHARED_PLACES.get(place.rpartition(".")[2]) or place


def list_places(form: type[BaseModel]) -> Iterator[str]:
    """List the places of all texts of a message that are no addresses, with those of the messages in it."""
    for name, field in form.model_fields.items():
        place = f"{form.__name__}.{name}"
        if not name.endswith("url"):
            yield from _list_places_of_type(place, field.annotation)


def _list_places_of_type(place: str, annotation: Any) -> Iterator[str]:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation is str:
        yield find_place(place)
    elif origin is dict:
        yield f"{place}.key"
        yield from _list_places_of_type(place, arguments[1])
    elif origin in (list, Union, UnionType):
        for argument in arguments:
            yield from _list_places_of_type(place, argument)
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield from list_places(annotation)
