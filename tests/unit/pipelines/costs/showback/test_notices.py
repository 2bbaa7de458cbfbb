"""Test the forecast of budgets, and that people are notified of each thing once, whatever is killed in between."""

import datetime as dt

import pytest

from pipelines.costs.daily.anomalies import ExpectedCost, JudgedDay
from pipelines.costs.endpoints.ledger import EndpointLedger
from pipelines.costs.ledger import Ledger
from pipelines.costs.showback.budget_states import BudgetState, build_states, choose_budgets, forecast_rest_usd
from pipelines.costs.showback.notice_table import NoticeTable
from pipelines.costs.showback.notices import list_anomaly_notices, list_budget_notices
from pipelines.costs.showback.policy import ShowbackPolicy
from pipelines.costs.showback.review import JUDGED_DAYS, review_costs
from tests.unit.pipelines.costs.ledger_rows import BEGIN, make_endpoint_row, make_row

NOW = dt.datetime(2026, 11, 20, 12, tzinfo=dt.UTC)
THRESHOLDS = [50, 80, 100]


def make_state(spent_usd, forecast_usd=None, budget_usd=100.0, project="p"):
    return BudgetState(
        project=project, month="2026-11", budget_usd=budget_usd, spent_usd=spent_usd, forecast_usd=forecast_usd
    )


def test_budget_of_a_month_replaces_that_of_the_project():
    policy = ShowbackPolicy(budgets_usd={"p": 60.0, "p/2026-12": 90.0, "q/2026-11": 5.0})
    budgets = {"p": 50.0, "r": 7.0, "s": None}
    assert choose_budgets(budgets, policy, "2026-11") == {"p": 60, "q": 5, "r": 7}
    assert choose_budgets(budgets, policy, "2026-12") == {"p": 90, "r": 7}


def test_forecast_adds_the_usual_cost_of_the_days_that_are_left():
    rows = [make_row(f"j{n}", NOW - dt.timedelta(days=n), cost_usd=2.0) for n in range(1, 15)]
    assert forecast_rest_usd(rows, NOW) == pytest.approx(2 * 10)
    assert forecast_rest_usd([make_row("a", NOW - dt.timedelta(days=6))], NOW) is None
    old_rows = [make_row("a", NOW - dt.timedelta(days=80), cost_usd=1e6), *rows]
    assert forecast_rest_usd(old_rows, NOW) == pytest.approx(10), "28 USD in 28 days"
    (state,) = build_states({"p": 50.0}, [*rows, make_endpoint_row(BEGIN, cost_usd=5.0)], [], NOW)
    assert (state.spent_usd, state.forecast_usd) == (33, pytest.approx(53))


def test_highest_threshold_is_reported_and_a_forecast_only_before_the_budget_is_spent():
    def describe(state):
        return [(notice.kind, notice.threshold_percent) for notice in list_budget_notices([state], THRESHOLDS)]

    assert describe(make_state(49.9)) == []
    assert describe(make_state(85.0)) == [("threshold", 80)]
    assert describe(make_state(60.0, forecast_usd=110.0)) == [("threshold", 50), ("forecast", 0)]
    assert describe(make_state(120.0, forecast_usd=150.0)) == [("threshold", 100)]
    assert describe(make_state(0.0, budget_usd=0.0)) == []
    assert describe(make_state(0.1, budget_usd=0.0)) == [("threshold", 100)]


def test_jump_that_lasts_gives_one_notice():
    usual, limit = 10.0, ExpectedCost(10.0, 20.0)
    days = [JudgedDay(f"2026-11-{n:02}", usd, limit) for n, usd in enumerate([usual, 50, 60, usual, 70], 1)]
    assert [notice.subject for notice in list_anomaly_notices({"p": days})] == ["2026-11-02", "2026-11-05"]


@pytest.mark.usefixtures("home")
class TestNoticeTable:
    def claim(self, run, *states, now=NOW):
        notices = NoticeTable.open().claim(list_budget_notices(states, THRESHOLDS), run, now)
        return [(notice.project, notice.kind, notice.threshold_percent) for notice in notices]

    def test_each_threshold_is_reported_by_one_run(self):
        assert self.claim("r1", make_state(85.0)) == [("p", "threshold", 80)]
        assert self.claim("r2", make_state(85.0)) == []
        assert self.claim("r3", make_state(55.0)) == [], "a lower threshold is covered"
        assert self.claim("r4", make_state(101.0), make_state(55.0, project="q")) == [
            ("p", "threshold", 100),
            ("q", "threshold", 50),
        ]
        assert self.claim("r5", make_state(101.0, budget_usd=200.0)) == [("p", "threshold", 50)], "a new budget"

    def test_retry_of_a_killed_run_reports_the_same_and_other_runs_do_not(self):
        """The task was killed after the write: its retry must report what nobody was notified of."""
        first = self.claim("r1", make_state(85.0, forecast_usd=130.0))
        assert first == [("p", "threshold", 80), ("p", "forecast", 0)]
        assert self.claim("r1", make_state(85.0, forecast_usd=130.0)) == first
        next_month = NOW + dt.timedelta(days=20)
        assert self.claim("r1", make_state(85.0), now=next_month) == first
        assert self.claim("r2", make_state(85.0, forecast_usd=130.0), now=next_month) == []

    def test_person_who_looks_takes_no_notice_from_the_next_run(self):
        assert self.claim("", make_state(85.0)) == self.claim("", make_state(85.0)) == [("p", "threshold", 80)]
        assert self.claim("r1", make_state(85.0)) == [("p", "threshold", 80)]

    def test_kill_before_the_write_loses_nothing(self, monkeypatch):
        def kill(*_):
            raise SystemExit

        with monkeypatch.context() as context:
            context.setattr("pipelines.lake.month_table.TableVersion.replace_month", kill)
            with pytest.raises(SystemExit):
                self.claim("r1", make_state(85.0))
        assert self.claim("r2", make_state(85.0)) == [("p", "threshold", 80)]


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(("days", "subjects"), [(0, ["2026-11"]), (JUDGED_DAYS - 1, ["2026-11"]), (JUDGED_DAYS, [])])
def test_threshold_of_the_last_day_of_a_month_is_reported_in_the_next_month(days, subjects):
    """The DAG runs after midnight: what the last day of a month cost is in the ledgers only in the next month."""
    december = dt.datetime(2026, 12, 1, 0, 40, tzinfo=dt.UTC)
    row = make_row("late", december - dt.timedelta(hours=20), 10, cost_usd=45.0, model="")
    Ledger.open().add([{name: value for name, value in row.items() if name != "date"}])
    EndpointLedger.open().add([make_endpoint_row(december - dt.timedelta(hours=2), cost_usd=10.0)])
    policy = ShowbackPolicy(budgets_usd={"p": 1e6, "p/2026-11": 50.0})
    review = review_costs(policy, {}, [], december + dt.timedelta(days=days))
    assert [(state.month, state.spent_usd) for state in review.states] == [("2026-12", 0.0)]
    assert [notice.subject for notice in review.notices if notice.kind == "threshold"] == subjects
    assert [notice.budget_usd for notice in review.notices if notice.kind != "anomaly"] == [50.0] * len(subjects)
