"""Everything that promises privacy, audited in one go: claim, lower bound, power, and which mutants are caught.

A thing is a registered mechanism, sum, policy, learner, releaser or algorithm whose own example makes an established
promise. It is examined by every pair of worlds that is registered for it. *Power* is the largest share of its noise
with which it would be caught: 0.8 means that noise a fifth too small does not pass. Things without a pair of worlds,
and pairs that see nothing, are listed as such. Drivers (ledgers, agents, loops, ...) draw nothing: they have laws.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from fairveil import registry
from fairveil.configuration import describe
from fairveil.errors import FairveilError
from fairveil.privacy.audit.attack import Finding
from fairveil.privacy.audit.bounds import FinerClaim
from fairveil.privacy.audit.drivers import KIND as DRIVER
from fairveil.privacy.audit.drivers import find_driver
from fairveil.privacy.audit.mutants import Mutant, Weakened, mutants_of
from fairveil.privacy.audit.pair import KIND, AuditPair, find_pair, sample_target
from fairveil.privacy.audit.runs import audit, run_chunk
from fairveil.privacy.audit.twins import TWINS

KINDS = ("mechanism", "sum", "policy", "learner", "releaser", "algorithm", DRIVER)
SURE = 1 - 1e-6
"""Confidence of the bounds: a sound thing fails less than once in a million audits."""
FACTORS = (0.9, 0.8, 0.65, 0.5, 0.35, 0.2, 0.1, 0.03)
"""Shares of the noise that power is looked for among."""
FEW = 64
"""Trials that must not all be alike."""
TWIN = "audit-twin"
"""Registry kind of broken twins: functions from epsilon to a pair of worlds that must be caught."""
BUDGETS = (0.5, 1.0, 3.0)
"""Budgets at which registered twins are planted."""
LAWS = "laws"
"""Registry kind of the laws that all things of a kind keep: ``laws:policy`` takes a thing and raises ContractError."""


@dataclass(frozen=True)
class Effort:
    """How much is tried: share of each pair's own trials, the factors of power, and whether mutants are planted."""

    name: str
    share: float
    factors: tuple[float, ...]
    mutants: bool


QUICK = Effort("quick", 1.0, (0.8, 0.5), mutants=False)
USUAL = Effort("usual", 1.0, (0.8, 0.5), mutants=True)
DEEP = Effort("deep", 10.0, FACTORS, mutants=True)
EFFORTS = {effort.name: effort for effort in (QUICK, USUAL, DEEP)}


@dataclass(frozen=True)
class Thing:
    """Something registered that promises privacy: the table that builds it, and the pairs of worlds it is shown in."""

    kind: str
    name: str
    target: tuple[tuple[str, Any], ...]
    pairs: tuple[str, ...]

    @property
    def title(self) -> str:
        return f"{self.kind}:{self.name}"


@dataclass
class Attempt:
    """What one pair of worlds showed. ``power`` is None where less noise would not have been seen."""

    pair: str
    trials: int
    epsilon: float
    delta: float
    lower: float
    finer: str
    violated: bool
    power: float | None
    seconds: float


@dataclass
class Verdict:
    """What was found out about one thing; ``left_out`` says which of its pairs were not tried, and why."""

    title: str
    epsilon: float = 0.0
    delta: float = 0.0
    lower: float = 0.0
    finer: str = ""
    violated: bool = False
    power: float | None = None
    caught: dict[str, str] = field(default_factory=dict)
    event: str = ""
    problem: str = ""
    seconds: float = 0.0
    attempts: list[Attempt] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)

    @property
    def powerless(self) -> list[Attempt]:
        """Pairs that would not have seen any of the weaker noises that were tried."""
        return [attempt for attempt in self.attempts if attempt.power is None]

    @property
    def escaped(self) -> list[str]:
        """Mutants that nothing has caught."""
        return [name for name, by in self.caught.items() if not by]

    @property
    def fine(self) -> bool:
        return not self.violated and not self.escaped and not self.problem


def things(kinds: tuple[str, ...] = KINDS) -> Iterator[Thing]:
    """Everything registered of these kinds that makes an established promise, with its pairs (perhaps none)."""
    for kind in kinds:
        for entry in registry.entries(kind):
            if kind == DRIVER:
                yield Thing(kind, entry.name, (), ())
                continue
            base, _, variant = entry.name.partition("/")
            pairs = tuple(
                pair.name
                for pair in registry.entries(KIND)
                if pair.name == f"{kind}:{base}" or pair.name.startswith(f"{kind}:{base}/")
            )
            target = (
                {"kind": kind, **describe(registry.example(entry.target))}
                if variant
                else sample_target(f"{kind}:{base}")
            )
            if target is None:
                if pairs or getattr(entry.target, "private", False):
                    yield Thing(kind, entry.name, (), pairs)
                continue
            if _promises(registry.build(kind, _plain(target), entry.name)):
                yield Thing(kind, entry.name, tuple(target.items()), pairs)


def _plain(target: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in target.items() if key not in ("kind", "pair")}


def _promises(thing: Any) -> bool:
    promise = thing.guarantee() if hasattr(thing, "guarantee") else None
    return (promise is not None and promise.established) or (
        promise is None and hasattr(thing, "event") and _costs(thing)
    )


def _costs(thing: Any) -> bool:
    from fairveil.privacy.events import NothingEvent

    return not isinstance(thing.event(), NothingEvent)


def examine(thing: Thing, effort: Effort = QUICK, noise: str = "seeded", seed: int = 0) -> Verdict:
    """One thing: all its pairs, its power, and its mutants."""
    verdict = Verdict(thing.title)
    if thing.kind == DRIVER:
        return _examine_driver(thing, verdict, effort)
    if not thing.target or not thing.pairs:
        verdict.problem = "not audited: " + (
            "no example of it can be built" if not thing.target else "no pair of worlds"
        )
        return verdict
    started = time.process_time()
    made = {name: _pair(thing, name) for name in thing.pairs}
    for name, (_, pair) in made.items():
        if not pair.covers:
            verdict.left_out[name] = "its promise is for nearer neighbours"
            continue
        if not _gives(pair):
            verdict.problem = f"{name}: its finer claim does not give its epsilon and delta"
        if not fresh(pair, noise, seed):
            verdict.problem = "every trial gave the same output: its noise is not drawn afresh"
        _note(verdict, name, pair, effort, noise, seed)
    if effort.mutants:
        built = next(iter(made.values()))[0]
        if broken := _broken_law(thing, built):
            verdict.problem = verdict.problem or f"breaks a {broken}, so no mutant can be said to break it"
        for mutant in mutants_of(thing.kind, built):
            verdict.caught[mutant.name] = caught_by(thing, built, mutant, effort, noise, seed)
        if not verdict.caught:
            verdict.problem = verdict.problem or "nobody has planted a mutant in it"
    verdict.seconds = time.process_time() - started
    return verdict


def _examine_driver(thing: Thing, verdict: Verdict, effort: Effort) -> Verdict:
    started, driver = time.process_time(), find_driver(thing.name)
    try:
        driver.check()
    except FairveilError as problem:
        verdict.problem = f"breaks a law: {problem}"
    for mutant in driver.mutants if effort.mutants else ():
        verdict.caught[mutant.name] = driver.caught_by(mutant)
    verdict.seconds = time.process_time() - started
    return verdict


def caught_by(thing: Thing, built: Any, mutant: Mutant, effort: Effort, noise: str, seed: int) -> str:
    """What catches a mutant: an audit, a law, an error of the code itself; empty when it escapes."""
    covered = [name for name in thing.pairs if _pair(thing, name)[1].covers]  # asked of the sound thing
    with mutant.plant(built):
        ways = [lambda: _seen_by_audits(thing, covered, effort, noise, seed), lambda: _broken_law(thing, built)]
        for way in reversed(ways) if mutant.by_law else ways:
            if found := way():
                return found
    return f"harmless: {mutant.harmless}" if mutant.harmless else ""


def _seen_by_audits(thing: Thing, covered: list[str], effort: Effort, noise: str, seed: int) -> str:
    try:
        pairs = {name: _pair(thing, name)[1] for name in covered}
        if not all(fresh(pair, noise, seed) for pair in pairs.values()):
            return "law fresh noise"
        if not all(_gives(pair) for pair in pairs.values()):
            return "law finer claims give epsilon and delta"
        for name, pair in sorted(pairs.items(), key=lambda item: item[1].trials, reverse=True):
            if _attempt(pair, effort, noise, seed).violated:
                return f"audit {name}"
    except FairveilError as problem:
        return f"refused: {problem.code}"
    return ""


def _broken_law(thing: Thing, built: Any) -> str:
    if not any(entry.name == thing.kind for entry in registry.entries(LAWS)):
        return ""
    try:
        registry.get(LAWS, thing.kind)(built)
    except FairveilError as problem:
        return f"law {str(problem).split(':')[1].strip() if ':' in str(problem) else problem.code}"
    return ""


def _gives(pair: AuditPair) -> bool:
    """Does mu (or rho) stand for the promised epsilon and delta? What calibrates noise to them cannot judge that."""
    finer = pair.finer if pair.delta > 0 else None  # a pure claim follows from none of them
    return not isinstance(finer, FinerClaim) or finer.gives(pair.epsilon, pair.delta)


def fresh(pair: AuditPair, noise: str, seed: int) -> bool:
    """Do trials of one world differ, as they must where noise is drawn for each?"""
    rows = run_chunk(pair.run, noise, seed, 0, 0, FEW).reshape(FEW, -1)
    return bool((rows != rows[0]).any())


def _pair(thing: Thing, name: str) -> tuple[Any, AuditPair]:
    second = name.partition("/")[2]
    return find_pair(dict(thing.target) | ({"pair": second} if second else {}))


def _attempt(pair: AuditPair, effort: Effort, noise: str, seed: int) -> Finding:
    return audit(pair, trials=_trials(pair, effort), confidence=SURE, noise=noise, seed=seed)


def _trials(pair: AuditPair, effort: Effort) -> int:
    return max(40, round(pair.trials * effort.share))


def _weakened(pair: AuditPair, factor: float, effort: Effort, noise: str, seed: int) -> Finding:
    def run(world: int, trials: int, source: Any, rng: Any) -> Any:
        return pair.run(world, trials, Weakened(source, factor), rng)

    weak = AuditPair(run, pair.worlds, pair.statistic, pair.epsilon, pair.delta, pair.finer, pair.trials)
    return _attempt(weak, effort, noise, seed + 1)


def _note(verdict: Verdict, name: str, pair: AuditPair, effort: Effort, noise: str, seed: int) -> None:
    """Try one pair and its weaker noises; the verdict keeps the strongest finding."""
    started = time.process_time()
    finding = _attempt(pair, effort, noise, seed)
    power = next((f for f in effort.factors if _weakened(pair, f, effort, noise, seed).violated), None)
    finer = finding.finer
    words = "" if finer is None else f"{finer.name} {finer.claimed:.3g} >= {finer.lower:.3g}"
    verdict.attempts.append(
        Attempt(
            name,
            _trials(pair, effort),
            finding.epsilon,
            finding.delta,
            finding.epsilon_lower,
            words,
            finding.violated,
            power,
            time.process_time() - started,
        )
    )
    verdict.violated |= finding.violated
    verdict.finer = words or verdict.finer
    if power is not None:
        verdict.power = max(power, verdict.power or 0.0)
    share = finding.epsilon_lower / finding.epsilon if finding.epsilon else 0.0
    if not verdict.epsilon or share > verdict.lower / verdict.epsilon:
        verdict.epsilon, verdict.delta, verdict.lower = finding.epsilon, finding.delta, finding.epsilon_lower
        verdict.event = finding.event


def planted(effort: Effort, noise: str, seed: int, epsilon: float = 1.0) -> Iterator[tuple[str, bool]]:
    """Every broken twin of the mechanisms and of other things (kind ``audit-twin``), and whether it is caught."""
    for name, make in TWINS.items():
        yield name, _attempt(replace(make(epsilon), trials=100_000), effort, noise, seed).violated
    for entry in registry.entries(TWIN):
        for budget in BUDGETS:
            yield f"{entry.name} at {budget:g}", _attempt(entry.target(budget), QUICK, noise, seed).violated
