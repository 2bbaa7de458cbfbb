"""Test the link "Report": its address, and that Airflow serializes it."""

from pathlib import Path

from airflow.sdk import DAG
from airflow.serialization.serialized_objects import DagSerialization
from leeway.links.report import ReportLink
from leeway.operators.gate import GateOperator
from leeway.provider import get_provider_info


def get_url(version: str) -> str:
    gate = GateOperator(task_id="gate", dataset="flights", workspace="/w", model="flights", version=version)
    return ReportLink().get_link(gate, ti_key=None)


def test_link_leads_to_the_page_that_the_step_names(home: Path) -> None:
    from pipelines.settings import settings

    assert (
        get_url("3")
        == (home / "docs/models/flights/3/report.html").as_uri()
        == settings().build_report_url("flights", "3")
    )


def test_gate_without_a_version_has_no_link(home: Path) -> None:
    assert get_url("") == ""


def test_serialized_dag_has_the_link() -> None:
    with DAG("d", schedule=None) as dag:
        GateOperator(task_id="gate", dataset="flights", workspace="/w", model="flights", version="3")
    deserialized = DagSerialization.from_dict(DagSerialization.to_dict(dag))
    assert deserialized.get_task("gate").extra_links == ["Report"]
    assert deserialized.get_task("gate").operator_extra_link_dict["Report"].xcom_key == ReportLink().xcom_key


def test_provider_info_names_the_link() -> None:
    assert f"{ReportLink.__module__}.{ReportLink.__qualname__}" in get_provider_info()["extra-links"]
