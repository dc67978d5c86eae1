"""The built pages of the docs in a browser, on a phone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mkdocs")
ROOT = Path(__file__).resolve().parents[2]
BROKEN = """() => [...document.querySelectorAll("article table code")].filter(
    (code) => code.textContent.length < 24 && !/[ /-]/.test(code.textContent) && code.getClientRects().length > 1
).map((code) => code.textContent)"""
"""Names in cells that go over two lines, and not behind a hyphen."""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    place = tmp_path_factory.mktemp("site")
    subprocess.run([sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", place], cwd=ROOT, check=True)
    return place


@pytest.mark.parametrize("page", ["index", "http", "reference", "guides/estimates", "guides/from-personalizer"])
def test_on_a_phone_nothing_of_a_page_is_moved_sideways_and_no_name_in_a_table_is_broken(site, browser, page):
    context = browser.new_context(viewport={"width": 360, "height": 740})
    tab = context.new_page()
    tab.goto((site / f"{page}.html").as_uri())
    tab.wait_for_load_state("load")
    assert tab.evaluate("document.documentElement.scrollWidth") <= 360
    assert tab.evaluate(BROKEN) == []
    wide = "[...document.querySelectorAll('article table')].filter((table) => table.offsetWidth > 344).length"
    assert tab.evaluate(wide) == 0
    context.close()
