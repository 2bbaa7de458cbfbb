"""Start the daemon of MPI on all hosts of a job but the first, in place of ssh. A stand-alone program.

    mpi_agent.py wait FOLDER HOST             on each host but the first: wait for a command, run it, exit with its code
    mpi_agent.py start FOLDER HOST COMMAND    mpirun calls this on the first host, instead of `ssh HOST COMMAND`

Both sides see FOLDER, which only their user can write. The command is passed in a file, so no port is open through
which somebody else could start commands.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

# Seconds between two checks whether a file exists.
PAUSE_S = 0.05
# Longest wait of `wait` for a command, as in SageMaker's training toolkit.
MAX_WAIT_S = 300.0


def main(arguments: list[str]) -> int:
    """Run `wait` or `start`, and return the exit code; 0 if `wait` gets no command within MAX_WAIT_S seconds."""
    verb, folder, host, *command = arguments
    command_file, exit_file = Path(folder) / f"{host}.command.json", Path(folder) / f"{host}.exit.json"
    if verb == "start":
        _write(command_file, " ".join(command))
        return int(str(_wait_for_file(exit_file, float("inf"))))
    text = _wait_for_file(command_file, MAX_WAIT_S)
    if text is None:
        sys.stderr.write(f"drydock: mpirun started nothing on {host} in {MAX_WAIT_S:g} s\n")
        return 0
    # mpirun quotes the command for a shell, as ssh needs it.
    code = subprocess.run(["/bin/sh", "-c", str(text)], check=False).returncode
    _write(exit_file, str(code if code >= 0 else 128 - code))
    return code if code >= 0 else 128 - code


def _write(path: Path, text: str) -> None:
    """Write a file that is complete or absent."""
    new_path = path.with_suffix(".new")
    new_path.write_text(json.dumps(text), encoding="utf-8")
    os.replace(new_path, path)


def _wait_for_file(path: Path, max_wait_s: float) -> object:
    """Return the content of a file as soon as it exists; None if it does not exist after `max_wait_s` seconds."""
    deadline = time.monotonic() + max_wait_s
    while time.monotonic() < deadline:
        if path.exists():
            return json.loads(path.read_text(encoding="utf-8"))
        time.sleep(PAUSE_S)
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
