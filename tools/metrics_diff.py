"""Compare the metrics of two commits: `python tools/metrics_diff.py BASE [HEAD]` prints a table in Markdown.

`dvc repro` runs for both commits on a sample of the data: SAMPLE makes the windows of the parameters shorter. Each
commit has its own worktree. Both use the lake and the DVC cache in LEEWAY_HOME, so equal results are computed once.
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
"""Upper limits of the parameters in the sample, in days."""
STAGE = "evaluate"
"""The stage of dvc.yaml that writes the metrics."""
GIT_OPTIONS = ("-c", "user.name=metrics", "-c", "user.email=metrics@invalid", "-c", "commit.gpgsign=false")
NO_DIFFERENCE = "No metric differs."
DVC = (sys.executable, "-m", "dvc")
DVC_SUMMARY = "ERROR: failed to reproduce"
"""Beginning of DVC's line about a failed stage. The reason of the failure is in an earlier line."""


class CommandFailedError(Exception):
    """A command failed. The message is one line."""


def main() -> int:
    """Print the comparison. The exit code is 0, or 2 if the arguments are wrong or a command fails."""
    if len(sys.argv) not in (2, 3):
        sys.stderr.write("error: name the commit to compare with: metrics_diff.py BASE [HEAD]\n")
        return 2
    base, head = sys.argv[1], sys.argv[2] if len(sys.argv) == 3 else "HEAD"
    home = Path(os.environ.get("LEEWAY_HOME") or ROOT / ".leeway").absolute()
    try:
        sys.stdout.write(compare(base, head, home))
    except CommandFailedError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    return 0


def compare(base: str, head: str, home: Path) -> str:
    """Return the difference of the metrics of both commits on the sample, as a table in Markdown."""
    with check_out(base) as base_folder, check_out(head) as head_folder:
        for folder in (base_folder, head_folder):
            reproduce(folder, home)
        # DVC compares a workspace with a commit. So the result of the base becomes a commit that is on no branch.
        paths = ["dvc.lock", *map(str, list_params_files(base_folder))]
        run_command(base_folder, home, "git", "add", "--force", *paths)
        run_command(base_folder, home, "git", *GIT_OPTIONS, "commit", "--quiet", "--no-verify", "--message", "sample")
        commit = run_command(base_folder, home, "git", "rev-parse", "HEAD").strip()
        table = run_command(head_folder, home, *DVC, "metrics", "diff", "--md", commit).strip()
    rows = table.replace(commit, "before").replace("workspace", "after") if table.count("\n") > 1 else NO_DIFFERENCE
    return f"Metrics on a sample, {base[:12]} to {head[:12]}:\n\n{rows}\n"


@contextmanager
def check_out(commit: str) -> Iterator[Path]:
    """Check the commit out into a temporary worktree, which is removed after the block."""
    with tempfile.TemporaryDirectory(prefix="metrics-") as parent:
        folder = Path(parent) / "tree"
        run_command(ROOT, ROOT, "git", "worktree", "add", "--quiet", "--detach", str(folder), f"{commit}^{{commit}}")
        try:
            yield folder
        finally:
            run_command(ROOT, ROOT, "git", "worktree", "remove", "--force", str(folder))


def reproduce(folder: Path, home: Path) -> None:
    """Run the stages up to the metrics in a worktree, on the sample."""
    for path in list_params_files(folder):
        path.write_text(yaml.safe_dump(shorten_windows(yaml.safe_load(path.read_text())), sort_keys=False))
    run_command(folder, home, *DVC, "cache", "dir", "--local", str(home / "dvc" / "cache"))
    run_command(folder, home, *DVC, "repro", STAGE)


def list_params_files(folder: Path) -> list[Path]:
    """List the files of parameters in a worktree: params.yaml, and those of the models."""
    return [folder / "params.yaml", *sorted(folder.glob("models/*/params.yaml"))]


def shorten_windows(params: dict[str, Any]) -> dict[str, Any]:
    """Return the params, in which no value is larger than its limit in SAMPLE."""
    short_params = {name: {**params[name]} for name in SAMPLE if name in params}
    for section, limits in SAMPLE.items():
        for key, days in limits.items():
            if key in short_params.get(section, {}):
                short_params[section][key] = min(days, short_params[section][key])
    return {**params, **short_params}


def run_command(folder: Path, home: Path, *command: str) -> str:
    """Run a command in a folder and return its stdout.

    Raises:
        CommandFailedError: the command failed. The message quotes the line with the reason.
    """
    env = {**os.environ, "LEEWAY_HOME": str(home), "LEEWAY_PROJECT": str(folder), "DVC_NO_ANALYTICS": "1"}
    env["PYTHONPATH"] = os.pathsep.join([str(folder), str(folder / "plugins")])
    env["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), env.get("PATH", os.defpath)])
    result = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    if result.returncode:
        reason = find_reason(result.stdout + result.stderr)
        raise CommandFailedError(f"{' '.join(command[:4])} ended with exit code {result.returncode}: {reason}")
    return result.stdout


def find_reason(output: str) -> str:
    """Return the last line of a failed command's output, without DVC's summary line."""
    lines = [line for line in output.splitlines() if line.strip()]
    return next((line for line in reversed(lines) if not line.startswith(DVC_SUMMARY)), "it printed nothing")


if __name__ == "__main__":
    sys.exit(main())
