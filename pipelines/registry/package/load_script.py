"""Load a packaged model and score rows with it, in a process without access to the project's own code.

This script takes two arguments: the folder of the package, and a Parquet file with rows of features. If the rows were
scored, it exits with code 0; else it writes a traceback and exits with code 1. It can import `pipelines` only from the
folder `code` of the package.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path


class PackageFinder:
    """Find `pipelines` only in the package, even if it is also installed elsewhere."""

    def __init__(self, package: Path) -> None:
        self.folder = str(package / "code")

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: object = None) -> ModuleSpec | None:
        """Find the module `pipelines`; return None for all other names, so that Python's own finders search for them.

        Raises:
            ModuleNotFoundError: the package has no such module.
        """
        if name != "pipelines":
            return None
        spec = PathFinder.find_spec(name, [self.folder])
        if spec is None:
            raise ModuleNotFoundError("the package has no module 'pipelines'", name=name)
        return spec


def main(package: str, rows: str) -> None:
    """Load the packaged model and score the rows; the scores are discarded.

    Args:
        package: path of the package's folder.
        rows: path of a Parquet file with rows of features.
    """
    del sys.path[0]  # the folder of this script
    sys.meta_path.insert(0, PackageFinder(Path(package)))
    import mlflow.pyfunc
    import pandas as pd

    # No warnings: to warn of other versions, MLflow 3.17 lists the files of all packages, which takes half a second.
    mlflow.pyfunc.load_model(package, suppress_warnings=True).predict(pd.read_parquet(rows))


if __name__ == "__main__":
    main(*sys.argv[1:])
