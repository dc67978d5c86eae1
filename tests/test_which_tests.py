"""A reader finds the tests of every module."""

from __future__ import annotations

import which_tests


def test_every_module_leads_to_tests_that_exist():
    told = {module: which_tests.tests_of(module) for module in which_tests.MODULES if module != "fairveil"}
    code = [module for module in told if "def " in which_tests.MODULES[module].read_text()]
    assert not [module for module in code if not told[module] and not module.endswith("__main__")]


def test_the_page_is_as_made():
    assert (which_tests.ROOT / "docs" / "tests.md").read_text() == which_tests.page(), "run make which-tests"


def test_a_file_of_its_name_comes_first():
    assert which_tests.tests_of("fairveil.bandits.nash.private_nash")[0].stem == "test_private_nash"
    assert which_tests.tests_of("fairveil.streams.releasers.dft")[0].stem == "test_dft"
