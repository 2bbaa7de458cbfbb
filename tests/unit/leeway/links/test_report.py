"""The button "Report": where it leads, and that Airflow keeps it."""

from pathlib import Path

from airflow.sdk import DAG
from airflow.serialization.serialized_objects import DagSerialization
from leeway.links.report import ReportLink
from leeway.operators.gate import GateOperator
from leeway.provider import get_provider_info


def link(version: str) -> str:
    gate = GateOperator(task_id="gate", dataset="flights", workspace="/w", model_name="flights", version=version)
    return ReportLink().get_link(gate, ti_key=None)  # type: ignore[arg-type]


def test_it_leads_to_the_page_that_the_step_names(home: Path) -> None:
    from pipelines.settings import settings

    assert link("3") == (home / "docs/models/flights/3/report.html").as_uri() == settings().report_page("flights", "3")


def test_no_version_no_button(home: Path) -> None:
    assert link("") == ""


def test_airflow_keeps_it() -> None:
    with DAG("d", schedule=None) as dag:
        GateOperator(task_id="gate", dataset="flights", workspace="/w", model_name="flights", version="3")
    read = DagSerialization.from_dict(DagSerialization.to_dict(dag))
    assert read.get_task("gate").extra_links == ["Report"]
    assert read.get_task("gate").operator_extra_link_dict["Report"].xcom_key == ReportLink().xcom_key


def test_the_provider_names_it() -> None:
    assert f"{ReportLink.__module__}.{ReportLink.__qualname__}" in get_provider_info()["extra-links"]
