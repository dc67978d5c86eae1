"""Private streams under attack: sound ones hold and are as tight as they claim, broken twins are caught."""

import numpy as np
import pytest

from fairveil import registry
from fairveil.privacy.noise import SeededNoise
from fairveil.proof import audit, estimate_mu
from fairveil.proof.mutants.mutant import COPIES
from fairveil.proof.pairs import find_pair
from fairveil.proof.pairs.streams import plain_pair, worlds_of

registry.load("mutant")
TWINS = [name for name in COPIES if name.startswith("releaser:")]
UNITS = {
    "sequence": {"horizon": 8},
    "participation": {"horizon": 12, "participation": 3},
    "participation, add-remove": {"horizon": 60, "participation": 3, "neighbours": "add-remove"},
    "offset": {"horizon": 16, "neighbours": "add-remove", "starts": 1},
    "window": {"unit": "window", "window": 4},
    "event": {"unit": "event"},
    "memory": {"unit": "event", "memory": 0.7},
    "window with memory": {"unit": "window", "window": 4, "memory": 0.7},
    "range": {"horizon": 8, "range": [-5.0, 20.0]},
    "geometric": {"schedule": {"kind": "geometric", "ratio": 0.5}},
    "first": {"horizon": 120},
}


def separation(releaser, trials=80_000):
    """mu of the best linear statistic: direction from one half of the trials, measured on the other."""
    zero, one = (releaser.plain_copies(z, trials, SeededNoise(7, w)) for w, z in enumerate(worlds_of(releaser)))
    half = trials // 2
    spread = (np.cov(zero[:half].T) + np.cov(one[:half].T)) / 2
    shift = one[:half].mean(0) - zero[:half].mean(0)
    direction = np.linalg.solve(np.atleast_2d(spread), shift)
    return estimate_mu(zero[half:] @ direction, one[half:] @ direction)


@pytest.mark.parametrize("unit", UNITS)
def test_every_unit_is_as_tight_as_it_claims(unit):
    """At epsilon 3; `bench/streams_audits.py` has more releasers, smaller budgets and more trials."""
    keys = {"name": "private-kalman", "epsilon": 3.0, "delta": 1e-5, **UNITS[unit]}
    releaser = registry.build("releaser", keys, "releaser")
    found = separation(releaser)
    # a stream of 120 steps is watched for 64; an endless one for 8: they show what those steps cost
    share = {"first": 0.01 + 0.99 * 63 / 119, "geometric": 1 - 0.5**8}.get(unit, 1.0)
    assert found.mu == pytest.approx(releaser.plan.mu * np.sqrt(share), rel=0.05)


@pytest.mark.parametrize("unit", ["sequence", "offset", "window", "memory"])
def test_no_event_breaks_the_claim(unit):
    keys = {"name": "private-kalman", "epsilon": 1.0, "delta": 1e-5, **UNITS[unit]}
    pair = plain_pair(registry.build("releaser", keys, "releaser"))
    assert audit(pair, trials=10_000, confidence=1 - 1e-6).verdict == "consistent"


@pytest.mark.parametrize("name", ["ba", "bd", "dft", "fast", "predictive", "private-kalman"])
def test_what_is_shown_holds_its_claim(name):
    pair = registry.get(
        "audit-pair", f"releaser:{name}" + ("/shown" if name in ("predictive", "private-kalman") else "")
    )
    finding = audit(pair(registry.get("releaser", name).example()), trials=500, confidence=1 - 1e-6)
    assert finding.verdict == "consistent"


@pytest.mark.parametrize("twin", TWINS)
def test_every_broken_twin_is_caught(twin):
    pair = COPIES[twin](3.0)
    assert audit(pair, trials=min(pair.trials, 10_000), confidence=1 - 1e-6).verdict == "violated"


@pytest.mark.parametrize("pair", [None, "shown"])
@pytest.mark.parametrize("weight", [0.5, 0.3])
def test_the_audit_of_a_form_with_a_known_flaw_shows_it(pair, weight):
    """Version 0.1.0 said "consistent" of a form whose twin it caught: the pair looked at sizes, not at fractions."""
    keys = {"epsilon": 1.0, "delta": 1e-6, "horizon": 8, "law": "binomial", "weight": weight}
    target = {"kind": "releaser", "name": "predictive", **keys} | ({} if pair is None else {"pair": pair})
    printed, shown = find_pair({**target, "variant": "printed"})
    assert not printed.guarantee().established
    finding = audit(shown, trials=500, confidence=1 - 1e-6)
    assert finding.verdict == "violated"
    assert "fraction" in shown.statistic
    assert "fraction" not in find_pair({**target, "law": "discrete-gaussian"})[1].statistic


@pytest.mark.parametrize("pair", [None, "mean"])
def test_the_audit_of_the_printed_transform_shows_its_scale(pair):
    target = {"kind": "releaser", "name": "dft", "epsilon": 1.0, "horizon": 16, "frequencies": 1, "variant": "printed"}
    shown = find_pair(target | ({} if pair is None else {"pair": pair}))[1]
    assert audit(shown, trials=3_000, confidence=1 - 1e-6).verdict == "violated"
