"""Mistakes of private values and reports, planted in `fairveil.evaluate.private` and `fairveil.reports`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from fairveil.arrays import Floats
from fairveil.evaluate import private
from fairveil.evaluate.estimators import Estimate
from fairveil.evaluate.private import PrivateValue
from fairveil.privacy.grid import to_units
from fairveil.privacy.noise import Noise, ZeroNoise
from fairveil.privacy.vectors import ONE
from fairveil.proof.mutants import Method, Mutant, in_function, in_its, in_method, rule, twin
from fairveil.reports.evaluation import Evaluation
from fairveil.reports.fairness import FairnessReport
from fairveil.reports.layout import VectorLayout
from fairveil.reports.rows import PlaceRows

TAIL = 1.0809
"""What version 0.1.0 made of Laplace noise at every level: its quantile at .95 in normal ones."""
FEW = 5


@twin
def no_clip(original: Method, self: PrivateValue, weights: Floats, outcomes: Floats, noise: Noise, count: int) -> Any:
    share = np.minimum(weights, 1e6) / self.clip * (outcomes - 0.5)
    return self.mechanism.releases(to_units([share.sum(), (share**2).sum()]), noise, count)


@twin
def data_clip(original: Method, self: PrivateValue, weights: Floats, outcomes: Floats, noise: Noise, count: int) -> Any:
    largest = max(float(weights[np.isfinite(weights)].max(initial=0.0)), 1e-6)
    return original(replace(self, clip=largest), weights, outcomes, noise, count)


@twin
def one_sum(original: Method, self: PrivateValue, weights: Floats, outcomes: Floats, noise: Noise, count: int) -> Any:
    """Half of the budget's noise for each of the two sums: each alone would be covered by it."""
    half = replace(self.mechanism, l1=ONE // 2, square=ONE**2 // 2)
    return half.releases(self.units(weights, outcomes), noise, count)


@twin
def bare_sum(original: Method, self: Any, *given: Any) -> Floats:
    """The last sum goes out without noise: of a value it is only for the interval."""
    *rows, noise, count = given if isinstance(given[-1], int) else (*given, 1)
    found = original(self, *rows, noise, count)
    found[:, -1] = self.units(*rows)[-1] / ONE
    return np.asarray(found)


@twin
def silent_clip(original: Method, self: PrivateValue, *given: Any) -> Estimate:
    """An interval as if no row were clipped."""
    found: Estimate = original(replace(self, largest_weight=self.clip), *given)
    return found


@twin
def uncentred_value(original: Method, self: PrivateValue, weights: Floats, outcomes: Floats) -> Any:
    share = to_units(np.clip(np.minimum(weights, self.clip) / self.clip * np.clip(outcomes, 0, 1), 0, 1))
    return np.array([share.sum(), (share * share // ONE).sum()], np.int64)


@twin
def large_square(original: Method, self: PrivateValue, weights: Floats, outcomes: Floats) -> Any:
    """The second moment is scaled beyond what costs nothing."""
    return original(self, weights, outcomes) * np.array([1, 2 if self.price.laplace else 4])


def _tail_of_95(sampling: float, noise: float, level: float) -> float:
    return private.with_gaussian(sampling, TAIL * noise, level)


@rule
def evaluation_mutants(kind: str, thing: Any) -> list[Mutant]:
    """What applies to every private evaluation by clipped weights."""
    if kind != "evaluation" or not isinstance(thing, PrivateValue):
        return []
    return [
        Mutant("no-clip", "weights that count as they are", in_its("releases", no_clip)),
        Mutant("data-clip", "the largest weight of the log for a public clip",
               in_its("releases", data_clip), by_law=True),
        Mutant("one-sum-paid", "noise for one of the two sums", in_its("releases", one_sum), by_law=True),
        Mutant("shown-square", "a second moment without noise", in_its("releases", bare_sum), by_law=True),
        Mutant("uncentred", "uncentred rewards with the noise of centred ones",
               in_its("units", uncentred_value), by_law=True),
        Mutant("large-square", "a second moment scaled beyond what it costs nothing at",
               in_its("units", large_square), by_law=True),
        Mutant("silent-clip", "an interval that leaves out what clipping hides",
               in_its("estimate", silent_clip), by_law=True),
        Mutant("tail-of-95", "the tail of one level at every level",
               in_function(private.with_laplace, _tail_of_95), by_law=True),
    ]  # fmt: skip


# Reports --------------------------------------------------------------------------------------------------------------


@twin
def raw_suppression(original: Method, self: FairnessReport, rows: PlaceRows, noise: Noise) -> Any:
    found = original(self, rows, noise)
    if rows.group is not None:
        counts = np.bincount(rows.group, minlength=len(self.names))
        found["groups"] = [one for one, count in zip(found["groups"], counts, strict=True) if count >= FEW]
    return found


@twin
def noisy_rate(original: Method, self: FairnessReport, rows: PlaceRows, noise: Noise) -> Any:
    found, drawn = original(self, rows, ZeroNoise()), noise.gaussian(2.0**10, len(self.names))
    for one, moved in zip(found["groups"], drawn.tolist(), strict=True):
        key = "rate" if "rate" in one else "mean"
        one[key]["value"] += moved / ONE
    return found


@twin
def uncentred(original: Method, self: FairnessReport, rows: PlaceRows) -> Any:
    answered, _ = original(self, rows)
    reward = np.zeros(len(rows)) if rows.reward is None else np.clip(np.where(answered, rows.reward, 0.0), 0, 1)
    return answered, to_units(reward).astype(np.float64)


@twin
def blanks_uncounted(original: Method, self: FairnessReport, rows: PlaceRows) -> Any:
    return original(self, rows.counted() if self.blanks else rows)


@twin
def blanks_told(original: Method, self: Evaluation, weights: Floats, rewards: Floats, noise: Noise) -> Any:
    kept = ~np.isnan(rewards)
    return original(self, weights[kept], rewards[kept], noise)


@twin
def one_candidate(original: Method, self: Any, part: Any) -> Any:
    return original(replace(self, most=1), part)


@rule
def report_mutants(kind: str, thing: Any) -> list[Mutant]:
    """What applies to every private report."""
    if kind != "report" or not isinstance(thing, FairnessReport | Evaluation):
        return []
    found = [Mutant("bare-sum", "one sum of the vector goes out without noise", in_its("draws", bare_sum), by_law=True)]
    if isinstance(thing, Evaluation):
        return [
            *found,
            Mutant("blanks-uncounted", "the number of places leaves out those that count for nobody",
                   in_its("release", blanks_told), by_law=True),
            Mutant("large-square", "a second moment scaled beyond what costs nothing",
                   in_method(PrivateValue, "units", large_square), by_law=True),
        ]  # fmt: skip
    return [
        *found,
        Mutant("raw-suppression", "groups are left out by their true size",
               in_its("release", raw_suppression), by_law=True),
        Mutant("blanks-uncounted", "public numbers leave out places that count for nobody",
               in_its("public", blanks_uncounted), by_law=True),
        Mutant("noisy-rate", "noise on the rate instead of the sums", in_its("release", noisy_rate), by_law=True),
        Mutant("one-candidate-moves", "the noise hides one candidate of a place, where all of them may be others",
               in_method(VectorLayout, "_moved", one_candidate), by_law=True),
        Mutant("uncentred", "uncentred rewards with the noise of centred ones",
               in_its("_centred", uncentred), by_law=True),
    ]  # fmt: skip
