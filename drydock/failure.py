"""FailureReason of a job whose process failed."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from drydock.errors import FAILURE_REASON_MAX_CHARS, bounded

COMMAND_MAX_CHARS = 200


def algorithm_error(exit_code: int, failure_file: Path, last_lines: Sequence[str], command: Sequence[str]) -> str:
    """Return the reason, at most 1,024 characters: the exit code, the script's own word, the command.

    Args:
        exit_code: As a shell gives it.
        failure_file: /opt/ml/output/failure; what it holds goes before the log.
        last_lines: The end of the log (stdout and stderr merged), used where there is no failure file.
        command: What was executed.
    """
    head = f'AlgorithmError: ExecuteUserScriptError:\nExitCode {exit_code}\nErrorMessage "'
    tail = f'"\nCommand "{bounded(shlex.join(command), COMMAND_MAX_CHARS)}", exit code: {exit_code}'
    said = _read(failure_file)
    room = FAILURE_REASON_MAX_CHARS - len(head) - len(tail)
    # Of a failure file the beginning counts, of a log (a traceback) the end.
    message = bounded(said, room) if said else "\n".join(last_lines).strip()[-room:]
    return head + message + tail


def _read(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(2 * FAILURE_REASON_MAX_CHARS).strip()
    except OSError:
        return ""
