"""The only file that Airflow's plugin loader executes; all else under plugins/ is an ordinary package."""

from airflow.plugins_manager import AirflowPlugin
from leeway import task_log


class LeewayPlugin(AirflowPlugin):
    """Show Leeway in Airflow's list of plugins, and the errors of its operators on one line."""

    name = "leeway"
    listeners = [task_log]  # noqa: RUF012
