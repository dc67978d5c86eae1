from __future__ import annotations

import shutil

import pytest

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        path = shutil.which("chromium") or shutil.which("google-chrome")
        opened = driver.chromium.launch(executable_path=path, headless=True, args=FLAGS)
        yield opened
        opened.close()
