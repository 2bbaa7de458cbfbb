"""Build names for objects that belong to one test."""

import hashlib
import re


def name_for_test(prefix: str, test: str) -> str:
    """Return a name of at most 64 characters that no other test has, made of letters, digits and hyphens.

    Args:
        prefix: first characters, at most 3.
        test: name of the test, with its parameters.
    """
    digest = hashlib.sha256(test.encode()).hexdigest()[:8]
    return f"{prefix}{re.sub(r'[^0-9A-Za-z]', '-', test)[:52]}-{digest}"
