"""The only file that Airflow's plugin loader executes: everything else under plugins/ is an ordinary package."""

from airflow.plugins_manager import AirflowPlugin


class LeewayPlugin(AirflowPlugin):
    """Makes Leeway visible in Airflow's list of plugins."""

    name = "leeway"
