"""Debian's Chromium for tests."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, sync_playwright


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start a headless browser; skips without one, unless root could have installed it."""
    program = shutil.which("chromium")
    if program is None:
        said = "Debian's package chromium is missing; get it with: bash deploy/setup.sh --for-tests"
        if os.geteuid() == 0:
            pytest.fail(said)
        pytest.skip(said)
    with sync_playwright() as playwright:
        # Its sandbox needs a right that neither root nor a container has.
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()
