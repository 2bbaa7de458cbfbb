"""Show the unit tests only the example datasets."""

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", autouse=True)
def _examples_only() -> Iterator[None]:
    """Hide the checkout's own folder datasets/, which `new` writes, from the tests of a module."""
    from pipelines import datasets

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(datasets, "__path__", list(datasets.__path__)[:1])
        yield
