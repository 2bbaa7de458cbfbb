"""Test the notebook instances without a server."""

import threading
from datetime import UTC, datetime
from pathlib import Path

from moto.cloudwatch.models import cloudwatch_backends
from moto.core.base_backend import backend_lock

from drydock.notebooks.item import NOTEBOOK, NotebookItem
from drydock.notebooks.registry import Notebooks
from drydock.resources import Owner
from drydock.store import Store

OWNER = Owner("999999999998", "us-east-1")


def test_reset_of_moto_does_not_wait_for_the_cpu_of_a_notebook(tmp_path: Path) -> None:
    """A reset holds moto's lock while it deletes the notebooks: who holds their lock must not wait for moto's."""
    notebooks, now = Notebooks(Store(tmp_path / "store.sqlite")), datetime.now(UTC)
    item = NotebookItem(NOTEBOOK, "mine", "arn", {}, now, now, now)
    recorder = threading.Thread(target=notebooks.add, args=(OWNER, item), daemon=True)
    reset = threading.Thread(target=notebooks.delete_all, args=(OWNER,), daemon=True)
    with backend_lock:
        recorder.start()
        recorder.join(0.5)
        assert recorder.is_alive(), "it waits for moto's lock, to publish the CPU"
        reset.start()
        reset.join(10)
        assert not reset.is_alive()
    recorder.join(60)
    assert notebooks.find(OWNER, NOTEBOOK, "mine") is None
    del cloudwatch_backends[OWNER.account_id]


def test_notebooks_that_were_never_started_can_be_closed(tmp_path: Path) -> None:
    """If the server cannot start, it closes what it had not started yet."""
    notebooks = Notebooks(Store(tmp_path / "store.sqlite"))
    notebooks.close()
    notebooks = Notebooks(Store(tmp_path / "store.sqlite"))
    notebooks.start()
    notebooks.close()
    assert "notebooks" not in {thread.name for thread in threading.enumerate()}
