"""FailureReason of a job whose process failed."""

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from drydock.errors import FAILURE_REASON_MAX_CHARS, bounded
from drydock.transfer.stable_read import open_file

COMMAND_MAX_CHARS = 200
MESSAGE_MAX_BYTES = 4 * FAILURE_REASON_MAX_CHARS


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
    said = said_in(failure_file)
    room = FAILURE_REASON_MAX_CHARS - len(head) - len(tail)
    # Of a failure file the beginning counts, of a log (a traceback) the end.
    message = bounded(said, room) if said else "\n".join(last_lines).strip()[-room:]
    return head + message + tail


def ending_of(path: Path) -> str:
    """Return the last lines of a log; "" where there is none."""
    try:
        with open_file(path) as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - MESSAGE_MAX_BYTES))
            return file.read(MESSAGE_MAX_BYTES).decode(errors="replace")
    except OSError:
        return ""


def said_in(path: Path) -> str:
    """Return the beginning of a file that the job may have written; "" where it is no file."""
    try:
        with open_file(path) as file:  # what the job has put there may be a fifo, or a link to anywhere
            return file.read(MESSAGE_MAX_BYTES).decode(errors="replace").strip()
    except OSError:
        return ""
