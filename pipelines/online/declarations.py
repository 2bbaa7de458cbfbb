"""Check the lookups that a dataset declares, and name their feature groups."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import re
from collections.abc import Sequence

from pipelines.dataset import Dataset
from pipelines.errors import SpecError
from pipelines.lookups import Lookup

FEATURE_NAME = re.compile(r"[a-zA-Z0-9]([-_]*[a-zA-Z0-9]){0,63}")
"""Names of features that SageMaker Feature Store accepts."""
DIGEST_CHARS, MAX_NAME_CHARS = 8, 64
"""Number of characters of the digest in a feature group's name, and largest number of characters of the whole name."""


def require_lookups(dataset: Dataset) -> Sequence[Lookup]:
    """Return the lookups of a dataset.

    Raises:
        SpecError: there are no lookups, two have the same name, or one is not valid. A retry cannot help.
    """
    if not dataset.lookups:
        raise SpecError(f"the dataset {dataset.name} has no lookups.", "Declare them: docs/how-to/serving.md.")
    if len({lookup.name for lookup in dataset.lookups}) < len(dataset.lookups):
        raise SpecError(f"two lookups of {dataset.name} have the same name.", "Rename one.")
    for lookup in dataset.lookups:
        _check_lookup(dataset, lookup)
    return dataset.lookups


def name_group(dataset: Dataset, lookup: Lookup) -> str:
    """Build the name of a lookup's feature group. Lookups with another key or other features have another group."""
    kinds = {name: dataset.features[name] for name in sorted(lookup.features)}
    definition = json.dumps([dataset.name, lookup.name, list(lookup.key), kinds])
    digest = hashlib.sha256(definition.encode()).hexdigest()[:DIGEST_CHARS]
    readable_name = re.sub("[^a-zA-Z0-9]+", "-", f"{dataset.name}-{lookup.name}").strip("-")
    return f"{readable_name[: MAX_NAME_CHARS - DIGEST_CHARS - 1].rstrip('-')}-{digest}"


def _check_lookup(dataset: Dataset, lookup: Lookup) -> None:
    """Check names, age and defaults of a lookup.

    This is not done when the dataset is created, because its features may still be replaced.
    """
    unknown_features = sorted(set(lookup.features) - set(dataset.features))
    wrong_defaults = [
        name for name, value in lookup.features.items() if not _is_valid(value, dataset.features.get(name, ""))
    ]
    other_lookups = [other_lookup for other_lookup in dataset.lookups if other_lookup is not lookup]
    repeated_features = [
        name for other_lookup in other_lookups for name in lookup.features if name in other_lookup.features
    ]
    invalid_names = [name for name in lookup.features if not FEATURE_NAME.fullmatch(name)]
    looked_up_key = sorted(set(lookup.key) & {name for item in dataset.lookups for name in item.features})
    problems = (
        (not re.fullmatch("[a-zA-Z0-9]{1,32}", lookup.name), "has a name that is not 1 to 32 letters and digits"),
        (not lookup.features or not lookup.key, "needs features and a key"),
        (unknown_features, f"has {', '.join(unknown_features)}, which is not in `features` of the dataset"),
        (repeated_features, f"has {', '.join(repeated_features)}, which another lookup has, too"),
        (
            invalid_names,
            f"has {', '.join(invalid_names)}; the store allows letters, digits, - and _, with no - or _ at either end",
        ),
        (looked_up_key, f"has the key {', '.join(looked_up_key)}, which is a looked-up feature"),
        (lookup.max_age < dt.timedelta(0), "has a negative max_age"),
        (wrong_defaults, f"has a default that does not fit the kind of {', '.join(wrong_defaults)}"),
    )
    for is_wrong, problem in problems:
        if is_wrong:
            raise SpecError(f"the lookup {lookup.name!r} of {dataset.name} {problem}.")


def _is_valid(default: object, kind: str) -> bool:
    """Return whether a feature of a kind may have this default."""
    if default is None:
        return True
    return isinstance(default, str) if kind == "category" else type(default) in (int, float)
