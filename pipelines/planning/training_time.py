"""Estimate the computation, the time and the device utilization of a training. Each formula names its source."""

from __future__ import annotations

from pipelines.planning.sizes import MAX_PARAMETERS, DecoderSize, require_positive, require_share


def count_token_flops(
    parameters: float, *, is_recomputed: bool = False, is_lora: bool = False, attention: float = 0.0
) -> float:
    """Return the floating-point operations of a training for each token.

    Source: Kaplan et al. 2020, section 2.1: 2 for each parameter in the forward pass, and 4 in the backward pass, of
    which 2 are for the gradients of the activations, and 2 for those of the weights. So LoRA, whose frozen weights need
    no gradients, has about 4 (its own matrices are neglected). Gradient checkpointing adds a second forward pass, 2
    (Narayanan et al. 2021, section 5.1).

    Args:
        parameters: number of parameters. Leave out embeddings that are only looked up, if they are a large part.
        is_recomputed: whether gradient checkpointing is used.
        is_lora: whether all but LoRA's matrices are frozen.
        attention: operations of attention scores in the forward pass for each token; see `count_attention_flops`.

    Raises:
        SpecError: the number is not positive.
    """
    require_positive("parameters", parameters, MAX_PARAMETERS)
    forward = 2 * parameters + attention
    # Attention has no weights: its backward pass has twice the operations of the forward pass, with LoRA, too.
    backward = (1 if is_lora else 2) * 2 * parameters + 2 * attention
    return forward * (2 if is_recomputed else 1) + backward


def count_attention_flops(size: DecoderSize, sequence: int) -> float:
    """Return the operations of attention scores in the forward pass, for each token: `4 L H Q T`.

    L is the number of layers, H Q (heads times their size) is `query_width`, and T is `sequence`.
    Source: Chowdhery et al. 2022 (PaLM), appendix B: 12 L H Q T in both passes, a third of it in the forward pass. The
    mask, which makes half of the scores unnecessary, is not counted.

    Args:
        size: size of the model.
        sequence: number of tokens that a token is compared with.

    Raises:
        SpecError: the length is not positive.
    """
    require_positive("sequence", sequence)
    return 4.0 * size.layers * size.query_width * sequence


def estimate_training_s(flops: float, peak_flops: float, devices: int = 1, utilization: float = 0.4) -> float:
    """Return the seconds of a training: operations, divided by what the devices do in a second.

    Source: Narayanan et al. 2021, equation 4.

    Args:
        flops: operations of the whole training.
        peak_flops: peak of a device, FLOP/s.
        devices: number of devices.
        utilization: share of the peak that the training reaches, above 0 and at most 1. Published trainings of large
            models reach 0.3 to 0.5 (Chowdhery et al. 2022, table 3); a guess until it is measured.

    Raises:
        SpecError: a number is not positive, or the utilization is above 1.
    """
    for name, value in {"flops": flops, "peak_flops": peak_flops, "devices": devices}.items():
        require_positive(name, value)
    require_share("utilization", utilization, is_zero_allowed=False)
    return flops / (peak_flops * devices * utilization)


def compute_utilization(token_flops: float, tokens_per_s: float, peak_flops: float, devices: int = 1) -> float:
    """Return the model FLOPs utilization (MFU): the share of the devices' peak that the training uses.

    Source: Chowdhery et al. 2022, appendix B. Operations of a recomputation are left out.

    Args:
        token_flops: operations for each token, without recomputation.
        tokens_per_s: tokens of all devices in a second.
        peak_flops: peak of a device, FLOP/s.
        devices: number of devices.

    Raises:
        SpecError: a number is not positive.
    """
    numbers = {"token_flops": token_flops, "tokens_per_s": tokens_per_s, "peak_flops": peak_flops, "devices": devices}
    for name, value in numbers.items():
        require_positive(name, value)
    return token_flops * tokens_per_s / (peak_flops * devices)
