"""Compiled code: picked by kind, kept between processes under its sources, and never shared with plug-ins."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import FunctionType

import numpy as np
from numba.core.bytecode import ByteCode, FunctionIdentity
from numba.core.dispatcher import Dispatcher

from fairveil import compiling, plugins, registry
from fairveil.bandits.environments.bernoulli import Bernoulli
from fairveil.bandits.nash.index import explored, index, kept, taken
from fairveil.bandits.nash.rounds import RoundSimulator
from fairveil.bandits.simulate import Case, StepSimulator, Streams

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


def test_code_of_other_sources_is_not_read_and_makes_room(tmp_path):
    """A file is named by what it was made of: one of another digest is never opened, whatever it may name."""
    files = compiling.KernelFiles(str(tmp_path), "rounds.play-12.py311")
    gone = b"cfairveil.compiling\nGone\n."  # a pickle that asks for fairveil.compiling.Gone
    (tmp_path / files._name(("types", "before"))).write_bytes(gone)
    (tmp_path / files._name(("others", "before"))).write_bytes(gone)
    assert files.load(("types", "now")) is None
    files.save(("types", "now"), 1)
    assert files.load(("types", "now")) == 1
    assert not (tmp_path / files._name(("types", "before"))).exists()
    assert (tmp_path / files._name(("others", "before"))).exists()
    assert "12" not in files._name(("types", "now"))  # a line above the function is not a change of it


def test_kernels_take_njit_from_here():
    """Otherwise their cached code would not know that a callee in another file has changed."""
    for file in SOURCES.rglob("*.py"):
        if file != Path(compiling.__file__):
            assert not re.search(r"^from numba import .*\bn?jit\b", file.read_text(), re.M), file


def kernels():
    """Every compiled function that is kept between processes."""
    registry.load()
    found = {}
    for name, module in list(sys.modules.items()):
        if not name.startswith("fairveil."):
            continue
        for value in vars(module).values():
            if isinstance(value, compiling.Kernel):
                value = value.shared
            if isinstance(value, Dispatcher) and type(value._cache).__name__ != "NullCache":
                found[value.py_func.__module__, value.py_func.__qualname__] = value.py_func
    return found


FORMULAS = (index, taken, kept, explored)


def every_kind():
    """Kinds of ours: what a plug-in of another test has left in this process is not kept."""
    found = {kind for function in FORMULAS for kind in function.bodies if kind.__module__.startswith("fairveil.")}
    return sorted(found, key=lambda kind: kind.__module__)


def reached(function, kinds):
    """Functions and (function, name) of constants by numba's own reading of the bytecode, callees included."""
    functions, constants, waiting = {}, [], [function]
    while waiting:
        one = waiting.pop()
        if id(one) in functions or not one.__module__.startswith("fairveil"):
            continue
        functions[id(one)] = one
        used = ByteCode(FunctionIdentity.from_function(one)).get_used_globals()
        inside = dict(zip(one.__code__.co_freevars, (cell.cell_contents for cell in one.__closure__ or ())))
        waiting += [body for kind in kinds if (body := getattr(one, "bodies", {}).get(kind)) is not None]
        for name, value in (used | inside).items():
            value = value.function if isinstance(value, compiling.Kernel) else getattr(value, "py_func", value)
            if isinstance(value, FunctionType):
                waiting.append(value)
            elif isinstance(value, bool | int | float | np.ndarray | tuple) and name in used:
                constants.append((one, name, value))
    return list(functions.values()), constants


def changed(value):
    if isinstance(value, np.ndarray):
        return np.concatenate([value.ravel(), value.ravel()[:1]])
    if isinstance(value, float):
        return math.nextafter(value, math.inf)
    return (*value, 1) if isinstance(value, tuple) else value + 1


def test_a_change_of_anything_that_compiled_code_can_reach_changes_its_key():
    """One missed callee or constant, and an old noise scale would run in silence."""
    found, kinds, looked_at = kernels(), every_kind(), 0
    assert len(kinds) > 5
    for function in found.values():
        for kind in [None, *kinds]:
            key = partial(digest_for, function, kind)
            before = key()
            functions, constants = reached(function, [] if kind is None else [kind])
            if kind is not None and not any(body in functions for body in bodies_of(kind)):
                continue  # this kernel calls no formula of a kind
            for callee in functions:
                code = callee.__code__
                try:
                    callee.__code__ = code.replace(co_consts=(*code.co_consts, "changed"))
                    assert key() != before, (function.__qualname__, callee.__qualname__)
                finally:
                    callee.__code__ = code
                looked_at += 1
            for owner, name, value in constants:
                try:
                    owner.__globals__[name] = changed(value)
                    assert key() != before, (function.__qualname__, owner.__qualname__, name)
                finally:
                    owner.__globals__[name] = value
                looked_at += 1
            assert key() == before
    assert looked_at > 1000


def test_the_key_of_a_kernel_is_the_same_in_every_process():
    """A set of options in the order of its hashes gave every process a key, and a compilation, of its own."""
    script = (
        "from fairveil import compiling\n"
        "from fairveil.streams.filters.kalman_bank import filter_bank\n"
        "from fairveil.streams.releasers import predictive\n"
        "made_of = compiling._Reached([])\n"
        "for one in (filter_bank, *vars(predictive).values()):\n"
        "    if isinstance(one, compiling.Dispatcher): made_of.add(one)\n"
        "print('\\n'.join(made_of.lines))\n"
    )
    found = set()
    for seed in ("1", "2", "3"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(SOURCES.parent)}
        found.add(
            subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, check=True).stdout
        )
    assert len(found) == 1
    assert b"reassoc" in found.pop()


def bodies_of(kind):
    return [body for function in FORMULAS if (body := function.bodies.get(kind)) is not None]


def digest_for(function, kind):
    made_of = compiling._Reached([] if kind is None else [kind])
    made_of.add(function)
    return "\n".join(made_of.lines)


def test_what_numba_compiles_for_a_run_is_what_the_key_reads(tmp_path):
    """Numba's own list of what it compiled, callees included, in a process without compiled code."""
    script = (
        "import json, sys, fairveil\n"
        "from numba.core import event\n"
        "from fairveil import compiling\n"
        "stack, seen, missed = [], [], []\n"
        "def named(function): return f'{function.__module__}.{function.__qualname__}'\n"
        "class Listener(event.Listener):\n"
        "    def on_start(self, event):\n"
        "        stack.append((event.data['dispatcher'], event.data['args']))\n"
        "        callee, (outer, args) = stack[-1][0].py_func, stack[0]\n"
        "        if not outer.py_func.__module__.startswith('fairveil') or '.compiling' in callee.__module__: return\n"
        "        made_of = compiling._Reached([k for k in compiling._kinds(args) if isinstance(k, type)])\n"
        "        made_of.add(outer)\n"
        "        if callee.__module__.startswith('fairveil'):\n"
        "            seen.append(named(callee))\n"
        "            missed.extend([seen[-1]] if seen[-1] not in made_of.lines else [])\n"
        "    def on_end(self, event): stack.pop()\n"
        "translated, real = [], compiling._numbas_executable\n"
        "compiling._numbas_executable = lambda *given: translated.append(given) or real(*given)\n"
        "with event.install_listener('numba:compile', Listener()):\n"
        "    fairveil.run({'task': 'bandit', 'policy': {'name': 'ucb'}, 'rounds': 300,\n"
        "                  'environment': {'name': 'bernoulli', 'means': [0.3, 0.6]}})\n"
        "print(json.dumps([seen, missed, len(translated)]))\n"
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(SOURCES.parent)}
    found = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    compiled, missed, translated = json.loads(found.stdout.splitlines()[-1])
    assert len(compiled) > 10
    assert translated <= 12  # machine code is made for entry points, not for everything that they call
    assert missed == []


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
    assert not any(b"plugin" in entry.read_bytes() for entry in cache.rglob("*.nbc"))
    _, compiled = in_new_process(cache, "ucb")
    assert compiled == 0  # read from the cache that the plug-in's run has left alone
    file.write_text(MOSS.replace("numbers.width * max", "9.0 * numbers.width * max"))
    edited, _ = in_new_process(cache, "moss-test", file)
    assert edited != first
