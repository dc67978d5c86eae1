"""Mistakes of private reports, planted in `fairveil.reports`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from fairveil.arrays import Floats
from fairveil.evaluate.private import PrivateValue
from fairveil.privacy.grid import to_units
from fairveil.privacy.noise import Noise, ZeroNoise
from fairveil.privacy.vectors import ONE
from fairveil.proof.mutants import Mutant, method, rule
from fairveil.reports.evaluation import Evaluation
from fairveil.reports.fairness import FairnessReport
from fairveil.reports.layout import VectorLayout
from fairveil.reports.rows import PlaceRows

FEW = 5


def raw_suppression(original: Any) -> Any:
    def broken(self: FairnessReport, rows: PlaceRows, noise: Noise) -> Any:
        found = original(self, rows, noise)
        if rows.group is not None:
            counts = np.bincount(rows.group, minlength=len(self.names))
            found["groups"] = [one for one, count in zip(found["groups"], counts, strict=True) if count >= FEW]
        return found

    return broken


def noisy_rate(original: Any) -> Any:
    def broken(self: FairnessReport, rows: PlaceRows, noise: Noise) -> Any:
        found, drawn = original(self, rows, ZeroNoise()), noise.gaussian(2.0**10, len(self.names))
        for one, moved in zip(found["groups"], drawn.tolist(), strict=True):
            key = "rate" if "rate" in one else "mean"
            one[key]["value"] += moved / ONE
        return found

    return broken


def bare_sum(original: Any) -> Any:
    def broken(self: Any, *given: Any) -> Floats:
        *rows, noise, count = given if isinstance(given[-1], int) else (*given, 1)
        found = original(self, *rows, noise, count)
        found[:, -1] = self.units(*rows)[-1] / ONE
        return np.asarray(found)

    return broken


def uncentred(original: Any) -> Any:
    def broken(self: FairnessReport, rows: PlaceRows) -> Any:
        answered, _ = original(self, rows)
        reward = np.zeros(len(rows)) if rows.reward is None else np.clip(np.where(answered, rows.reward, 0.0), 0, 1)
        return answered, to_units(reward).astype(np.float64)

    return broken


def blanks_uncounted(original: Any) -> Any:
    def broken(self: FairnessReport, rows: PlaceRows) -> Any:
        return original(self, rows.counted() if self.blanks else rows)

    return broken


def blanks_told(original: Any) -> Any:
    def broken(self: Evaluation, weights: Floats, rewards: Floats, noise: Noise) -> Any:
        kept = ~np.isnan(rewards)
        return original(self, weights[kept], rewards[kept], noise)

    return broken


def one_candidate(original: Any) -> Any:
    return lambda self, part: original(replace(self, most=1), part)


def large_square(original: Any) -> Any:
    def broken(self: PrivateValue, weights: Floats, outcomes: Floats) -> Any:
        return original(self, weights, outcomes) * np.array([1, 2])

    return broken


@rule
def report_mutants(kind: str, thing: Any) -> list[Mutant]:
    """What applies to every private report."""
    if kind != "report" or not isinstance(thing, FairnessReport | Evaluation):
        return []
    found = [
        Mutant("bare-sum", "one sum of the vector goes out without noise",
               lambda report: method(type(report), "draws", bare_sum), by_law=True),
    ]  # fmt: skip
    if isinstance(thing, Evaluation):
        return [
            *found,
            Mutant("blanks-uncounted", "the number of places leaves out those that count for nobody",
                   lambda report: method(type(report), "release", blanks_told), by_law=True),
            Mutant("large-square", "a second moment scaled beyond what costs nothing",
                   lambda report: method(PrivateValue, "units", large_square), by_law=True),
        ]  # fmt: skip
    return [
        *found,
        Mutant("raw-suppression", "groups are left out by their true size",
               lambda report: method(type(report), "release", raw_suppression), by_law=True),
        Mutant("blanks-uncounted", "public numbers leave out places that count for nobody",
               lambda report: method(type(report), "public", blanks_uncounted), by_law=True),
        Mutant("noisy-rate", "noise on the rate instead of the sums",
               lambda report: method(type(report), "release", noisy_rate), by_law=True),
        Mutant("one-candidate-moves", "the noise hides one candidate of a place, where all of them may be others",
               lambda report: method(VectorLayout, "_moved", one_candidate), by_law=True),
        Mutant("uncentred", "uncentred rewards with the noise of centred ones",
               lambda report: method(type(report), "_centred", uncentred), by_law=True),
    ]  # fmt: skip
