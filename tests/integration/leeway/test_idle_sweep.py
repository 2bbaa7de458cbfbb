"""Test the sweep of idle notebooks, Studio apps and processing jobs with a real drydock, and its operator."""

import datetime as dt
import json
import logging
import time
import urllib.request

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from leeway.operators.sweep_idle import IdleSweepOperator

from pipelines.errors import InvalidError, ServiceError, SpecError
from pipelines.idle.all_kinds import build_kinds
from pipelines.idle.notebooks import AppKind, NotebookKind
from pipelines.idle.processing_jobs import ProcessingKind
from pipelines.idle.sweep import sweep
from pipelines.serving.undeployment import Endpoints
from pipelines.steps import sweep_idle

pytestmark = pytest.mark.usefixtures("set_aws_variables", "fresh_settings")

HOUR, ROLE = dt.timedelta(hours=1), "arn:aws:iam::123456789012:role/r"
LATER = dt.datetime.max.replace(tzinfo=dt.UTC)
"""Moment of the sweeps, at which all resources of a test are older than an hour; `set_moment` sets it."""


@pytest.fixture(autouse=True)
def set_moment(monkeypatch):
    """Set `LATER` when a test begins: pytest may have imported this module an hour before."""
    monkeypatch.setitem(globals(), "LATER", dt.datetime.now(dt.UTC) + 1.5 * HOUR)


def post(drydock, page, **body):
    request = urllib.request.Request(f"{drydock.url}/drydock/{page}", data=json.dumps(body).encode())
    urllib.request.urlopen(request).close()


def put_cpu(drydock, name, percent, namespace="NotebookInstances", dimension="NotebookInstanceName", before=HOUR / 2):
    """Publish a CPU half an hour before the sweep, or at another time before it."""
    datum = {"MetricName": "CPUUtilization", "Dimensions": [{"Name": dimension, "Value": name}], "Value": percent}
    drydock.client("cloudwatch").put_metric_data(
        Namespace=f"/aws/sagemaker/{namespace}",
        MetricData=[{**datum, "Timestamp": LATER - before, "Unit": "Percent"}],
    )


@pytest.fixture
def create_notebook(drydock, until):
    """Return the function that creates a notebook instance, and waits until it is InService, unless told not to."""
    sagemaker = drydock.client("sagemaker")

    def create(name, cpu=0.0, tags=(), instance_type="ml.t3.medium", is_awaited=True):
        sagemaker.create_notebook_instance(
            NotebookInstanceName=name, InstanceType=instance_type, RoleArn=ROLE,
            Tags=[{"Key": tag, "Value": "x"} for tag in tags],
        )  # fmt: skip
        if is_awaited:
            until(lambda: get_status(drydock, name) == "InService")
        if cpu is not None:
            put_cpu(drydock, name, cpu)

    return create


@pytest.fixture
def create_notebooks(drydock, create_notebook, until):
    """Return the function that creates notebook instances with fields of their own, and waits for all at once."""

    def create(fields_by_name):
        for name, fields in fields_by_name.items():
            create_notebook(name, **fields, is_awaited=False)
        until(lambda: {get_status(drydock, name) for name in fields_by_name} == {"InService"})

    return create


def get_status(drydock, name):
    return drydock.client("sagemaker").describe_notebook_instance(NotebookInstanceName=name)["NotebookInstanceStatus"]


def run_sweep(prefix, kinds, stop=(), clock=lambda: LATER):
    """Sweep with real kinds; return the outcome of each resource whose name has the prefix."""
    findings = sweep(kinds, HOUR, stop, "us-east-1", clock)
    return {item.name: (item.outcome, item.usd_month) for item in findings if prefix in item.name}


def make_kind(drydock, kind=NotebookKind, names=None):
    """Return a kind of resources, if necessary only of some names."""
    endpoints = Endpoints()  # its clients have the credentials of Airflow's role, whose calls are recorded
    made = AppKind(endpoints.sagemaker) if kind is AppKind else kind(endpoints.sagemaker, endpoints.cloudwatch, 5.0)
    if names is not None:
        made.list_names = lambda: names
    return made


def test_idle_notebooks_are_reported_with_their_cost_and_stopped_if_that_is_allowed(
    drydock, create_notebooks, caplog, until
):
    caplog.set_level(logging.INFO)
    create_notebooks(
        {
            "sweep-idle": {},
            "sweep-busy": {"cpu": 60.0},
            "sweep-kept": {"tags": ["leeway:keep"]},
            "sweep-unknown": {"cpu": None},
            "sweep-dear": {"instance_type": "ml.p4de.24xlarge"},
        }
    )
    kinds = [make_kind(drydock)]
    expected = {
        "sweep-idle": ("idle", pytest.approx(0.05 * 730)),
        "sweep-kept": ("exempt", pytest.approx(0.05 * 730)),
        "sweep-unknown": ("unknown", pytest.approx(0.05 * 730)),
    }
    findings = run_sweep("sweep-", kinds)
    assert findings.pop("sweep-dear")[0] == "idle"
    assert findings == expected, "a dry run"
    assert get_status(drydock, "sweep-idle") == "InService"
    assert "notebook sweep-idle (1 x ml.t3.medium, 36.50 USD a month): nobody used it for 1 h; it is only listed" in (
        caplog.text
    )
    stopped = run_sweep("sweep-", kinds, stop=["notebook"])
    assert {name: outcome for name, (outcome, _) in stopped.items()} == {
        "sweep-idle": "stopped", "sweep-dear": "stopped", "sweep-kept": "exempt", "sweep-unknown": "unknown",
    }  # fmt: skip
    until(lambda: get_status(drydock, "sweep-idle") == "Stopped")
    assert get_status(drydock, "sweep-busy") == get_status(drydock, "sweep-kept") == "InService"
    assert set(run_sweep("sweep-", kinds, stop=["notebook"])) == {"sweep-kept", "sweep-unknown"}, "idempotent"


def test_a_cost_without_a_known_price_is_not_invented(drydock, create_notebook, caplog):
    caplog.set_level(logging.INFO)
    create_notebook("price-less")
    findings = sweep([make_kind(drydock, names=["price-less"])], HOUR, (), "xx-nowhere-1", lambda: LATER)
    assert [item.usd_month for item in findings] == [None]
    assert "price not known" in caplog.text


@pytest.mark.parametrize(
    "change", ["use", *(pytest.param(change, marks=pytest.mark.soak) for change in ("tag", "stop"))]
)
def test_what_changed_between_the_look_and_the_stop_is_not_stopped(drydock, create_notebook, change, until):
    name, sagemaker = f"again-{change}", drydock.client("sagemaker")
    create_notebook(name)
    kind = make_kind(drydock, names=[name])
    looks = []

    def look():
        looks.append(name)
        if len(looks) == 1:
            return LATER
        put_cpu(drydock, name, 90.0)  # between the second description and the second look at the metric
        return LATER

    clock = look if change == "use" else lambda: LATER
    is_used = kind.is_used

    def change_after_the_look(*arguments):
        used = is_used(*arguments)
        if change == "tag":
            arn = sagemaker.describe_notebook_instance(NotebookInstanceName=name)["NotebookInstanceArn"]
            sagemaker.add_tags(ResourceArn=arn, Tags=[{"Key": "leeway:keep", "Value": "x"}])
        if change == "stop":
            sagemaker.stop_notebook_instance(NotebookInstanceName=name)
        return used

    kind.is_used = change_after_the_look
    outcome = {"use": "used_again", "tag": "exempt", "stop": "gone"}[change]
    assert run_sweep(name, [kind], ["notebook"], clock)[name][0] == outcome
    if change != "stop":
        assert get_status(drydock, name) == "InService"


def test_an_idle_app_is_deleted_and_a_used_one_stays(drydock, until):
    sagemaker = drydock.client("sagemaker")
    fields = {"DomainId": "d-sweep", "AppType": "JupyterLab", "ResourceSpec": {"InstanceType": "ml.t3.medium"}}
    sagemaker.create_app(AppName="unused", UserProfileName="ana", **fields)
    sagemaker.create_app(AppName="shared", SpaceName="team", **fields)
    sagemaker.create_app(
        AppName="default", UserProfileName="ana", **{**fields, "ResourceSpec": {"InstanceType": "system"}}
    )
    kind = make_kind(drydock, AppKind)
    until(lambda: len([name for name in kind.list_names() if name.startswith("d-sweep")]) == 3)
    labels = ["d-sweep/space/team/JupyterLab/shared", "d-sweep/user/ana/JupyterLab/default"]
    labels.append("d-sweep/user/ana/JupyterLab/unused")
    findings = run_sweep("d-sweep", [kind])
    assert findings == {name: ("idle", pytest.approx(0.0 if "default" in name else 36.5)) for name in labels}
    is_used = kind.is_used
    kind.is_used = lambda item, *times: item.name == labels[0] or is_used(item, *times)
    assert run_sweep("d-sweep", [kind], ["app"])[labels[2]][0] == "stopped"
    until(lambda: kind.list_names() == [name for name in kind.list_names() if name not in labels[1:]])
    assert labels[0] in kind.list_names()


def test_an_app_that_was_used_lately_is_not_idle(drydock, until):
    sagemaker, kind = drydock.client("sagemaker"), make_kind(drydock, AppKind)
    app = {"DomainId": "d-used", "UserProfileName": "ana", "AppType": "JupyterLab", "AppName": "used"}
    sagemaker.create_app(**app)
    until(lambda: sagemaker.describe_app(**app)["Status"] == "InService")
    time.sleep(0.01)
    before = dt.datetime.now(dt.UTC)
    post(drydock, "use", app="used")
    resource = kind.find("d-used/user/ana/JupyterLab/used")
    assert kind.is_used(resource, before, LATER) is True
    assert kind.is_used(resource, LATER, LATER) is False


def test_a_processing_job_that_does_nothing_is_stopped(drydock, until):
    sagemaker = drydock.client("sagemaker")
    for name in ("hangs", "works", "silent"):
        sagemaker.create_processing_job(
            ProcessingJobName=f"sweep-{name}", RoleArn=ROLE,
            AppSpecification={"ImageUri": "image", "ContainerEntrypoint": ["sleep", "3600"]},
            ProcessingResources={
                "ClusterConfig": {"InstanceCount": 1, "InstanceType": "ml.m5.large", "VolumeSizeInGB": 1}
            },
        )  # fmt: skip
    kind = make_kind(drydock, ProcessingKind, [f"sweep-{name}" for name in ("hangs", "works", "silent")])
    try:
        until(lambda: all(kind.find(name) for name in kind.list_names()))
        for name, percent in {"hangs": 0.5, "works": 80.0}.items():
            put_cpu(drydock, f"sweep-{name}/algo-1", percent, "ProcessingJobs", "Host")
        price = pytest.approx(0.115 * 730)
        assert run_sweep("sweep-", [kind], ["processing"]) == {
            "sweep-hangs": ("stopped", price),
            "sweep-silent": ("unknown", price),
        }
        until(lambda: kind.find("sweep-hangs") is None)
        assert "sweep-works" in make_kind(drydock, ProcessingKind).list_names()
    finally:
        for name in make_kind(drydock, ProcessingKind).list_names():
            sagemaker.stop_processing_job(ProcessingJobName=name)


def test_a_use_is_not_known_if_an_hour_has_no_metric(drydock, create_notebook):
    """The program that publishes the CPU of a notebook may have stopped: what runs without it must not be stopped."""
    create_notebook("gaps", cpu=None)
    kind = make_kind(drydock)
    resource, begin = kind.find("gaps"), LATER - 50 * HOUR
    times = [begin + 10 * HOUR - hours * HOUR for hours in (9.5, 7.5, 6.5, 5.5, 4.5, 3.5, 2.5, 1.5, 0.5)]
    for time_of_value in times:
        put_cpu(drydock, "gaps", 1.0, before=LATER - time_of_value)
    assert kind.is_used(resource, begin, begin + 10 * HOUR) is None, "no value from 0.5 h to 2.5 h"
    assert kind.is_used(resource, begin + 2 * HOUR, begin + 10 * HOUR) is False
    assert kind.is_used(resource, begin + 2 * HOUR, begin + 11 * HOUR) is None, "none in the last 1.5 h"
    assert kind.is_used(resource, begin - 40 * HOUR, begin + 10 * HOUR) is None, "none in the first hours"
    put_cpu(drydock, "gaps", 5.0, before=LATER - times[0])
    assert kind.is_used(resource, begin, begin + 10 * HOUR) is True, "a use is known in spite of a gap"


@pytest.mark.soak
def test_hourly_values_of_a_long_time_may_not_lack_an_hour(drydock, create_notebook):
    create_notebook("hourly", cpu=None)
    kind, begin = make_kind(drydock), LATER - 50 * HOUR
    resource = kind.find("hourly")
    for hours in range(30):
        if hours != 12:
            put_cpu(drydock, "hourly", 1.0, before=LATER - (begin + (hours + 0.5) * HOUR))
    assert kind.is_used(resource, begin, begin + 30 * HOUR) is None
    put_cpu(drydock, "hourly", 1.0, before=LATER - (begin + 12.5 * HOUR))
    assert kind.is_used(resource, begin, begin + 30 * HOUR) is False


def test_a_new_resource_is_not_idle(drydock, create_notebook):
    create_notebook("fresh", cpu=None)
    assert run_sweep("fresh", [make_kind(drydock)], clock=lambda: dt.datetime.now(dt.UTC)) == {}


def test_every_kind_can_be_swept(drydock):
    kinds = build_kinds(Endpoints(), ["endpoint", "notebook", "app", "processing", "app"], 5.0)
    assert [kind.name for kind in kinds] == ["endpoint", "notebook", "app", "processing"]
    sweep(kinds, 24 * HOUR, (), "us-east-1")


def test_the_operator_lists_and_stops_nothing_by_default(drydock, create_notebook):
    create_notebook("operated", cpu=None)
    with DAG("sweep"):
        task = IdleSweepOperator(task_id="sweep", kinds="notebook, app", aws_conn_id="aws_default")
    result = task.execute({})
    assert (result["stopped"], result["stopped_usd_month"]) == ([], 0.0)
    assert get_status(drydock, "operated") == "InService"


@pytest.mark.parametrize("operation", ["ListNotebookInstances", pytest.param("ListEndpoints", marks=pytest.mark.soak)])
def test_a_missing_permission_is_one_line_and_not_retried(drydock, operation):
    outage = {"service": "sagemaker", "operation": operation, "status": 400, "code": "AccessDeniedException"}
    post(drydock, "outage", **outage, for_s=60, times=1)
    with DAG("sweep"):
        task = IdleSweepOperator(task_id="sweep", aws_conn_id="aws_default")
    with pytest.raises(
        AirflowFailException, match=f"AWS denies {operation}: AccessDeniedException: .*permission"
    ) as error:
        task.execute({})
    assert "\n" not in str(error.value)


@pytest.mark.soak
@pytest.mark.parametrize("operation", ["ListNotebookInstances", "ListEndpoints"])
def test_a_failure_of_sagemaker_is_retried(drydock, operation):
    """The control of a missing permission; the SDK's own five attempts take seconds."""
    outage = {"service": "sagemaker", "operation": operation, "status": 500, "code": "InternalFailure"}
    post(drydock, "outage", **outage, for_s=60, times=5)
    with DAG("sweep"):
        task = IdleSweepOperator(task_id="sweep", aws_conn_id="aws_default")
    with pytest.raises(AirflowException, match="SageMaker or CloudWatch failed") as retryable:
        task.execute({})
    assert type(retryable.value) is AirflowException


def test_a_stop_without_permission_says_so(drydock, create_notebook):
    create_notebook("denied")
    outage = {"service": "sagemaker", "operation": "StopNotebookInstance", "status": 400}
    post(drydock, "outage", **outage, code="AccessDeniedException", for_s=60, times=1)
    with pytest.raises(InvalidError, match="AWS denies StopNotebookInstance"):
        run_sweep("denied", [make_kind(drydock, names=["denied"])], ["notebook"])
    assert get_status(drydock, "denied") == "InService"


def test_a_resource_that_cannot_be_stopped_does_not_keep_the_sweep_from_the_others(drydock, create_notebooks, until):
    """The error comes last, and says what was stopped: the task's result does not exist then."""
    create_notebooks({"denied-1": {}, "denied-2": {}})
    kind = make_kind(drydock, names=["denied-1", "denied-2"])
    kinds = [make_kind(drydock, AppKind), kind]
    outage = {"service": "sagemaker", "status": 400, "code": "AccessDeniedException", "for_s": 60, "times": 1}
    for operation in ("ListApps", "StopNotebookInstance"):
        post(drydock, "outage", operation=operation, **outage)
    with pytest.raises(InvalidError, match="AWS denies ListApps") as error:
        run_sweep("denied", kinds, ["notebook"])
    text = str(error.value)
    assert "1 more error" in text and "Stopped before: notebook denied-2." in text and "\n" not in text
    assert get_status(drydock, "denied-1") == "InService"
    until(lambda: get_status(drydock, "denied-2") == "Stopped")


@pytest.mark.parametrize("code", ["ThrottlingException", pytest.param("InternalFailure", marks=pytest.mark.soak)])
def test_a_sweep_ends_if_aws_does_not_answer_and_says_what_it_has_stopped(
    drydock, create_notebooks, until, code, monkeypatch
):
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    first, second, third = labels = [f"{code}-{number}" for number in range(3)]
    create_notebooks({name: {} for name in labels})
    kind = make_kind(drydock, names=labels)
    find, names = kind.find, []

    def find_until_the_outage(name):
        names.append(name)
        if name == second:
            status = 400 if code == "ThrottlingException" else 500
            outage = {"service": "sagemaker", "operation": "DescribeNotebookInstance", "status": status, "code": code}
            post(drydock, "outage", **outage, for_s=60, times=1)
        return find(name)

    kind.find = find_until_the_outage
    with pytest.raises(ServiceError, match=rf"{code}.* Stopped before: notebook {first}\.") as error:
        run_sweep(code, [kind], ["notebook"])
    assert "\n" not in str(error.value) and third not in names, "an API that throttles gets no more requests"
    kind.find = find
    assert {name: outcome for name, (outcome, _) in run_sweep(code, [kind], ["notebook"]).items()} == {
        second: "stopped",
        third: "stopped",
    }, "a retry continues"
    until(lambda: get_status(drydock, first) == "Stopped")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"idle_minutes": "0.5"}, "idle_minutes"),
        ({"idle_minutes": 0}, "idle_minutes: input should be greater than or equal to 1"),
        ({"kinds": "notebook,bucket"}, "kinds"),
        ({"kinds": []}, "kinds"),
        ({"cpu_percent": -1}, "cpu_percent: input should be greater than 0"),
    ],
)
def test_wrong_fields_are_refused(fields, message):
    with pytest.raises(SpecError, match=message) as error:
        sweep_idle.SweepIdleSpec.parse(fields, "sweep_idle")
    assert "\n" not in str(error.value)


def test_what_is_not_looked_at_cannot_be_stopped():
    spec = sweep_idle.SweepIdleSpec.parse({"kinds": "app", "stop": "['notebook', 'app']"}, "sweep_idle")
    with pytest.raises(SpecError, match="stop has notebook, and kinds does not"):
        sweep_idle.run(spec)
