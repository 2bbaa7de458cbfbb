"""The commands that change a running server: they simulate failures, and set spot prices."""

import csv
import json
import os
import urllib.error
import urllib.request
from pathlib import Path
from typing import Annotated, Any

import typer

DEFAULT_URL = "http://127.0.0.1:5005"
TIMEOUT_S = 30.0
# The same exit codes as those of the server's command.
EXIT_REFUSED, EXIT_TRY_AGAIN = 2, 75

Url = Annotated[str, typer.Option(help="URL of the server; AWS_ENDPOINT_URL if not given.")]
Duration = Annotated[float | None, typer.Option("--for", min=0, help="Duration in seconds; without end if not given.")]


def add_commands(app: typer.Typer) -> None:
    """Add the commands to a command line."""
    app.command("interrupt")(interrupt_job)
    app.command("capacity")(set_capacity)
    app.command("outage")(begin_outage)
    app.command("variant")(break_variant)
    app.command("spot-prices")(set_spot_prices)


def interrupt_job(
    job: Annotated[str, typer.Argument(help="Name of the training job.")],
    after: Annotated[
        float,
        typer.Option(
            min=0,
            help="Seconds from now until the interruption; if no run is in progress, from the start of the next run.",
        ),
    ] = 0.0,
    no_capacity: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Seconds after the interruption in which the job gets no instances; the server's value if not given.",
        ),
    ] = None,
    notice: Annotated[
        float | None,
        typer.Option(
            min=0, help="Seconds from SIGTERM to SIGKILL; 0: SIGKILL at once; the server's value if not given."
        ),
    ] = None,
    url: Url = "",
) -> None:
    """Interrupt the current run of a spot job, or else its next run."""
    body = {"job": job, "after_s": after, "no_capacity_s": no_capacity, "notice_s": notice}
    _post(url, "interrupt", body)


def set_capacity(
    instance_type: Annotated[str, typer.Argument(help="Instance type or pattern, such as 'ml.m5.*'.")],
    available: Annotated[bool, typer.Option("--available/--unavailable", help="Whether spot instances are available.")],
    for_s: Duration = None,
    url: Url = "",
) -> None:
    """Make spot instances of a type unavailable, or available again."""
    _post(url, "capacity", {"instance_type": instance_type, "available": available, "for_s": for_s})


def begin_outage(
    service: Annotated[str, typer.Argument(help="Name of the service: s3, sagemaker, logs, ...")],
    operation: Annotated[
        str,
        typer.Option(
            help="Operation in the header X-Amz-Target, such as DescribeTrainingJob; for requests without this header, "
            "such as those to s3, the HTTP method; all if not given."
        ),
    ] = "",
    status: Annotated[int, typer.Option(help="HTTP status of the responses.")] = 503,
    code: Annotated[str, typer.Option(help="Error code of the responses.")] = "SlowDown",
    for_s: Annotated[float, typer.Option("--for", min=0, help="Duration in seconds.")] = 5.0,
    url: Url = "",
) -> None:
    """Make a service answer with an error for a while."""
    _post(url, "outage", {"service": service, "operation": operation, "status": status, "code": code, "for_s": for_s})


def break_variant(
    endpoint: Annotated[str, typer.Argument(help="Name of the endpoint.")],
    variant: Annotated[str, typer.Option(help="Name of the variant; all variants if not given.")] = "",
    config: Annotated[str, typer.Option(help="Only for this configuration; may contain *.")] = "",
    errors: Annotated[float, typer.Option(min=0, max=1, help="Share of the requests that fail.")] = 0.0,
    status: Annotated[int, typer.Option(help="HTTP status of the failures.")] = 500,
    latency: Annotated[float, typer.Option(min=0, help="Seconds by which each answer is delayed.")] = 0.0,
    for_s: Duration = None,
    url: Url = "",
) -> None:
    """Make a variant of an endpoint fail or answer slowly. Without --errors and --latency, end this fault."""
    body = {"endpoint": endpoint, "variant": variant, "config": config, "error_rate": errors, "status": status}
    _post(url, "variant", {**body, "latency_s": latency, "for_s": for_s})


def set_spot_prices(
    file: Annotated[Path, typer.Argument(help="CSV file without a header: time (ISO 8601, UTC), USD per hour.")],
    instance_type: Annotated[str, typer.Option(help="EC2's name of the instance type, such as m5.large.")],
    region: Annotated[str, typer.Option(help="Region of the prices.")] = "us-east-1",
    zone: Annotated[str, typer.Option(help="Zone of the prices; the region's zone a if not given.")] = "",
    url: Url = "",
) -> None:
    """Set the spot prices that EC2's DescribeSpotPriceHistory lists. Prices of other moments stay."""
    try:
        rows = [row for row in csv.reader(file.read_text(encoding="utf-8").splitlines()) if row]
        prices = [(begin.strip(), float(usd_h)) for begin, usd_h in rows]
    except (OSError, ValueError, csv.Error) as error:
        typer.echo(f"drydock: cannot read {file}: {error}. Each line must have a time and a price.", err=True)
        raise typer.Exit(EXIT_REFUSED) from None
    body = {"instance_type": instance_type, "region": region, "zone": zone or None, "prices": prices}
    _post(url, "spot-prices", body)


def _post(url: str, path: str, body: dict[str, Any]) -> None:
    base_url = (url or os.environ.get("AWS_ENDPOINT_URL") or DEFAULT_URL).rstrip("/")
    data = json.dumps({key: value for key, value in body.items() if value is not None}).encode()
    request = urllib.request.Request(f"{base_url}/drydock/{path}", data=data)  # noqa: S310  the user's own URL
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:  # noqa: S310
            typer.echo(response.read().decode())
    except urllib.error.HTTPError as error:
        typer.echo(f"drydock: {_read_error(error.read())}", err=True)
        raise typer.Exit(EXIT_REFUSED) from None
    except (OSError, ValueError) as error:
        typer.echo(f"drydock: {base_url} does not answer: {error}", err=True)
        raise typer.Exit(EXIT_TRY_AGAIN) from None


def _read_error(content: bytes) -> str:
    try:
        return str(json.loads(content)["error"])
    except (ValueError, KeyError, TypeError):
        return content.decode(errors="replace")[:200]
