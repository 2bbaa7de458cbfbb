"""Compute the number of parameters of a language model, and check the quantities that plans are computed from."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from pipelines.errors import SpecError

MAX_PARAMETERS = 1e15
"""Largest number of parameters; published models have about 1e12. A larger number is a mistake in the unit."""
MAX_DIMENSION = 10_000_000
"""Largest number of layers, heads or tokens, and largest width."""
MAX_DEVICES = 1_000_000
"""Largest number of devices or instances."""
MAX_NUMBER = 1e40
"""Largest value of any other quantity, such as the operations of a training. Products of a few do not overflow."""
MAX_USD_PER_H = 1e5
"""Largest price of an instance, USD an hour."""
MAX_GB_S = 1e6
"""Largest throughput, GB of 10^9 bytes a second."""
MAX_S = 1e8
"""Longest time of a save, a restart, a wait, or an interval, seconds: three years."""
MAX_CHARS = 60
"""Number of characters of a wrong value that an error shows."""
LINEAR_LAYERS = 7
"""Number of linear layers of a decoder layer: query, key, value, output, gate, up and down."""


@dataclass(frozen=True)
class DecoderSize:
    """The size of a decoder with gated layers, such as Llama, Qwen or Mistral.

    Attributes:
        layers: number of decoder layers.
        hidden: width of a token's hidden state.
        intermediate: width of the gated layer.
        heads: number of attention heads of the queries.
        key_heads: number of attention heads of the keys, and of the values.
        vocabulary: number of tokens in the vocabulary.
        is_tied: whether the output layer has the same weights as the embeddings.
        head_width: width of a head; 0 for `hidden / heads`.

    Raises:
        SpecError: a number is not positive or too large, `hidden` is no multiple of `heads` and there is no
            `head_width`, or the heads of the keys do not divide those of the queries.
    """

    layers: int
    hidden: int
    intermediate: int
    heads: int
    key_heads: int
    vocabulary: int
    is_tied: bool = False
    head_width: int = 0

    def __post_init__(self) -> None:
        """Check the numbers."""
        for field in fields(self):
            if field.name not in ("is_tied", "head_width"):
                require_positive(field.name, getattr(self, field.name), MAX_DIMENSION)
        if self.head_width:
            require_positive("head_width", self.head_width, MAX_DIMENSION)
        if self.heads % self.key_heads:  # grouped-query attention: each head of the keys serves a group of queries
            raise SpecError(f"key_heads ({self.key_heads}) must divide heads ({self.heads}).")
        if not self.head_width and self.hidden % self.heads:
            raise SpecError(f"hidden ({self.hidden}) must be a multiple of heads ({self.heads}).")

    @property
    def query_width(self) -> int:
        """Width of all queries of a token."""
        return self.heads * (self.head_width or self.hidden // self.heads)

    @property
    def key_width(self) -> int:
        """Width of all keys of a token, and of all values."""
        return self.key_heads * (self.head_width or self.hidden // self.heads)

    @property
    def layer_parameters(self) -> int:
        """Number of parameters of a decoder layer: four projections, the gated layer, and two norms."""
        attention = 2 * self.hidden * (self.query_width + self.key_width)
        return attention + 3 * self.hidden * self.intermediate + 2 * self.hidden

    @property
    def outer_parameters(self) -> int:
        """Number of parameters outside of the layers: embeddings, output layer and last norm."""
        return self.vocabulary * self.hidden * (1 if self.is_tied else 2) + self.hidden

    @property
    def parameters(self) -> int:
        """Number of all parameters."""
        return self.layers * self.layer_parameters + self.outer_parameters

    def count_lora_parameters(self, rank: int) -> int:
        """Return the number of parameters of LoRA's matrices on all linear layers of the decoder layers.

        A linear layer with `a` inputs and `b` outputs gets `rank * (a + b)` parameters (Hu et al. 2021, section 4.1).

        Raises:
            SpecError: the rank is not positive.
        """
        require_positive("rank", rank, MAX_DIMENSION)
        attention = 2 * (self.hidden + self.query_width) + 2 * (self.hidden + self.key_width)
        return self.layers * rank * (attention + 3 * (self.hidden + self.intermediate))


def require_positive(name: str, value: float, maximum: float = MAX_NUMBER) -> None:
    """Check that a quantity is a positive, finite number, and not larger than `maximum`.

    Raises:
        SpecError: the value is not allowed. A retry cannot help.
    """
    if not 0 < value < math.inf:
        raise SpecError(f"{name} must be a positive number, not {value}.")
    _require_at_most(name, value, maximum)


def require_not_negative(name: str, value: float, maximum: float = MAX_NUMBER) -> None:
    """Check that a quantity is a finite number of at least 0, and not larger than `maximum`.

    Raises:
        SpecError: the value is not allowed. A retry cannot help.
    """
    if not 0 <= value < math.inf:
        raise SpecError(f"{name} must be a number of at least 0, not {value}.")
    _require_at_most(name, value, maximum)


def require_at_least_one(name: str, value: float, maximum: float = MAX_NUMBER) -> None:
    """Check that a quantity is a finite number of at least 1, and not larger than `maximum`.

    Raises:
        SpecError: the value is not allowed. A retry cannot help.
    """
    require_positive(name, value, maximum)
    if value < 1:
        raise SpecError(f"{name} must be at least 1, not {value:g}.")


def require_share(name: str, value: float, *, is_zero_allowed: bool = True) -> None:
    """Check that a quantity is a share: a number from 0 to 1.

    Raises:
        SpecError: the quantity is out of this range, or 0 although 0 is not allowed. A retry cannot help.
    """
    if is_zero_allowed:
        require_not_negative(name, value)
    else:
        require_positive(name, value)
    if value > 1:
        raise SpecError(f"{name} must be at most 1, not {value}.", "It is a share: 30 % is 0.3.")


def require_choice(name: str, value: object, choices: object) -> None:
    """Check that a value is one of the choices.

    Raises:
        SpecError: the value is not allowed. A retry cannot help.
    """
    known_names = list(choices)  # type: ignore[call-overload]
    if value not in known_names:
        text = str(value)
        short = text if len(text) <= MAX_CHARS else f"{text[:MAX_CHARS]}..."
        raise SpecError(f"{name} must be one of {', '.join(map(str, known_names))}, not {short}.")


def _require_at_most(name: str, value: float, maximum: float) -> None:
    if value > maximum:
        # A whole number may be too large for a float, and its digits would fill a page.
        text = f"{value:g}" if value <= MAX_NUMBER else f"more than {MAX_NUMBER:g}"
        raise SpecError(f"{name} must be at most {maximum:g}, not {text}.", "Check its unit.")
