"""Test the description of a version."""

from typing import Any

from mlflow.entities.model_registry import ModelVersion

from pipelines.registry.description import compare_versions, describe_version, format_summary

TAGS = {"as_of": "2013-03-01", "window": "2013-01-01..2013-01-29 | 2013-01-31..2013-02-27", "table": "flights"}
TAGS |= {"rows_train": "18883", "rows_holdout": "23499", "git_commit": "abc", "dag_run": "flights_train/manual"}


def build_version(**tags: Any) -> ModelVersion:
    """Return a version with these tags, besides the usual ones."""
    version = ModelVersion("flights", "1", 0)
    version._tags = {f"leeway.{name}": value for name, value in {**TAGS, **tags}.items()}
    return version


def test_the_window_is_described_by_its_two_parts() -> None:
    values = describe_version(build_version())
    assert values["training days"] == "2013-01-01 to 2013-01-29"
    assert values["holdout days"] == "2013-01-31 to 2013-02-27"
    assert "window" not in values and values["git commit"] == "abc"
    assert describe_version(build_version(window="all"))["window"] == "all"


def test_only_the_part_of_the_window_that_differs_is_a_difference() -> None:
    other = build_version(window="2013-01-02..2013-01-29 | 2013-01-31..2013-02-27")
    differences = compare_versions(build_version(), {"eta": "0.1"}, other, {"eta": "0.2"})
    assert differences == {
        "training days": ["2013-01-01 to 2013-01-29", "2013-01-02 to 2013-01-29"],
        "eta": ["0.1", "0.2"],
    }


def test_the_summary_says_verdict_data_and_origin() -> None:
    text = format_summary(build_version(), "passed", "all 11 checks passed", "http://docs/report.html")
    assert text.split("\n\n") == [
        "**passed**: all 11 checks passed. [Report](http://docs/report.html)",
        "Trained as of 2013-03-01 on 18883 rows of flights (2013-01-01 to 2013-01-29), "
        "judged on 23499 rows (2013-01-31 to 2013-02-27).",
        r"git commit abc, dag run flights\_train/manual",
    ]


def test_texts_of_data_and_people_make_no_links_and_no_html() -> None:
    version = build_version(table="<img src=x>", dag_run="[x](javascript:alert)")
    text = format_summary(version, "failed", "slice `[a](http://evil)` fails", "http://docs/report.html")
    assert "](" not in text.replace("](http://docs", "").replace(r"\](", "")
    assert r"\<img src=x\>" in text and "<img" not in text.replace(r"\<img", "")
