"""Read the recorded exits of a job's hosts: how a command ended while no server ran, and which host failed first."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from drydock.host.tree import HostTree
from drydock.transfer.stable_read import open_regular_file

# Largest part of an exit file that is read: the job could have written another file in its place.
MAX_BYTES = 1024


@dataclass(frozen=True)
class CommandExit:
    """The end of a job's command: its exit code as a shell reports it, and when it ended."""

    exit_code: int
    ended_at: datetime
    ended_by_itself: bool = True
    """False if SIGKILL ended the command."""


def read_command_exit(trees: Sequence[HostTree]) -> CommandExit | None:
    """Return the end of a job's command, if the command ended by itself.

    Args:
        trees: The trees of the job's hosts.

    Returns:
        If a host failed by itself, the end of the host that did so first. Otherwise the end of the host that ended
        last. None if no host failed by itself and at least one host has not ended by itself, or if there are no trees.
    """
    exits = [
        host_exit if host_exit and host_exit.ended_by_itself else None for host_exit in map(_read_exit_file, trees)
    ]
    if failed_exits := [host_exit for host_exit in exits if host_exit and host_exit.exit_code]:
        return min(failed_exits, key=lambda host_exit: host_exit.ended_at)
    recorded_exits = [host_exit for host_exit in exits if host_exit]
    if len(recorded_exits) < max(1, len(trees)):
        return None
    return max(recorded_exits, key=lambda host_exit: host_exit.ended_at)


def find_first_failure(trees: Sequence[HostTree]) -> str:
    """Return the name of the host whose command failed first, whatever ended it; "" if no host recorded a failure.

    When a host dies, the others often fail within milliseconds, since they wait for it. If SIGKILL ended a host, it is
    taken as the first one, even if its end was recorded later: no command gets SIGKILL because another one failed.
    """
    exits = {tree.host: _read_exit_file(tree) for tree in trees}
    failures = {host: host_exit for host, host_exit in exits.items() if host_exit and host_exit.exit_code}
    return min(failures, key=lambda host: (failures[host].ended_by_itself, failures[host].ended_at), default="")


def _read_exit_file(tree: HostTree) -> CommandExit | None:
    """Return the exit that a launcher or an executor recorded; None if the file does not exist or is not a record."""
    try:
        with open_regular_file(tree.exit_file) as file:
            content = json.loads(file.read(MAX_BYTES))
        ended_at = datetime.fromtimestamp(content["ended_at"], UTC)
        return CommandExit(int(content["exit_code"]), ended_at, bool(content.get("by_itself", True)))
    except (OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None
