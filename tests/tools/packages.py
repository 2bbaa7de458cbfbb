"""Change the files of a registered package, as somebody could who may write to MLflow's artifacts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from pipelines.registry.versions import Registry


def append_code(marker: Path) -> Callable[[str], str]:
    """Return the change that appends code to a Python file: it creates the file `marker` when it runs."""
    return lambda text: f"{text}\nopen({str(marker)!r}, 'w').close()\n"


@contextmanager
def change_package(name: str, version: str, file: str, change: Callable[[str], str]) -> Iterator[None]:
    """Replace a file of a registered package by a changed copy, or add it; undo this when the block ends."""
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

    repository = get_artifact_repository(Registry.open().client.get_model_version_download_uri(name, version))
    folder = file.rpartition("/")[0] or None
    is_new = file not in {artifact.path for artifact in repository.list_artifacts(folder)}
    text = "" if is_new else Path(repository.download_artifacts(file)).read_text()
    assert change(text) != text

    def write(content: str) -> None:
        with TemporaryDirectory() as temporary:
            path = Path(temporary) / Path(file).name
            path.write_text(content)
            repository.log_artifact(str(path), folder)

    write(change(text))
    try:
        yield
    finally:
        if is_new:
            repository.delete_artifacts(file)
        else:
            write(text)
