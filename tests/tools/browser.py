"""Start a headless Chromium for tests of pages."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

TIMEOUT_MS = 120_000
"""Longest time that a page waits for an element or an address. Only a test that fails waits so long."""


def open_context(browser: Any, **options: Any) -> Any:
    """Return a new context of the browser, which has cookies and a cache of its own.

    Args:
        options: arguments of Playwright's `new_context`, such as `viewport`.
    """
    context = browser.new_context(**options)
    context.set_default_timeout(TIMEOUT_MS)
    return context


@contextmanager
def start_browser() -> Iterator[Any]:
    """Yield Playwright's browser; skip the test where no Chromium is installed, unless REQUIRE_BROWSER is set."""
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None and not os.environ.get("REQUIRE_BROWSER"):
        pytest.skip("no browser is installed: Debian has it as the package chromium")
    with sync_playwright() as playwright:
        # Chromium's sandbox needs a user namespace, which containers often lack; it opens only pages of this test.
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        try:
            yield browser
        finally:
            browser.close()
