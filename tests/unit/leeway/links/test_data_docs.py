"""The button "Data docs": where it leads, and that Airflow keeps it."""

from pathlib import Path

import pytest
from airflow.sdk import DAG
from airflow.serialization.serialized_objects import DagSerialization
from leeway.links.data_docs import DataDocsLink
from leeway.operators.ingest import IngestOperator
from leeway.operators.validate import ValidateOperator
from leeway.provider import get_provider_info


def task(partition: str = "2013-01-01") -> ValidateOperator:
    return ValidateOperator(task_id="validate", dataset="flights", partition=partition)


def link(of: ValidateOperator) -> str:
    return DataDocsLink().get_link(of, ti_key=None)  # type: ignore[arg-type]


def test_it_leads_to_the_page_that_the_step_names(home: Path) -> None:
    from pipelines.settings import settings

    assert link(task()) == (home / "docs/flights/2013-01-01.html").as_uri()
    assert link(task()) == settings().docs_page("flights", "2013-01-01")


@pytest.mark.parametrize("url", ["https://docs.example.com/leeway", "https://docs.example.com/leeway/"])
def test_a_served_site_has_its_own_address(url: str, home: Path, monkeypatch, fresh_settings) -> None:
    monkeypatch.setenv("LEEWAY_DOCS_URL", url)
    fresh_settings()
    assert link(task()) == "https://docs.example.com/leeway/flights/2013-01-01.html"


def test_what_is_no_file_name_stays_in_its_place(home: Path) -> None:
    assert "/../" not in link(task("../../etc"))


def test_no_partition_no_button(home: Path) -> None:
    assert link(task("")) == ""


def test_airflow_keeps_it_for_this_operator_only() -> None:
    with DAG("d", schedule=None) as dag:
        IngestOperator(task_id="ingest", dataset="flights") >> task()
    read = DagSerialization.from_dict(DagSerialization.to_dict(dag))
    assert read.get_task("validate").extra_links == ["Data docs"]
    assert read.get_task("ingest").extra_links == []
    found = read.get_task("validate").operator_extra_link_dict["Data docs"]
    assert found.xcom_key == DataDocsLink().xcom_key


def test_the_provider_names_it() -> None:
    assert f"{DataDocsLink.__module__}.{DataDocsLink.__qualname__}" in get_provider_info()["extra-links"]
