"""Test the reserved share: plans of the tables of prices, what is not known, and what is said without a commitment."""

import csv
import datetime as dt
import io
import json

import pytest
from rich.console import Console

from pipelines.costs.commitments.stated import StatedCommitment
from pipelines.costs.showback.allocation import add_job_columns, allocate_rows
from pipelines.costs.showback.page import write_showback_page
from pipelines.costs.showback.policy import ShowbackPolicy
from pipelines.costs.showback.reserved import MAX_TYPES, CommitmentUse, add_reserved_costs, summarize_use
from pipelines.costs.showback.shares import sum_shares
from pipelines.costs.showback.summary import build_showback_table, summarize, write_csv
from tests.unit.pipelines.costs.ledger_rows import BEGIN, make_endpoint_row, make_row

pytestmark = pytest.mark.usefixtures("home")
NEXT_DAY = BEGIN.replace(hour=0) + dt.timedelta(days=1)
PLAN = StatedCommitment(usd_h=2.8, term="1y", begin=BEGIN.date(), discount=0.3)
"""It covers 4 USD an hour."""
ROWS = [
    make_row("spot", team="red", cost_usd=4.0),
    make_row("job", team="red", spot=False, cost_usd=6.0),
    make_endpoint_row(hours=1, cost_usd=2.0),
]


def build_showback(commitments, month=""):
    """Summarize the rows by team as `costs report` does."""
    rows, coverage = add_reserved_costs(allocate_rows(ROWS, ShowbackPolicy()), commitments, NEXT_DAY)
    rows = add_job_columns(rows[-1:]) + list(rows[:-1])
    showback = summarize(rows, ["team"])
    if coverage is None:
        return showback
    return summarize(rows, ["team"], summarize_use(coverage, rows, month))


def print_table(showback):
    file = io.StringIO()
    Console(width=120, file=file).print(build_showback_table(showback))
    return file.getvalue()


@pytest.fixture
def write_prices(tmp_path, monkeypatch):
    """Return the function that writes the configured table of prices."""

    def write(**plans):
        group = {"regions": ["us-east-1"], "usd_per_hour": {"ml.m5.large": 0.2, "ml.m5.xlarge": 0.4}}
        table = {"as_of": "2026-01-01", "prices": [{**group, "savings_plan_usd_per_hour": plans}]}
        (tmp_path / "prices.json").write_text(json.dumps(table))
        monkeypatch.setenv("LEEWAY_PRICES", str(tmp_path / "prices.json"))

    return write


def test_reserved_is_the_covered_share_of_the_cost_on_demand():
    showback = build_showback([PLAN])
    groups = {group["team"]: group for group in showback.groups}
    # 4 of 8 USD are covered: 3 of the job, and 1 of the endpoint.
    assert (groups["red"]["reserved_usd"], groups["red"]["reserved"]) == (pytest.approx(3), pytest.approx(0.3))
    assert (groups["unallocated"]["reserved_usd"], groups["unallocated"]["reserved"]) == (1, 0.5)
    assert showback.total["reserved"] == pytest.approx(4 / 12)
    parts = [showback.total[name] for name in ("spot", "on_demand", "endpoints")]
    assert sum(parts) == pytest.approx(1), "reserved is a part of on demand and endpoints"


def test_unused_commitment_is_said_and_in_no_group():
    showback = build_showback([PLAN])
    assert showback.commitment_use == CommitmentUse(pytest.approx(24 * 2.8), pytest.approx(23 * 2.8), 0, [])
    assert sum(group["cost_usd"] for group in showback.groups) == showback.total["cost_usd"] == 12
    (sentence,) = showback.commitment_use.list_sentences()
    assert sentence == "Unused commitment, all payers together, up to yesterday: 64.40 USD of 67.20 USD"
    assert build_showback([PLAN], "2026-12").commitment_use.committed_usd == 0
    assert showback.to_record()["commitments"]["unused_usd"] == pytest.approx(64.4)


def test_without_a_commitment_the_share_is_not_zero(tmp_path):
    showback = build_showback([])
    assert (showback.total["reserved_usd"], showback.total["reserved"]) == (None, None)
    assert showback.to_record()["commitments"] == "no commitment stated"
    assert "reserved: no commitment stated" in print_table(showback)
    write_csv(tmp_path / "a.csv", showback)
    records = list(csv.DictReader((tmp_path / "a.csv").open()))
    assert [(record["reserved"], record["reserved_usd"]) for record in records] == [("", ""), ("", "")]
    assert "unused" not in (tmp_path / "a.csv").read_text()
    write_showback_page(tmp_path / "a.html", "Costs", showback, {})
    text = (tmp_path / "a.html").read_text()
    assert "<b>no commitment stated</b><span>reserved</span>" in text and "unused commitment" not in text


def test_table_csv_and_page_have_the_share_and_the_unused_commitment(tmp_path):
    showback = build_showback([PLAN])
    table = print_table(showback)
    assert "│     33.3 │" in table and "reserved: part that the stated commitments cover" in table
    write_csv(tmp_path / "a.csv", showback)
    red, unallocated, unused = csv.DictReader((tmp_path / "a.csv").open())
    assert float(red["reserved"]) == pytest.approx(0.3) and float(unallocated["reserved_usd"]) == 1
    assert red["unused_commitment_usd"] == "" and unused["cost_usd"] == ""
    assert (unused["team"], float(unused["unused_commitment_usd"])) == ("unused commitment", pytest.approx(64.4))
    write_showback_page(tmp_path / "a.html", "Costs", showback, {})
    text = (tmp_path / "a.html").read_text()
    assert "<b>33.3 %</b><span>reserved</span>" in text
    assert "<b>64.40 USD</b><span>unused commitment, of 67.20 USD</span>" in text


def test_discount_is_that_of_the_instance_type_in_the_tables(write_prices):
    write_prices(**{"1y": {"ml.m5.large": 0.1, "ml.m5.xlarge": 0.3}, "3y": {"ml.m5.large": 0.08}})
    plan = StatedCommitment(usd_h=2.0, term="1y", begin=BEGIN.date())
    jobs = [
        make_row("a", spot=False, cost_usd=3.0, instance_type="ml.m5.xlarge"),
        make_row("b", spot=False, cost_usd=3.0),
    ]
    rows, _ = add_reserved_costs(jobs, [plan], NEXT_DAY)
    # The saving of 50 % comes first: 1.50 USD pay for all of b, and 0.50 at 75 % of the price for a part of a.
    assert [row["reserved_usd"] for row in rows] == pytest.approx([0.5 / 0.75, 3])


def test_type_without_a_price_of_a_plan_is_not_known_and_said(write_prices):
    write_prices(**{"1y": {"ml.m5.large": 0.1, "ml.m5.xlarge": 0.4}})
    plan = StatedCommitment(usd_h=2.0, term="1y", begin=BEGIN.date())
    jobs = [
        make_row("a", spot=False, cost_usd=3.0, instance_type="ml.m5.xlarge"),  # no saving
        make_row("b", spot=False, cost_usd=1.0),
        make_row("c", spot=False, cost_usd=5.0, instance_type="ml.p4d.24xlarge"),
        make_row("d", spot=False, cost_usd=5.0, region="eu-west-1"),
    ]
    rows, coverage = add_reserved_costs(jobs, [plan], NEXT_DAY)
    assert [row["reserved_usd"] for row in rows] == [None, 1, None, None]
    assert sum_shares(rows)["reserved"] == 1, "of the costs that are known"
    assert sum_shares(rows[2:])["reserved"] is None
    use = summarize_use(coverage, rows)
    types = ["ml.m5.large in eu-west-1", "ml.m5.xlarge in us-east-1", "ml.p4d.24xlarge in us-east-1"]
    assert (use.unpriced_usd, use.unpriced_types) == (13, types)
    assert use.list_sentences()[1].startswith(
        f"No price with a savings plan is known for {', '.join(types)}: 13.00 USD"
    )


def test_sentence_about_unknown_prices_is_bounded():
    use = CommitmentUse(1.0, 0.0, 5.0, [f"ml.t{number} in r" for number in range(MAX_TYPES + 7)])
    assert "ml.t4 in r, 7 other type(s): " in use.list_sentences()[1] and "ml.t5" not in use.list_sentences()[1]
