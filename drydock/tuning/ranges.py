"""The ranges of the tuned hyperparameters, and the texts of their values, as the API has them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

# With ScalingType Auto, a range of positive numbers that spans at least this factor is searched on a logarithmic scale.
AUTO_LOG_RATIO = 1000.0
LOGARITHMIC, REVERSE_LOGARITHMIC = "Logarithmic", "ReverseLogarithmic"

Number = int | float


class Range(Protocol):
    """The range of one hyperparameter.

    The sampler searches internal values: integers, numbers or texts. A script gets each value as a text.
    """

    @property
    def name(self) -> str:
        """Name of the hyperparameter."""

    @property
    def size(self) -> float:
        """How many values the range has; infinity for a continuous range."""

    def parse(self, text: str) -> Any:
        """Return the internal value of a text.

        Raises:
            ValueError: The text is not a value of the range. A retry cannot help.
        """

    def format(self, value: Any) -> str:
        """Return the text of an internal value, as the training job gets it."""

    def list_texts(self) -> list[str]:
        """Return the texts of all values of a range that is not continuous."""


@dataclass(frozen=True)
class IntegerRange:
    """A range of integers, including both ends; `is_log` says whether its scale is logarithmic."""

    name: str
    low: int
    high: int
    is_log: bool = False

    @property
    def size(self) -> float:
        """How many integers the range has."""
        return float(self.high - self.low + 1)

    def parse(self, text: str) -> int:
        """Return the integer. Raises ValueError if the text is not an integer of the range."""
        value = int(text)
        if not self.low <= value <= self.high:
            raise ValueError(f"{self.name}: {text} is not in the range")
        return value

    def format(self, value: int) -> str:
        """Return the integer's text."""
        return str(value)

    def list_texts(self) -> list[str]:
        """Return the texts of all integers."""
        return [str(value) for value in range(self.low, self.high + 1)]


@dataclass(frozen=True)
class ContinuousRange:
    """A range of numbers.

    On the scale ReverseLogarithmic, the internal value of x is 1 - x, which is searched on a logarithmic scale.
    """

    name: str
    low: float
    high: float
    scale: str = "Linear"

    @property
    def size(self) -> float:
        """Infinity."""
        return math.inf

    @property
    def is_log(self) -> bool:
        """Whether the internal values have a logarithmic scale."""
        return self.scale in (LOGARITHMIC, REVERSE_LOGARITHMIC)

    @property
    def internal_bounds(self) -> tuple[float, float]:
        """The smallest and the largest internal value."""
        return (1 - self.high, 1 - self.low) if self.scale == REVERSE_LOGARITHMIC else (self.low, self.high)

    def parse(self, text: str) -> float:
        """Return the internal value. Raises ValueError if the text is not a number of the range."""
        value = float(text)
        if not self.low <= value <= self.high:
            raise ValueError(f"{self.name}: {text} is not in the range")
        low, high = self.internal_bounds
        return min(max(1 - value if self.scale == REVERSE_LOGARITHMIC else value, low), high)

    def format(self, value: float) -> str:
        """Return the number's text, with all digits that distinguish it from other numbers."""
        number = 1 - value if self.scale == REVERSE_LOGARITHMIC else value
        return repr(float(min(max(number, self.low), self.high)))

    def list_texts(self) -> list[str]:
        """Raise an error: the range has no list of values."""
        raise NotImplementedError(f"{self.name} is continuous")


@dataclass(frozen=True)
class CategoricalRange:
    """A list of texts."""

    name: str
    values: tuple[str, ...]

    @property
    def size(self) -> float:
        """How many texts the list has."""
        return float(len(self.values))

    def parse(self, text: str) -> str:
        """Return the text. Raises ValueError if it is not in the list."""
        if text not in self.values:
            raise ValueError(f"{self.name}: {text} is not in the range")
        return text

    def format(self, value: str) -> str:
        """Return the text."""
        return value

    def list_texts(self) -> list[str]:
        """Return the texts."""
        return list(self.values)


def read_ranges(parameter_ranges: Mapping[str, Any]) -> list[Range]:
    """Return the ranges of a ParameterRanges structure that `range_rules` accepts.

    Integer ranges come first, then continuous and then categorical ones; each kind is in the order of the request.
    """
    integers = [
        IntegerRange(item["Name"], int(item["MinValue"]), int(item["MaxValue"]), choose_scale(item) == LOGARITHMIC)
        for item in parameter_ranges.get("IntegerParameterRanges", ())
    ]
    numbers = [
        ContinuousRange(item["Name"], float(item["MinValue"]), float(item["MaxValue"]), choose_scale(item))
        for item in parameter_ranges.get("ContinuousParameterRanges", ())
    ]
    categories = [
        CategoricalRange(item["Name"], tuple(item["Values"]))
        for item in parameter_ranges.get("CategoricalParameterRanges", ())
    ]
    return [*integers, *numbers, *categories]


def choose_scale(item: Mapping[str, str]) -> str:
    """Return the scale of an integer or continuous range. For Auto, it depends on the ratio of the ends."""
    scale = item.get("ScalingType", "Auto")
    if scale != "Auto":
        return scale
    low, high = float(item["MinValue"]), float(item["MaxValue"])
    return LOGARITHMIC if low > 0 and high / low >= AUTO_LOG_RATIO else "Linear"


def count_combinations(ranges: Sequence[Range]) -> float:
    """Return how many combinations of values the ranges have; infinity if one of them is continuous."""
    return math.prod(item.size for item in ranges)
