"""Test the groups of the showback: who pays, shares of spot, on demand, endpoints and idle, CSV file and page."""

import csv
import datetime as dt

import pytest

from pipelines.costs.daily.days import sum_days_by_project
from pipelines.costs.report import parse_keys
from pipelines.costs.showback.allocation import add_job_columns, allocate_rows
from pipelines.costs.showback.page import write_showback_page
from pipelines.costs.showback.policy import ShowbackPolicy
from pipelines.costs.showback.shares import find_use, sum_shares
from pipelines.costs.showback.summary import find_anomalies, summarize, write_csv
from pipelines.errors import DataError, SpecError
from pipelines.pages.drawing import save_figure
from tests.unit.pipelines.costs.ledger_rows import BEGIN, make_endpoint_row, make_row

pytestmark = pytest.mark.usefixtures("home")
POLICY = ShowbackPolicy(teams={"p": "blue"}, environments={"p": "prod"})


def make_rows():
    """Return a job of team red, one of project p, one of nobody, and an hour of an endpoint of project p."""
    jobs = [
        make_row("a", team="red", environment="dev", user="ada", dataset="d", cost_usd=4.0),
        make_row("b", spot=False, cost_usd=3.0),
        make_row("c", project="", model="", cost_usd=2.0),
    ]
    return [*allocate_rows(jobs, POLICY), *add_job_columns(allocate_rows([make_endpoint_row()], POLICY))]


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("team", {"red": 4, "blue": 4, "unallocated": 2}),
        ("environment", {"dev": 4, "prod": 4, "unallocated": 2}),
        ("user", {"ada": 4, "unallocated": 6}),
        ("project", {"p": 8, "unallocated": 2}),
        ("month", {"2026-11": 10}),
    ],
)
def test_costs_are_allocated_by_the_job_else_by_its_project(key, expected):
    showback = summarize(make_rows(), [key])
    assert {group[key]: group["cost_usd"] for group in showback.groups} == expected
    assert sum(group["share"] for group in showback.groups) == pytest.approx(1)
    costs = [group["cost_usd"] for group in showback.groups]
    assert costs == sorted(costs, reverse=True)


def test_shares_add_up():
    total = sum_shares(make_rows())
    assert (total["spot"], total["on_demand"], total["endpoints"], total["idle"]) == (0.6, 0.3, 0.1, None)
    assert sum_shares([])["spot"] is None


def test_idle_is_the_unused_part_of_gpus_or_of_vcpus():
    gpu_row = make_row(instance_type="ml.g5.12xlarge", gpu_mean=100.0, cpu_mean=4_800.0, cost_usd=8.0)
    cpu_row = make_row(cpu_mean=150.0, cost_usd=4.0)  # of two vCPUs
    assert (find_use(gpu_row), find_use(cpu_row), find_use(make_row())) == (0.25, 0.75, None)
    assert find_use(make_row(cpu_mean=999.0)) == 1
    assert find_use(make_endpoint_row()) is None and find_use(make_endpoint_row(memory_mb=2_048)) == 1
    assert (find_use(make_endpoint_row(requests=0)), find_use(make_endpoint_row(requests=1))) == (0, None)
    used = {"cpu_mean": 150.0, "requests": 9}
    assert find_use(make_endpoint_row(**used)) == 0.75 and find_use(make_endpoint_row(**used | {"requests": 0})) == 0
    assert find_use(make_endpoint_row(**used, instance_type="ml.g5.xlarge")) is None, "the use of its GPU is not known"
    total = sum_shares([gpu_row, cpu_row, make_row(cost_usd=100.0)])
    assert (total["idle_usd"], total["known_usd"], total["idle"]) == (7, 12, pytest.approx(7 / 12))


def test_csv_has_all_groups_and_runs_no_formula(tmp_path):
    rows = [*make_rows(), *allocate_rows([make_row("x", team="=HYPERLINK(1)", user="a\nb")], POLICY)]
    write_csv(tmp_path / "costs.csv", summarize(rows, ["team", "user"]))
    with (tmp_path / "costs.csv").open(newline="") as file:
        records = {(record["team"], record["user"]): record for record in csv.DictReader(file)}
    assert float(records["red", "ada"]["cost_usd"]) == 4
    assert records["blue", "unallocated"]["idle"] == ""
    assert ("'=HYPERLINK(1)", "a\\nb") in records
    with pytest.raises(SpecError, match="Give a file that can be written"):
        write_csv(tmp_path / "costs.csv" / "x.csv", summarize(rows, ["team"]))


@pytest.mark.parametrize("team", ["a;=1+1", " =1+1", "\uff1d1+1", "\uff20SUM(1)", "a; -1", "x;y;+1"])
def test_csv_runs_no_formula_of_a_spreadsheet_with_other_separators(tmp_path, team):
    write_csv(tmp_path / "costs.csv", summarize(allocate_rows([make_row("x", team=team)], POLICY), ["team"]))
    text = (tmp_path / "costs.csv").read_text(encoding="utf-8").splitlines()[1]
    starts = tuple("=+-@\uff1d\uff0b\uff0d\uff20")
    assert not [cell for cell in text.replace(",", ";").split(";") if cell.strip(' "').startswith(starts)]


def test_csv_changes_no_other_text(tmp_path):
    write_csv(tmp_path / "costs.csv", summarize(allocate_rows([make_row("x", team="a-b;c=d")], POLICY), ["team"]))
    assert "a-b;c=d,0.5" in (tmp_path / "costs.csv").read_text()


def test_page_has_the_groups_and_charts_and_is_the_same_each_time(tmp_path):
    rows = [*make_rows(), *allocate_rows([make_row("x", team="<script>")], POLICY)]
    for name in ("a.html", "b.html", "empty.html"):
        some_rows = [] if name == "empty.html" else rows
        days = sum_days_by_project(some_rows, BEGIN.date() + dt.timedelta(days=3))
        write_showback_page(tmp_path / name, "Costs, 2026-11", summarize(some_rows, ["team"]), days)
    text = (tmp_path / "a.html").read_text()
    assert text == (tmp_path / "b.html").read_text()
    assert "unallocated" in text and "&lt;script&gt;" in text and "<script>" not in text
    assert text.count("data:image/png;base64,") == 2


def test_labels_of_the_chart_are_escaped(tmp_path, monkeypatch):
    labels = []

    def save(path, figure, **options):
        labels.extend(label.get_text() for label in figure.axes[0].get_yticklabels())
        return save_figure(path, figure, **options)

    monkeypatch.setattr("pipelines.costs.showback.page.save_figure", save)
    rows = allocate_rows([make_row("x", team="a\nb\u202e$x_{")], POLICY)
    write_showback_page(tmp_path / "a.html", "Costs", summarize(rows, ["team"]), {})
    assert labels[0] == "a\\nb\\u202e$x_{"


def test_anomalies_are_those_of_the_last_whole_days():
    now = BEGIN + dt.timedelta(days=70)
    rows = [make_row(f"j{n}", BEGIN + dt.timedelta(days=n), cost_usd=500.0 if n == 65 else 10.0) for n in range(71)]
    anomalies = find_anomalies(rows, now)
    assert [day.day for day in anomalies["p"]] == [(BEGIN + dt.timedelta(days=65)).date().isoformat()]
    assert find_anomalies(rows[:60], now) == {}


def test_anomalies_of_a_month_are_not_those_of_the_last_days():
    begin = dt.datetime(2026, 1, 1, 8, tzinfo=dt.UTC)
    jumps = {begin.replace(month=3, day=day).date() for day in (1, 15, 31)}
    days = [begin + dt.timedelta(days=n) for n in range(120)]
    rows = [make_row(f"j{day:%j}", day, cost_usd=500.0 if day.date() in jumps else 10.0) for day in days]
    listed = {month: find_anomalies(rows, days[-1], month).get("p", []) for month in ("2026-02", "2026-03", "2026-04")}
    assert {month: [day.day for day in items] for month, items in listed.items()} == {
        "2026-02": [],
        "2026-03": [jump.isoformat() for jump in sorted(jumps)],
        "2026-04": [],
    }
    on_the_first = dt.datetime(2026, 4, 1, 1, tzinfo=dt.UTC)
    assert find_anomalies(rows, on_the_first, "2026-04") == {}, "no day of the month is over"
    assert [day.day for day in find_anomalies(rows, on_the_first)["p"]] == ["2026-03-15", "2026-03-31"]


def test_damaged_row_and_unknown_key_are_refused():
    with pytest.raises(DataError, match="cost_usd is -1"):
        summarize([make_row(cost_usd=-1.0)], ["team"])
    with pytest.raises(SpecError, match="unknown key colour"):
        parse_keys("team,colour")


@pytest.mark.parametrize(
    "section",
    [{"budgets_usd": {"p/2026-13": 1}}, {"budgets_usd": {"p": -1}}, {"thresholds_percent": [0]}, {"budgets_eur": {}}],
)
def test_wrong_section_gives_one_line(section):
    with pytest.raises(SpecError) as caught:
        ShowbackPolicy.parse(section, "section showback")
    assert "\n" not in str(caught.value)
