"""The FailureReason of a job whose process failed."""

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from drydock.errors import FAILURE_REASON_MAX_CHARS, truncate
from drydock.host.tree import HostTree
from drydock.transfer.stable_read import open_regular_file

# Largest part of the command in a FailureReason, and number of lines of a log that a short message shows.
COMMAND_MAX_CHARS = 200
LAST_LINES = 5
# A character has at most 4 bytes in UTF-8.
MESSAGE_MAX_BYTES = 4 * FAILURE_REASON_MAX_CHARS


def describe_algorithm_error(
    exit_code: int,
    trees: Sequence[HostTree],
    host: str,
    log_end: str,
    command: Sequence[str],
    message_file: str = "failure",
) -> str:
    """Return the FailureReason, at most 1,024 characters: exit code, host, the script's message and the command.

    Args:
        exit_code: The exit code, as a shell reports it.
        trees: The trees of the job's hosts.
        host: Name of the host that failed first. The reason names it if the job has several hosts.
        log_end: The end of this host's log (stdout and stderr merged), or of another host's log if this one is empty.
        command: The command that was executed.
        message_file: Name of the file in /opt/ml/output that the script may have written on this host. Its content is
            the message. Without it, log_end is the message.
    """
    host_line = f"Host {host}\n" if len(trees) > 1 else ""
    head = f'AlgorithmError: ExecuteUserScriptError:\nExitCode {exit_code}\n{host_line}ErrorMessage "'
    tail = f'"\nCommand "{truncate(shlex.join(command), COMMAND_MAX_CHARS)}", exit code: {exit_code}'
    tree = next((tree for tree in trees if tree.host == host), trees[0])
    failure_text = read_beginning(tree.output / message_file)
    max_chars = FAILURE_REASON_MAX_CHARS - len(head) - len(tail)
    # The end of the log is kept, not its beginning: a traceback has its error at the end.
    message = truncate(failure_text, max_chars) if failure_text else log_end.strip()[-max_chars:]
    return head + message + tail


def read_log_end(path: Path) -> str:
    """Return the end of a log file, at most 4 KiB; "" if there is no such file."""
    try:
        with open_regular_file(path) as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - MESSAGE_MAX_BYTES))
            return file.read(MESSAGE_MAX_BYTES).decode(errors="replace").replace("\r\n", "\n")
    except OSError:
        return ""


def list_last_lines(text: str, count: int = LAST_LINES) -> list[str]:
    """Return the last lines of a log, stripped, without empty lines and a traceback's lines of only ^ and ~."""
    lines = [line.strip() for line in text.splitlines()]
    return [line for line in lines if line.strip("^~ ")][-count:]


def read_beginning(path: Path) -> str:
    """Return the beginning of a file that the job may have written, at most 4 KiB; "" if it is not a regular file."""
    try:
        with open_regular_file(path) as file:  # refuses a FIFO, and a link to another file of the machine
            return file.read(MESSAGE_MAX_BYTES).decode(errors="replace").strip()
    except OSError:
        return ""
