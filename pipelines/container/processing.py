"""The entry of a processing job: the step `preprocess` over a packed window, in the folders that SageMaker gives a job.

Runs as the __main__ of an archive that has the whole of `pipelines`, so the container needs the libraries alone. What
a failed step says is left where SageMaker takes the job's ExitMessage from, its exit code before it.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

MOST_CHARS = 1_000
"""Of the message: SageMaker shows 1 KB."""


def main() -> None:
    """The features and the step's result are in the job's output; else its message says why not."""
    base = Path(os.environ.get("SAGEMAKER_BASE_DIR", "/opt/ml"))
    output, work = base / "processing" / "output", base / "processing" / "work"
    work.mkdir(parents=True, exist_ok=True)
    os.environ.update(LEEWAY_HOME=str(work), LEEWAY_PROJECT=str(work))
    result, window = output / "result.json", base / "processing" / "input" / "window"
    places = {"--window": window, "--features": output / "features", "--out": result}
    given = [part for name, place in places.items() for part in (name, str(place))]
    sys.argv = ["pipelines", "preprocess", *given, *sys.argv[1:]]
    from pipelines.cli import app

    try:
        app.main()
    except SystemExit as ended:
        if ended.code:
            _write_message(base / "output" / "message", result, ended.code)
        raise


def _write_message(message: Path, result: Path, code: object) -> None:
    """What the step reported in the place of its result is the job's message."""
    try:
        told = json.loads(result.read_text(encoding="utf-8"))
        text = f"{told['message']} {told['hint']}".strip()
    except (OSError, ValueError, KeyError):
        text = "it said no more; the log tells what it did."
    result.unlink(missing_ok=True)
    message.parent.mkdir(parents=True, exist_ok=True)
    message.write_text(f"[exit {code}] {text}"[:MOST_CHARS], encoding="utf-8")


if __name__ == "__main__":
    main()
