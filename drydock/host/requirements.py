"""Compare a source bundle's requirements.txt with the packages that are installed.

SageMaker's script-mode containers install the packages of this file with pip. A job that runs as a process of this
machine shares its interpreter with other jobs and must not change it. So drydock reports the missing packages instead.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from drydock.errors import JobFailed

# Maximum number of characters of a requirement in an error message.
_REQUIREMENT_MAX_CHARS = 120
_QUERY_TIMEOUT_S = 60

# This program lists the packages of the interpreter that runs it. The package `packaging` may not be installed there.
_QUERY_PROGRAM = """
import importlib.metadata, json, platform, sys
# If a package is installed twice, Python imports the first one on the path. Reversed, this one is the last in the dict.
packages = [(item.metadata["Name"], item.version) for item in importlib.metadata.distributions()][::-1]
versions = {name: version for name, version in packages if name}
python = ".".join(map(str, sys.version_info[:2]))
markers = {"python_version": python, "python_full_version": platform.python_version(),
           "implementation_name": sys.implementation.name,
           "platform_python_implementation": platform.python_implementation()}
print(json.dumps({"versions": versions, "markers": markers}))
"""


def check_requirements(path: Path) -> None:
    """Check that this interpreter has the packages of a requirements.txt. Do nothing if there is no such file.

    Only for jobs that run as processes of this machine. For a container, its image decides what is installed.

    Raises:
        JobFailed: A requirement is not met, or the file or the packages cannot be read. A retry cannot help.
    """
    if not path.exists():
        return
    try:
        unmet_lines = find_unmet_requirements(path)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise JobFailed(f"ClientError: requirements.txt cannot be checked: {reason}") from error
    if unmet_lines:
        raise JobFailed(
            f"ClientError: drydock's Python does not meet these lines of requirements.txt: {', '.join(unmet_lines)}. "
            "Install them where drydock runs, or use the docker executor."
        )


def find_unmet_requirements(path: Path, python: str = sys.executable) -> list[str]:
    """Return the lines of a requirements.txt that an interpreter does not meet, each with the reason.

    Markers are evaluated; extras are ignored. Options (-r, --index-url, --hash) and URLs are always returned, since
    they cannot be checked.

    Args:
        path: The requirements.txt.
        python: The interpreter.

    Raises:
        OSError: The file cannot be read, or the interpreter cannot be started. A retry can help.
        ValueError: The interpreter does not report its packages. A retry cannot help.
    """
    lines = list(_read_lines(path.read_text(encoding="utf-8-sig", errors="replace")))
    if not lines:
        return []
    versions, markers = _query_interpreter(python)
    reasons = ((line, _find_reason(line, versions, markers)) for line in lines)
    return [f"{line[:_REQUIREMENT_MAX_CHARS]} ({reason})" for line, reason in reasons if reason]


def _read_lines(text: str) -> Iterator[str]:
    for line in text.replace("\\\n", " ").splitlines():
        # A # begins a comment only at the start of a line or after a space or tab, but not inside a URL.
        content = "" if line.startswith("#") else line.split(" #")[0].split("\t#")[0].strip()
        if content:
            yield content


def _find_reason(line: str, versions: Mapping[str, str], markers: dict[str, str]) -> str:
    """Return why a line is not met; "" if it is met."""
    if line.startswith("-") or " --" in line:
        return "options are not supported"
    try:
        requirement = Requirement(line)
    except InvalidRequirement:
        return "not a requirement"
    if requirement.marker is not None and not requirement.marker.evaluate(markers):
        return ""
    if requirement.url is not None:
        return "a URL cannot be checked"
    version = versions.get(canonicalize_name(requirement.name))
    if version is None:
        return "not installed"
    return "" if requirement.specifier.contains(version, prereleases=True) else f"installed: {version}"


def _query_interpreter(python: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return the versions of an interpreter's packages, by canonical name, and the values of its markers."""
    try:
        process = subprocess.run(
            [python, "-c", _QUERY_PROGRAM], capture_output=True, text=True, check=True, timeout=_QUERY_TIMEOUT_S
        )
        output = json.loads(process.stdout)
    except (subprocess.SubprocessError, json.JSONDecodeError) as error:
        raise ValueError(f"cannot list the packages of {Path(python).name}: {type(error).__name__}") from error
    return {canonicalize_name(name): version for name, version in output["versions"].items()}, output["markers"]
