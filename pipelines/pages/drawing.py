"""What all pictures of the reports share. Equal numbers give equal bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl

from pipelines.system.files import replace_file

mpl.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

__all__ = ["CANDIDATE", "CHAMPION", "FAINT", "Axes", "plt", "saved"]
mpl.rcParams["text.parse_math"] = False  # a dollar in a name is no formula
CANDIDATE, CHAMPION, FAINT = "#1f5fa8", "#e08a1e", "#999999"


def saved(path: Path, figure: Any) -> Path:
    """`path` is the figure's PNG; returns it."""
    with replace_file(path) as making:
        figure.savefig(making, dpi=110, format="png", metadata={"Software": None})  # no date, no version inside
    plt.close(figure)
    return path
