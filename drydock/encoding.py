"""Encode the stored values of moto's S3 and CloudWatch Logs as JSON, and decode them.

The values have known types: JSON's own types, bytes, datetimes, the models of moto's S3, and dictionaries that
ignore the case of keys. Any other type is refused. So a person who changes the stored JSON cannot make the server run
code.
"""

import base64
import json
from datetime import datetime
from typing import Any

from moto.core.common_models import BaseModel
from moto.s3 import models
from moto.utilities.utils import LowercaseDict
from requests.structures import CaseInsensitiveDict

# Key of an encoded value's type; the key "of" has its content. No JSON object of an encoded value has other keys.
_TYPE_KEY = "~"
_MODELS: dict[str, type] = {
    name: value for name, value in vars(models).items() if isinstance(value, type) and issubclass(value, BaseModel)
}
_CLASSES = {**_MODELS, "LowercaseDict": LowercaseDict, "CaseInsensitiveDict": CaseInsensitiveDict}


def dumps(value: Any) -> str:
    """Return a value as JSON. Equal values whose dictionaries have the same order of keys give equal texts.

    Raises:
        TypeError: The value contains a type that `loads` cannot restore. A retry cannot help.
    """
    return json.dumps(_encode(value), separators=(",", ":"), sort_keys=True)


def loads(text: str) -> Any:
    """Return the value that `dumps` encoded; tuples come back as lists."""
    return json.loads(text, object_hook=_decode)


def _encode(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_encode(item) for item in value]
    if isinstance(value, dict):
        # A list of pairs: a client's key may be any string, even _TYPE_KEY, and the keys of upload parts are numbers.
        return {_TYPE_KEY: "dict", "of": [[_encode(key), _encode(item)] for key, item in value.items()]}
    if isinstance(value, bytes):
        return {_TYPE_KEY: "bytes", "of": base64.b64encode(value).decode()}
    if isinstance(value, datetime):
        return {_TYPE_KEY: "datetime", "of": value.isoformat()}
    type_name = type(value).__name__
    if _CLASSES.get(type_name) is not type(value):
        raise TypeError(f"drydock cannot store a {type_name}")
    return {_TYPE_KEY: type_name, "of": _encode(vars(value))}


def _decode(encoded_value: dict[str, Any]) -> Any:
    type_name, value = encoded_value[_TYPE_KEY], encoded_value["of"]
    if type_name == "dict":
        return dict(value)
    if type_name == "bytes":
        return base64.b64decode(value)
    if type_name == "datetime":
        return datetime.fromisoformat(value)
    # moto's constructor is not called: it validates a request, and this value was validated before it was stored.
    model = object.__new__(_CLASSES[type_name])
    model.__dict__.update(value)
    return model
