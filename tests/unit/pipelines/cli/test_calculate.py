"""Test the commands `calculate`: their figures, JSON, tables, and the line of each wrong input."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from pipelines.cli.calculate import app
from pipelines.cli.calculate.output import Report
from pipelines.errors import SpecError
from pipelines.planning.confidence import Band
from pipelines.planning.formulas import FORMULAS

DOCS = Path(__file__).parents[4] / "docs"
TIME = ["time", "--params", "7e9", "--tokens", "1e9", "--gpus", "8"]
A100 = [*TIME, "--gpu", "A100"]
SPOT = [*A100, "--usd-per-h", "32.77", "--spot-usd-per-h", "12"]
ENDPOINT = ["endpoint", "--requests-per-s", "20", "--service-s", "0.1", "--latency-s", "0.5"]
STORAGE = ["storage", "--gpus", "8", "--batch", "7", "--sample-kb", "146600", "--step-s", "0.323"]
MACHINES = ["machines", "--price-usd", "300000", "--power-kw", "10.2", "--cloud-usd-per-h", "98.32"]
Calculate = Callable[..., dict[str, float]]


def run(*arguments: str) -> Any:
    result = CliRunner().invoke(app, list(arguments))
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.fixture
def calculate() -> Calculate:
    """Return the function that runs a command and returns its figures by name, from its JSON."""

    def read(*arguments: str) -> dict[str, float]:
        document = json.loads(run(*arguments, "--json").stdout)
        assert all(figure["formula"] and figure["source"] for figure in document["figures"])
        return {figure["name"]: figure["value"] for figure in document["figures"]}

    return read


def test_memory_of_a_full_fine_tuning(calculate: Calculate) -> None:
    assert calculate("memory", "--params", "7e9")["total"] == 112
    figures = calculate("memory", "--model", "llama-3-8b", "--recompute", "--gpu-gb", "24")
    assert figures["largest batch of a GPU"] == 0
    assert figures["total"] > 128


def test_memory_says_what_would_fit() -> None:
    output = run("memory", "--model", "llama-3-8b", "--gpu-gb", "24").stdout
    assert "It does not fit: 145.9 GB are needed, and 22.0 GB of a GPU are available." in output
    assert "It would fit with gradient checkpointing, which computes a third more, and FSDP on 16 devices" in output
    assert "It fits" in run("memory", "--model", "llama-3-8b", "--rank", "16", "--gpu-gb", "80").stdout
    text = "Weights, gradients and optimizer states alone fit: "  # activations are not known
    assert text in run("memory", "--params", "1e9", "--gpu-gb", "24").stdout


def test_inference_of_70b(calculate: Calculate) -> None:
    assert calculate("inference", "--params", "70e9", "--precision", "fp16")["weights"] == 140
    assert calculate("inference", "--params", "70e9", "--precision", "int8")["weights"] == 70
    figures = calculate("inference", "--model", "llama-3-8b", "--sequence", "8192", "--gpu-gb", "24")
    assert figures["KV cache of a token"] == 131_072
    assert figures["largest batch"] == 4
    assert (
        "The KV cache and activations are not counted" in run("inference", "--params", "7e9", "--gpu-gb", "24").stdout
    )


def test_time_and_costs(calculate: Calculate) -> None:
    """4.2e19 operations on 8 A100 at 40 %: 11.7 h, and 383 USD at 32.77."""
    figures = calculate(*SPOT, "--mfu", "0.4", "--month-share", "0.05..0.1", "--saving", "0.3")
    assert figures["operations"] == 4.2e19
    assert figures["time without interruptions"] == pytest.approx(11.69, abs=0.01)
    assert figures["cost on demand"] == pytest.approx(382.9, abs=0.1)
    assert figures["cost with the savings plan"] == pytest.approx(0.7 * figures["cost on demand"])
    assert figures["cost on spot"] == pytest.approx(140.6, abs=0.5)


def test_saves_take_time_on_demand(calculate: Calculate) -> None:
    """98 GB at 1 GB/s are 98 s, every 980 s: a tenth more time."""
    options = [*A100, "--mfu", "0.4", "--usd-per-h", "32.77", "--write-gb-s", "1"]
    without, with_saves = calculate(*options), calculate(*options, "--interval-s", "980")
    assert (with_saves["checkpoint"], with_saves["save"]) == (98, 98)
    assert with_saves["time with saves"] == pytest.approx(1.1 * without["time without interruptions"])
    assert with_saves["cost on demand"] == pytest.approx(1.1 * without["cost on demand"])


def test_bands_are_around_the_figures() -> None:
    result = json.loads(run(*SPOT, "--interruptions-per-h", "0.01..0.1", "--interval-s", "1800", "--json").stdout)
    bands = {figure["name"]: figure for figure in result["figures"] if "band" in figure}
    assert {"time without interruptions", "cost on demand", "time on spot", "cost on spot"} <= bands.keys()
    for figure in bands.values():
        band = figure["band"]
        assert band["lowest"] <= band["low"] <= band["median"] <= band["high"] <= band["highest"]
        assert band["lowest"] <= figure["value"] <= band["highest"]
    assert "interval of the saves" not in [figure["name"] for figure in result["figures"]]


def test_known_inputs_have_no_band() -> None:
    assert "band" not in run(*A100, "--mfu", "0.4", "--json").stdout


def test_network_slows_a_training(calculate: Calculate) -> None:
    options = [*A100, "--mfu", "0.4", "--instances", "4", "--batch-tokens", "1e5"]
    fast, slow = (calculate(*options, "--network-gbit", network) for network in ("400", "10"))
    assert fast["scaling efficiency"] == 1 > slow["scaling efficiency"]
    assert slow["time without interruptions"] > fast["time without interruptions"]
    assert calculate(*options)["communication of a step"] == 0
    assert "The network is not counted" in run(*options).stdout
    needed = slow["network for an efficiency of 0.9"] / 0.8  # an all-reduce reaches 80 % of it
    assert calculate(*options, "--network-gbit", str(needed))["scaling efficiency"] == pytest.approx(0.9)


def test_lora_needs_less(calculate: Calculate) -> None:
    options = ["time", "--model", "llama-3-8b", "--tokens", "1e8", "--gpu", "L4", "--sequence", "2048"]
    assert calculate(*options, "--rank", "16")["operations"] < calculate(*options)["operations"]


def test_checkpoints(calculate: Calculate) -> None:
    figures = calculate("checkpoints", "--save-s", "60", "--interruptions-per-h", "0.05", "--instances", "4")
    assert figures["mean time between interruptions"] == pytest.approx(5)
    assert figures["Young's interval"] == pytest.approx(24.49, abs=0.01)
    best = figures["overhead of Daly's interval"]
    assert best < min(figures["overhead of 15 min"], figures["overhead of 30 min"])
    sized = calculate(
        "checkpoints", "--params", "7e9", "--precision", "fp32", "--write-gb-s", "1.4", "--month-share", "0.1"
    )
    assert (sized["checkpoint"], sized["save"]) == (84, pytest.approx(60))
    rare = run("checkpoints", "--save-s", "60", "--month-share", "0.05", "--work-h", "2").stdout
    assert "Daly's interval is longer than the training" in rare


def test_storage(calculate: Calculate) -> None:
    figures = calculate(*STORAGE, "--use", "0.9", "--available-gb-s", "10", "--data-gb", "500")
    assert figures["throughput"] == pytest.approx(22.88, abs=0.01)
    assert figures["wait for data"] == pytest.approx(1 - 10 / 25.42, abs=0.001)
    assert figures["download"] == 50


def test_endpoint(calculate: Calculate) -> None:
    price = ["--usd-per-h", "0.23", "--requests-per-month", "1e6"]
    figures = calculate(*ENDPOINT, "--fixed-s", "0.08", *price)
    assert (figures["busy workers"], figures["instances"], figures["largest batch"]) == (2, 3, 8)
    assert figures["real-time, a month"] == pytest.approx(503.7)
    assert figures["async, a month"] == pytest.approx(0.23 * (27.78 + 730 * 3 * 0.25), abs=0.01)
    assert figures["real-time costs no more than async from"] == pytest.approx(2_883, abs=0.1)
    assert figures["real-time costs no more than serverless from"] is None
    output = run(*ENDPOINT, *price).stdout
    assert "The cheapest is serverless." in output
    assert "Real-time is never cheaper than serverless: 3 instance(s) answer at most 78,840,000 requests a mo" in output
    assert calculate(*ENDPOINT, "--workers", "4", *price)["real-time costs no more than serverless from"] == (
        pytest.approx(41.975e6)
    )
    assert "never cheaper than serverless" not in run(*ENDPOINT, "--workers", "4", *price).stdout
    assert "real-time costs no more than serverless from" not in calculate(*ENDPOINT, *price, "--serverless-usd", "0")


def test_machines(calculate: Calculate) -> None:
    figures = calculate(*MACHINES, "--use", "0.6", "--staff-usd-month", "4000")
    assert figures["payback"] == pytest.approx(7.9, abs=0.05)
    rare = calculate(*MACHINES, "--use", "0.01", "--staff-usd-month", "4000")
    assert rare["payback"] is None
    assert "A machine never pays off" in run(*MACHINES, "--use", "0.01", "--staff-usd-month", "4000").stdout
    assert "does not pay off within its lifetime" in run(*MACHINES, "--use", "0.08").stdout
    hopeless = [*MACHINES[:5], "--cloud-usd-per-h", "5"]
    assert "a machine never costs less than the cloud" in run(*hopeless).stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["memory", "--model", "llama-3-8b"],
        ["inference", "--model", "llama-3-8b"],
        ["checkpoints", "--save-s", "60", "--month-share", "0.05..0.2"],
        A100,
        STORAGE,
        ENDPOINT,
        MACHINES,
    ],
    ids=lambda arguments: arguments[0],
)
def test_each_figure_has_a_line_with_formula_and_source(arguments: list[str]) -> None:
    lines = run(*arguments).stdout.splitlines()
    names = [figure["name"] for figure in json.loads(run(*arguments, "--json").stdout)["figures"]]
    sources = [line for line in lines if re.search(r" = .* \[.*\]$", line)]
    for name in names:
        assert any(name in line.partition(" = ")[0] for line in sources)
    assert all(any(formula.text in line for formula in FORMULAS.values()) for line in sources)


@pytest.mark.parametrize("command", ["memory", "inference", "time", "checkpoints", "storage", "endpoint", "machines"])
def test_examples_of_the_help_run(command: str) -> None:
    text = typer.main.get_command(app).commands[command].help  # type: ignore[attr-defined]
    example = text.partition("Example: python -m pipelines calculate ")[2].split()
    assert example[0] == command
    assert run(*example).exit_code == 0


@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf", "1e-300", "1e300"])
@pytest.mark.parametrize(
    "arguments", [[*SPOT, "--month-share", "0.1"], STORAGE, ENDPOINT, MACHINES], ids=lambda a: a[0]
)
def test_extreme_numbers_are_refused_or_computed(arguments: list[str], value: str) -> None:
    """No option makes a command crash, or write a figure that is not a number."""
    for option in range(1, len(arguments), 2):
        changed = [*arguments[: option + 1], value, *arguments[option + 2 :], "--json"]
        try:
            output = run(*changed).stdout
        except SpecError:
            continue
        assert "NaN" not in output and "Infinity" not in output, changed


WITHOUT_EFFECT: dict[str, dict[str, str | None]] = {
    "memory --params 7e9": {"sequence": "-5", "batch": "-5", "recompute": None},
    "memory --model llama-3-8b": {"reserve-gb": "nan", "stage": "3", "gpus": "8"},
    "inference --params 7e9": {"sequence": "-5", "batch": "-5", "cache": "fp99", "prefill": "-1", "reserve-gb": "-1"},
    " ".join(A100): {
        **{"wait-s": "-1", "restart-s": "-1", "save-s": "-1", "network-share": "7", "network-gbit": "-1"},
        **{"stage": "3", "overlap": "7"},
    },
    "time --model llama-3-8b --tokens 1e9 --gpu L4 --instances 2": {"network-share": "7"},
    "checkpoints --save-s 60 --month-share 0.1": {"write-gb-s": "nan", "precision": "fp99", "optimizer": "lion"},
    " ".join(ENDPOINT): {
        **{"usd-per-h": "-1", "serverless-usd": "nan", "memory-gb": "0", "bursts": "-1", "runs": "-1"},
        **{"start-s": "-1", "idle-s": "inf"},
    },
    " ".join([*ENDPOINT, "--usd-per-h 1 --requests-per-month 1e6 --serverless-usd 0"]): {"memory-gb": "4"},
}
"""Maps arguments to the options that have no effect beside them, each with a value that would be refused elsewhere."""


@pytest.mark.parametrize(
    ("arguments", "option", "value"),
    [(arguments, *option) for arguments, options in WITHOUT_EFFECT.items() for option in options.items()],
)
def test_an_option_without_effect_is_refused(arguments: str, option: str, value: str | None) -> None:
    assert run(*arguments.split()).exit_code == 0, "the negative control"
    with pytest.raises(SpecError, match=f"^--{option} has no effect with"):
        run(*arguments.split(), f"--{option}", *([value] if value else []))


def test_one_of_two_options_is_refused() -> None:
    both = ["--month-share", "0.1", "--save-s", "60", "--write-gb-s", "1"]
    with pytest.raises(SpecError, match="--save-s has no effect with --write-gb-s"):
        run(*SPOT, *both)


@pytest.mark.parametrize("option", ["--month-share", "--mfu", "--gpu", "--model"])
def test_an_empty_option_is_refused(option: str) -> None:
    """A script's variable may not be set."""
    with pytest.raises(SpecError, match=f"^{option} is empty"):
        run(*TIME, option, "")


def test_a_figure_that_is_no_number_is_refused() -> None:
    for value in (float("inf"), float("nan")):
        with pytest.raises(SpecError, match="cost is not a finite number"):
            Report("A report").add("cost", value, "USD", "on_demand_usd")
        with pytest.raises(SpecError, match="cost is not a finite number"):
            Report("A report").add("cost", 1, "USD", "on_demand_usd", Band(1, 1, 1, 1, value))


@pytest.mark.parametrize("page", ["reference/planning.md", "how-to/choose-a-checkpoint-interval.md"])
def test_output_on_the_pages_is_that_of_the_commands(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    blocks = re.findall(r"```console\n\$ python -m pipelines calculate ([^\n]+)\n(.*?)```", text, re.DOTALL)
    assert blocks
    for arguments, lines in blocks:
        output = [line.rstrip() for line in run(*arguments.split()).stdout.splitlines()]
        assert [line for line in lines.splitlines() if line != "..." and line not in output] == []


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["memory"], "give either --model or --params."),
        (["memory", "--params", "7e9", "--model", "llama-3-8b"], "give either --model or --params."),
        (["memory", "--params", "-7e9"], "params must be a positive number, not -7000000000.0."),
        (["memory", "--params", "nan"], "params must be a positive number, not nan."),
        (["memory", "--params", "7e18"], "params must be at most 1e+15, not 7e+18. Check its unit."),
        (["memory", "--params", "7e9", "--rank", "8"], "LoRA needs the layers of the model."),
        (["memory", "--model", "gpt-9"], "the model gpt-9 is not known"),
        (["memory", "--params", "7e9", "--precision", "fp8"], "precision must be one of fp32, mixed, bf16, not fp8."),
        (["memory", "--params", "7e9", "--gpus", "8", "--stage", "4"], "stage must be one of 0, 1, 2, 3, not 4."),
        (["memory", "--params", "7e9", "--gpu-gb", "1"], "reserve_gb must be at least 0 and less than gpu_gb (1)"),
        (["inference", "--params", "7e9", "--precision", "fp8"], "precision must be one of fp32, bf16, fp16, int8"),
        (["inference", "--model", "llama-3-8b", "--gpus", "3"], "3 devices cannot share 32 heads equally."),
        (TIME, "give either --gpu or --peak-tflops."),
        ([*TIME, "--gpu", "A999"], "the GPU A999 is not known. Give one of B200"),
        ([*TIME, "--peak-tflops", "inf"], "peak_tflops must be a positive number, not inf."),
        ([*A100, "--mfu", "0.5..0.3"], "0.5..0.3 is not a range. Write LOW..HIGH, with LOW at most HIGH."),
        ([*A100, "--mfu", "high"], "--mfu high is neither a number nor a range. Write 0.4, or 0.3..0.5."),
        ([*A100, "--mfu", "30..50"], "mfu must be at most 1, not 30.0. It is a share: 30 % is 0.3."),
        ([*A100, "--mfu", "0..0.5"], "mfu must be a positive number, not 0.0."),
        ([*A100, "--tokens", "1e-300"], "tokens must be at least 1, not 1e-300."),
        ([*A100, "--interval-s", "60", "--save-s", "-1"], "save_s must be a positive number, not -1.0."),
        ([*A100, "--interval-s", "1e18"], "interval_s must be at most 1e+08"),
        ([*A100, "--interval-s", "60", "--save-s", "1e18"], "save_s must be at most 1e+08"),
        ([*A100, "--mfu", "0.4.."], "--mfu 0.4.. is neither a number nor a range."),
        ([*A100, "--instances", "2", "--network-gbit", "1e18"], "network_gbit must be at most 1e+06"),
        ([*A100[:3], "--tokens", "0.5"], "tokens must be at least 1, not 0.5."),
        ([*SPOT, "--month-share", "0.1", "--wait-s", "-1"], "wait_s must be a number of at least 0, not -1.0."),
        ([*SPOT, "--month-share", "0.1", "--wait-s", "1e9"], "wait_s must be at most 1e+08"),
        ([*SPOT, "--month-share", "0.1", "--restart-s", "nan"], "restart_s must be a number of at least 0, not nan."),
        (["memory", "--model", "x" * 300], "is not known, and no such file exists."),
        (["memory", "--params", "7e9", "--precision", "x" * 300], "precision must be one of fp32, mixed, bf16, not x"),
        (["memory", "--model", "llama-3-8b", "--batch", "9" * 400], "batch must be at most 1e+07, not more than 1e+40"),
        (["time", "--model", "llama-3-8b", *TIME[3:], "--gpu", "L4", "--rank", "100000000"], "rank must be at most"),
        ([*ENDPOINT, "--fixed-s", "0.0999999999999999"], "more than 1,000,000 requests would fit into a batch"),
        ([*MACHINES[:-1], "1e6"], "cloud_usd_per_h must be at most 100000, not 1e+06."),
        ([*MACHINES[:1], "--price-usd", "1e300", *MACHINES[3:]], "price_usd must be at most 1e+12"),
        ([*A100, "--interval-s", "0"], "interval_s must be a positive number, not 0.0."),
        ([*A100, "--instances", "2", "--stage", "4"], "stage must be one of 0, 1, 2, 3, not 4."),
        ([*A100, "--mfu", "nan"], "--mfu nan is not finite. Write 0.4, or 0.3..0.5."),
        ([*A100, "--rank", "8"], "LoRA needs the layers of the model."),
        ([*A100, "--sequence", "2048"], "--sequence needs --model, whose attention it is for."),
        ([*A100, "--saving", "0.3"], "--saving needs --usd-per-h, the price on demand."),
        ([*A100, "--month-share", "0.05"], "interruptions need --spot-usd-per-h, the price on spot."),
        (SPOT, "give either --interruptions-per-h or --month-share."),
        ([*SPOT, "--interruptions-per-h", "0"], "interruptions_per_h must be a positive number, not 0.0."),
        ([*SPOT, "--interruptions-per-h", "0..0.1"], "interruptions_per_h must be a positive number, not 0.0."),
        ([*SPOT, "--interruptions-per-h", "inf"], "--interruptions-per-h inf is not finite. Write 0.4, or 0.3..0.5."),
        ([*SPOT, "--interruptions-per-h", "0.1..1e999"], "--interruptions-per-h 0.1..1e999 is not finite."),
        ([*SPOT, "--month-share", "inf"], "--month-share inf is not finite."),
        ([*SPOT, "--interruptions-per-h", "100"], "there is more than one interruption for each save"),
        ([*SPOT, "--month-share", "5"], "month_share must be at most 1, not 5.0. It is a share: 30 % is 0.3."),
        (["checkpoints", "--month-share", "0.1"], "give either --save-s, or --params and --write-gb-s."),
        (["checkpoints", "--params", "7e9", "--month-share", "0.1"], "--params needs --write-gb-s"),
        (["checkpoints", "--save-s", "60"], "give either --interruptions-per-h or --month-share."),
        (["checkpoints", "--save-s", "60", "--interruptions-per-h", "90"], "more than one interruption for each save"),
        ([*STORAGE, "--data-gb", "500"], "--data-gb needs --available-gb-s, the throughput of the storage."),
        ([*STORAGE, "--use", "90"], "use must be at most 1, not 90.0."),
        (
            [*ENDPOINT[:-1], "0.05"],
            "a request takes 0.1 s on a free worker: more workers cannot reach 0.05 s.",
        ),
        ([*ENDPOINT, "--fixed-s", "0.2"], "fixed_s (0.2) must be less than service_s (0.1)."),
        ([*ENDPOINT, "--requests-per-month", "1e6"], "--requests-per-month needs --usd-per-h"),
        (
            [*ENDPOINT, "--usd-per-h", "1", "--requests-per-month", "5.3e7"],
            "requests_per_month must be at most 5.256e+07, not 5.3e+07: a month has 2,628,000 s, with at most 20",
        ),
        ([*MACHINES, "--pue", "0.5"], "pue must be at least 1 and at most 10, not 0.5."),
        ([*MACHINES, "--pue", "1e300"], "pue must be at least 1 and at most 10, not 1e+300."),
        ([*STORAGE, "--available-gb-s", "1e18"], "available_gb_s must be at most 1e+06"),
        ([*STORAGE, "--available-gb-s", "1", "--data-gb", "1e18"], "data_gb must be at most 1e+12"),
        ([*ENDPOINT[:-1], "1e18"], "latency_s must be at most 1e+08"),
        ([*ENDPOINT, "--most-use", "1e-300"], "more than 1,000,000 workers would be needed."),
        (
            ["checkpoints", "--params", "7e9", "--write-gb-s", "1e18", "--month-share", "0.1"],
            "write_gb_s must be at mo",
        ),
        ([*MACHINES, "--use", "60"], "use must be at most 1, not 60.0."),
    ],
)
def test_wrong_input_is_one_line(arguments: list[str], text: str) -> None:
    with pytest.raises(SpecError) as caught:
        run(*arguments)
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)
