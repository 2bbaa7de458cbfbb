"""A training as a step, caught in the middle of its rounds."""

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.tools.groups import signal_group


def still(
    commands: Any,
    until: Callable[..., Any],
    home: Path,
    hyperparameters: Mapping[str, Any],
    rounds: int,
    env: Mapping[str, str] | None = None,
) -> "subprocess.Popen[str]":
    """`python -m pipelines train`, standing still since it left a checkpoint of so many rounds, until it is killed or
    continued.

    One that was done before it was looked at, on a machine that had no time for this process, is started again.
    """

    def left() -> bool:
        return any(int(path.name) >= rounds for path in home.glob("training/*/checkpoints/[0-9]*"))

    command = (sys.executable, "-m", "pipelines", "train", "--hyperparameters", json.dumps(hyperparameters))
    for _ in range(5):
        child: subprocess.Popen[str] = commands.start(*command, env=env)
        until(lambda child=child: child.poll() is not None or left(), most_s=0.01)
        signal_group(child, signal.SIGSTOP)
        if len(commands.members(child.pid)) == 2:  # the step and the script
            return child
        signal_group(child, signal.SIGCONT)
        _, err = child.communicate(timeout=60)
        assert child.returncode == 0, err[-2_000:]
        shutil.rmtree(commands.cwd / "data/model")
    raise AssertionError("five trainings were done before they were looked at")
