"""Test what a person can do on the page, with Airflow's roles: each action is a run or an answer in Airflow."""

import json
import re

import pytest
import requests

from tests.tools.browser import open_context

SINCE = re.compile(r"[-:]|\.\d+")


@pytest.fixture(autouse=True)
def watched(server):
    server.touch_watched()


def act(page, button, confirm, reason="", **fields):
    """Open the dialog of an action, fill it in and confirm it; return the dialog."""
    page.get_by_role("button", name=button, exact=True).first.click()
    dialog = page.get_by_role("dialog")
    for label, value in fields.items():
        dialog.get_by_label(label.replace("_", " ")).fill(value)
    if reason:
        dialog.get_by_label("Reason").fill(reason)
    dialog.get_by_role("button", name=re.compile(confirm)).click()
    return dialog


def test_stranger_is_sent_to_the_login(server, browser):
    page = open_context(browser).new_page()
    page.goto(f"{server.url}/plugin/leeway")
    page.wait_for_url(re.compile("/login"))
    for path in ("documents/models", "documents/models/flights", "leeway.js"):
        assert requests.get(f"{server.url}/leeway/{path}", timeout=120).status_code == 401


def test_viewer_sees_all_and_can_do_nothing(server, open_page):
    page = open_page("vera", "/models/flights")
    page.get_by_text("Would drift start a training?").wait_for()
    page.wait_for_timeout(1_000)  # the permission is asked for
    assert page.get_by_role("button", name="Roll back").count() == 0
    headers = {"Authorization": f"Bearer {server.get_token('vera')}"}
    for dag_id in ("flights_rollback", "flights_train", "flights_reset_breaker"):
        url = f"{server.url}/api/v2/dags/{dag_id}/dagRuns"
        response = requests.post(url, json={"logical_date": None}, headers=headers, timeout=120)
        assert response.status_code == 403
    assert server.list_runs("flights_rollback") == []


def test_two_people_roll_back_at_once_and_the_second_sees_who_was_first(server, open_page):
    details = json.loads((server.status / "models/flights.json").read_text())
    champion, since = details["summary"]["champion"], details["summary"]["champion_since"]
    ada, grace = (open_page(user, "/models/flights") for user in ("ada", "grace"))
    for page in (ada, grace):
        page.get_by_role("button", name="Roll back", exact=True).click()
        assert page.get_by_role("dialog").get_by_role("button", name=re.compile("^Roll back to")).is_disabled()
        page.get_by_role("dialog").get_by_label("Reason").fill("late flights on Mondays")
    ada.get_by_role("dialog").get_by_role("button", name=re.compile("^Roll back to")).click()
    ada.get_by_text(f"The rollback of version {champion} was started.").wait_for()
    grace.get_by_role("dialog").get_by_role("button", name=re.compile("^Roll back to")).click()
    grace.get_by_text(f"Version {champion} was rolled back already, by ada. Nothing was started now.").wait_for()
    (run,) = server.list_runs("flights_rollback")
    assert (run["conf"]["why"], run["conf"]["champion"]) == ("late flights on Mondays", champion)
    assert run["triggering_user_name"] == "ada"
    assert run["dag_run_id"] == f"rollback_of_{champion}_since_{SINCE.sub('', since)}"


START = {
    "Train": ("Start the training", "The training as of .* was started"),
    "Reset the breaker": ("Reset the breaker", "The reset of the breaker was started"),
    "Deploy": ("Deploy version 4", "The deployment of version 4 was started"),
}
"""Action to the name of the button that confirms it, and to the beginning of its result."""
DAGS = {"Train": "flights_train", "Reset the breaker": "flights_reset_breaker", "Deploy": "flights_deploy"}
"""Action to the DAG that it starts."""


@pytest.fixture
def open_breaker(server):
    """Let the document say that the breaker holds trainings back."""
    path = server.status / "models/flights.json"
    text = path.read_text()
    path.write_text(json.dumps({**json.loads(text), "breaker_open": True}))
    yield
    path.write_text(text)


@pytest.fixture
def unpaused_deployment(server):
    """Let Airflow start deployments during a test."""
    server.call_api("PATCH", "/dags/flights_deploy", json={"is_paused": False})
    yield
    server.call_api("PATCH", "/dags/flights_deploy", json={"is_paused": True})


def open_dialog(page, action):
    """Open the dialog of an action, and fill it in; return its button that confirms."""
    page.get_by_role("button", name=action, exact=True).click()
    dialog = page.get_by_role("dialog")
    if action == "Reset the breaker":
        dialog.get_by_label("Reason").fill("the label was late")
    button = dialog.get_by_role("button", name=START[action][0], exact=True)
    button.click(trial=True)  # waits until it can be clicked
    return button


@pytest.mark.soak
@pytest.mark.usefixtures("open_breaker", "unpaused_deployment")
@pytest.mark.parametrize("action", START)
def test_two_people_who_start_the_same_at_once_start_it_once(server, open_page, action):
    pages = [open_page(user, "/models/flights") for user in ("ada", "grace")]
    buttons = [open_dialog(page, action) for page in pages]
    dag_id = DAGS[action]
    before = len(server.list_runs(dag_id))
    for button in buttons:  # the clicks come later, in both browsers in the same moment
        button.evaluate("(button) => void setTimeout(() => button.click(), 1000 - (Date.now() % 1000) + 1000)")
    nothing = re.compile("Nothing was started now")
    results = []
    for page in pages:
        dialog = page.get_by_role("dialog")
        dialog.get_by_text(re.compile(START[action][1])).or_(dialog.get_by_text(nothing)).first.wait_for()
        results.append("refused" if dialog.get_by_text(nothing).count() else "done")
    assert sorted(results) == ["done", "refused"]
    assert len(server.list_runs(dag_id)) == before + 1
    loser = pages[results.index("refused")].get_by_role("dialog")
    winner = ("ada", "grace")[results.index("done")]
    loser.get_by_text(re.compile(rf"{winner}( has started|\. Nothing)")).wait_for()


@pytest.mark.soak
def test_same_person_can_start_a_training_again(server, open_page):
    page = open_page("grace", "/models/flights")
    for number in (1, 2):
        button = open_dialog(page, "Train")
        page.get_by_role("dialog").get_by_label("As of").fill("2013-03-01")
        button.click()
        page.get_by_text("The training as of 2013-03-01 was started.").wait_for()
        page.get_by_role("dialog").get_by_role("button", name="Close", exact=True).click()
        runs = [run for run in server.list_runs("flights_train") if run["conf"].get("as_of") == "2013-03-01"]
        assert len(runs) == number


def test_training_starts_as_of_a_day_and_says_what_it_costs(server, open_page):
    page = open_page("grace", "/models/flights")
    page.get_by_role("button", name="Train", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("A training costs at most").wait_for()
    dialog.get_by_label("As of").fill("2013-05-01")
    dialog.get_by_role("button", name="Start the training").dblclick()
    page.get_by_text("The training as of 2013-05-01 was started.").wait_for()
    runs = [run for run in server.list_runs("flights_train") if run["conf"].get("as_of") == "2013-05-01"]
    assert [run["triggering_user_name"] for run in runs] == ["grace"], "a double click starts one run"


def test_backfill_lists_its_runs_before_it_starts_and_is_started_once(server, open_page):
    """In the very same moment, Airflow on SQLite can refuse both; then the page says that nothing was done."""
    ada, grace = (open_page(user, "/models/flights") for user in ("ada", "grace"))
    for page in (ada, grace):
        page.get_by_role("button", name="Backfill", exact=True).click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("From").fill("2013-02-01")
        dialog.get_by_label("To, included").fill("2013-04-01")
        dialog.get_by_role("button", name="List the runs").click()
        dialog.get_by_text("3 runs would start").wait_for()
    assert server.call_api("GET", "/backfills?dag_id=flights_train")["total_entries"] == 0
    ada.get_by_role("dialog").get_by_role("button", name="Start 3 runs").click()
    ada.get_by_role("dialog").get_by_text(re.compile("Backfill .* was started")).wait_for()
    grace.get_by_role("dialog").get_by_role("button", name="Start 3 runs").click()
    grace.get_by_text(re.compile("ada has started backfill .* Nothing was started now")).wait_for()
    (backfill,) = server.call_api("GET", "/backfills?dag_id=flights_train")["backfills"]
    assert (backfill["from_date"][:10], backfill["to_date"][:10]) == ("2013-02-01", "2013-04-01")


@pytest.mark.usefixtures("open_breaker")
def test_breaker_is_reset_with_a_reason(server, open_page):
    before = len(server.list_runs("flights_reset_breaker"))
    page = open_page("ada", "/models/flights")
    act(page, "Reset the breaker", "Reset the breaker", reason="the label was late")
    page.get_by_text("was started").wait_for()
    (run,) = server.list_runs("flights_reset_breaker")[before:]
    assert (run["conf"]["why"], run["triggering_user_name"]) == ("the label was late", "ada")


def test_champion_is_deployed_unless_the_dag_is_paused(server, open_page):
    """The DAG is paused at first, because an endpoint costs money every hour: then a run would only wait."""
    before = len(server.list_runs("flights_deploy"))
    page = open_page("ada", "/models/flights")
    page.get_by_role("button", name="Deploy", exact=True).click()
    page.get_by_role("dialog").get_by_text("The DAG flights_deploy is paused").wait_for()
    assert page.get_by_role("dialog").get_by_role("button", name=re.compile("^Deploy version")).is_disabled()
    assert len(server.list_runs("flights_deploy")) == before
    server.call_api("PATCH", "/dags/flights_deploy", json={"is_paused": False})
    page = open_page("ada", "/models/flights")
    act(page, "Deploy", "^Deploy version")
    page.get_by_text("The deployment of version 4 was started.").wait_for()
    (run,) = server.list_runs("flights_deploy")[before:]
    assert (run["conf"]["version"], run["triggering_user_name"]) == ("4", "ada")


def record_answer(page, answer, why):
    """Choose an answer in the dialog of an approval, give the reason, and record it."""
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name=answer, exact=True).click()
    dialog.get_by_label("Reason").fill(why)
    dialog.get_by_role("button", name=f"Record: {answer}").click()


def test_promotion_is_approved_after_its_evidence_was_shown_and_only_once(server, open_page):
    body = (
        "auc is better than the champion's. [The report](http://127.0.0.1:9/r.html) [bad](javascript:alert(1))\n\n"
        "| | check | value |\n| --- | --- | --- |\n| passed | auc <img src=x onerror=window.hacked=1> | 0.71 |"
    )
    run_id = server.ask_for_approval("Promote flights version 5? (passed)", body)
    ada, grace = open_page("ada"), open_page("grace")
    for page in (ada, grace):
        page.get_by_role("button", name="Decide").first.click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_text("auc <img src=x").wait_for()
        assert dialog.get_by_role("link", name="The report").count() == 1
        assert page.locator("a[href^='javascript:' i]").count() == 0
        assert page.evaluate("window.hacked") is None
    record_answer(ada, "Approve", "I looked")
    ada.get_by_text("The answer was recorded: Approve.").wait_for()
    record_answer(grace, "Reject", "I looked")
    grace.get_by_text("ada has answered already: Approve. Your answer was not recorded.").wait_for()
    path = f"/dags/flights_train/dagRuns/{run_id}/taskInstances/approve/-1/hitlDetails"
    details = server.call_api("GET", path)
    assert (details["chosen_options"], details["params_input"]) == (["Approve"], {"why": "I looked"})
    assert details["responded_by_user"]["name"] == "ada"


@pytest.mark.soak
def test_rejection_is_recorded_and_leaves_the_list_of_those_who_look(server, open_page):
    """`tests/integration/leeway/test_approval.py` has what the run does with the answer."""
    grace, vera = open_page("grace"), open_page("vera")
    for page in (grace, vera):
        page.get_by_text("taxi_fares").first.wait_for()
    subject = "Promote flights version 6? (undecided)"
    run_id = server.ask_for_approval(subject, "auc is open")
    for page in (grace, vera):  # both pages ask again by themselves
        page.get_by_text(subject).first.wait_for()
    row = grace.get_by_text(subject).locator("xpath=ancestor::*[.//button][1]")
    row.get_by_role("button", name="Decide").click()
    record_answer(grace, "Reject", "too slow")
    grace.get_by_text("The answer was recorded: Reject.").wait_for()
    vera.get_by_text(subject).wait_for(state="detached")
    path = f"/dags/flights_train/dagRuns/{run_id}/taskInstances/approve/-1/hitlDetails"
    details = server.call_api("GET", path)
    assert (details["chosen_options"], details["params_input"]) == (["Reject"], {"why": "too slow"})
    assert details["responded_by_user"]["name"] == "grace"


@pytest.mark.soak
def test_days_are_ingested_again_by_a_backfill(server, open_page):
    page = open_page("grace", "/data/flights")
    page.get_by_role("button", name="Backfill", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("From").fill("2013-02-01")
    dialog.get_by_label("To, included").fill("2013-02-03")
    dialog.get_by_role("button", name="List the runs").click()
    dialog.get_by_text("3 runs would start").wait_for()
    assert server.list_runs("flights_ingest") == []
    dialog.get_by_role("button", name="Start 3 runs").click()
    dialog.get_by_text(re.compile("Backfill .* was started")).wait_for()
    (backfill,) = server.call_api("GET", "/backfills?dag_id=flights_ingest")["backfills"]
    assert (backfill["from_date"][:10], backfill["to_date"][:10]) == ("2013-02-01", "2013-02-03")
    assert {run["triggering_user_name"] for run in server.list_runs("flights_ingest")} == {"grace"}
    assert len(server.list_runs("flights_ingest")) == 3
    server.call_api("PUT", f"/backfills/{backfill['id']}/cancel")


@pytest.mark.soak
def test_backfill_is_canceled_if_another_one_was_started_in_the_same_moment(server, open_page):
    """Both requests pass Airflow's check: here, because the first backfill has ended at the second check."""
    page = open_page("grace", "/data/flights")
    page.get_by_role("button", name="Backfill", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("From").fill("2013-02-05")
    dialog.get_by_label("To, included").fill("2013-02-05")
    dialog.get_by_role("button", name="List the runs").click()
    first_ids = []

    def start_another(route):
        if route.request.method == "POST":
            other = {
                **route.request.post_data_json,
                "from_date": "2013-02-06T00:00:00Z",
                "to_date": "2013-02-06T00:00:00Z",
            }
            first_ids.append(server.call_api("POST", "/backfills", json=other)["id"])
            server.end_backfill(first_ids[0])
        route.continue_()

    page.route(re.compile("/api/v2/backfills$"), start_another)
    dialog.get_by_role("button", name="Start 1 run").click()
    dialog.get_by_text("was started in the same moment, so yours").wait_for()
    own = server.call_api("GET", "/backfills?dag_id=flights_ingest&order_by=-id")["backfills"][0]
    assert dialog.get_by_text(f"Backfill {first_ids[0]} of flights_ingest").count() == 1
    assert own["id"] > first_ids[0] and own["is_paused"] and own["completed_at"], "it is canceled"
    states = {run["partition_key"][:10]: run["state"] for run in server.list_runs("flights_ingest")}
    assert (states["2013-02-05"], states["2013-02-06"]) == ("failed", "queued")


@pytest.mark.soak
def test_only_who_may_answer_an_approval_can_decide(server, open_page):
    """A viewer sees its evidence. A role of the team's own may answer, and start nothing."""
    server.ask_for_approval("Promote flights version 6? (passed)", "auc is better by 0.01.")
    viewer, approver = open_page("vera", "/models/flights"), open_page("rita", "/models/flights")
    viewer.get_by_text("You cannot decide").first.wait_for()
    assert viewer.get_by_role("button", name="Decide").count() == 0
    viewer.get_by_text("Show the evidence").last.click()
    viewer.get_by_text("auc is better by 0.01.").wait_for()
    approver.get_by_role("button", name="Decide").last.click()
    record_answer(approver, "Reject", "not yet")
    approver.get_by_text("The answer was recorded: Reject.").wait_for()
    assert approver.get_by_role("button", name="Train", exact=True).count() == 0


@pytest.mark.parametrize("is_expired", [True, pytest.param(False, marks=pytest.mark.soak)])
def test_session_that_ends_in_the_middle_does_nothing(server, open_page, is_expired):
    """The control is a session that continues."""
    count = len(server.list_runs("flights_train"))
    page = open_page("grace", "/models/flights")
    page.get_by_role("button", name="Train", exact=True).click()
    page.get_by_role("dialog").get_by_text(re.compile("^(Last run|There was no run)")).wait_for()
    if is_expired:
        page.context.clear_cookies()
    page.get_by_role("dialog").get_by_role("button", name="Start the training").click()
    page.get_by_text("Nothing was done." if is_expired else re.compile("The training .* was started")).wait_for()
    assert len(server.list_runs("flights_train")) == count + (not is_expired)
    if is_expired:
        page.get_by_text("Your session has ended").first.wait_for()


def test_day_is_withdrawn_with_a_reason(server, open_page):
    page = open_page("grace", "/data/flights")
    page.get_by_label("Day", exact=True).fill("2013-11-05")
    act(page, "Withdraw 2013-11-05", "^Withdraw 2013-11-05$", reason="distances in km")
    page.get_by_text("The withdrawal of 2013-11-05 was started.").wait_for()
    (run,) = server.list_runs("flights_withdraw")
    assert run["conf"] == {"partition": "2013-11-05", "why": "distances in km"}
    assert run["triggering_user_name"] == "grace"
