"""Turn the commands of a page of the documentation into a script, as a reader executes them."""

from __future__ import annotations

import re
from pathlib import Path

BLOCK = re.compile(r"^```(python|console)\n(.*?)^```$", re.M | re.S)


def list_commands(text: str, folder: Path) -> list[str]:
    """List the lines of a text that begin with `$ `, and write its blocks of Python to their files in a folder."""
    lines = []
    for kind, content in BLOCK.findall(text):
        if kind == "python":
            name = re.match(r"# (\S+\.py)\b", content)
            assert name, "a block of Python begins with the name of its file"
            (folder / name[1]).write_text(content)
        else:
            lines += [line.removeprefix("$ ") for line in content.splitlines() if line.startswith("$ ")]
    return lines
