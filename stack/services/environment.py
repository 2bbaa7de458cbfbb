"""The environment that every service of the stack is started with."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from stack.layout import CODE, Layout
from stack.services.record import Stack

REGION = "us-east-1"
BUCKET = "leeway"
"""Bucket that the stack makes in drydock for data, code and models."""
ROLE_ARN = "arn:aws:iam::123456789012:role/leeway-training"
# drydock takes any credentials; these are no secret. Long and odd on purpose: Airflow masks the values of a
# connection wherever they occur in a log.
ACCESS_KEY_ID = "AKIADRYDOCKTAKESANY0"
SECRET_ACCESS_KEY = "drydock-takes-any-secret-access-key"  # noqa: S105

_AMBIENT = ("AIRFLOW_", "MLFLOW_", "AWS_", "PYICEBERG_", "LEEWAY_STACK_", "PYTHONDONTWRITEBYTECODE")
"""Prefixes not taken over from the caller: another installation's profile or config would win over ours.

And without bytecode every step would compile `pipelines` again: a quarter of a second, 180 times in a demo.
"""


def build(layout: Layout, stack: Stack, ambient: Mapping[str, str]) -> dict[str, str]:
    """All variables of a service. None is a secret: Airflow's keys are in airflow.cfg, for the owner only."""
    kept = {name: value for name, value in ambient.items() if not name.startswith(_AMBIENT)}
    return {
        **kept,
        **_leeway(layout, stack, ambient),
        **_aws(stack),
        **_airflow(layout, stack),
        **_quiet(layout),
        "MLFLOW_TRACKING_URI": stack.mlflow_url,
        "NO_PROXY": ",".join(filter(None, [ambient.get("NO_PROXY"), "127.0.0.1,localhost"])),
        "no_proxy": ",".join(filter(None, [ambient.get("no_proxy"), "127.0.0.1,localhost"])),
    }


def _leeway(layout: Layout, stack: Stack, ambient: Mapping[str, str]) -> dict[str, str]:
    roots = dict.fromkeys([layout.project, layout.project / "plugins", CODE])
    programs = str(Path(sys.executable).parent)
    return {
        "LEEWAY_HOME": str(layout.home),
        "LEEWAY_PROJECT": str(layout.project),
        "LEEWAY_STACK_ID": stack.id,
        "LEEWAY_DOCS_URL": stack.docs_url,
        "LEEWAY_BUCKET": BUCKET,
        "LEEWAY_DVC_REMOTE": f"s3://{BUCKET}/dvc",
        "LEEWAY_ROLE_ARN": ROLE_ARN,
        "PYTHONPATH": os.pathsep.join(map(str, roots)),
        "PYTHONUNBUFFERED": "1",
        "PATH": os.pathsep.join([programs, ambient.get("PATH", os.defpath)]),
        # Else setproctitle 1.3 overwrites /proc/PID/environ, and the marks by which `stop` knows its own.
        "SPT_NOENV": "1",
    }


def _aws(stack: Stack) -> dict[str, str]:
    connection = {
        "conn_type": "aws",
        "login": ACCESS_KEY_ID,
        "password": SECRET_ACCESS_KEY,
        "extra": {"region_name": REGION, "endpoint_url": stack.drydock_url},
    }
    return {
        "AWS_ENDPOINT_URL": stack.drydock_url,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ACCESS_KEY_ID": ACCESS_KEY_ID,
        "AWS_SECRET_ACCESS_KEY": SECRET_ACCESS_KEY,
        "AIRFLOW_CONN_AWS_DEFAULT": json.dumps(connection),
    }


def _airflow(layout: Layout, stack: Stack) -> dict[str, str]:
    options: dict[str, dict[str, object]] = {
        "core": {
            "dags_folder": layout.project / "dags",
            "plugins_folder": layout.project / "plugins",
            "load_examples": False,
            "executor": "LocalExecutor",
            "execution_api_server_url": f"{stack.airflow_url}/execution/",
            "dags_are_paused_at_creation": False,
            "parallelism": _task_slots(),
            "simple_auth_manager_passwords_file": layout.airflow / "passwords.json",
            # The default asks DNS for this machine's name, which can hang where there is no network.
            "hostname_callable": "socket.gethostname",
        },
        "database": {"sql_alchemy_conn": f"sqlite:///{layout.airflow / 'airflow.db'}"},
        "api": {
            "host": "127.0.0.1",
            "port": stack.ports.airflow,
            "base_url": stack.airflow_url,
            "workers": 1,
        },
        "scheduler": {
            # It sleeps once for each hop from task to task; 1 s as installed. Awake, it looks at each run in turn: with
            # 0.1 s it took a third of a core from the tasks of a backfill.
            "scheduler_idle_sleep_time": 0.5,
            # After a crash the tasks of the dead scheduler are taken up again in seconds, not in 5 minutes.
            "orphaned_tasks_check_interval": 15,
        },
        "dag_processor": {"refresh_interval": 30, "min_file_process_interval": 60},
        "logging": {"colored_console_log": False},
        "usage_data_collection": {"enabled": False},
    }
    variables = {
        f"AIRFLOW__{section.upper()}__{option.upper()}": str(value)
        for section, values in options.items()
        for option, value in values.items()
    }
    execution = f"{stack.airflow_url}/execution/"
    return {
        "AIRFLOW_HOME": str(layout.airflow),
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": execution,
        **variables,
    }


def _task_slots() -> int:
    """Tasks at once: twice the cores, since a task waits (for the scheduler, for SQLite) as well as it works."""
    return max(4, 2 * (os.cpu_count() or 2))


def _quiet(layout: Layout) -> dict[str, str]:
    """No telemetry, and no file outside the home."""
    return {
        "DO_NOT_TRACK": "1",
        "SCARF_ANALYTICS": "false",
        "GX_ANALYTICS_ENABLED": "false",
        "DVC_NO_ANALYTICS": "1",
        "DVC_SITE_CACHE_DIR": str(layout.home / "dvc" / "site"),
        "MLFLOW_DISABLE_TELEMETRY": "true",
        # Seven processes for features of language models that nothing here uses.
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        # Threads of a training that wait for one another sleep; in a loop they take the cores from those they wait for.
        "OMP_WAIT_POLICY": "passive",
        "MPLCONFIGDIR": str(layout.home / "matplotlib"),
    }
