"""Leeway's Airflow plugin. Airflow finds it by an entry point, or in a checkout by plugins/leeway_plugin.py."""

from airflow.plugins_manager import AirflowPlugin

from leeway import task_log


class LeewayPlugin(AirflowPlugin):
    """Show Leeway in Airflow's list of plugins, and show each error of its operators in the task's log as one line."""

    name = "leeway"
    listeners = [task_log]  # noqa: RUF012
