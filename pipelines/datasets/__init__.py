"""The datasets: the examples in this folder, and those of the project in the folders of LEEWAY_DATASETS.

Without LEEWAY_DATASETS, the project's folder is datasets/. A package `orders` in such a folder is imported as
pipelines.datasets.orders.
"""

import os
from pathlib import Path

from pipelines.code_files import find_project, list_dataset_folders

_project = Path(os.environ.get("LEEWAY_PROJECT") or find_project(Path.cwd()))
__path__ += [str(folder) for folder in list_dataset_folders(_project)]
