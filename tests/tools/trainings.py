"""Suspend a training step in the middle of its rounds."""

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.tools.groups import signal_group


def start_suspended_training(
    commands: Any,
    until: Callable[..., Any],
    home: Path,
    hyperparameters: Mapping[str, Any],
    rounds: int,
    env: Mapping[str, str] | None = None,
) -> "subprocess.Popen[str]":
    """Start `python -m pipelines train`, and suspend it as soon as it has a checkpoint of at least `rounds` rounds.

    The caller has to kill or continue it. On a loaded machine a training may end before it is suspended. Then another
    training is started.
    """

    def has_checkpoint() -> bool:
        return any(int(path.name) >= rounds for path in home.glob("training/*/checkpoints/[0-9]*"))

    command = (sys.executable, "-m", "pipelines", "train", "--hyperparameters", json.dumps(hyperparameters))
    for _ in range(5):
        child: subprocess.Popen[str] = commands.start(*command, env=env)
        until(lambda child=child: child.poll() is not None or has_checkpoint(), max_pause_s=0.01)
        signal_group(child, signal.SIGSTOP)
        if len(commands.list_members(child.pid)) == 2:  # the step and the script
            return child
        signal_group(child, signal.SIGCONT)
        _, err = child.communicate(timeout=180)
        assert child.returncode == 0, err[-2_000:]
        shutil.rmtree(commands.cwd / "data/model")
    raise AssertionError("five trainings ended before they could be suspended")
