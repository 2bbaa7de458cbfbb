"""Run the step `preprocess` over a packed window, in SageMaker's folders: the entry point of a processing job.

The step `pack` writes a packed window: a folder with the rows of a pinned window.

This module runs as the __main__ of an archive that contains the package `pipelines`. So the container needs only the
libraries that the package imports.

The error of a failed step becomes the job's ExitMessage, with the step's exit code before it.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

MAX_MESSAGE_CHARS = 1_000
"""Largest number of characters in the message, because SageMaker shows 1 KB."""


def main() -> None:
    """Write the features and the step's result to the job's output. If the step fails, write its error instead."""
    base = Path(os.environ.get("SAGEMAKER_BASE_DIR", "/opt/ml"))
    output, work = base / "processing" / "output", base / "processing" / "work"
    work.mkdir(parents=True, exist_ok=True)
    os.environ.update(LEEWAY_HOME=str(work), LEEWAY_PROJECT=str(work))
    result, window = output / "result.json", base / "processing" / "input" / "window"
    paths = {"--window": window, "--features": output / "features", "--out": result}
    options = [part for name, path in paths.items() for part in (name, str(path))]
    sys.argv = ["pipelines", "preprocess", *options, *sys.argv[1:]]
    from pipelines.cli import app

    try:
        app.main()
    except SystemExit as exit_error:
        if exit_error.code:
            _write_message(base / "output" / "message", result, exit_error.code)
        raise


def _write_message(message: Path, result: Path, exit_code: object) -> None:
    """Write the error from the step's report to the job's message, and remove the report from the output."""
    try:
        report = json.loads(result.read_text(encoding="utf-8"))
        text = f"{report['message']} {report['hint']}".strip()
    except (OSError, ValueError, KeyError):
        text = "the step reported no error; see the job's log."
    result.unlink(missing_ok=True)
    message.parent.mkdir(parents=True, exist_ok=True)
    message.write_text(f"[exit {exit_code}] {text}"[:MAX_MESSAGE_CHARS], encoding="utf-8")


if __name__ == "__main__":
    main()
