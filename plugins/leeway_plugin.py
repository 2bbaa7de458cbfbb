"""The only file that Airflow's plugin loader executes; all else under plugins/ is an ordinary package."""

from importlib.metadata import entry_points

# Where Leeway is installed, Airflow finds the plugin by the entry point. Airflow warns of a plugin that it finds twice.
if not any(entry_point.name == "leeway" for entry_point in entry_points(group="airflow.plugins")):
    from leeway.plugin import LeewayPlugin  # noqa: F401
