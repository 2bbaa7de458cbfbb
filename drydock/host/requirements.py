"""Compare a source bundle's requirements.txt with the packages that are installed.

SageMaker's script-mode containers install the packages of this file with pip. A job that runs as a process of this
machine shares its interpreter with other jobs and must not change it. So drydock reports the missing packages instead.
"""

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement

from drydock.errors import RunFailed

# Maximum number of characters of a requirement in an error message.
_REQUIREMENT_MAX_CHARS = 120


def check_requirements(path: Path) -> None:
    """Check that this interpreter has the packages of a requirements.txt. Do nothing if there is no such file.

    Only for jobs that run as processes of this machine. For a container, its image decides what is installed.

    Raises:
        RunFailed: A requirement is not met: a retry cannot help. Or the file or the packages cannot be read: a retry
            can help.
    """
    if not path.exists():
        return
    try:
        unmet_lines = find_unmet_requirements(path)
    except OSError as error:
        raise RunFailed(f"ClientError: requirements.txt cannot be checked: {error.strerror or error}") from error
    if unmet_lines:
        raise RunFailed(
            f"ClientError: drydock's Python does not meet these lines of requirements.txt: {', '.join(unmet_lines)}. "
            "Install them where drydock runs, or use the docker executor."
        )


def find_unmet_requirements(path: Path) -> list[str]:
    """Return the lines of a requirements.txt that this interpreter does not meet, each with the reason.

    A line whose marker is false is met; extras are ignored. A line with an option (-r, --index-url, --hash) is always
    returned, and a line with a URL unless its marker is false: neither can be checked.

    Args:
        path: The requirements.txt.

    Raises:
        OSError: The file cannot be read. A retry can help.
    """
    lines = _read_lines(path.read_text(encoding="utf-8-sig", errors="replace"))
    reasons = ((line, _find_reason(line)) for line in lines)
    return [f"{line[:_REQUIREMENT_MAX_CHARS]} ({reason})" for line, reason in reasons if reason]


def _read_lines(text: str) -> Iterator[str]:
    for line in text.replace("\\\n", " ").splitlines():
        # A # begins a comment only at the start of a line or after a space or a tab. So a # in a URL begins none.
        content = "" if line.startswith("#") else line.split(" #")[0].split("\t#")[0].strip()
        if content:
            yield content


def _find_reason(line: str) -> str:
    """Return why a line is not met; "" if it is met."""
    if line.startswith("-") or " --" in line:
        return "options are not supported"
    try:
        requirement = Requirement(line)
    except InvalidRequirement:
        return "not a requirement"
    if requirement.marker is not None and not requirement.marker.evaluate():
        return ""
    if requirement.url is not None:
        return "a URL cannot be checked"
    installed_version = _find_version(requirement.name)
    if installed_version is None:
        return "not installed"
    is_met = requirement.specifier.contains(installed_version, prereleases=True)
    return "" if is_met else f"installed: {installed_version}"


def _find_version(package: str) -> str | None:
    """Return the version of a package, even if it was installed a moment ago; None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
