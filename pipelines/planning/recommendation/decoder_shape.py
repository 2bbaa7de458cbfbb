"""Guess the layers of a language model from its number of parameters, to estimate its activations."""

from __future__ import annotations

from pipelines.errors import SpecError
from pipelines.planning.sizes import DecoderSize, require_positive

ASPECT_RATIO = 128
"""Hidden size / number of layers: 128 in Llama 2 with 7 and 13 billion parameters."""
HEAD_WIDTH = 128
VOCABULARY = 32_000
"""Number of tokens in the vocabulary of Llama 2 and Mistral."""
TIED_BELOW = 1e9
"""Number of parameters below which models commonly share the weights of embeddings and output."""
MIN_PARAMETERS, MAX_PARAMETERS = 5e7, 1e13
"""Range in which the guessed model has about the given number of parameters. Below, most would be embeddings."""


def guess_size(parameters: float) -> DecoderSize:
    """Return the size of a gated decoder with about this number of parameters.

    A layer has about 12 h^2 parameters, where h is the hidden size (Kaplan et al. 2020, section 2.1: 12 L h^2).
    h is chosen as if the number of layers L were h / `ASPECT_RATIO`, and rounded. Then L is chosen so that the number
    of parameters is about right. Kaplan et al. 2020 (figure 5) found that the loss depends little on the ratio.

    Args:
        parameters: number of parameters, from 50 million on. Published models below a billion are narrower.

    Raises:
        SpecError: the number is not in the range of language models. A retry cannot help.
    """
    require_positive("params", parameters, MAX_PARAMETERS)
    if parameters < MIN_PARAMETERS:
        raise SpecError(
            f"params must be at least {MIN_PARAMETERS:g}, not {parameters:g}.", "Check whether a factor is missing."
        )
    hidden = max(HEAD_WIDTH, round((ASPECT_RATIO * parameters / 12) ** (1 / 3) / HEAD_WIDTH) * HEAD_WIDTH)
    heads, intermediate = hidden // HEAD_WIDTH, round(8 / 3 * hidden / 64) * 64
    one_layer = DecoderSize(1, hidden, intermediate, heads, heads, VOCABULARY, is_tied=parameters < TIED_BELOW)
    layers = max(1, round((parameters - one_layer.outer_parameters) / one_layer.layer_parameters))
    return DecoderSize(layers, hidden, intermediate, heads, heads, VOCABULARY, is_tied=parameters < TIED_BELOW)
