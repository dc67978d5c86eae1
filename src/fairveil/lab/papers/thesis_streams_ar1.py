"""Real-time release of sequential data: figures 3.8 and 3.9 of the thesis, on generated AR(1) sequences."""

from __future__ import annotations

import math

from fairveil.lab.artefact import Artefact, Chart, Claim, Line, Picture, Results, Scale, Spec, Table, last, readable
from fairveil.privacy.conversions import gdp_epsilon
from fairveil.registry import register

DELTA = 1e-7
ROWS = 1000
NOISE = (0.3, 1.0, 3.0, 10.0)
RUNS = {"quick": 16, "standard": 16, "paper": 30}
RHOS = (0.1, 0.5, 0.9)
WEIGHTS = (0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95, 1.0)
NAMES = {"known": "known parameters", "estimated": "estimated parameters", "corrected": "corrected estimator"}


def spec_of(keys: Spec, data: Spec, noise: float, runs: int) -> Spec:
    """A releaser at the budget whose plain noise has this std (sensitivity 1)."""
    mu = level_mu(noise)
    return {"task": "stream", "releaser": {**keys, "mu": mu}, "data": data, "runs": runs, "seed": 23}


def level_mu(noise: float) -> float:
    """mu of a whole sequence with plain noise of this std, sensitivity 1."""
    return math.sqrt(ROWS) / noise


def level_epsilon(noise: float) -> str:
    """The same as an epsilon, in words."""
    return f"epsilon {readable(gdp_epsilon(level_mu(noise), DELTA))} at delta {DELTA:g}"


def cost_table(levels: dict[str, float]) -> Table:
    """What levels of noise cost the person whose whole sequence it is."""
    rows = tuple(
        (name, readable(noise), readable(level_mu(noise)), readable(gdp_epsilon(level_mu(noise), DELTA)))
        for name, noise in levels.items()
    )
    columns = ("level", "std of the plain noise", "mu", f"epsilon at {DELTA:g}")
    return Table("What a level of noise costs, for whole sequences and sensitivity 1", columns, rows)


def weighted(kind: str, weight: float, data: Spec) -> Spec:
    keys: Spec = {"name": "predictive", "weight": weight}
    if kind == "known":
        keys["known"] = {"mean": 0.0, "std": data["std"], "correlation": data["correlation"]}
    return {**keys, "estimator": "corrected"} if kind == "corrected" else keys


def rmse(results: Results, label: str) -> tuple[float, float]:
    return last(results[label], "rmse")


def best(results: Results, start: str) -> tuple[float, float]:
    """The smallest error with a weight below 1 (the baseline) among labels that begin so."""
    return min(rmse(results, label) for label in results if label.startswith(start) and not label.endswith(", 1"))


@register("artefact", "thesis/3.8")
class Figure38(Artefact):
    """Which weight is best, for weak and strong correlation and weak and strong privacy."""

    title = "Figure 3.8: error against weight for AR(1) sequences"
    source = "section 3.8"
    notes = (
        "Z_t is N(0, 1), T = 1000; noise levels are those of the plain release in stds of the sequence",
        "with sensitivity 1 every level but the highest is far beyond what anybody would call private",
    )

    def specs(self, scale: Scale) -> dict[str, Spec]:
        made = {}
        for noise in NOISE:
            for rho in RHOS:
                data = {"name": "ar1", "rows": ROWS, "correlation": rho, "std": 1.0}
                for kind in ("known", "estimated"):
                    for weight in WEIGHTS:
                        keys = weighted(kind, weight, data)
                        made[f"{noise:g}, {rho:g}, {kind}, {weight:g}"] = spec_of(keys, data, noise, RUNS[scale])
                made[f"{noise:g}, {rho:g}, ours"] = spec_of({"name": "private-kalman"}, data, noise, RUNS[scale])
        return made

    def pictures(self, results: Results) -> list[Picture]:
        made: list[Picture] = []
        for noise in NOISE:
            lines = []
            for rho in RHOS:
                y = tuple(rmse(results, f"{noise:g}, {rho:g}, estimated, {w:g}")[0] for w in WEIGHTS)
                lines.append(Line(f"correlation {rho:g}", WEIGHTS, y))
                ours = rmse(results, f"{noise:g}, {rho:g}, ours")[0]
                lines.append(Line(f"ours, correlation {rho:g}", WEIGHTS, (ours,) * len(WEIGHTS), dashed=True))
            title = f"Noise {noise:g} stds ({level_epsilon(noise)}), parameters estimated"
            made.append(Chart(title, "weight (1: baseline)", "root mean squared error", tuple(lines), log_x=True))
        return [*made, cost_table({f"{noise:g} stds": noise for noise in NOISE})]

    def claims(self, results: Results) -> list[Claim]:
        made = []
        for noise in NOISE:
            pairs = [
                (rmse(results, f"{noise:g}, {rho:g}, estimated, 1"), best(results, f"{noise:g}, {rho:g}, estimated"))
                for rho in RHOS
            ]
            parts = [Claim.difference("", "", *plain, *tuned) for plain, tuned in pairs]
            text = f"(i) with noise of {noise:g} stds some weight beats the baseline, for every correlation"
            made.append(Claim.every(text, "figure 3.8", parts, level_epsilon(noise)))
        levels = [("known", 3.0), ("known", 10.0), *(("estimated", noise) for noise in NOISE)]
        for kind, noise in levels:
            weak, strong = (best(results, f"{noise:g}, {rho:g}, {kind}") for rho in (0.1, 0.9))
            privacy = "(ii) with strong privacy" if noise > 1.0 else "(i) with weak privacy"
            text = f"{privacy} ({noise:g} stds, {NAMES[kind]}) the best error falls with the correlation"
            made.append(Claim.difference(text, "figure 3.8", *weak, *strong, note=level_epsilon(noise)))
        return [*made, *self._second(results)]

    def _second(self, results: Results) -> list[Claim]:
        """Claim (ii): weak privacy (the smallest noise) against strong (the largest), parameters estimated."""
        least, gains = {}, {}
        for noise in (NOISE[0], NOISE[-1]):
            for rho in RHOS:
                plain = rmse(results, f"{noise:g}, {rho:g}, estimated, 1")[0]
                errors = {w: rmse(results, f"{noise:g}, {rho:g}, estimated, {w:g}")[0] for w in WEIGHTS}
                least[noise, rho] = min((w for w in WEIGHTS if errors[w] < plain), default=1.0)
                gains[noise, rho] = math.log(plain / min(errors.values()))
        weak, strong, where = NOISE[0], NOISE[-1], "figure 3.8 (ii)"
        (low, a), (high, b) = (
            end(best(results, f"{weak:g}, {rho:g}, estimated") for rho in RHOS) for end in (min, max)
        )
        said = f"weak privacy ({weak:g} stds)"
        return [
            Claim.exact(f"(ii) {said}: the smallest weight that improves is near 1 (above .5)", where,
                        min(least[weak, rho] for rho in RHOS) - 0.5),
            Claim.exact(f"(ii) strong privacy ({strong:g} stds): the smallest such weight is near 0 (below .1)", where,
                        0.1 - max(least[strong, rho] for rho in RHOS)),
            Claim.exact("(ii) the achievable improvement is larger with strong privacy", where,
                        min(gains[strong, rho] - gains[weak, rho] for rho in RHOS)),
            Claim.difference(f"(ii) {said}: the lowest errors are similar for all correlations (within 10 %)", where,
                             math.log(1.1), 0.0, math.log(high / low), math.hypot(a / low, b / high)),
        ]  # fmt: skip


def spread_of(rho: float) -> float:
    """Std of the sequence of figure 3.9."""
    return math.sqrt(10.0 / (1 - rho**2))


@register("artefact", "thesis/3.9")
class Figure39(Artefact):
    """What estimating the parameters costs."""

    title = "Figure 3.9: estimated against known parameters"
    source = "section 3.8"
    notes = (
        "U_t is N(0, 10), read as variance 10; the sequence starts in its stationary law",
        "the printed estimator shrinks the correlation twice; the corrected one once",
    )

    def specs(self, scale: Scale) -> dict[str, Spec]:
        made = {}
        for rho in (0.1, 0.8):
            std = spread_of(rho)
            data = {"name": "ar1", "rows": ROWS, "correlation": rho, "std": std}
            for kind in NAMES:
                for weight in WEIGHTS:
                    keys = weighted(kind, weight, data)
                    made[f"{rho:g}, {kind}, {weight:g}"] = spec_of(keys, data, 2 * std, 2 * RUNS[scale])
            made[f"{rho:g}, ours"] = spec_of({"name": "private-kalman"}, data, 2 * std, 2 * RUNS[scale])
        return made

    def pictures(self, results: Results) -> list[Picture]:
        made: list[Picture] = []
        for rho in (0.1, 0.8):
            lines = []
            for kind, words in NAMES.items():
                y = tuple(rmse(results, f"{rho:g}, {kind}, {w:g}")[0] for w in WEIGHTS)
                lines.append(Line(words, WEIGHTS, y))
            ours = rmse(results, f"{rho:g}, ours")[0]
            lines.append(Line("private-kalman (ours)", WEIGHTS, (ours,) * len(WEIGHTS), dashed=True))
            title = f"Correlation {rho:g}, noise 2 stds ({level_epsilon(2 * spread_of(rho))})"
            made.append(Chart(title, "weight (1: baseline)", "root mean squared error", tuple(lines), log_x=True))
        return [*made, cost_table({f"2 stds, correlation {rho:g}": 2 * spread_of(rho) for rho in (0.1, 0.8)})]

    def claims(self, results: Results) -> list[Claim]:
        made = []
        for rho in (0.1, 0.8):
            known, estimated = (best(results, f"{rho:g}, {kind}") for kind in ("known", "estimated"))
            base, note = rmse(results, f"{rho:g}, estimated, 1"), level_epsilon(2 * spread_of(rho))
            text = f"correlation {rho:g}: estimating the parameters costs accuracy"
            made.append(Claim.difference(text, "figure 3.9", *estimated, *known, note=note))
            text = f"correlation {rho:g}: with estimates the error is well (a tenth) below the baseline"
            made.append(Claim.difference(text, "figure 3.9", 0.9 * base[0], 0.9 * base[1], *estimated, note=note))
        return made
