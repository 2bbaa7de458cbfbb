"""moto's plain objects as JSON, and back.

What a value is made of is known: JSON's own types, bytes, moments, and the models of moto's S3 with their
attributes. Nothing else is read or written, so a store that somebody tampered with runs no code.
"""

import base64
import json
from datetime import datetime
from typing import Any

from moto.core.common_models import BaseModel
from moto.s3 import models
from moto.utilities.utils import LowercaseDict
from requests.structures import CaseInsensitiveDict

# Marks a JSON object that stands for something else. No name that moto gives an attribute begins with it.
_KIND = "~"
_MODELS: dict[str, type] = {
    name: kind for name, kind in vars(models).items() if isinstance(kind, type) and issubclass(kind, BaseModel)
}
_CLASSES = {**_MODELS, "LowercaseDict": LowercaseDict, "CaseInsensitiveDict": CaseInsensitiveDict}


def dumps(value: Any) -> str:
    """Return value as JSON: equal values give equal texts.

    Raises:
        TypeError: There is something in it that cannot be read back.
    """
    return json.dumps(_encoded(value), separators=(",", ":"), sort_keys=True)


def loads(text: str) -> Any:
    """Return what `dumps` was given; tuples come back as lists."""
    return json.loads(text, object_hook=_decoded)


def _encoded(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_encoded(item) for item in value]
    if isinstance(value, dict):
        # As pairs: a client's names may be anything, our mark too, and a part's number is no text.
        return {_KIND: "dict", "of": [[_encoded(name), _encoded(item)] for name, item in value.items()]}
    if isinstance(value, bytes):
        return {_KIND: "bytes", "of": base64.b64encode(value).decode()}
    if isinstance(value, datetime):
        return {_KIND: "datetime", "of": value.isoformat()}
    name = type(value).__name__
    if _CLASSES.get(name) is not type(value):
        raise TypeError(f"drydock cannot keep a {name}")
    return {_KIND: name, "of": _encoded(vars(value))}


def _decoded(found: dict[str, Any]) -> Any:
    kind, value = found[_KIND], found["of"]
    if kind == "dict":
        return dict(value)
    if kind == "bytes":
        return base64.b64decode(value)
    if kind == "datetime":
        return datetime.fromisoformat(value)
    # Past moto's constructors: they check a request, and this was checked.
    made = object.__new__(_CLASSES[kind])
    made.__dict__.update(value)
    return made
