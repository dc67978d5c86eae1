"""Compiled code: picked by kind, kept between processes under its sources, and never shared with plug-ins."""

from __future__ import annotations

import json
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numba.core import caching

from fairveil import compiling, plugins, registry
from fairveil.bandits.environments.bernoulli import Bernoulli
from fairveil.bandits.nash.rounds import RoundSimulator
from fairveil.bandits.nash.runs import StepSimulator
from fairveil.bandits.simulate import Case, Streams

SOURCES = Path(compiling.__file__).parent
MOSS = '''
import math
from typing import NamedTuple

from fairveil.bandits.nash.index import index_of
from fairveil.bandits.nash.rounds import RISING, Habits
from fairveil.bandits.nash.sequential import SequentialPolicy
from fairveil.configuration import configuration
from fairveil.fields import Count, Positive
from fairveil.registry import register


class Numbers(NamedTuple):
    width: float
    arms: int


@index_of(Numbers)
def index(numbers, mean, n, log_now, draws):
    return mean + math.sqrt(numbers.width * max(0.0, log_now - math.log(numbers.arms * n)) / n)


@register("policy", "moss-test")
@configuration
class Moss(SequentialPolicy):
    """MOSS. Guarantee: none. Cost: none. >>> 1"""

    arms: Count
    width: Positive = 0.5
    strict: bool = False

    def numbers(self):
        return Numbers(self.width, self.arms)

    def habits(self):
        return Habits(pace=RISING)
'''


def test_an_index_of_other_sources_is_not_read(tmp_path):
    """It may name a kind that is gone: whoever updates would meet an error in code that was compiled before."""
    before, now = (caching.IndexDataCacheFile(str(tmp_path), "kernel", stamp) for stamp in ("before", "now"))
    gone = b"cfairveil.compiling\nGone\n."  # a pickle that asks for fairveil.compiling.Gone
    (tmp_path / "kernel.nbi").write_bytes(pickle.dumps(before._version) + gone)
    with pytest.raises(AttributeError, match="Gone"):
        before.load("key")
    assert now.load("key") is None
    now.save("key", 1)
    assert now.load("key") == 1
    assert before.load("key") is None


def test_kernels_take_njit_from_here():
    """Otherwise their cached code would not know that a callee in another file has changed."""
    for file in SOURCES.rglob("*.py"):
        if file != Path(compiling.__file__):
            assert not re.search(r"^from numba import .*\bn?jit\b", file.read_text(), re.M), file


def test_a_stamp_knows_callees_and_constants_in_other_files(tmp_path, monkeypatch):
    """The kernel's folder and all it imports count; a file that nothing imports does not."""
    package = tmp_path / "fairveil"
    (package / "inner").mkdir(parents=True)
    files = {
        "inner/kernel.py": "from fairveil.inner import callee\nfrom fairveil.constants import (\n    A,\n)\n",
        "inner/callee.py": "x = 1\n",
        "inner/formula.py": "y = 1\n",
        "constants.py": "from fairveil.deeper import B\nA = B\n",
        "deeper.py": "B = 1\n",
        "elsewhere.py": "C = 1\n",
    }
    for name, text in files.items():
        (package / name).write_text(text)
    monkeypatch.setattr(compiling, "PACKAGE", package)

    def stamp():
        compiling.stamp.cache_clear()
        compiling._source.cache_clear()
        return compiling.stamp(package / "inner" / "kernel.py")

    try:
        before = stamp()
        for name in ("inner/callee.py", "inner/formula.py", "constants.py", "deeper.py"):
            (package / name).write_text(files[name] + "z = 2\n")
            assert stamp() != before, name
            (package / name).write_text(files[name])
            assert stamp() == before, name
        (package / "elsewhere.py").write_text("C = 2\n")
        assert stamp() == before
    finally:
        compiling.stamp.cache_clear()
        compiling._source.cache_clear()


def test_a_plug_in_of_one_formula_has_the_compiled_simulator(tmp_path):
    """At most 40 lines; the simulator decides the arms of the step API."""
    file = tmp_path / "moss.py"
    file.write_text(MOSS)
    assert len(MOSS.splitlines()) <= 40
    with registry.isolated():
        plugins.load_file(file)
        policy, world = registry.build("policy", {"name": "moss-test", "arms": 5}, "policy"), Bernoulli(arms=5)
        case = Case.of(policy, world, 600)
        fast = policy.simulator(case, Streams.of(1, 0))
        assert isinstance(fast, RoundSimulator)
        assert np.array_equal(fast.advance(600).codes, StepSimulator(case, Streams.of(1, 0)).advance(600).codes)


def in_new_process(cache, name, plugin=None):
    """Pull shares of a run, and how many kernels were compiled anew."""
    script = (
        "import json, sys, fairveil\n"
        "from fairveil import plugins\n"
        "from fairveil.bandits.nash.rounds import play\n"
        "if sys.argv[2]: plugins.load_file(sys.argv[2])\n"
        "spec = {'task': 'bandit', 'policy': {'name': sys.argv[1]}, 'rounds': 3000, 'seed': 4,\n"
        "        'environment': {'name': 'bernoulli', 'means': [0.3, 0.5, 0.6]}}\n"
        "share = fairveil.run(spec)['metrics']['pull_share']\n"
        "print(json.dumps([share, sum(play.shared.stats.cache_misses.values())]))\n"
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": str(SOURCES.parent)}
    found = subprocess.run(
        [sys.executable, "-c", script, name, str(plugin or "")],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return json.loads(found.stdout.splitlines()[-1])


def test_a_plug_in_then_a_built_in_in_a_new_process_then_the_edited_plug_in(tmp_path):
    cache, file = tmp_path / "cache", tmp_path / "moss.py"
    file.write_text(MOSS)
    in_new_process(cache, "ucb")
    first, _ = in_new_process(cache, "moss-test", file)
    assert not any(b"plugin" in entry.read_bytes() for entry in cache.rglob("*.nbi"))
    _, compiled = in_new_process(cache, "ucb")
    assert compiled == 0  # read from the cache that the plug-in's run has left alone
    file.write_text(MOSS.replace("numbers.width * max", "9.0 * numbers.width * max"))
    edited, _ = in_new_process(cache, "moss-test", file)
    assert edited != first
