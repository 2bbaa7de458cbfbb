"""`python -m pipelines metrics`: print or serve the state of every model as metrics for Prometheus."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Annotated

import typer

from pipelines import params
from pipelines.cli.commands.status import list_models
from pipelines.errors import SpecError
from pipelines.settings import settings
from pipelines.system.log import log

if TYPE_CHECKING:
    from pipelines.lake.cached import CachedLake
    from pipelines.status.metrics.costs import CostCollector
    from pipelines.status.metrics.models import StatusCollector


def run_command(
    models: Annotated[
        list[str] | None, typer.Argument(metavar="[MODEL]...", help="Models (default: all of the project).")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            min=0, max=65535, help="Serve the metrics over HTTP on this port; 0: a free one (default: print them)."
        ),
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(help="Address to listen on (default: 127.0.0.1). The server has no authentication."),
    ] = None,
    interval_s: Annotated[
        float | None,
        typer.Option("--interval", min=1, help="Seconds between two readings of the lake (default: 60)."),
    ] = None,
) -> None:
    """Print the state of each model, and key figures of costs, in Prometheus' format; or serve them until SIGTERM.

    The command reads only the lake: MLflow and AWS need not be reachable.
    """
    from pipelines.lake.cached import CachedLake
    from pipelines.status.metrics.models import StatusCollector, format_metrics

    lake = CachedLake.open()
    collector = StatusCollector(list_models(models), lake, costs=_make_cost_collector(lake))
    if port is not None:
        _serve(collector, host or "127.0.0.1", port, interval_s or 60)
        return
    if host or interval_s:
        raise SpecError("--host and --interval have no effect without --port.", "Give --port, too.")
    collector.refresh()
    sys.stdout.write(format_metrics(collector))


def _make_cost_collector(lake: CachedLake) -> CostCollector:
    """Return the collector of the costs, with the targets in section key_figures of params.yaml."""
    from pipelines.costs.figures.targets import Targets
    from pipelines.status.metrics.costs import CostCollector

    section = params.load_section(settings().project, "key_figures")
    targets = {name: value for name, value in section.items() if name in Targets.model_fields}
    return CostCollector(lake, Targets.parse(targets, "section key_figures"))


def _serve(collector: StatusCollector, host: str, port: int, interval_s: float) -> None:
    """Serve the metrics of a collector until SIGTERM or SIGINT, and read the states again every `interval_s`."""
    from prometheus_client import CollectorRegistry, make_asgi_app

    from pipelines.serving.server import bind, serve

    registry = CollectorRegistry()
    with bind(host, port) as listener:
        collector.refresh()
        registry.register(collector)
        threading.Thread(target=collector.refresh_forever, args=(interval_s,), daemon=True).start()
        address = f"http://{host}:{listener.getsockname()[1]}/metrics"
        serve(make_asgi_app(registry), listener, lambda: log.info("metrics: %s", address))
