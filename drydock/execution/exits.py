"""Read the exit codes of commands that ended while no server ran."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from drydock.host.tree import HostTree
from drydock.transfer.stable_read import open_regular_file

MAX_BYTES = 1024


@dataclass(frozen=True)
class CommandExit:
    """The end of a job's command: its exit code as a shell reports it, and when it ended."""

    exit_code: int
    ended_at: datetime


def read_command_exit(trees: Sequence[HostTree]) -> CommandExit | None:
    """Return the end of a job's command, if the command ended by itself.

    Args:
        trees: The trees of the job's hosts.

    Returns:
        If a host failed, the end of the host that failed first. Otherwise the end of the host that ended last. None if
        no host failed and at least one host has not ended by itself.
    """
    exits = [_read_exit_file(tree.exit_file) for tree in trees]
    if failed_exits := [host_exit for host_exit in exits if host_exit and host_exit.exit_code]:
        return min(failed_exits, key=lambda host_exit: host_exit.ended_at)
    recorded_exits = [host_exit for host_exit in exits if host_exit]
    if len(recorded_exits) < max(1, len(trees)):
        return None
    return max(recorded_exits, key=lambda host_exit: host_exit.ended_at)


def _read_exit_file(path: Path) -> CommandExit | None:
    """Return the exit that a launcher or an executor recorded; None if the file does not exist or is not a record."""
    try:
        with open_regular_file(path) as file:
            content = json.loads(file.read(MAX_BYTES))
        return CommandExit(int(content["exit_code"]), datetime.fromtimestamp(content["ended_at"], UTC))
    except (OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None
