"""Comparisons of methods over cells of a figure of the thesis chapter on streams, with their bands."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from fairveil.lab.artefact import Claim, Results

Pairs = list[tuple[str, str]]


def error(results: Results, label: str) -> tuple[float, float]:
    """Relative error and the standard error of its mean."""
    found = results[label]["metrics"]
    spread = found.get("relative_error_std", 0.0) / math.sqrt(results[label]["spec"]["runs"])
    return found["relative_error"], spread


def _leads(results: Results, pairs: Iterable[tuple[str, str]]) -> list[Claim]:
    """For each pair, the log ratio of the second's error to the first's, with its band."""
    found = []
    for low, high in pairs:
        (a, da), (b, db) = error(results, low), error(results, high)
        lead, reach = math.log(b / a), 1.96 * math.hypot(da / a, db / b)
        found.append(Claim(low, "", lead, lead - reach, lead + reach))
    return found


def _won(leads: list[Claim]) -> str:
    least = min(lead.margin for lead in leads)
    return f"in {sum(lead.margin > 0 for lead in leads)} of {len(leads)} cells; worst ratio {math.exp(-least):.3g}"


def smaller(results: Results, text: str, where: str, pairs: Iterable[tuple[str, str]], note: str = "") -> Claim:
    """'The first of each pair is below the second': on average over the cells, and clearly above it in none.

    One cell whose band lies on the other side refutes it; bands are widened for the number of cells (Bonferroni).
    """
    pairs = list(pairs)
    worst = Claim.every(text, where, _leads(results, pairs), f"{_won(_leads(results, pairs))}. {note}".strip())
    found = worst if worst.high < 0 else generally(results, text, where, pairs, note)
    return replace(found, refuted_by="one cell on the other side, beyond its band")


def generally(results: Results, text: str, where: str, pairs: Iterable[tuple[str, str]], note: str = "") -> Claim:
    """'The first of each pair is generally below the second': mean log ratio over the cells, with its band."""
    leads = _leads(results, pairs)
    margin = float(np.mean([lead.margin for lead in leads]))
    reach = math.sqrt(sum((lead.high - lead.margin) ** 2 for lead in leads)) / len(leads)
    return Claim(text, where, margin, margin - reach, margin + reach, f"{_won(leads)}. {note}".strip())


def larger_lead(results: Results, text: str, where: str, here: Pairs, there: Pairs) -> Claim:
    """'The first of a pair is ahead by more here than there': the difference of mean log ratios, with its band."""
    first, second = (generally(results, text, where, pairs) for pairs in (here, there))
    margin, reach = first.margin - second.margin, math.hypot(first.high - first.margin, second.high - second.margin)
    note = f"mean ratio to the other {math.exp(-first.margin):.3g} here, {math.exp(-second.margin):.3g} there"
    return Claim(text, where, margin, margin - reach, margin + reach, note)
