"""Test the DAG page_documents with a real drydock: what it writes to S3 is what the API server's page shows."""

from pathlib import Path

import pytest
from airflow.dag_processing.dagbag import DagBag
from leeway.page import documents, documents_copy
from leeway.page.documents_copy import DocumentsCopy
from leeway.page.errors import MissingDocumentError

from tests.tools import forking

ROOT = Path(__file__).parents[3]
KEY = "leeway/status/documents.zip"


@pytest.fixture
def write_task(set_aws_variables, monkeypatch, tmp_path, fresh_settings):
    """Return the DAG's task, in a worker of this project with an empty lake."""
    for name, value in {
        "LEEWAY_STATUS_COPY": f"s3://leeway/{KEY}",
        "LEEWAY_PROJECT": str(ROOT),
        "LEEWAY_HOME": str(tmp_path / "worker"),
        "LEEWAY_PYTHON": forking.ensure_stand_in(),
        "PYTHONPATH": f"{ROOT}:{ROOT / 'plugins'}",
    }.items():
        monkeypatch.setenv(name, value)
    fresh_settings()
    bag = DagBag(ROOT / "dags" / "page_documents.py")
    assert bag.import_errors == {}
    return bag.dags["page_documents"].get_task("write")


def test_documents_of_the_lake_reach_an_api_server_without_the_workers_folder(
    drydock, write_task, context, monkeypatch, tmp_path, fresh_settings
):
    write_task.execute(context)
    monkeypatch.setenv("LEEWAY_HOME", str(tmp_path / "server"))
    monkeypatch.setattr(documents_copy, "CHECK_S", 0.0)
    fresh_settings()
    with pytest.raises(MissingDocumentError, match="was never written here"):
        documents.read_models(set)
    copy = DocumentsCopy()
    copy.refresh()
    names = [model["model"] for model in documents.read_models(set)["models"]]
    assert names == ["flight_delay", "flight_status", "flights"]
    assert documents.read_model("flights")["summary"]["health"] == "no champion"
    first_time = documents.find_last_check_time()
    # drydock answers a request for a copy that has not changed as S3 does; the documents stay.
    copy.refresh()
    copy.wait_for_check(60)
    assert documents.find_last_check_time() == first_time
