"""Real-time release of sequential data: figures 3.4 to 3.7 and 3.10 of the thesis, on recorded sequences.

Errors are the printed relative error, ||z - x||_2/(T max|z|). What is marked best is chosen on the true error, as in
the thesis, which reads the data. Our `private-kalman` is dashed, at the same budget; it knows the public calendar only.
"""

from __future__ import annotations

import math
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from fairveil.lab.artefact import Chart, Claim, Line, Picture, Results, Scale, Spec, Table, have, readable
from fairveil.lab.papers.thesis_streams_runs import (
    DELTA,
    DFT,
    FAST,
    LEVELS,
    MATCHED,
    METHODS,
    ORACLE,
    OURS,
    PROPOSED,
    RUNS,
    SEARCHED,
    Pairs,
    StreamArtefact,
    at_epsilon,
    at_level,
    curves,
    error,
    facts,
    generally,
    larger_lead,
    sequences,
    smaller,
    spec_of,
)
from fairveil.privacy.conversions import gdp_epsilon
from fairveil.registry import register


@register("artefact", "thesis/3.4")
class Figure34(StreamArtefact):
    """Proposed, FAST, DFT and the baselines at equal epsilon, and at equal variance."""

    title = "Figure 3.4: errors at equal epsilon and at equal variance"
    source = "section 3.8"
    notes = (ORACLE, MATCHED, SEARCHED, "the DFT scale is the sound one; the printed one is sqrt(T) too small")

    def _levels(self, scale: Scale) -> tuple[dict[str, tuple[float, ...]], tuple[float, ...]]:
        epsilons: tuple[float, ...] = (0.1, 1.0, 10.0) if scale == "quick" else (0.05, 0.2, 1.0, 5.0, 20.0)
        by_name = {name: tuple(e / 100 for e in epsilons) if name == "traffic" else epsilons for name in sequences()}
        return by_name, LEVELS

    def specs(self, scale: Scale) -> dict[str, Spec]:
        by_name, levels = self._levels(scale)
        made = {}
        for name, (table, seasons) in sequences().items():
            steps, std = facts(table)
            for label, method in METHODS.items():
                for epsilon in by_name[name]:
                    budget = at_epsilon(method, epsilon)
                    made[f"{name}, eps {epsilon:g} | {label}"] = spec_of(method, budget, table, RUNS[scale], seasons)
                for level in levels:
                    budget = at_level(method, steps, level * std)
                    made[f"{name}, noise {level:g} | {label}"] = spec_of(method, budget, table, RUNS[scale], seasons)
        return made

    def _cells(self, results: Results, kind: str) -> dict[str, list[tuple[float, str]]]:
        found: dict[str, list[tuple[float, str]]] = {}
        for label in results:
            cell = label.split(" | ")[0]
            name, _, level = cell.partition(f", {kind} ")
            if level and (float(level), cell) not in found.setdefault(name, []):
                found[name].append((float(level), cell))
        return found

    def pictures(self, results: Results) -> list[Picture]:
        made: list[Picture] = []
        for name, cells in self._cells(results, "eps").items():
            made.append(curves(results, f"{name}: equal epsilon", METHODS, cells, "epsilon of the whole sequence"))
        for name, cells in self._cells(results, "noise").items():
            made.append(curves(results, f"{name}: equal variance", METHODS, cells, "noise in stds of the sequence"))
        return [*made, self._table(results)]

    def _table(self, results: Results) -> Table:
        rows = []
        for name, cells in self._cells(results, "noise").items():
            for level, cell in cells:
                laplace = results[f"{cell} | baseline-Laplace"]["metrics"]["spent"]["epsilon"]
                mu = results[f"{cell} | baseline-Normal"]["metrics"]["spent"]["mu"]
                rows.append((name, level, readable(laplace), readable(mu), readable(gdp_epsilon(mu, DELTA))))
        columns = (
            "sequence",
            "noise in stds",
            "epsilon of Laplace (pure)",
            "mu of Gaussian",
            f"its epsilon at {DELTA:g}",
        )
        return Table("What equal variance costs", columns, tuple(rows))

    def claims(self, results: Results) -> list[Claim]:
        def pairs(kind: str, first: str, second: str, most: float = math.inf) -> Pairs:
            cells = [c for found in self._cells(results, kind).values() for level, c in found if level <= most]
            return [(f"{cell} | {first}", f"{cell} | {second}") for cell in cells]

        fast, dft, normal = FAST, DFT, "baseline-Normal"
        where = "figure 3.4"
        against = pairs("noise", PROPOSED, fast)
        low, high = ([(a, b) for a, b in against if f", noise {level:g} " in a] for level in (0.1, 10))
        late = [(a, b) for a, b in pairs("noise", PROPOSED, dft) if ", noise 10 " in a]
        ratio = max(error(results, a)[0] / error(results, b)[0] for a, b in late)
        return [
            smaller(results, "at equal epsilon the proposed method is below baseline-Normal", where,
                    pairs("eps", PROPOSED, normal)),
            smaller(results, "at equal epsilon the proposed method is below FAST", where, pairs("eps", PROPOSED, fast),
                    "FAST pays pure epsilon: the gap is the composition"),
            generally(results, "at equal epsilon DFT is generally better", where, pairs("eps", dft, PROPOSED)),
            smaller(results, "at equal variance the proposed method outperforms FAST", where, against, "all levels"),
            larger_lead(results, "and its lead over FAST is larger at high privacy", where, high, low),
            smaller(results, "at equal variance DFT is better", where, pairs("noise", dft, PROPOSED)),
            Claim.exact("at high noise the proposed method is similar to DFT (within 20 %)", where, 1.2 - ratio,
                        f"worst ratio {ratio:.2f} at 10 stds of noise"),
        ]  # fmt: skip


@register("artefact", "thesis/3.5")
class Figure35(StreamArtefact):
    """DFT in windows: what a delay buys."""

    title = "Figure 3.5: DFT in windows, error against delay"
    source = "section 3.8"
    notes = (ORACLE,)

    def specs(self, scale: Scale) -> dict[str, Spec]:
        delays = (1, 4, 24, 94, 376) if scale == "quick" else (1, 2, 4, 8, 24, 47, 94, 188, 376)
        name = "traffic" if "traffic" in sequences() else "generated days"
        table, seasons = sequences()[name]
        runs = 3 * RUNS[scale]
        made = {}
        for epsilon in (1.0,) if scale == "quick" else (0.1, 1.0):
            budget = {"epsilon": epsilon}
            made[f"eps {epsilon:g} | baseline-Laplace"] = spec_of({"name": "baseline-laplace"}, budget, table, runs, [])
            gaussian = {"epsilon": epsilon, "delta": DELTA}
            made[f"eps {epsilon:g} | {OURS}"] = spec_of({"name": "private-kalman"}, gaussian, table, runs, seasons)
            for delay in delays:
                dft = {"name": "dft", "frequencies": "oracle", "delay": delay}
                made[f"eps {epsilon:g} | DFT {delay}"] = spec_of(dft, budget, table, runs, [])
        return made

    def pictures(self, results: Results) -> list[Picture]:
        made: list[Picture] = []
        for epsilon in dict.fromkeys(label.split(" | ")[0] for label in results):
            dft = [label for label in results if label.startswith(f"{epsilon} | DFT")]
            x = tuple(float(label.split()[-1]) for label in dft)
            lines = [Line("DFT in windows", x, tuple(error(results, label)[0] for label in dft))]
            for method in ("baseline-Laplace", OURS):
                flat = (error(results, f"{epsilon} | {method}")[0],) * len(x)
                lines.append(Line(method, x, flat, dashed=method == OURS))
            made.append(Chart(f"Traffic, {epsilon}", "steps of a window", "relative error", tuple(lines), log_x=True))
        return made

    def claims(self, results: Results) -> list[Claim]:
        one = [label for label in results if label.endswith("DFT 1")]
        gaps = [
            abs(math.log(error(results, o)[0] / error(results, o.replace("DFT 1", "baseline-Laplace"))[0])) for o in one
        ]
        pairs: Pairs = []
        for epsilon in dict.fromkeys(label.split(" | ")[0] for label in results):
            found = [label for label in results if label.startswith(f"{epsilon} | DFT")]
            pairs += [(after, before) for before, after in pairwise(found)]
        return [
            Claim.exact("without delay DFT equals baseline-Laplace (within 5 %)", "figure 3.5", 0.05 - max(gaps)),
            smaller(results, "the error falls as the delay grows", "figure 3.5", pairs, "steps from delay to delay"),
        ]


@register("artefact", "thesis/3.6")
class Figure36(StreamArtefact):
    """BA and BD against the proposed method and the baselines."""

    title = "Figure 3.6: BA and BD, windows as long as the sequence and shorter"
    source = "section 3.8"
    notes = (
        ORACLE,
        MATCHED,
        "one number a step: BA and BD are made for long vectors",
        "as printed: BA and BD with the epsilon of baseline-Laplace, the proposed method with the mu of "
        "baseline-Normal, both baselines with one variance; and, which is not printed, all of them at one epsilon",
    )

    def specs(self, scale: Scale) -> dict[str, Spec]:
        made = {}
        chosen = {name: found for name, found in sequences().items() if "hours" not in name or scale != "quick"}
        for name, (table, seasons) in chosen.items():
            steps, std = facts(table)
            by_level = {f"noise {level:g}": partial(at_level, steps=steps, noise=level * std) for level in LEVELS[::2]}
            for cell, budget in {**by_level, "eps 1": partial(at_epsilon, epsilon=1.0)}.items():
                for label in ("baseline-Laplace", "baseline-Normal", PROPOSED, OURS):
                    method = METHODS[label]
                    made[f"{name}, {cell} | {label}"] = spec_of(method, budget(method), table, RUNS[scale], seasons)
                for code in ("ba", "bd"):
                    short = {"unit": "window", "window": seasons[0]}
                    for window, keys in (("whole", {}), (f"window {seasons[0]}", short)):
                        made[f"{name}, {cell} | {code.upper()} {window}"] = spec_of(
                            {"name": code}, {**budget({"name": code}), **keys}, table, RUNS[scale], []
                        )
        return made

    def pictures(self, results: Results) -> list[Picture]:
        rows = []
        for label in results:
            cell, method = label.split(" | ")
            value, spread = error(results, label)
            plain = results[f"{cell} | baseline-Laplace"]["metrics"]
            each = readable(plain["spent"]["epsilon"] / plain["steps"])
            published = results[label]["metrics"]["publications"]
            rows.append((cell, each, method, readable(value), readable(spread), published))
        columns = (
            "sequence and budget",
            "epsilon a step of baseline-Laplace",
            "method",
            "relative error",
            "standard error",
            "publications",
        )
        return [Table("Errors; a short window protects less than a whole sequence", columns, tuple(rows))]

    def claims(self, results: Results) -> list[Claim]:
        found = []
        for said, kind in (("at equal variance, as printed", ", noise "), ("at equal epsilon", ", eps ")):
            cells = dict.fromkeys(label.split(" | ")[0] for label in results if kind in label)
            others = ("baseline-Laplace", "baseline-Normal", "BA whole", "BD whole")
            best = [(f"{cell} | {PROPOSED}", f"{cell} | {other}") for cell in cells for other in others]
            worse = [(f"{c} | baseline-Laplace", f"{c} | {code} whole") for c in cells for code in ("BA", "BD")]
            found.append(smaller(results, f"{said}: the proposed method has the lowest error", "figure 3.6", best))
            text = f"{said}: BA and BD may lose to baseline-Laplace"
            found.append(generally(results, text, "figure 3.6", worse))
        return found


@register("artefact", "thesis/3.7")
class Figure37(StreamArtefact):
    """Several runs beside each other: mean and band."""

    title = "Figure 3.7: traffic counts, mean and range over runs"
    source = "section 3.8"
    notes = (
        ORACLE,
        MATCHED,
        "no sentence of the text can be tested here; width and bias of the bands are set beside each other",
        "left: equal epsilon; right: equal variance of the baselines, FAST with epsilon of baseline-Laplace and the "
        "proposed method with the mu of baseline-Normal. The levels are not printed: .02, and one standard deviation",
    )
    sides: ClassVar[dict[str, str]] = {"left": "epsilon .02", "right": "noise of one std"}

    def specs(self, scale: Scale) -> dict[str, Spec]:
        name = "traffic" if "traffic" in sequences() else "generated hours"
        table, seasons = sequences()[name]
        steps, std = facts(table)
        budgets = {"left": partial(at_epsilon, epsilon=0.02), "right": partial(at_level, steps=steps, noise=std)}
        made = {}
        for side, budget in budgets.items():
            for label in ("baseline-Laplace", "baseline-Normal", PROPOSED, FAST, OURS):
                for seed in range(4 if scale == "quick" else 10):
                    spec = spec_of(METHODS[label], budget(METHODS[label]), table, 1, seasons)
                    made[f"{side} | {label} | {seed}"] = {**spec, "seed": seed}
        return made

    def _bands(self, results: Results, side: str) -> dict[str, np.ndarray]:
        found: dict[str, list[Any]] = {}
        for label, result in results.items():
            where, method, _ = label.split(" | ")
            if where == side:
                found.setdefault(method, []).append(result["series"]["released"]["y"])
        return {label: np.array(rows, float) for label, rows in found.items()}

    def pictures(self, results: Results) -> list[Picture]:
        shown, true = slice(0, 240), next(iter(results.values()))["series"]["true"]
        made: list[Picture] = []
        for side, budget in self.sides.items():
            for label, rows in self._bands(results, side).items():
                x = tuple(true["x"][shown])
                middle, low, high = (tuple(part[shown]) for part in (rows.mean(0), rows.min(0), rows.max(0)))
                band = Line(label, x, middle, low, high)
                truth = Line("true counts", x, tuple(true["y"][shown]), dashed=True)
                made.append(Chart(f"{label}, {budget}", "hour", "vehicles", (band, truth)))
        return made

    def claims(self, results: Results) -> list[Claim]:
        true = np.array(next(iter(results.values()))["series"]["true"]["y"], float)
        made = []
        for side, budget in self.sides.items():
            bands = self._bands(results, side)
            widths = {label: float(np.nanmean(rows.max(0) - rows.min(0))) for label, rows in bands.items()}
            biases = {label: float(np.nanmean(np.abs(rows.mean(0) - true))) for label, rows in bands.items()}
            note = "; ".join(
                f"{name}: width {readable(widths[name])}, bias {readable(biases[name])}" for name in widths
            )
            margin = math.log(widths["baseline-Normal"] / widths[PROPOSED])
            text = f"{side} ({budget}): the proposed method's band is narrower than baseline-Normal's"
            made.append(Claim.exact(text, "figure 3.7", margin, note))
        return made


@register("artefact", "thesis/3.10")
class Figure310(StreamArtefact):
    """A speed profile, released privately."""

    title = "Figure 3.10: drive cycle at two levels of noise"
    source = "section 3.8"
    data = ("drive-cycles",)
    notes = (
        ORACLE,
        "the sensitivity is the range of a vehicle's speed, 60 mph: epsilon of both levels is far beyond privacy",
    )

    def specs(self, scale: Scale) -> dict[str, Spec]:
        table = {"name": "drive-cycles"} if have("drive-cycles") else {"name": "ar1", "rows": 1500, "correlation": 0.98}
        steps, std = facts(table)
        made = {}
        for level in (1.0, 0.3):
            for label in ("baseline-Normal", PROPOSED, OURS):
                budget = {**at_level(METHODS[label], steps, level * std / 60), "sensitivity": 60.0}
                made[f"noise {level:g} | {label}"] = spec_of(METHODS[label], budget, table, RUNS[scale], [])
        return made

    def pictures(self, results: Results) -> list[Picture]:
        made: list[Picture] = []
        for level in dict.fromkeys(label.split(" | ")[0] for label in results):
            epsilon = results[f"{level} | baseline-Normal"]["metrics"]["spent"]["epsilon"]
            lines = []
            for label in ("baseline-Normal", PROPOSED, OURS):
                found = results[f"{level} | {label}"]["series"]
                cut = slice(0, 400)
                lines.append(Line(label, tuple(found["released"]["x"][cut]), tuple(found["released"]["y"][cut]),
                                  dashed=label == OURS))  # fmt: skip
            lines.append(Line("true speed", tuple(found["true"]["x"][cut]), tuple(found["true"]["y"][cut])))
            made.append(Chart(f"{level} stds, epsilon {readable(epsilon)}", "second", "miles an hour", tuple(lines)))
        return made

    def claims(self, results: Results) -> list[Claim]:
        levels = dict.fromkeys(label.split(" | ")[0] for label in results)
        pairs = [(f"{level} | {PROPOSED}", f"{level} | baseline-Normal") for level in levels]
        ours = [(f"{level} | {OURS}", f"{level} | {PROPOSED}") for level in levels]
        spent = [results[f"{level} | baseline-Normal"]["metrics"]["spent"]["epsilon"] for level in levels]
        note = f"epsilon {' and '.join(readable(value) for value in spent)} at delta 1e-5 for the whole trip"
        return [
            smaller(results, "the proposed profile is closer than baseline-Normal's", "figure 3.10", pairs, note),
            smaller(results, "a filter that learns (ours) is closer still", "beside figure 3.10", ours),
        ]
