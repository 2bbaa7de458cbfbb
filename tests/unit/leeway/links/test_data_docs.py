"""Test the link "Data docs": its address, and that Airflow serializes it."""

from pathlib import Path

import pytest
from airflow.sdk import DAG
from airflow.serialization.serialized_objects import DagSerialization
from leeway.links.data_docs import DataDocsLink
from leeway.operators.ingest import IngestOperator
from leeway.operators.validate import ValidateOperator
from leeway.provider import get_provider_info


def make_task(partition: str = "2013-01-01") -> ValidateOperator:
    return ValidateOperator(task_id="validate", dataset="flights", partition=partition)


def get_url(task: ValidateOperator) -> str:
    return DataDocsLink().get_link(task, ti_key=None)


def test_link_leads_to_the_page_that_the_step_names(home: Path) -> None:
    from pipelines.settings import settings

    assert get_url(make_task()) == (home / "docs/flights/2013-01-01.html").as_uri()
    assert get_url(make_task()) == settings().build_docs_url("flights", "2013-01-01")


@pytest.mark.parametrize("url", ["https://docs.example.com/leeway", "https://docs.example.com/leeway/"])
def test_link_uses_the_address_of_a_served_site(url: str, home: Path, monkeypatch, fresh_settings) -> None:
    monkeypatch.setenv("LEEWAY_DOCS_URL", url)
    fresh_settings()
    assert get_url(make_task()) == "https://docs.example.com/leeway/flights/2013-01-01.html"


def test_partition_cannot_leave_the_folder_of_the_docs(home: Path) -> None:
    assert "/../" not in get_url(make_task("../../etc"))


def test_task_without_a_partition_has_no_link(home: Path) -> None:
    assert get_url(make_task("")) == ""


def test_serialized_dag_has_the_link_for_this_operator_only() -> None:
    with DAG("d", schedule=None) as dag:
        IngestOperator(task_id="ingest", dataset="flights") >> make_task()
    deserialized = DagSerialization.from_dict(DagSerialization.to_dict(dag))
    assert deserialized.get_task("validate").extra_links == ["Data docs"]
    assert deserialized.get_task("ingest").extra_links == []
    link = deserialized.get_task("validate").operator_extra_link_dict["Data docs"]
    assert link.xcom_key == DataDocsLink().xcom_key


def test_provider_info_names_the_link() -> None:
    assert f"{DataDocsLink.__module__}.{DataDocsLink.__qualname__}" in get_provider_info()["extra-links"]
