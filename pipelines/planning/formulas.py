"""List the formulas of the calculators, in plain text, with their sources. docs/reference/planning.md explains them."""

from __future__ import annotations

from typing import NamedTuple


class Formula(NamedTuple):
    """A formula.

    Attributes:
        text: the formula, in plain text.
        source: paper, standard or document, with section or equation.
    """

    text: str
    source: str


ZERO = "ZeRO, section 3.1 and figure 1"
KORTHIKANTI = "counted by operation, as Korthikanti et al. 2022, section 4"
DALY = "Daly 2006, the wall clock time"
SUM = "sum of the parts"
FORMULAS = {
    # Memory of a training, bytes
    "weights": Formula("parameters x bytes of a value / (devices, if ZeRO stage is 3)", ZERO),
    "gradients": Formula("parameters x bytes of a gradient / (devices, if stage >= 2)", ZERO),
    "optimizer": Formula(
        "parameters x (fp32 copy + states) / (devices, if stage >= 1)", "ZeRO, section 3.1; Dettmers et al. 2022"
    ),
    "activations": Formula("tokens x (layers x bytes of a layer + last norm)", KORTHIKANTI),
    "working": Formula("max(12 x tokens x vocabulary, tokens x bytes of a layer that is computed again)", KORTHIKANTI),
    "gathered": Formula("(2 x parameters of a layer + those outside) x bytes of a value", "FSDP, Zhao et al. 2023"),
    "training_memory": Formula("weights + gradients + optimizer + activations + working + gathered", SUM),
    "largest_batch": Formula("largest batch with memory <= memory of the GPU - reserve", "bisection over the sum"),
    # Memory of an inference, bytes
    "serving_weights": Formula("parameters x bytes of a value / devices", "ZeRO, section 3.1"),
    "token_cache": Formula(
        "2 x layers x key heads x head width x bytes of a value / min(devices, key heads)",
        "Kwon et al. 2023, section 3; Ainslie et al. 2023, section 2.2",
    ),
    "cache": Formula("batch x sequence x cache of a token", "Kwon et al. 2023, section 3"),
    "serving_activations": Formula(
        "max(tokens x bytes of a value x (2 x hidden + max(attention, 3 x intermediate) / devices), logits)",
        "counted by operation; not measured",
    ),
    "serving_memory": Formula("weights + cache + activations", SUM),
    # Time and cost of a training
    "flops": Formula(
        "tokens x (6 x parameters; LoRA 4; + 2 with recomputation)",
        "Kaplan et al. 2020, section 2.1; Narayanan et al. 2021, section 5.1",
    ),
    "computation": Formula("operations / (devices x peak x MFU)", "Narayanan et al. 2021, equation 4"),
    "communication": Formula(
        "passes x (n - 1) / n x bytes of the gradients / bandwidth; 2 passes, 3 with ZeRO stage 3",
        "Patarasuk and Yuan 2009; ZeRO, section 7",
    ),
    "step": Formula(
        "computation + max(0, communication - overlap x computation)", "Li et al. 2020 (DDP), section 3.2.3"
    ),
    "efficiency": Formula("computation / step", "definition"),
    "needed_bandwidth": Formula(
        "passes x (n - 1) / n x bytes / (computation x (overlap + 1 / efficiency - 1))",
        "the formula of the step, solved for the bandwidth",
    ),
    "work": Formula("steps x step", "definition"),
    "checkpoint": Formula("parameters x (weight + fp32 copy + states)", "ZeRO, section 3.1, without the gradients"),
    "save": Formula("bytes of a checkpoint / throughput", "definition"),
    "time_with_saves": Formula("work x (1 + save / interval)", "definition"),
    "on_demand_usd": Formula("hours x instances x price", "docs/reference/costs.md"),
    "savings_plan_usd": Formula("on demand x (1 - saving)", "definition, if the commitment is used up"),
    "break_even_use": Formula("1 - saving", "a commitment is paid whether it is used or not"),
    "spot_usd": Formula("time of the instances x instances x spot price", f"{DALY}; BillableTimeInSeconds"),
    "elapsed": Formula("time of the instances + interruptions x wait for instances", DALY),
    "band": Formula(
        "5th to 95th percentile of seeded samples", "numbers uniform in their ranges; extremes: their ends"
    ),
    # Checkpoints
    "mean_time": Formula("3600 / (rate x instances)", "minimum of independent exponential times"),
    "young": Formula("sqrt(2 x save x M)", "Young 1974"),
    "daly": Formula("sqrt(2 d M) x (1 + sqrt(x) / 3 + x / 9) - d, x = d / (2 M)", "Daly 2006, equation 37"),
    "interrupted_time": Formula("M exp(R / M) (exp((t + d) / M) - 1) x work / t", DALY),
    "overhead": Formula("time / work - 1", DALY),
    "interruptions": Formula("time / M", "Poisson process"),
    "lost": Formula("time - work - work x save / interval", DALY),
    # Storage
    "needed_throughput": Formula("devices x batch x sample x use / step", "MLPerf Storage: accelerator utilization"),
    "data_wait": Formula("max(0, 1 - available / needed)", "reading and computation at the same time"),
    "download": Formula("data / throughput", "definition"),
    # Endpoints
    "concurrency": Formula("requests per second x latency", "Little 1961"),
    "busy_workers": Formula("requests per second x service", "Little 1961"),
    "worker_use": Formula("busy workers / workers", "Little 1961"),
    "endpoint_instances": Formula(
        "fewest with latency(percentile) <= the longest latency, and use <= the largest use",
        "M/M/n: Kleinrock 1975, section 3.5",
    ),
    "equal_latency": Formula(
        "max(0, ln(C / (1 - p)) x service / (n - a)) + service, C = Erlang C", "Gross et al. 2008, section 2.3"
    ),
    "varying_latency": Formula(
        "t with (1 - C) e^-x + C (d e^-x - e^-dx) / (d - 1) = 1 - p, x = t / service, d = n - a",
        "Gross et al. 2008, section 2.3",
    ),
    "largest_request_batch": Formula(
        "(latency / 2 - fixed) / time of a request", "a request waits for one batch at most"
    ),
    "batch_bound": Formula("smaller of two closed forms", "Inoue 2021, upper bound of the mean latency"),
    "real_time_usd": Formula("730 x instances x price", "docs/reference/costs.md"),
    "serverless_usd": Formula("requests x service x memory x price of a GB and second", "docs/reference/costs.md"),
    "async_usd": Formula("price x (busy hours + bursts x instances x (start + idle) / 3600)", "scaling to zero"),
    "batch_usd": Formula("price x (busy hours + runs x start / 3600)", "docs/reference/costs.md"),
    "serverless_break_even": Formula(
        "730 x instances x price / (service x memory x serverless price); never, if above 730 x 3600 x instances x "
        "workers / service",
        "equal costs; what the endpoint can answer",
    ),
    "async_break_even": Formula(
        "(730 x instances - busy hours) x 3600 / (instances x (start + idle))", "equal costs, the same instances"
    ),
    "batch_break_even": Formula("(730 x instances - busy hours) x 3600 / start", "equal costs"),
    # Machines of one's own
    "own_month": Formula("(price - resale) / lifetime + running costs", "Barroso et al. 2018, chapter 6"),
    "running_month": Formula(
        "730 x PUE x price of a kWh x (use x power + (1 - use) x idle power) + staff + hosting",
        "Barroso et al. 2018, chapter 6; ISO/IEC 30134-2 (PUE)",
    ),
    "cloud_month": Formula("730 x use x price", "docs/reference/costs.md"),
    "payback": Formula("price / (cloud - running costs)", "simple payback, without interest"),
    "machine_break_even": Formula("own at no use / (730 x price - (own at full use - own at no use))", "equal costs"),
}
"""Formulas by name."""
