"""Leeway's plugin of Airflow, found by an entry point, or in a checkout by plugins/leeway_plugin.py."""

from airflow.plugins_manager import AirflowPlugin

from leeway import task_log


class LeewayPlugin(AirflowPlugin):
    """Show Leeway in Airflow's list of plugins, and the errors of its operators on one line."""

    name = "leeway"
    listeners = [task_log]  # noqa: RUF012
