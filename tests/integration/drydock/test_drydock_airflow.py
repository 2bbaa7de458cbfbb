"""The amazon provider's own hook, unmodified, as a client: needs Airflow, in a process of its own.

A process of its own, since Airflow reads its configuration once, at import.
"""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("airflow.providers.amazon") is None if importlib.util.find_spec("airflow") else True,
    reason="the amazon provider is not installed",
)

CLIENT = """
import json, logging, sys
from airflow.providers.amazon.aws.hooks.sagemaker import SageMakerHook

logging.basicConfig(level=logging.INFO, stream=sys.stderr, force=True)
fine, bad = json.loads(sys.argv[1])
hook = SageMakerHook(aws_conn_id="drydock")
hook.create_training_job(fine, wait_for_completion=True, print_log=False, check_interval=0.2)
# The hook's loop over a running job's log asks for its state every 30 s only: read the log of the ended one.
states = hook.non_terminal_states, hook.training_failed_states
name = fine["TrainingJobName"]
hook.check_training_status_with_log(name, *states, wait_for_completion=True, check_interval=0)
description = hook.describe_training_job(fine["TrainingJobName"])
names = [item["TrainingJobName"] for item in hook.list_training_jobs(name_contains="hook-")]
waiter = hook.get_waiter("TrainingJobComplete")
waiter.wait(TrainingJobName=fine["TrainingJobName"], WaiterConfig={"Delay": 0.1, "MaxAttempts": 50})
try:
    hook.create_training_job(bad, wait_for_completion=True, print_log=False, check_interval=0.2)
    error = None
except Exception as raised:
    error = str(raised)
print(json.dumps({"description": description, "names": names, "error": error}, default=str))
"""


def test_the_amazon_providers_hook_works_unmodified(dock: Any, tmp_path: Path) -> None:
    dock.put("hook/data.csv", b"1")
    fine = dock.request(
        "hook-fine", "print('said by the job')", InputDataConfig=[dock.channel("train", "s3://bucket/hook/")]
    )
    bad = dock.request("hook-bad", "import sys; sys.exit(7)")
    extra = {"endpoint_url": dock.url, "region_name": "us-east-1"}
    connection = {"conn_type": "aws", "login": "test", "password": "test", "extra": extra}
    env = {
        **os.environ,
        "AIRFLOW_HOME": str(tmp_path),
        "AIRFLOW_CONN_DRYDOCK": json.dumps(connection),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    }
    client = subprocess.run(
        [sys.executable, "-c", CLIENT, json.dumps([fine, bad])],
        env=env,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert client.returncode == 0, client.stderr[-3000:]
    answer = json.loads(client.stdout.splitlines()[-1])
    assert answer["description"]["TrainingJobStatus"] == "Completed"
    assert answer["names"] == ["hook-fine"]
    assert "said by the job" in client.stderr + client.stdout
    assert "Billable seconds" in client.stderr + client.stdout
    assert "ExitCode 7" in answer["error"]
