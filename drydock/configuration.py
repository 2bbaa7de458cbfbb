"""Read the server's configuration file: TOML with the options of the command line, and a table [spot].

A key is the name of an option, with underscores in place of hyphens.

```toml
port = 5005
stop_grace = 20.0

[spot]
seed = 13
no_capacity_s = 10.0
without_capacity = ["ml.p3.*"]

[[spot.interrupt]]
job = "flights-*"
after_s = [5.0, 20.0]
```
"""

import math
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

# Key of the [spot] table in `typer.Context.meta`.
SPOT_KEY = "drydock.spot"
# Options whose values are true or false.
FLAGS = ("invented_answers", "verbose")


def load_file(context: typer.Context, path: Path | None) -> Path | None:
    """Use a configuration file's values as the defaults of the command line's options, and return its path.

    If `path` is None, return None and change no default.

    Raises:
        BadParameter: The file cannot be read, has a key that is not the name of an option, or has a value of the wrong
            type: an option has a string or a finite number, or true or false (FLAGS), and `spot` is a table. A retry
            cannot help.
    """
    if path is None:
        return None
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise typer.BadParameter(f"cannot read {path}: {error}") from None
    spot = content.pop("spot", {})
    option_names = {str(option.name) for option in context.command.params} - {"config", "help"}
    if unknown_keys := content.keys() - option_names:
        options = ", ".join(sorted(option_names))
        keys = ", ".join(sorted(unknown_keys))
        raise typer.BadParameter(f"{path}: no option is called {keys}; the options are {options}")
    if not isinstance(spot, Mapping):
        raise typer.BadParameter(f"{path}: spot must be a table")
    if wrong_keys := [key for key, value in content.items() if not _is_valid(value, key)]:
        keys = ", ".join(wrong_keys)
        rule = f"a string or a finite number; only {' and '.join(FLAGS)} can be true or false"
        raise typer.BadParameter(f"{path}: {keys} must be {rule}")
    context.default_map = {**(context.default_map or {}), **content}
    context.meta[SPOT_KEY] = spot
    return path


def _is_valid(value: object, key: str) -> bool:
    """Return whether an option may have the value. Without this check, typer would convert true to 1 and accept nan."""
    if isinstance(value, bool):
        return key in FLAGS
    return isinstance(value, str) or (isinstance(value, (int, float)) and math.isfinite(value))


def get_spot_table(context: typer.Context) -> Mapping[str, Any]:
    """Return the configuration file's [spot] table; empty if there is none."""
    table: Mapping[str, Any] = context.meta.get(SPOT_KEY, {})
    return table
