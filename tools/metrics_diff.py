"""What a change does to the metrics: `python tools/metrics_diff.py BASE [HEAD]` runs `dvc repro` of both on a sample.

A sample: the windows of params.yaml, cut to SAMPLE. Both commits are run in a worktree of their own, over one lake and
one DVC cache in LEEWAY_HOME, where what is equal is computed once. stdout is the comparison as Markdown.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
SAMPLE = {"snapshot": {"train_days": 21, "holdout_days": 7, "min_train_days": 5}, "preprocess": {"validation_days": 3}}
"""Most days of each window."""
TARGET = "evaluate"
AUTHOR = ("-c", "user.name=metrics", "-c", "user.email=metrics@invalid", "-c", "commit.gpgsign=false")
NOTHING = "No metric differs."
UNTOLD = "ERROR: failed to reproduce"
"""How DVC's line on a stage begins that failed."""


class Failed(Exception):
    """A command ended with an error; the text is one line."""


def main() -> int:
    """The comparison is on stdout. 0 where both ran, 2 where a commit is none or its `dvc repro` fails."""
    base, head = (*sys.argv[1:], "HEAD")[:2] if len(sys.argv) in (2, 3) else ("", "")
    if not base:
        sys.stderr.write("error: name the commit to compare with: metrics_diff.py BASE [HEAD]\n")
        return 2
    home = Path(os.environ.get("LEEWAY_HOME") or ROOT / ".leeway").absolute()
    try:
        sys.stdout.write(compared(base, head, home))
    except Failed as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    return 0


def compared(base: str, head: str, home: Path) -> str:
    """The metrics of both commits on the sample, as a table in Markdown."""
    with worktree(base) as before, worktree(head) as after:
        for folder in (before, after):
            reproduced(folder, home)
        # DVC compares with a commit: what the base's run left is one, of which no branch knows.
        run(before, home, "git", "add", "--force", "dvc.lock", "params.yaml")
        run(before, home, "git", *AUTHOR, "commit", "--quiet", "--no-verify", "--message", "sample")
        commit = run(before, home, "git", "rev-parse", "HEAD").strip()
        table = run(after, home, *DVC, "metrics", "diff", "--md", "--no-path", commit).strip()
    rows = table.replace(commit, "before").replace("workspace", "after") if table.count("\n") > 1 else NOTHING
    return f"Metrics on a sample, {base[:12]} to {head[:12]}:\n\n{rows}\n"


DVC = (sys.executable, "-m", "dvc")


@contextmanager
def worktree(commit: str) -> Iterator[Path]:
    """A checkout of the commit, gone after the block."""
    with tempfile.TemporaryDirectory(prefix="metrics-") as place:
        folder = Path(place) / "tree"
        run(ROOT, ROOT, "git", "worktree", "add", "--quiet", "--detach", str(folder), f"{commit}^{{commit}}")
        try:
            yield folder
        finally:
            run(ROOT, ROOT, "git", "worktree", "remove", "--force", str(folder))


def reproduced(folder: Path, home: Path) -> None:
    """The stages up to the metrics have run there, on the sample."""
    params = folder / "params.yaml"
    params.write_text(yaml.safe_dump(sampled(yaml.safe_load(params.read_text())), sort_keys=False))
    run(folder, home, *DVC, "cache", "dir", "--local", str(home / "dvc" / "cache"))
    run(folder, home, *DVC, "repro", TARGET)


def sampled(params: dict[str, Any]) -> dict[str, Any]:
    """The params with no window longer than the sample's."""
    cut = {name: {**params[name]} for name in SAMPLE if name in params}
    for section, most in SAMPLE.items():
        for key, days in most.items():
            if key in cut.get(section, {}):
                cut[section][key] = min(days, cut[section][key])
    return {**params, **cut}


def run(folder: Path, home: Path, *command: str) -> str:
    """The command's stdout.

    Raises:
        Failed: with the last line that it wrote.
    """
    env = {**os.environ, "LEEWAY_HOME": str(home), "LEEWAY_PROJECT": str(folder), "DVC_NO_ANALYTICS": "1"}
    env["PYTHONPATH"] = os.pathsep.join([str(folder), str(folder / "plugins")])
    env["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), env.get("PATH", os.defpath)])
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failed(f"{' '.join(command[:4])} ended with {done.returncode}: {why(done.stdout + done.stderr)}")
    return done.stdout


def why(said: str) -> str:
    """The last line of what a command said; of a stage that failed its own, and not DVC's, which names no reason."""
    lines = [line for line in said.splitlines() if line.strip()]
    return next((line for line in reversed(lines) if not line.startswith(UNTOLD)), "it said nothing")


if __name__ == "__main__":
    sys.exit(main())
