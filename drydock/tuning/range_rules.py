"""Check ParameterRanges: the names and the number of the ranges, their bounds, and their scales."""

import math
from collections.abc import Mapping
from typing import Any

from drydock.jobs.rules import refuse

MAX_RANGES = 30
"""SageMaker's quota of tuned hyperparameters in one tuning job."""


def check_ranges(ranges: Mapping[str, Any]) -> None:
    """Check a ParameterRanges structure.

    Raises:
        AWSValidationException: A range is missing, or is not valid. A retry cannot help.
    """
    if ranges.get("AutoParameters"):
        refuse("AutoParameters are not supported by drydock: give a range for each of these hyperparameters.")
    integers, numbers = ranges.get("IntegerParameterRanges", []), ranges.get("ContinuousParameterRanges", [])
    categories = ranges.get("CategoricalParameterRanges", [])
    names = [item["Name"] for item in (*integers, *numbers, *categories)]
    if not names:
        refuse("ParameterRanges are empty: give a range for at least one hyperparameter.")
    if len(names) > MAX_RANGES:
        refuse(f"ParameterRanges have {len(names)} hyperparameters. The limit is {MAX_RANGES}.")
    if duplicates := sorted({name for name in names if names.count(name) > 1}):
        refuse(f"ParameterRanges have more than one range for the hyperparameter {duplicates[0]}.")
    for item in integers:
        if item.get("ScalingType") == "ReverseLogarithmic":
            refuse(f"ReverseLogarithmic scaling is only for continuous ranges, not for the integer {item['Name']}.")
        _check_bounds(item, _read_integer)
    for item in numbers:
        _check_bounds(item, _read_number)
    for item in categories:
        if len(set(item["Values"])) < len(item["Values"]):
            refuse(f"The categorical range of {item['Name']} has a value more than once.")


def _check_bounds(item: Mapping[str, str], read_bound: Any) -> None:
    name, low, high = item["Name"], read_bound(item, "MinValue"), read_bound(item, "MaxValue")
    if low >= high:
        refuse(f"Invalid range of {name}: MinValue {item['MinValue']} must be less than MaxValue {item['MaxValue']}.")
    if not math.isfinite(float(high) - float(low)):  # the sampler computes this difference
        refuse(
            f"Invalid range of {name}: MinValue {item['MinValue']} and MaxValue {item['MaxValue']} are too far apart."
        )
    scale = item.get("ScalingType")
    if scale == "Logarithmic" and low <= 0:
        refuse(f"Logarithmic scaling of {name} needs a MinValue greater than 0, not {item['MinValue']}.")
    if scale == "ReverseLogarithmic" and not (low >= 0 and high < 1):
        refuse(f"ReverseLogarithmic scaling of {name} needs a range within 0 <= x < 1.")


def _read_integer(item: Mapping[str, str], member: str) -> int:
    try:
        return int(item[member])
    except ValueError:
        refuse(f"Invalid range of {item['Name']}: {member} {item[member]!r} is not an integer.")


def _read_number(item: Mapping[str, str], member: str) -> float:
    try:
        value = float(item[member])
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        refuse(f"Invalid range of {item['Name']}: {member} {item[member]!r} is not a finite number.")
    return value
