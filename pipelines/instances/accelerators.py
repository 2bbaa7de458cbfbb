"""List the GPUs and AWS's own accelerators with their peak FLOP/s and bandwidths, from their makers' data sheets.

Needs no library.
"""

from __future__ import annotations

from dataclasses import dataclass

NVIDIA = "data sheet of NVIDIA, dense (without sparsity)"
NEURON = "AWS Neuron documentation, architecture of the chip"
"""Sources of the figures in `ACCELERATORS`."""


@dataclass(frozen=True)
class Accelerator:
    """A GPU or another accelerator. What is not known is None.

    Attributes:
        flops: peak of dense 16-bit multiplications (fp16, and bf16 if `has_bf16`), FLOP/s.
        bandwidth_gb_s: bandwidth of its memory, 10^9 bytes a second.
        has_bf16: whether it multiplies bf16 at that peak. Turing and Volta multiply only fp16.
        fp32_flops: peak of multiplications of fp32 without TF32, as torch computes by default, FLOP/s.
        link_gb_s: bandwidth of NVLink or NeuronLink, both directions together, 10^9 bytes a second. None if it is not
            known, or if no instance type connects its accelerators by such a link.
        is_neuron: whether programs need the AWS Neuron SDK instead of CUDA.
        source: source of the figures.
    """

    flops: float | None = None
    bandwidth_gb_s: float | None = None
    has_bf16: bool | None = True
    fp32_flops: float | None = None
    link_gb_s: float | None = None
    is_neuron: bool = False
    source: str = NVIDIA


ACCELERATORS = {
    "B300": Accelerator(link_gb_s=1800, source="peaks are not known; NVLink: data sheet of NVIDIA"),
    # The B200's fp32 peak is that of an HGX server. The A10G's fp32 peak is larger than that of the A10 (31.2 TFLOP/s).
    "B200": Accelerator(2.25e15, 8000, fp32_flops=75e12, link_gb_s=1800),
    "H200": Accelerator(989e12, 4800, fp32_flops=67e12, link_gb_s=900),
    "H100 PCIe": Accelerator(756e12, 2000, fp32_flops=51e12),
    "H100": Accelerator(989e12, 3350, fp32_flops=67e12, link_gb_s=900),
    # The A100 with 80 GB has 2,039 GB/s.
    "A100": Accelerator(312e12, 1555, fp32_flops=19.5e12, link_gb_s=600),
    "L40S": Accelerator(362e12, 864, fp32_flops=91.6e12),
    "L4": Accelerator(121e12, 300, fp32_flops=30.3e12),
    "A10G": Accelerator(70e12, 600, fp32_flops=35e12),
    "V100": Accelerator(125e12, 900, has_bf16=False, fp32_flops=15.7e12, link_gb_s=300),
    "T4": Accelerator(65e12, 320, has_bf16=False, fp32_flops=8.1e12),
    "RTX PRO 4500": Accelerator(source="not known"),
    "RTX PRO Server 6000": Accelerator(source="not known"),
    "Trainium": Accelerator(190e12, 820, fp32_flops=47.5e12, is_neuron=True, source=NEURON),
    "Trainium2": Accelerator(667e12, 2900, fp32_flops=181e12, is_neuron=True, source=NEURON),
    "Inferentia2": Accelerator(190e12, 820, fp32_flops=47.5e12, is_neuron=True, source=NEURON),
    "Inferentia": Accelerator(64e12, 50, is_neuron=True, source=NEURON),
}
"""Maps the name of each accelerator, as EC2 describes it, to its figures. If all words of a name are in
another name (H100, H100 PCIe), the longer one comes first, because `find_peak_flops` returns the first match."""
PEAK_FLOPS = {name: accelerator.flops for name, accelerator in ACCELERATORS.items() if accelerator.flops}
"""Maps the name of each accelerator to `flops`, if these are known."""
UNKNOWN_ACCELERATOR = Accelerator(has_bf16=None, source="not known")
"""Figures of an accelerator that is not in the table."""


def find_peak_flops(device: str) -> float | None:
    """Return the peak of dense 16-bit multiplications of a GPU, FLOP/s; None if it is not known.

    Args:
        device: name of the GPU, as torch gives it: "NVIDIA A100-SXM4-80GB".
    """
    words = f" {device.replace('-', ' ')} "
    return next((peak for name, peak in PEAK_FLOPS.items() if f" {name} " in words), None)
