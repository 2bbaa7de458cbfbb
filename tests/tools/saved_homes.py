"""Give each test a LEEWAY_HOME with the same content, which is made once. A lake's paths are absolute.

For this reason the content is copied away after it was made, and back to the same path before each test.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path


class SavedHome:
    """A folder whose content is made once, and restored before each test.

    Args:
        folder: an empty folder for the home and for the copy of its content.
    """

    def __init__(self, folder: Path) -> None:
        self.path, self._copy = folder / "home", folder / "copy"

    def save(self, make_content: Callable[[], object]) -> None:
        """Make the content by a call, for which LEEWAY_HOME has to be `path`, and save it."""
        make_content()
        shutil.copytree(self.path, self._copy, symlinks=True)

    def restore(self) -> Path:
        """Replace what a test left at `path` by the saved content; return `path`."""
        shutil.rmtree(self.path, ignore_errors=True)
        shutil.copytree(self._copy, self.path, symlinks=True)
        return self.path
