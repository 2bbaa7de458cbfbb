"""What a source bundle's requirements.txt asks for, against what is installed.

SageMaker's script-mode containers pip-install the file. A process of this machine shares an interpreter with others,
which a job does not change: it is said instead what is missing.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from drydock.errors import JobFailed

_QUOTED_CHARS = 120
_LOOK_TIMEOUT_S = 60

# Run by the interpreter in question, which need not have packaging.
_LOOK = """
import importlib.metadata, json, platform, sys
# The first of a name on the path is the one that is imported.
every = [(d.metadata["Name"], d.version) for d in importlib.metadata.distributions()][::-1]
found = {name: version for name, version in every if name}
python = ".".join(map(str, sys.version_info[:2]))
marks = {"python_version": python, "python_full_version": platform.python_version(),
         "implementation_name": sys.implementation.name,
         "platform_python_implementation": platform.python_implementation()}
print(json.dumps({"found": found, "marks": marks}))
"""


def require(path: Path) -> None:
    """What a requirements.txt asks for, if it is there, is installed here.

    For jobs of this machine: an image's own Python is not looked into, there the script says what it misses.

    Raises:
        JobFailed: Something is missing.
    """
    if path.exists() and (missing := unmet(path)):
        listed = ", ".join(missing)
        raise JobFailed(
            f"ClientError: requirements.txt asks for what drydock's Python does not have: {listed}. "
            "Install it where drydock runs, or use the docker executor."
        )


def unmet(path: Path, python: str = sys.executable) -> list[str]:
    """Return the lines of a requirements.txt that an interpreter does not meet, each with the reason; [] is fine.

    Markers count, extras do not. Options (-r, --index-url, --hash) and URLs are reported: they cannot be checked.

    Args:
        path: The requirements.txt.
        python: The interpreter.

    Raises:
        OSError: The file cannot be read, or the interpreter not be started.
        ValueError: The interpreter cannot say what it has.
    """
    lines = list(_lines(path.read_text(encoding="utf-8-sig", errors="replace")))
    if not lines:
        return []
    found, marks = _look(python)
    checked = ((line, _reason(line, found, marks)) for line in lines)
    return [f"{line[:_QUOTED_CHARS]} ({reason})" for line, reason in checked if reason]


def _lines(text: str) -> Iterator[str]:
    for line in text.replace("\\\n", " ").splitlines():
        # A comment begins the line or follows a space: name @ https://host/file#sha256=... has none.
        content = "" if line.startswith("#") else line.split(" #")[0].split("\t#")[0].strip()
        if content:
            yield content


def _reason(line: str, found: Mapping[str, str], marks: dict[str, str]) -> str:
    if line.startswith("-") or " --" in line:
        return "options are not supported"
    try:
        asked = Requirement(line)
    except InvalidRequirement:
        return "not a requirement"
    if asked.marker is not None and not asked.marker.evaluate(marks):
        return ""
    if asked.url is not None:
        return "a URL cannot be checked"
    version = found.get(canonicalize_name(asked.name))
    if version is None:
        return "not installed"
    return "" if asked.specifier.contains(version, prereleases=True) else f"installed: {version}"


def _look(python: str) -> tuple[dict[str, str], dict[str, str]]:
    try:
        done = subprocess.run(
            [python, "-c", _LOOK], capture_output=True, text=True, check=True, timeout=_LOOK_TIMEOUT_S
        )
        answer = json.loads(done.stdout)
    except (subprocess.SubprocessError, json.JSONDecodeError) as error:
        raise ValueError(f"cannot ask {Path(python).name} what is installed: {type(error).__name__}") from error
    return {canonicalize_name(name): version for name, version in answer["found"].items()}, answer["marks"]
