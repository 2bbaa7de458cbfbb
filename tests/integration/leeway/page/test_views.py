"""Test every view of the page in a real browser: themes, a phone, a screen reader, missing documents.

With SCREENSHOTS=docs/images and the option `-m ""`, the pictures of the docs are taken anew.
"""

import datetime as dt
import json
import os
import re
import time
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.tools.page_views import VIEWS, edit_document, wait_for_view

pytestmark = pytest.mark.usefixtures("documents")
SCREENS = {("light", 1280): "", ("dark", 400): "-phone", ("dark", 1280): "-dark", ("light", 400): "-phone-light"}
"""Theme and width to the end of the picture's name."""
IN_DOCS = ("", "-phone")
VIEWS_ON_SCREENS = [
    pytest.param(view, *screen, marks=[] if end == "" or (view, end) == ("model", "-phone") else pytest.mark.soak)
    for view in VIEWS
    for screen, end in SCREENS.items()
]
DIALOGS = {"/models/flights": ["Train", "Backfill", "Roll back", "Deploy"], "/data/flights": ["Backfill"]}
"""Path to the buttons that open a dialog there."""
SERIOUS = ("serious", "critical")


@pytest.mark.parametrize(("view", "theme", "width"), VIEWS_ON_SCREENS)
def test_view_is_complete_and_usable_by_all(reuse_page, view, theme, width):
    page = reuse_page("ada", VIEWS[view][0], width=width, theme=theme)
    wait_for_view(page, view)
    assert page.evaluate("document.documentElement.classList.contains('dark')") == (theme == "dark")
    assert page.evaluate("document.documentElement.scrollWidth") <= width, "nothing is cut off at the right"
    page.wait_for_timeout(500)  # Airflow's own page fades in
    end = SCREENS[theme, width]
    if (folder := os.environ.get("SCREENSHOTS")) and end in IN_DOCS:
        page.screenshot(path=Path(folder) / f"page-{view}{end}.png")
    assert find_problems(page, "#root") == []


def find_problems(page, context):
    """List what axe finds to be serious in a part of the page."""
    result = Axe().run(page, context=context, options={"resultTypes": ["violations"]})
    return [
        (item["id"], node["html"][:150]) for item in result.response["violations"] if item["impact"] in SERIOUS
        for node in item["nodes"]
    ]  # fmt: skip


@pytest.mark.soak
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_dialogs_and_open_tables_are_usable_by_all(reuse_page, theme):
    for path, names in DIALOGS.items():
        page = reuse_page("ada", path, theme=theme)
        for name in names:
            page.get_by_role("button", name=name, exact=True).first.click()
            page.get_by_role("dialog").wait_for()
            page.wait_for_timeout(300)  # it fades in
            assert find_problems(page, "[role=dialog]") == [], name
            page.keyboard.press("Escape")
            page.get_by_role("dialog").wait_for(state="detached")
    page = reuse_page("ada", "/models/flights", theme=theme)
    page.get_by_text("Show as table: history").click()
    page.get_by_role("table", name="history").wait_for()
    assert find_problems(page, "#root") == []


@pytest.mark.soak
def test_a_missing_label_is_a_problem(open_page):
    page = open_page("ada", "/models/flights")
    wait_for_view(page, "model")
    page.evaluate("document.querySelector('#root').append(document.createElement('button'))")
    assert [name for name, _ in find_problems(page, "#root")] == ["button-name"]


def test_week_is_chosen_by_keyboard_and_says_what_was_known(reuse_page):
    page = reuse_page("vera", "/models/flights")
    select = page.get_by_label("Week", exact=True)
    select.wait_for()
    before = page.get_by_role("heading", name=re.compile("Week of 20")).inner_text()
    select.focus()
    page.keyboard.press("ArrowUp")
    page.get_by_role("heading", name=re.compile("Week of 20")).filter(has_not_text=before).wait_for()
    assert page.evaluate("location.search") != "", "the address names the week, so it can be sent to others"


@pytest.mark.parametrize("place", [0.3, pytest.param(0.7, marks=pytest.mark.soak)])
def test_click_on_the_chart_selects_the_week_there(server, reuse_page, place):
    page = reuse_page("vera", "/models/flights")
    chart = page.get_by_role("img", name=re.compile("^History of the model"))
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    weeks = page.get_by_label("Week", exact=True).locator("option").all_inner_texts()
    page.mouse.click(box["x"] + place * box["width"], box["y"] + 0.5 * box["height"])
    page.wait_for_function("location.search !== ''")
    week = page.evaluate("location.search").removeprefix("?week=")
    assert abs(weeks.index(week) / len(weeks) - place) < 0.15, "margins of the chart are a part of its width"
    check_week_data(page, server, week)


@pytest.mark.parametrize("has_findings", [True, False])
def test_week_shows_its_data_and_what_failed(server, reuse_page, has_findings):
    week = find_week(read_partitions(server), has_findings)
    check_week_data(reuse_page("vera", f"/models/flights?week={week}"), server, week)


def check_week_data(page, server, week):
    """Check that the panel of a week has its days that are not published with all their rows, and what failed there."""
    page.get_by_role("heading", name=f"Week of {week}").wait_for()
    findings = [each for each in list_week(read_partitions(server), week) if each["state"] != "published"]
    if not findings:
        page.get_by_text("Now: 7 published, with all their rows.").wait_for()
        return
    table = page.get_by_role("table", name=f"Findings in the week of {week}")
    table.wait_for()
    lines = [row.inner_text() for row in table.get_by_role("row").all()[1:]]
    for finding in findings:
        (line,) = [line for line in lines if finding["partition"] in line]
        assert all(failure in line for failure in finding["failures"])


def test_week_says_what_was_known_then_and_what_is_known_now(server, reuse_page):
    """A day was refused, and published after the week; the control is a week that was ingested by a backfill later."""
    partition = next(
        each for each in read_partitions(server) if each["day"] > "2013-02" and is_published_late(each)
    )  # fmt: skip
    (earlier,) = partition["earlier_validations"]
    monday = dt.date.fromisoformat(partition["day"])
    monday -= dt.timedelta(monday.weekday())
    page = reuse_page("vera", f"/models/flights?week={monday}")
    after = monday + dt.timedelta(7)
    page.get_by_text(f"On {after}, the day after the week, this was known:").wait_for()
    row = page.get_by_role("table", name=f"Findings in the week of {monday}").get_by_role("row")
    cells = row.filter(has_text=partition["partition"]).get_by_role("cell").all_inner_texts()
    assert cells[1].startswith("refused" if earlier["outcome"] == "refused" else "warnings failed")
    assert all(failure in cells[1] for failure in earlier["failures"]) and earlier["at"][:10] in cells[1]
    assert cells[2].startswith("published") and partition["validated_at"][:10] in cells[2]
    page = reuse_page("vera", "/models/flights?week=2013-01-07")
    page.get_by_text("nothing was known: the first validation was at 2013-02-01 09:30 UTC.").wait_for()


def is_published_late(partition):
    """Return whether a day is published, but was not by the day after its week."""
    last = dt.date.fromisoformat((partition["validated_at"] or "1970-01-01")[:10])
    is_late = last > dt.date.fromisoformat(partition["day"]) + dt.timedelta(8)
    return partition["state"] == "published" and bool(partition["earlier_validations"]) and is_late


def read_partitions(server):
    return json.loads((server.status / "data/flights.json").read_text())["partitions"]


def list_week(partitions, week):
    """List the partitions of the week that begins on a Monday."""
    monday = dt.date.fromisoformat(week)
    days = {str(monday + dt.timedelta(days=number)) for number in range(7)}
    return [partition for partition in partitions if partition["day"] in days]


def find_week(partitions, has_findings):
    """Return a whole week of 2013 in which the data has findings, or none."""
    weeks = [str(dt.date(2013, 3, 4) + dt.timedelta(weeks=number)) for number in range(40)]
    states = {week: [each["state"] for each in list_week(partitions, week)] for week in weeks}
    return next(week for week, of in states.items() if len(of) == 7 and has_findings == (set(of) != {"published"}))


@pytest.mark.usefixtures("changes")
def test_week_says_that_the_state_of_its_data_could_not_be_read(server, reuse_page):
    (server.status / "data/flights.json").unlink()
    page = reuse_page("vera", "/models/flights")
    page.get_by_text("The state of flights could not be read").wait_for()


@pytest.mark.soak
def test_view_follows_the_theme_of_airflow_while_it_is_open(open_page):
    """The person chooses a theme in Airflow's menu, or leaves it to the system."""
    page = open_page("vera", theme="dark")
    wait_for_view(page, "models")
    colors = {"dark": page.evaluate(COLOR)}
    choose_theme(page, "Light")
    page.wait_for_function("!document.documentElement.classList.contains('dark')")
    colors["light"] = page.evaluate(COLOR)
    assert colors["light"] != colors["dark"]
    choose_theme(page, "System")
    page.wait_for_function("document.documentElement.classList.contains('dark')")
    page.emulate_media(color_scheme="light")
    page.wait_for_function("!document.documentElement.classList.contains('dark')")
    assert page.evaluate(COLOR) == colors["light"]


COLOR = "getComputedStyle(document.querySelector('h1, h2, table')).color"


def choose_theme(page, name):
    page.get_by_text("User", exact=True).last.click()
    page.get_by_role("menuitem", name="Appearance").hover()
    page.keyboard.press("ArrowRight")
    page.get_by_text(name).last.click()


@pytest.mark.soak
def test_request_to_another_server_is_a_problem(open_page, problems):
    page = open_page("vera")
    wait_for_view(page, "models")
    assert problems == []
    page.evaluate("fetch('http://127.0.0.1:9/').catch(() => 0)")
    assert problems == ["request to another server: http://127.0.0.1:9/"]
    problems.clear()


def read_lineage(server, version):
    lineages = json.loads((server.status / "models/flights.json").read_text())["lineages"]
    return next(lineage for lineage in lineages if lineage["version"] == version)


def test_week_says_what_its_versions_were_made_from_and_used_for(server, reuse_page):
    page = reuse_page("vera", "/models/flights?week=2013-11-18")
    fourth = page.get_by_role("list", name="Lineage of version 4")
    fourth.wait_for()
    assert fourth.get_by_role("listitem").count() == 6
    text, facts = fourth.inner_text(), read_lineage(server, "4")
    names = ("table", "snapshot_id", "training_days", "holdout_days", "data_version", "training_job", "run")
    assert [name for name in names if facts[name] not in text] == []
    assert facts["git_commit"][:12] in text and facts["dvc_lock"][:12] in text
    assert "43 days scored" in text and "endpoint flights-prod" in text and "2013-11-20 to now" in text
    for name in (facts["run"], "MLflow", "report", "flights"):
        assert fourth.get_by_role("link", name=name, exact=True).count() == 1
    page.get_by_text("Version 4: judged, ended, promoted, deployed").wait_for()


def test_week_says_that_a_lineage_was_not_recorded(reuse_page):
    """Version 1 was registered without it."""
    page = reuse_page("vera", "/models/flights?week=2013-02-25")
    first = page.get_by_role("list", name="Lineage of version 1")
    first.get_by_text("python -m pipelines lineage flights@1").wait_for()


def test_history_of_events_is_also_a_table(reuse_page):
    page = reuse_page("vera", "/models/flights")
    page.get_by_text("Show as table: history").click()
    table = page.get_by_role("table", name="history")
    lines = [row.inner_text().split("\t") for row in table.get_by_role("row").all()]
    rows = [[cell.strip() for cell in line] for line in lines]
    assert rows[0] == ["Day", "Row of the chart", "What happened"]
    assert ["2013-09-11", "changes", "rolled back version 3. complaints from the airport"] in rows
    assert ["2013-11-19", "champion", "version 4, up to the end of the chart"] in rows
    assert {row[1] for row in rows[1:]} >= {"trainings", "verdicts", "held back", "drift", "endpoint"}


def test_pools_say_what_waits_for_a_slot(server, reuse_page):
    name = f"spot <img src=x onerror=window.hacked=1> {time.time_ns()}"
    server.call_api("POST", "/pools", json={"name": name, "slots": 2, "include_deferred": True})
    server.add_waiting_task(name)
    page = reuse_page("vera", "/costs")
    row = page.get_by_role("table", name="Pools").get_by_role("row").filter(has_text=name)
    row.get_by_text("flights_train: 1 task").wait_for()
    assert [cell.inner_text() for cell in row.get_by_role("cell").all()][1:7] == ["2", "2", "0", "0", "0", "1"]
    page.get_by_text(re.compile(r"Tasks that wait for a worker or a slot: \d")).wait_for()
    assert page.evaluate("window.hacked") is None, "the name is no HTML"


def test_day_without_data_says_so(reuse_page):
    """A day before and a day after it have data, so Withdraw is there for these, and not for the day."""
    page = reuse_page("ada", "/data/flights")
    page.get_by_role("button", name="Withdraw 2013-12-31").wait_for()
    page.get_by_label("Day", exact=True).fill("2013-06-09")
    page.get_by_text("There is no partition of 2013-06-09.").wait_for()
    assert page.get_by_role("button", name=re.compile("Withdraw")).count() == 0


def test_there_is_no_button_that_can_do_nothing(reuse_page):
    """Airflow has DAGs of flights only, and none that releases rows from quarantine."""
    page = reuse_page("ada", "/data/taxi_fares")
    page.get_by_text("Airflow has no DAG taxi_fares_ingest").wait_for()
    assert page.get_by_role("button", name=re.compile("Backfill|Withdraw|Release")).count() == 0
    page = reuse_page("ada", "/data/flights")
    page.get_by_role("button", name="Backfill").wait_for()
    page.get_by_text("python -m pipelines quarantine release --dataset flights").wait_for()
    assert page.get_by_role("button", name="Release").count() == 0


@pytest.mark.usefixtures("changes")
def test_view_follows_the_documents_without_a_reload(server, reuse_page):
    page = reuse_page("vera", "/models/flights")
    wait_for_view(page, "model")
    details = json.loads((server.status / "models/flights.json").read_text())
    edit_document(server.status, "models/flights.json", summary={**details["summary"], "reason": "the wind has turned"})
    page.get_by_text("the wind has turned").first.wait_for()


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/models/nobody", "here is no model nobody"),
        ("/data/nowhere", "here is no dataset nowhere"),
        ("/models/..%2f..%2fetc", "Not Found"),
        ("/elsewhere", "There is no view elsewhere"),
    ],
)
def test_unknown_address_says_so(reuse_page, path, text):
    reuse_page("vera", path).get_by_text(text).first.wait_for()


@pytest.mark.usefixtures("changes")
def test_document_that_is_old_missing_or_of_another_version_says_so(server, reuse_page):
    os.utime(server.status / "watched", (1_700_000_000, 1_700_000_000))
    page = reuse_page("vera")
    page.get_by_text("State as of 2023-11-14 22:13 UTC").wait_for()
    page.get_by_text("Nothing checks the lake now").wait_for()
    edit_document(server.status, "models.json", schema_version=2)
    page.get_by_text("models.json has version 2, and this page reads version 1").wait_for()
    (server.status / "models.json").unlink()
    reuse_page("vera").get_by_text("was never written here").wait_for()


@pytest.mark.usefixtures("changes")
def test_use_of_a_job_is_a_bar_with_words_and_a_dash_where_it_is_not_known(server, reuse_page):
    jobs = json.loads((server.status / "costs.json").read_text())["jobs"][:2]
    nothing = dict.fromkeys(("disk", "gpu", "gpu_memory"))
    jobs[0]["use"] = {"cores": 4, "cpu": {"mean": 180, "peak": 396}, "memory": {"mean": 0, "peak": 0}, **nothing}
    jobs[1]["use"] = None
    edit_document(server.status, "costs.json", jobs=jobs)
    table = reuse_page("vera", "/costs").get_by_role("table", name="Jobs", exact=True)
    table.get_by_role("img", name="CPU: mean 45 %, peak 99 % of 4 vCPUs").wait_for()
    table.get_by_role("img", name="Memory: mean 0 %, peak 0 %").wait_for()
    assert table.get_by_role("img", name="GPU is not known").inner_text() == "\u2013"
    assert table.get_by_role("img", name="an earlier version of Leeway").inner_text() == "\u2013"


@pytest.mark.usefixtures("changes")
def test_costs_are_shown_by_team_or_another_field_and_month(server, reuse_page):
    names = ("month", "team", "project", "model", "dataset", "environment", "user")
    amounts = ("cost_usd", "idle_usd", "reserved_usd")
    rows = [
        ("2014-01", "<img src=x onerror=window.hacked=1>", "", "flights", "", "", "", 30.0, 6.0, 12.0),
        ("2014-01", "", "", "churn", "", "", "", 10.0, 0.0, None),
        ("2013-12", "sales", "", "churn", "", "", "", 5.0, 0.0, 0.0),
    ]
    anomaly = "flights on 2014-01-01: 30 USD, usually 1."
    edit_document(
        server.status,
        "costs.json",
        payers=[dict(zip((*names, *amounts), row, strict=True)) for row in rows],
        anomalies=[anomaly],
    )
    page = reuse_page("vera", "/costs")
    page.get_by_text(anomaly).wait_for()
    table = page.get_by_role("table", name="Costs by payer")
    table.get_by_text("<img").wait_for()
    cells = table.get_by_role("row").nth(1).get_by_role("cell").all()
    assert [cell.inner_text() for cell in cells[1:5]] == ["30.00", "6.00", "12.00", "75 %"]
    cells = table.get_by_role("row").nth(2).get_by_role("cell").all()
    assert cells[3].inner_text() == "", "it is not known"
    assert table.get_by_role("row").nth(2).inner_text().startswith("unallocated")
    page.get_by_label("Sum by").select_option("model")
    page.get_by_label("Month of the costs").select_option("2013-12")
    table.get_by_role("img", name="churn: 100 %").wait_for()
    assert page.evaluate("window.hacked") is None, "the name is no HTML"
    edit_document(server.status, "costs.json", payers=[], anomalies=[])
    reuse_page("vera", "/costs").get_by_text("Nothing was spent yet.").wait_for()


@pytest.mark.soak
@pytest.mark.usefixtures("changes")
def test_running_jobs_are_there_or_the_page_says_why_not(server, reuse_page):
    page = reuse_page("vera", "/costs")
    running = page.get_by_role("table", name="Running jobs")
    running.get_by_text("waits for instances").wait_for()
    assert running.get_by_role("img", name="CPU: mean").count() == 2, "the third one has no instance yet"
    edit_document(server.status, "jobs.json", jobs=[], problem="no AWS region is configured.")
    page.get_by_text("SageMaker's list of jobs could not be read: no AWS region is configured.").wait_for()
    edit_document(server.status, "jobs.json", problem="")
    page.get_by_text("No job runs.").wait_for()
    (server.status / "jobs.json").unlink()
    reuse_page("vera", "/costs").get_by_text("They are not known").wait_for()


@pytest.mark.usefixtures("changes")
def test_lake_without_models_data_labels_and_costs_has_words_for_it(server, reuse_page):
    details = json.loads((server.status / "models/flights.json").read_text())
    nothing = {"performance": None, "drift": None, "champion": "", "champion_since": None, "newest_partition": ""}
    summary = {**details["summary"], **nothing, "health": "no champion"}
    edit_document(
        server.status, "models/flights.json", summary=summary, events=[], drift_weeks=[], champion=None, challenger=None
    )
    page = reuse_page("vera", "/models/flights")
    page.get_by_text("no labels").first.wait_for()
    edit_document(
        server.status, "data/flights.json", partitions=[], failures=[], newest_partition="", published_at=None
    )
    page = reuse_page("vera", "/data/flights")
    page.get_by_role("heading", name="flights").wait_for()
    edit_document(server.status, "costs.json", jobs=[], months=[], endpoints=[], budgets=[], advice=[])
    page = reuse_page("vera", "/costs")
    page.get_by_text("Costs by month").wait_for()
    edit_document(server.status, "models.json", models=[], unreadable_models={})
    reuse_page("vera").get_by_text("There are no models yet").wait_for()
