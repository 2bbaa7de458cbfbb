"""Build the environment variables that every service of the stack starts with."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from stack.layout import CODE_FOLDER, IS_CHECKOUT, Layout
from stack.services.record import Stack

REGION = "us-east-1"
BUCKET = "leeway"
"""The bucket that the stack creates in drydock for data, code and models."""
ROLE_ARN = "arn:aws:iam::123456789012:role/leeway-training"
# drydock accepts any credentials, so these are not secret. Airflow masks the values of a connection wherever they occur
# in a log. The credentials are long and unusual, so that no other text is masked.
ACCESS_KEY_ID = "AKIADRYDOCKTAKESANY0"
SECRET_ACCESS_KEY = "drydock-takes-any-secret-access-key"  # noqa: S105

_EXCLUDED_PREFIXES = ("AIRFLOW_", "MLFLOW_", "AWS_", "PYICEBERG_", "LEEWAY_STACK_", "PYTHONDONTWRITEBYTECODE")
"""Prefixes of the caller's variables that services do not inherit.

The settings of another installation would override the stack's own. With PYTHONDONTWRITEBYTECODE, each step would
compile `pipelines` again, which costs a quarter of a second, 180 times in a demo.
"""


def build_environment(layout: Layout, stack: Stack, caller_variables: Mapping[str, str]) -> dict[str, str]:
    """Return all variables of a service, or of a command that uses the stack.

    The stack adds no secret to the caller's variables: Airflow's keys are in airflow.cfg, mode 0600.

    Args:
        layout: the folders of the stack.
        stack: the stack, with its ports.
        caller_variables: the environment of the process that starts the service or the command.
    """
    inherited_variables = {
        name: value for name, value in caller_variables.items() if not name.startswith(_EXCLUDED_PREFIXES)
    }
    return {
        **inherited_variables,
        **_build_leeway_variables(layout, stack, caller_variables),
        **_build_aws_variables(stack),
        **_build_airflow_variables(layout, stack),
        **_build_library_variables(layout),
        "MLFLOW_TRACKING_URI": stack.mlflow_url,
        "NO_PROXY": ",".join(filter(None, [caller_variables.get("NO_PROXY"), "127.0.0.1,localhost"])),
        "no_proxy": ",".join(filter(None, [caller_variables.get("no_proxy"), "127.0.0.1,localhost"])),
    }


def _build_leeway_variables(layout: Layout, stack: Stack, caller_variables: Mapping[str, str]) -> dict[str, str]:
    # `plugins` of the checkout contains Airflow's executor, which every project needs. An installed Leeway is left out:
    # Python finds it anyway, and on PYTHONPATH its folder would come before the standard library.
    code_folders = [CODE_FOLDER, CODE_FOLDER / "plugins"] if IS_CHECKOUT else []
    import_folders = dict.fromkeys([layout.project, layout.project / "plugins", *code_folders])
    program_folder = str(Path(sys.executable).parent)
    return {
        "LEEWAY_HOME": str(layout.home),
        "LEEWAY_PROJECT": str(layout.project),
        "LEEWAY_STACK_ID": stack.id,
        "LEEWAY_DOCS_URL": stack.docs_url,
        "LEEWAY_BUCKET": BUCKET,
        "LEEWAY_DVC_REMOTE": f"s3://{BUCKET}/dvc",
        "LEEWAY_ROLE_ARN": ROLE_ARN,
        "PYTHONPATH": os.pathsep.join(map(str, import_folders)),
        "PYTHONUNBUFFERED": "1",
        "PATH": os.pathsep.join([program_folder, caller_variables.get("PATH", os.defpath)]),
        # Without this variable, setproctitle 1.3 overwrites /proc/PID/environ, in which `find_processes` reads
        # which processes belong to the stack.
        "SPT_NOENV": "1",
    }


def _build_aws_variables(stack: Stack) -> dict[str, str]:
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


def _build_airflow_variables(layout: Layout, stack: Stack) -> dict[str, str]:
    options = _list_airflow_options(layout, stack)
    variables = {
        f"AIRFLOW__{section.upper()}__{option.upper()}": str(value)
        for section, values in options.items()
        for option, value in values.items()
    }
    return {"AIRFLOW_HOME": str(layout.airflow), **variables}


def _list_airflow_options(layout: Layout, stack: Stack) -> dict[str, dict[str, object]]:
    return {
        "core": {
            "dags_folder": layout.project / "dags",
            "plugins_folder": layout.project / "plugins",
            "load_examples": False,
            "executor": "leeway.executor.RestartableLocalExecutor",
            "execution_api_server_url": f"{stack.airflow_url}/execution/",
            "dags_are_paused_at_creation": False,
            "parallelism": _count_task_slots(),
            "simple_auth_manager_passwords_file": layout.airflow / "passwords.json",
            # The default asks DNS for this machine's name, which can hang if there is no network.
            "hostname_callable": "socket.gethostname",
        },
        "database": {"sql_alchemy_conn": f"sqlite:///{layout.airflow / 'airflow.db'}"},
        "api": {
            "host": "127.0.0.1",
            "port": stack.ports.airflow,
            "base_url": stack.airflow_url,
            "workers": 1,
        },
        **_list_timing_options(),
        "dag_processor": {"refresh_interval": 30, "min_file_process_interval": 60},
        "logging": {"colored_console_log": False},
        "usage_data_collection": {"enabled": False},
    }


def _list_timing_options() -> dict[str, dict[str, object]]:
    """Return options about time: the scheduler's pauses, and how long scheduler and tasks wait for other services."""
    return {
        "scheduler": {
            # The scheduler sleeps once between two tasks of a run; the default is 1 s. Each time it wakes, it examines
            # every run: with 0.1 s it took a third of a core away from the tasks of a backfill.
            "scheduler_idle_sleep_time": 0.5,
            # After a crash, the next scheduler takes over the tasks of the dead one within 15 s (default: 5 minutes).
            "orphaned_tasks_check_interval": 15,
            # After so many seconds without a heartbeat, a scheduler counts as dead, and its tasks are started again. On
            # a busy machine a heartbeat was 40 s late. With the default of 30 s, the scheduler then counted as dead.
            "scheduler_health_check_threshold": 60,
        },
        "workers": {
            # A task waits some nine minutes for an API server that is restarted: the task's token is valid for ten
            # minutes. By default the task fails after half a minute, and that uses up one of its tries, even if it had
            # not started. On two cores with a load of 28, the API server took three minutes to start.
            "execution_api_retries": 120,
            "execution_api_retry_wait_max": 10,
            "execution_api_timeout": 60,
        },
    }


def _count_task_slots() -> int:
    """Return how many tasks may run at once: twice the cores, since tasks also wait (for the scheduler, for SQLite)."""
    return max(4, 2 * (os.cpu_count() or 2))


def _build_library_variables(layout: Layout) -> dict[str, str]:
    """Return variables that turn telemetry off, and keep all files of the libraries in the home."""
    return {
        "DO_NOT_TRACK": "1",
        "SCARF_ANALYTICS": "false",
        "GX_ANALYTICS_ENABLED": "false",
        "DVC_NO_ANALYTICS": "1",
        "DVC_SITE_CACHE_DIR": str(layout.home / "dvc" / "site"),
        "MLFLOW_DISABLE_TELEMETRY": "true",
        # MLflow would start seven processes for features of language models, which nothing here uses.
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        # Threads of a training sleep while they wait. Busy waiting would take the cores from other threads.
        "OMP_WAIT_POLICY": "passive",
        "MPLCONFIGDIR": str(layout.home / "matplotlib"),
    }
