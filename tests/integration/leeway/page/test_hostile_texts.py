"""Test that no text of a document, of Airflow, or of an address is shown as HTML, on every view that shows it.

Each text names its field. So the test knows which fields the views have shown, and a field that is added later must be
among them.
"""

import datetime as dt
import json
import re
from urllib.parse import quote, unquote

import pytest

from tests.tools.hostile_texts import ADDRESSES, SCRIPT, HostileTexts, list_places, mark
from tests.tools.page_documents import FORMS, find_form
from tests.tools.page_views import edit_document

pytestmark = [pytest.mark.usefixtures("changes"), pytest.mark.soak]
NOT_SHOWN = {
    "CostDocument.unused_commitment_usd.key",
    "DriftWeek.drifted_columns",
    "JobCost.project",
    "ModelDetails.retrain_on",
}
"""Texts of the documents that no view shows: the page compares them, or does not use them."""
AIRFLOW_PLACES = {
    *("dag_runs.dag_run_id", "dag_runs.triggering_user_name", "run.triggering_user_name", "error.detail"),
    *("hitl_details.subject", "hitl_details.body", "hitl_details.options", "hitl_details.defaults"),
    *("assigned_users.name", "responded_by_user.name", "answer.chosen_options", "task_instance.dag_run_id"),
    *("task_instances.dag_run_id", "pools.name", "backfills.partition_key"),
}
"""Texts of Airflow's answers that the page shows: names of persons, of runs and of pools, approvals, and errors."""
AIRFLOW_ANSWERS = re.compile(r"/api/v2/(dags\?|dags/|pools|backfills)")
FIND_PLACES = """() => {
    const texts = [document.body.textContent];
    for (const element of document.querySelectorAll("body *"))
        for (const {name, value} of element.attributes)
            texts.push(name === "href" && !value.includes("9/") ? decodeURIComponent(value) : value);
    return texts.flatMap((text) => [...text.matchAll(/alt=([\\w.]+)>/g)].map(([, place]) => place));
}"""
"""Lists the places whose text the page shows as text. The text of an attribute is one that a screen reader reads."""
FIND_INJECTIONS = """() => [
    ...(window.hacked === undefined ? [] : ["a script ran"]),
    ...[...document.querySelectorAll("[src='x'], script")].map((e) => e.outerHTML).filter((t) => t.includes("hacked")),
    ...[...document.querySelectorAll("a")].map((e) => e.protocol).filter((p) => p && !["http:", "https:"].includes(p)),
    ...[...document.querySelectorAll("body *")].flatMap((e) => [...e.attributes].map((a) => a.name))
        .filter((name) => /^on/i.test(name)),
]"""
"""Lists what of the page's HTML could run a script that is not the page's own."""


class Visitor:
    """Looks at a page, and collects the places whose texts it has seen."""

    def __init__(self):
        self.places = set()

    def look(self, page):
        """Fail if a text became HTML; else collect the places."""
        assert page.evaluate(FIND_INJECTIONS) == []
        self.places.update(page.evaluate(FIND_PLACES))

    def open_all(self, page):
        """Open what is folded on a view."""
        for summary in page.locator("summary").all():
            summary.click()
        self.look(page)

    def look_at_phone(self, page):
        """Look at the same page on a phone, where tables are lists."""
        page.set_viewport_size({"width": 400, "height": 900})
        page.wait_for_timeout(500)
        self.look(page)
        page.set_viewport_size({"width": 1280, "height": 900})
        page.wait_for_timeout(500)


def change_answer(value, parent="", key=""):
    """Return an answer of Airflow with HTML in the texts of `AIRFLOW_PLACES`."""
    if isinstance(value, dict):
        return {name: change_answer(item, key, name) for name, item in value.items()}
    if isinstance(value, list):
        return [change_answer(item, parent, key) for item in value]
    place = "pools.name" if (parent, key) == ("task_instances", "pool") else f"{parent}.{key}"
    return f"{value}{mark(place)}" if isinstance(value, str) and place in AIRFLOW_PLACES else value


class HostileAirflow:
    """Answers the page's requests as Airflow does, with HTML in texts; and refuses what the page starts."""

    def __init__(self):
        self.may_answer, self.is_broken = False, False

    def answer(self, route):
        """Answer a request."""
        request, error = route.request, {"detail": mark("error.detail")}
        path = request.url.partition("?")[0]
        if self.is_broken:
            route.fulfill(status=400, json=error)
        elif request.method == "GET" and "/rollback_of_" in path:
            run = {"dag_run_id": unquote(path.rpartition("/")[2]), "state": "queued"}
            route.fulfill(json={**run, "triggering_user_name": mark("run.triggering_user_name")})
        elif request.method == "GET" and path.endswith("hitlDetails") and "~" not in path:
            user = {"id": "x", "name": mark("responded_by_user.name")}
            route.fulfill(json={"responded_by_user": user, "chosen_options": [mark("answer.chosen_options")]})
        elif request.method in ("POST", "PATCH") and not path.endswith("dry_run"):
            route.fulfill(status=403 if "flights_train" in path and request.method == "POST" else 409, json=error)
        else:
            response = route.fetch()
            answer = response.json()
            for approval in answer.get("hitl_details", []):
                approval["assigned_users"] = [{"id": "x", "name": "somebody"}]
            route.fulfill(response=response, json=change_answer(answer))

    def answer_permissions(self, route):
        """Say what the visitor may do."""
        route.fulfill(json={"may_start": True, "may_answer": self.may_answer})


@pytest.fixture
def airflow(get_context):
    """Put HTML into Airflow's answers to ada."""
    context, hostile_airflow = get_context("ada"), HostileAirflow()
    context.route(AIRFLOW_ANSWERS, hostile_airflow.answer)
    context.route(re.compile("/leeway/permissions/"), hostile_airflow.answer_permissions)
    yield hostile_airflow
    context.unroute_all()


@pytest.fixture
def hostile_documents(server):
    """Put HTML into each text of the documents."""
    for path in server.status.rglob("*.json"):
        name = path.relative_to(server.status).as_posix()
        content = json.loads(path.read_text())
        if name == "models.json":
            content["unreadable_documents"] = {"data/harbor.json": "the table is damaged"}
        if name.startswith("data/"):
            content["rows_from"] = "" if name == "data/flights.json" else "harbor"
        document = find_form(name).model_validate(content)
        filled = HostileTexts("flights").fill(document)
        path.write_text(find_form(name).model_validate(filled).model_dump_json())


def see_models(visitor, server, open_page, airflow):
    airflow.may_answer = False
    page = open_page("ada")
    page.get_by_text("20 models").wait_for()
    page.get_by_text("Only these persons decide").first.wait_for()
    visitor.open_all(page)
    visitor.look_at_phone(page)


def see_model(visitor, server, open_page, airflow):
    airflow.may_answer = True
    page = open_page("ada", "/models/flights?week=2013-11-18")
    page.get_by_text("Would drift start a training?").wait_for()
    page.get_by_role("list", name="Lineage of version 4").first.wait_for()
    visitor.open_all(page)
    for chart in page.get_by_role("img", name=re.compile("^(History|Drift of|auc)")).all():
        chart.hover()
        visitor.look(page)
    visitor.look_at_phone(page)
    page.get_by_label("Week", exact=True).select_option(find_late_week(server))
    page.get_by_role("table", name=re.compile("^Findings in the week")).wait_for()
    visitor.look(page)
    for name in ("Deploy", "Backfill", "Train", "Roll back", "Decide"):
        see_dialog(visitor, page, name)


def find_late_week(server):
    """Return a week whose data were validated again after it."""
    partitions = json.loads((server.status / "data/flights.json").read_text())["partitions"]
    for partition in filter(has_earlier, partitions):
        day, last = dt.date.fromisoformat(partition["day"]), partition["validated_at"]
        if dt.date.fromisoformat(last[:10]) > day + dt.timedelta(8):
            return str(day - dt.timedelta(day.weekday()))
    raise AssertionError("no day was validated again")


def has_earlier(partition):
    """Return whether a day of 2013 was refused at first."""
    failures = [each["failures"] for each in partition["earlier_validations"]]
    return partition["day"] > "2013-02" and any(failures)


def see_dialog(visitor, page, name):
    """Open a dialog and act. Airflow refuses it, and the dialog shows why."""
    page.get_by_role("button", name=name, exact=True).first.click()
    dialog = page.get_by_role("dialog")
    dialog.wait_for()
    visitor.look(page)
    if name == "Backfill":
        dialog.get_by_role("button", name="List the runs").click()
        dialog.get_by_text("would start:").wait_for()
    if name in ("Train", "Deploy"):
        dialog.get_by_text(re.compile("^(Last run|There was no run|The DAG .* is paused)")).first.wait_for()
    if name in ("Roll back", "Decide"):
        dialog.get_by_label("Reason").fill(mark("a.reason"))
    if name == "Decide":
        dialog.get_by_role("group", name="Answer").get_by_role("button").first.click()
    if name in ("Train", "Roll back", "Decide"):
        dialog.get_by_role("button", name=re.compile("^(Start the training|Roll back to|Record:)")).click()
        dialog.get_by_text(re.compile("Airflow says|rolled back already|has answered already")).wait_for()
    visitor.look(page)
    page.keyboard.press("Escape")
    dialog.wait_for(state="detached")


def see_model_whose_name_is_html(visitor, server, open_page, airflow):
    page = open_page("ada", "/models/taxi_fares")
    page.get_by_text("Would drift start a training?").wait_for()
    visitor.open_all(page)


def see_data(visitor, server, open_page, airflow):
    page = open_page("ada", "/data/flights")
    page.get_by_role("button", name=re.compile("^Withdraw")).first.wait_for()
    visitor.open_all(page)
    for chart in page.get_by_role("img", name=re.compile("^(Partitions of|Rows of)")).all():
        chart.hover()
        visitor.look(page)
    page.get_by_role("button", name=re.compile("^Withdraw")).first.click()
    page.get_by_role("dialog").wait_for()
    visitor.look(page)
    page.keyboard.press("Escape")
    see_dialog(visitor, page, "Backfill")
    visitor.look_at_phone(page)


def see_data_whose_name_is_html(visitor, server, open_page, airflow):
    page = open_page("ada", "/data/churn")
    page.get_by_text("Its rows are those of").wait_for()
    visitor.open_all(page)
    page.get_by_role("link", name="All datasets").click()
    page.get_by_role("table", name="Datasets").wait_for()
    visitor.look(page)


def see_costs(visitor, server, open_page, airflow):
    page = open_page("ada", "/costs")
    page.get_by_text("Costs by month").wait_for()
    page.get_by_role("table", name="Pools").get_by_text("flights_train").first.wait_for()
    visitor.open_all(page)
    for field in page.get_by_label("Sum by").locator("option").all_inner_texts():
        page.get_by_label("Sum by").select_option(field)
        visitor.look(page)
    page.get_by_role("img", name=re.compile("^Costs of the last months")).hover()
    visitor.look(page)
    visitor.look_at_phone(page)
    edit_document(server.status, "jobs.json", problem=mark("RunningJobs.problem"))
    page.get_by_text("list of jobs could not be read").wait_for()
    visitor.look(page)


def see_address_and_errors(visitor, server, open_page, airflow):
    airflow.is_broken = True
    page = open_page("ada", f"/{quote(mark('address.view'), safe='')}")
    page.get_by_text("There is no view").wait_for()
    page.get_by_text("could not be read from Airflow").wait_for()
    visitor.look(page)
    page = open_page(
        "ada", f"/models/{quote(mark('address.name'), safe='')}?week={quote(mark('address.week'), safe='')}"
    )
    page.get_by_text("here is no model").first.wait_for()
    visitor.look(page)


VISITS = (
    *(see_models, see_model, see_model_whose_name_is_html, see_data, see_data_whose_name_is_html, see_costs),
    see_address_and_errors,
)


@pytest.mark.usefixtures("hostile_documents")
def test_all_texts_of_documents_airflow_and_addresses_are_shown_as_text(server, open_page, airflow, get_context):
    server.ask_for_approval(
        "Promote flights version 5? (passed)",
        "[bad](javascript:window.hacked=1)\n\n| a |\n| - |\n| b |\n\nauc is better",
    )
    server.add_waiting_task("default_pool")
    visitor = Visitor()
    for see in VISITS:
        see(visitor, server, open_page, airflow)
        for page in get_context("ada").pages:
            page.close()  # an open page reads its documents again and again
    places = {place for form in FORMS.values() for place in list_places(form)}
    assert sorted(places - visitor.places) == sorted(NOT_SHOWN)
    assert sorted(AIRFLOW_PLACES - visitor.places) == []
    assert "address.view" in visitor.places


def test_address_of_a_document_is_a_link_only_if_it_is_of_the_web(server, open_page, hostile_documents):
    """The control of the links: one of the addresses is opened by links, with its quotes as a part of the address."""
    page = open_page("ada", "/models/flights")
    page.get_by_text("Would drift start a training?").wait_for()
    links = page.locator("a[href*='onmouseover']")
    links.first.wait_for()
    assert {link.get_attribute("href") for link in links.all()} == {ADDRESSES[1]}


def test_a_text_that_is_html_is_found(open_page):
    page = open_page("ada", "/costs")
    page.get_by_text("Costs by month").wait_for()
    assert page.evaluate(FIND_INJECTIONS) == []
    for html, injection in (
        (f'<a href="JaVaScRiPt:{SCRIPT}">x</a>', "javascript:"),
        (f'<a href="data:text/html,{SCRIPT}">x</a>', "data:"),
        (f'<a href="http://127.0.0.1:9/" onmouseover="{SCRIPT}">x</a>', "onmouseover"),
        (mark("x.y"), "a script ran"),
    ):
        assert injection not in page.evaluate(FIND_INJECTIONS)
        page.evaluate("html => document.body.insertAdjacentHTML('beforeend', html)", html)
        page.wait_for_timeout(300)  # the image is not found
        assert injection in page.evaluate(FIND_INJECTIONS)
