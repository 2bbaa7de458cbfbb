"""Leeway's Airflow plugin. Airflow finds it by an entry point, or in a checkout by plugins/leeway_plugin.py."""

from airflow.plugins_manager import AirflowPlugin

from leeway import task_log
from leeway.page import mount


class LeewayPlugin(AirflowPlugin):
    """Show Leeway's page in Airflow, and show each error of its operators in the task's log as one line."""

    name = "leeway"
    listeners = [task_log]  # noqa: RUF012
    fastapi_apps = mount.FASTAPI_APPS
    react_apps = mount.REACT_APPS
