"""The code of the packaged model, as MLflow runs it at each load."""

from __future__ import annotations

import subprocess
import sys


def test_loading_it_says_nothing_to_people_who_cannot_act_on_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import pipelines.datasets.flights.serving"], capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("", "")
