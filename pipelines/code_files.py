"""Find the project and the model of a folder, and files of code: of Leeway, of datasets, of a bundle.txt."""

from __future__ import annotations

import os
from pathlib import Path

CODE_FOLDER = Path(__file__).parents[1]
"""Folder from which `pipelines` is imported."""
PARAMS_FILE = "params.yaml"
"""Name of the files with parameters of the steps. A project has one, and each model has one; see `pipelines.params`."""
MODELS_FOLDER = "models"
"""Folder of a project that has a folder for each of its models."""


def find_project(folder: Path) -> Path:
    """Return the folder of the project: PROJECT for PROJECT/models/NAME; for any other folder, the folder itself."""
    folder = folder.absolute()
    return folder.parents[1] if find_model(folder) else folder


def find_model(folder: Path) -> str:
    """Return the name of a folder's model: NAME for PROJECT/models/NAME with params.yaml; empty for any other one."""
    folder = folder.absolute()
    is_model = folder.parent.name == MODELS_FOLDER and (folder / PARAMS_FILE).is_file()
    return folder.name if is_model else ""


def get_model_file(model: str) -> str:
    """Return the path of the file with the parameters of a model, relative to the project."""
    return f"{MODELS_FOLDER}/{model}/{PARAMS_FILE}"


def find_code_file(name: str, project: Path) -> Path:
    """Return the path of a file of the project. A project without Leeway's code uses the code that is installed.

    Args:
        name: path of the file, relative to the project: pipelines/defaults/training.py, datasets/orders/training.py.
        project: folder of the project.
    """
    # Files of the project and of the installation are never mixed, because their versions may differ.
    uses_installation = name.startswith("pipelines/") and not has_own_code(project)
    return (CODE_FOLDER if uses_installation else project) / name


def has_own_code(project: Path) -> bool:
    """Return whether a project has its own copy of Leeway's code, as a checkout has. If so, its steps run this copy."""
    # Without __init__.py, Python imports the installed package.
    return (project / "pipelines" / "__init__.py").is_file()


def locate_bundle(listing: Path, project: Path) -> dict[str, Path]:
    """Map each path that a listing names to the file on this machine, which may not exist.

    `find_code_file` finds a path such as pipelines/errors.py. The listing names a dataset's own files by the path under
    which they are imported, pipelines/datasets/NAME/FILE. These files are in the folder of the listing.

    Args:
        listing: text file with paths, separated by white space, such as the bundle.txt of a dataset.
        project: folder of the project.
    """
    own_prefix = f"pipelines/datasets/{listing.parent.name}/"
    return {
        name: listing.parent / name.removeprefix(own_prefix)
        if name.startswith(own_prefix)
        else find_code_file(name, project)
        for name in listing.read_text(encoding="utf-8").split()
    }


def list_dataset_folders(project: Path) -> list[Path]:
    """List the folders that hold the project's own datasets. Each dataset is a package in one of them.

    The environment variable LEEWAY_DATASETS lists the folders, absolute or relative to the project, separated as in
    PATH. The default is the project's folder datasets/. A folder that does not exist is left out.
    """
    folders = [project.absolute() / name for name in _list_dataset_paths()]
    return [folder for folder in folders if folder.is_dir()]


def list_dataset_paths_in_project() -> list[str]:
    """List the folders of datasets inside the project, as paths relative to it. They need not exist.

    Absolute paths and paths with `..` in LEEWAY_DATASETS are left out.
    """
    return [str(path) for path in _list_dataset_paths() if not path.is_absolute() and ".." not in path.parts]


def _list_dataset_paths() -> list[Path]:
    # The settings are not used: a training script that imports its dataset's modules has no settings.
    names = os.environ.get("LEEWAY_DATASETS") or "datasets"
    return [Path(name).expanduser() for name in names.split(os.pathsep) if name]
