"""Test that each page of the data docs shows its evidence, whatever the evidence contains and however many write."""

import json
import multiprocessing
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from pipelines.errors import DataError
from pipelines.validation import datadocs
from pipelines.validation.datadocs.evidence import read_run
from pipelines.validation.datadocs.sentences import MAX_CHARS, describe_expectation

NULLS = "expect_column_values_to_not_be_null"


def build_result(kind: str = NULLS, success: bool = True, severity: str = "warning", **fields: Any) -> dict[str, Any]:
    config = {"type": kind, "kwargs": fields.pop("kwargs", {"column": "late"}), "severity": severity, "meta": {}}
    return {"success": success, "expectation_config": config, "result": fields, "exception_info": {}}


def write_evidence(home: Path, *results: Any, name: str = "flights", day: str = "2013-01-01", **meta: Any) -> Path:
    path = home / "validation" / name / f"{day}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"suite_name": name, "results": list(results), "meta": meta}))
    return path


class Page(HTMLParser):
    """Parse the tags, links and text of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.text = ""
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]

    def handle_data(self, data: str) -> None:
        self.text += data


FAULTY = build_result(success=False, unexpected_count=393, element_count=684, partial_unexpected_list=[None, "oops"])
CRITICAL = build_result(
    "expect_column_values_to_be_in_set", False, "critical", kwargs={"column": "o", "value_set": ["EWR"]}
)


@pytest.mark.parametrize(
    ("results", "meta", "verdict"),
    [
        ([build_result()], {}, "passed"),
        ([FAULTY], {}, "warned"),
        ([build_result(success=False, severity="info")], {}, "passed"),
        ([FAULTY], {"bad_rows": 3}, "quarantined"),
        ([FAULTY, CRITICAL], {"bad_rows": 3}, "blocked"),
        ([FAULTY], {"verdict": "blocked"}, "blocked"),
    ],
)
def test_a_page_shows_the_verdict(results: list[Any], meta: dict[str, Any], verdict: str, home: Path) -> None:
    page = datadocs.add_run(write_evidence(home, *results, **meta))
    assert verdict in Page(page).text
    assert json.loads(page.with_suffix(".json").read_text())["verdict"] == verdict
    assert f'class="{verdict}" href="2013-01-01.html"' in (page.parent / "index.html").read_text()


def test_a_page_shows_what_failed(home: Path) -> None:
    text = Page(datadocs.add_run(write_evidence(home, FAULTY, rows=684))).text
    assert "late has a value" in text
    assert "393 (57.5 %) of 684 rows" in text
    assert "oops" in text
    assert "684" in text


def test_a_page_shows_what_failed_first_and_the_most_severe_first(home: Path) -> None:
    passed = build_result(kwargs={"column": "carrier"})
    info = build_result(success=False, severity="info", kwargs={"column": "tailnum"})
    page = datadocs.add_run(write_evidence(home, passed, info, FAULTY, CRITICAL))
    text = Page(page).text
    words = ["Failed", "o is one of EWR", "late has a value", "tailnum has a value", "Passed", "carrier has a value"]
    positions = [text.find(word) for word in words]
    assert -1 not in positions and positions == sorted(positions), dict(zip(words, positions, strict=True))


def test_a_page_says_when_there_are_too_many_bad_rows(home: Path) -> None:
    text = Page(
        datadocs.add_run(write_evidence(home, FAULTY, rows=684, bad_rows=393, allowed=0.1, verdict="blocked"))
    ).text
    assert "393 of 684 rows are bad; a partition is published with at most 10 % of its rows quarantined" in text
    quarantined_text = Page(
        datadocs.add_run(write_evidence(home, FAULTY, rows=684, bad_rows=3, allowed=0.1, verdict="quarantined"))
    ).text
    assert "rows are bad" not in quarantined_text


@pytest.mark.parametrize(
    ("count", "words"),
    [(0, "all of them with the same answers"), (1, "1 of them differently"), (2, "2 of them differently")],
)
def test_a_page_says_how_many_expectations_the_engines_judge_differently(count: int, words: str, home: Path) -> None:
    difference = {"what": "success", "duckdb": build_result(), "gx": FAULTY}
    verification = {"great_expectations": "1.24", "compared": 30, "differences": [difference] * count}
    page = datadocs.add_run(write_evidence(home, build_result(), verification=verification, engines={"duckdb": 30}))
    assert f"30 expectations by both (Great Expectations 1.24), {words}." in Page(page).text


def test_every_link_leads_to_a_file_and_no_page_needs_a_network(home: Path) -> None:
    for moment in ("2026-01-01T10:00:00+00:00", "2026-01-02T10:00:00+00:00", "2026-01-03T10:00:00+00:00"):
        datadocs.add_run(write_evidence(home, FAULTY, validated_at=moment))
        datadocs.add_run(write_evidence(home, build_result(), name="weather", day="2013-01-02", validated_at=moment))
    pages = sorted((home / "docs").rglob("*.html"))
    assert len(pages) == 12, "nine about the data, and a list for each kind of report"
    for path in pages:
        page = Page(path)
        assert "script" not in page.tags
        base = path.parent / "x"
        if page.links[0] == "../":
            base = path.parent.parent / "x"
        for link in page.links[1:] if page.links[0] == "../" else page.links:
            assert (base.parent / link).resolve().is_file(), (path, link)


def test_a_page_links_a_bounded_number_of_earlier_runs_newest_first(home: Path) -> None:
    for day in range(1, 28):
        page = datadocs.add_run(
            write_evidence(home, FAULTY if day == 27 else CRITICAL, validated_at=f"2026-01-{day:02d}T10:00:00Z")
        )
    assert "warned" in Page(page).text.split("Failed")[0]
    links = [link for link in Page(page).links if link.startswith("2013-01-01/")]
    assert len(links) == 20
    assert links == sorted(links, reverse=True)
    assert "20260126" in links[0] and "blocked" in links[0]
    assert "An earlier run" in Page(page.parent / links[0]).text
    assert "An earlier run" not in Page(page).text


def test_adding_the_same_evidence_again_changes_nothing(home: Path) -> None:
    evidence = write_evidence(home, FAULTY, validated_at="2026-01-01T10:00:00Z")
    datadocs.add_run(evidence)
    contents = {path: path.read_bytes() for path in (home / "docs").rglob("*.*")}
    datadocs.add_run(evidence)
    assert datadocs.build_site() == 1
    assert {path: path.read_bytes() for path in (home / "docs").rglob("*.*")} == contents


MARKUP = '"><script>alert(1)</script>{{ 777 * 777 }}<!-- newest -->\u202e\x00' + "x" * 10_000


def test_data_cannot_become_markup(home: Path) -> None:
    hostile_result = build_result(
        MARKUP, False, MARKUP, kwargs={"column": MARKUP, "value_set": [MARKUP]}, observed_value=MARKUP,
        partial_unexpected_list=[MARKUP, {MARKUP: MARKUP}], details={MARKUP: MARKUP},
    )  # fmt: skip
    hostile_result["exception_info"] = {"m": {"exception_message": MARKUP, "raised_exception": True}}
    hostile_result["expectation_config"]["meta"] = {"why": MARKUP}
    page = datadocs.add_run(write_evidence(home, hostile_result))
    for path in (page, page.parent / "index.html", home / "docs/index.html"):
        assert "script" not in Page(path).tags
        assert "default-src 'none'" in path.read_text()
    assert "603729" not in Page(page).text, "a template's result; a shorter number can be in the time"
    assert len(page.read_bytes()) < 20_000


UNUSUAL = [
    "not a mapping", None, 7, {}, {"expectation_config": None}, {"result": []}, {"expectation_config": {"kwargs": []}},
    build_result(element_count=float("nan"), unexpected_count=float("inf")),
    build_result(partial_unexpected_list="abc"),
    build_result("expect_column_values_to_be_between", kwargs={}), build_result(element_count=0, unexpected_count=0),
    build_result("expect_luck", kwargs={"column": "a", "how": {"much": [1, None, True, 2.5]}}),
    build_result(kwargs={"column": "{0} {late!r}", "mostly": "most"}),
    build_result(unexpected_count="3", element_count="4"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(UNUSUAL)))
def test_unusual_evidence_has_a_page(number: int, home: Path) -> None:
    assert Page(datadocs.add_run(write_evidence(home, UNUSUAL[number], validated_at="soon", rows="many"))).text


def test_refuses_a_file_that_is_no_evidence(home: Path) -> None:
    path = write_evidence(home)
    path.write_text("{")
    with pytest.raises(DataError, match="not JSON"):
        datadocs.add_run(path)
    with pytest.raises(DataError, match="does not exist"):
        datadocs.add_run(path.with_name("2013-01-02.json"))


def _add_runs(paths: list[Path]) -> None:
    for path in paths:
        datadocs.add_run(path)


def test_eight_writers_at_once_lose_no_partition(home: Path) -> None:
    days = [f"2013-0{month}-{day:02d}" for month in range(1, 9) for day in range(1, 11)]
    paths = [write_evidence(home, FAULTY, day=day) for day in days]
    writers = [
        multiprocessing.get_context("fork").Process(target=_add_runs, args=([*paths[n::8], paths[0]],))
        for n in range(8)
    ]
    for process in writers:
        process.start()
    for process in writers:
        process.join()
    assert [process.exitcode for process in writers] == [0] * 8
    table = Page(home / "docs/flights/index.html").links
    assert {f"{day}.html" for day in days} <= set(table)
    assert not [path for path in (home / "docs").rglob(".*") if path.is_file()], "no temporary file is left"


def test_a_broken_summary_does_not_stop_other_pages(home: Path) -> None:
    first = datadocs.add_run(write_evidence(home, build_result()))
    first.with_suffix(".json").write_text("{")
    page = datadocs.add_run(write_evidence(home, build_result(), day="2013-01-02"))
    assert "2013-01-02.html" in Page(page.parent / "index.html").links
    datadocs.build_site()
    assert "2013-01-01.html" in Page(page.parent / "index.html").links


@pytest.mark.parametrize(
    ("kind", "kwargs", "words"),
    [
        ("expect_column_values_to_be_between", {"column": "a", "min_value": 0, "max_value": 9}, "a is between 0 and 9"),
        (
            "expect_column_values_to_be_between",
            {"column": "a", "min_value": 0, "strict_min": True},
            "a is more than 0",
        ),
        ("expect_column_values_to_be_between", {"column": "a"}, "a: column values to be between"),
        (NULLS, {"column": "a", "mostly": 0.925}, "a has a value, in at least 92.5 % of the rows"),
        (NULLS, {}, "column values to not be null"),
        ("expect_column_to_dance", {"column": "a", "step": "waltz"}, "a: column to dance (step = waltz)"),
        (
            "expect_rows_to_have_match_in",
            {"columns": ["o", "at"], "table": "weather", "other_columns": ["o", "hour"], "days_after": 1},
            "o, at match o, hour of a row of weather",
        ),
        ("expect_table_row_count_to_equal", {"value": 2013}, "The partition has exactly 2013 rows"),
        (
            "expect_compound_columns_to_be_unique",
            {"column_list": ["a", "b"]},
            "a, b together are unique",
        ),
    ],
)
def test_an_expectation_is_described_in_words(kind: str, kwargs: dict[str, Any], words: str) -> None:
    assert describe_expectation(kind, kwargs) == words


def test_a_description_has_a_bounded_length() -> None:
    description = describe_expectation(
        "expect_column_values_to_be_in_set", {"column": "a", "value_set": ["x" * 50] * 500}
    )
    assert len(description) <= MAX_CHARS


def test_a_summary_names_at_most_ten_failures_and_the_most_severe_first(home: Path) -> None:
    run = read_run(write_evidence(home, *[FAULTY] * 30, CRITICAL))
    assert len(run.summarize()["failures"]) == 10
    assert run.summarize()["failures"][0]["severity"] == "critical"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:]+\+00:00", run.summarize()["at"])
