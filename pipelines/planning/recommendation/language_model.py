"""Estimate the training of a language model on instances: whether it fits, how it is sharded, and how long it takes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from pipelines.instances.accelerators import Accelerator
from pipelines.instances.catalogue import GIB
from pipelines.planning.batch_limits import LORA_RANK, RESERVE_GB, find_training_batch
from pipelines.planning.memory import BYTES, STATES, TrainingSetup, estimate_training
from pipelines.planning.recommendation.decoder_shape import guess_size
from pipelines.planning.recommendation.limits import format_duration
from pipelines.planning.recommendation.workloads import Estimate, Infeasibility, Machines
from pipelines.planning.sizes import DecoderSize, require_at_least_one, require_choice, require_positive
from pipelines.planning.step_time import BACKWARD_SHARE, NETWORK_SHARE, estimate_communication_s, estimate_step
from pipelines.planning.training_time import count_attention_flops, count_token_flops, estimate_training_s

Method = Literal["full", "lora"]
UTILIZATIONS = {"seconds": 0.4, "low_s": 0.5, "high_s": 0.3}
"""Maps each time of `Estimate` to the share of the peak that it assumes. Published trainings reach 0.3 to 0.5 (PaLM,
table 3)."""
PCIE_GB_S = 16.0
"""Bandwidth between GPUs without NVLink, GB/s: half of PCIe 4.0 with 16 lanes, which the GPUs of an instance share. A
guess: measure it."""
COUNTS = (1, 2, 4, 8)
"""Numbers of instances that are compared, unless the request gives a largest number."""
MORE_COUNTS = (2, 4, 8, 16, 32, 64)
"""If a training does not fit, the smallest of these numbers of instances that fits is suggested."""
MAX_TOKENS, MAX_SEQUENCE = 1e15, 10_000_000


@dataclass(frozen=True)
class LanguageModelWorkload:
    """The training or fine-tuning of a gated decoder.

    Attributes:
        parameters: number of parameters.
        tokens: tokens of all epochs together.
        method: `full` trains all weights, `lora` low-rank matrices.
        precision: one of `memory.STATES`. With fp32, the computation is in fp32, too, without TF32, as torch's default.
        sequence: tokens of a sequence.
        optimizer: one of `memory.OPTIMIZERS`.
        batch_tokens: tokens of an update on all devices. It decides how often gradients are exchanged.
        counts: numbers of instances to compare.
        model: name of the model, by which past jobs are found; empty if there is none.

    Raises:
        SpecError: a number is out of its range, or a name is unknown. A retry cannot help.
    """

    parameters: float
    tokens: float
    method: Method = "full"
    precision: str = "mixed"
    sequence: int = 2_048
    optimizer: str = "adam"
    batch_tokens: float = 524_288
    counts: tuple[int, ...] = COUNTS
    model: str = ""

    @property
    def is_neuron(self) -> bool:
        """Whether the training is known to use the AWS Neuron SDK: the workload does not say, so False."""
        return False

    def __post_init__(self) -> None:
        """Check the numbers."""
        require_at_least_one("tokens", self.tokens, MAX_TOKENS)
        require_at_least_one("batch_tokens", self.batch_tokens, MAX_TOKENS)
        require_positive("sequence", self.sequence, MAX_SEQUENCE)
        require_choice("method", self.method, ("full", "lora"))
        require_choice("precision", self.precision, STATES)
        guess_size(self.parameters)
        TrainingSetup(self.precision, optimizer=self.optimizer)

    @cached_property
    def size(self) -> DecoderSize:
        """Layers of the model, guessed from the number of parameters."""
        return guess_size(self.parameters)

    @property
    def trainable_parameters(self) -> float:
        """Number of parameters that are trained."""
        return self.size.count_lora_parameters(LORA_RANK) if self.method == "lora" else self.parameters

    def describe(self) -> str:
        """Return a sentence that describes the workload."""
        method = f"LoRA of rank {LORA_RANK}" if self.method == "lora" else "all weights"
        return (
            f"{self.parameters:.3g} parameters ({method}), {self.tokens:.3g} tokens in sequences of {self.sequence}, "
            f"{self.precision} precision{' without TF32' if self.precision == 'fp32' else ''}, {self.optimizer}"
        )

    def estimate(self, machines: Machines) -> Estimate | Infeasibility:
        """Return how long the training takes with the fastest setup that fits, or why none does."""
        infeasibility = self._check_devices(machines)
        if infeasibility:
            return infeasibility
        estimates = [self._estimate_setup(machines, setup, batch) for setup, batch in self._list_setups(machines)]
        if not estimates:
            return self._explain_memory(machines)
        return min(estimates, key=lambda estimate: estimate.seconds)

    def _check_devices(self, machines: Machines) -> Infeasibility | None:
        """Return why the devices cannot train the model, or why this is not known; None if they can."""
        instance, device = machines.instance, machines.instance.device
        if not instance.is_known:
            return Infeasibility("unknown", "its size is not known")
        if device is None:
            return Infeasibility("accelerator", "it has no GPU")
        if self._find_peak(device) is None or instance.accelerator_memory_gib is None:
            kind = " in fp32" if self.precision == "fp32" and device.flops else ""
            return Infeasibility("unknown", f"the peak of its {instance.accelerator}{kind} is not known")
        if self.precision == "bf16" and not device.has_bf16:
            return Infeasibility(
                "accelerator", f"its {instance.accelerator} has no bf16: use --precision mixed (with fp16)"
            )
        if machines.count > 1 and not instance.network_gbit_s:
            return Infeasibility("unknown", "the bandwidth of its network is not known")
        return None

    def _find_peak(self, device: Accelerator) -> float | None:
        """Return the peak of a device in the precision of the computation, FLOP/s; None if it is not known."""
        return device.fp32_flops if self.precision == "fp32" else device.flops

    def _list_setups(self, machines: Machines) -> Iterator[tuple[TrainingSetup, int]]:
        """Yield each setup that fits, with the largest batch of a device: limited by memory and by `batch_tokens`."""
        device_gb = _get_device_gb(machines)
        max_batch = max(1, int(self.batch_tokens / (self.sequence * machines.devices)))
        if device_gb <= RESERVE_GB:
            return
        for setup in self._list_all_setups(machines.devices):
            batch = find_training_batch(self.size, self.sequence, setup, device_gb, RESERVE_GB)
            if batch:
                yield setup, min(batch, max_batch)

    def _list_all_setups(self, devices: int) -> Iterator[TrainingSetup]:
        for stage in (0, 3) if devices > 1 else (0,):
            for is_recomputed in (False, True):
                yield TrainingSetup(
                    precision=self.precision,
                    computation="fp32" if self.precision == "fp32" else "bf16",
                    optimizer=self.optimizer,
                    rank=LORA_RANK if self.method == "lora" else 0,
                    is_recomputed=is_recomputed,
                    stage=stage,
                    devices=devices,
                )

    def _estimate_setup(self, machines: Machines, setup: TrainingSetup, batch: int) -> Estimate:
        """Return the time with a setup: the updates, each with its computation and its communication.

        The communication inside an instance and the communication among instances are added (hierarchical rings).
        """
        device = machines.instance.device
        peak_flops = self._find_peak(device) if device else None
        assert peak_flops  # else _check_devices has returned a reason
        pass_tokens = self.sequence * batch * machines.devices
        passes = max(1, round(self.batch_tokens / pass_tokens))
        update_tokens = passes * pass_tokens
        token_flops = count_token_flops(
            self.parameters,
            is_recomputed=setup.is_recomputed,
            is_lora=self.method == "lora",
            attention=count_attention_flops(self.size, self.sequence),
        )
        communication_s = self._estimate_communication_s(machines, setup) * (passes if setup.stage == 3 else 1)
        times = {}
        for name, utilization in UTILIZATIONS.items():
            computation_s = estimate_training_s(update_tokens * token_flops, peak_flops, machines.devices, utilization)
            overlap = 0.0 if name == "high_s" else BACKWARD_SHARE
            times[name] = estimate_step(computation_s, communication_s, overlap).total_s * self.tokens / update_tokens
        text = _describe_setup(setup, batch)
        return Estimate(times["seconds"], times["low_s"], times["high_s"], setup=text)

    def _estimate_communication_s(self, machines: Machines, setup: TrainingSetup) -> float:
        """Return the seconds of one exchange: of the gradients, or with FSDP of the weights and the gradients."""
        instance = machines.instance
        value_bytes = BYTES[setup.computation]
        size_bytes = (self.parameters if setup.stage == 3 else self.trainable_parameters) * value_bytes
        # `link_gb_s` is the sum of both directions.
        inside_gb_s = instance.link_gb_s / 2 if instance.link_gb_s else PCIE_GB_S
        seconds = estimate_communication_s(size_bytes, instance.accelerators or 1, inside_gb_s, setup.stage)
        if machines.count > 1:
            network_gb_s = (instance.network_gbit_s or 0) * NETWORK_SHARE / 8
            seconds += estimate_communication_s(size_bytes, machines.count, network_gb_s, setup.stage)
        return seconds

    def _explain_memory(self, machines: Machines) -> Infeasibility:
        """Say how much memory is missing, and what would fit."""
        needed_gb = min(
            estimate_training(self.size, self.sequence, 1, setup).total / 1e9
            for setup in self._list_all_setups(machines.devices)
        )
        free_gb = max(0.0, _get_device_gb(machines) - RESERVE_GB)
        more_machines = [Machines(machines.instance, count) for count in MORE_COUNTS if count > machines.count]
        count = next((other.count for other in more_machines if any(self._list_setups(other))), None)
        prefix = f"with {machines.count} instances, " if machines.count > 1 else ""
        text = (
            f"{prefix}needs {needed_gb:.0f} GB on each {machines.instance.accelerator}, and {free_gb:.0f} GB are "
            f"free: would fit {self._describe_remedy(machines, count)}"
        )
        return Infeasibility("memory", text, count)

    def _describe_remedy(self, machines: Machines, count: int | None) -> str:
        """Say with which number of instances, or with which method, the training would fit."""
        estimate = self.estimate(Machines(machines.instance, count)) if count else None
        time = f" (in about {format_duration(estimate.seconds)})" if isinstance(estimate, Estimate) else ""
        texts = [f"with {count} instances{time}"] if count else []
        if self.method == "full":
            texts += ["with LoRA"] if any(replace(self, method="lora")._list_setups(machines)) else []
        return " or ".join(texts) or f"with no number of instances up to {MORE_COUNTS[-1]}"


def _get_device_gb(machines: Machines) -> float:
    return (machines.instance.accelerator_memory_gib or 0.0) * GIB / 1e9


def _describe_setup(setup: TrainingSetup, batch: int) -> str:
    sharding = "" if setup.devices == 1 else "FSDP, " if setup.stage == 3 else "data parallel, "
    checkpointing = ", gradient checkpointing" if setup.is_recomputed else ""
    return f"{sharding}{batch} sequence(s) at once{checkpointing}"
