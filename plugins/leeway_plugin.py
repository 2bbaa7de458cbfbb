"""The only file that Airflow's plugin loader executes; all else under plugins/ is an ordinary package."""

from airflow.plugins_manager import AirflowPlugin


class LeewayPlugin(AirflowPlugin):
    """Show Leeway in Airflow's list of plugins."""

    name = "leeway"
