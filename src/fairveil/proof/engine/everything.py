"""Everything that promises privacy, audited in one go: claim, lower bound, power, and which mutants are caught.

A thing is a registered mechanism, sum, policy, learner, releaser, algorithm or evaluation whose own example makes an
established promise. It is examined by every pair of worlds that is registered for it. *Power* is the largest share of
its noise with which it would be caught: 0.8 means that noise a fifth too small does not pass. Things without a pair of
worlds, and pairs that see nothing, are listed as such. Adapters (ledgers, agents, loops, ...) draw nothing: they have
laws.

>>> from fairveil.privacy.mechanisms import Exponential
>>> check_audited("mechanism", Exponential(sensitivity=1.0, epsilon=1.0))
['no-noise', 'half-noise', 'reused-noise']
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from fairveil import registry
from fairveil.configuration import describe
from fairveil.errors import ContractError, FairveilError
from fairveil.proof.engine.adapter import ADAPTER, adapters
from fairveil.proof.engine.attack import Finding
from fairveil.proof.engine.audit import audit, run_chunk
from fairveil.proof.engine.bounds import FinerClaim
from fairveil.proof.mutants import KIND as MUTANT
from fairveil.proof.mutants import Mutant, Weakened, mutants_of
from fairveil.proof.mutants.mutant import BUDGETS
from fairveil.proof.pairs import KIND, AuditPair, find_pair, sample_target

KINDS = ("mechanism", "sum", "policy", "learner", "releaser", "algorithm", "evaluation", "report", ADAPTER)
SURE = 1 - 1e-6
"""Confidence of the bounds: a sound thing fails less than once in a million audits."""
FACTORS = (0.9, 0.8, 0.65, 0.5, 0.35, 0.2, 0.1, 0.03)
"""Shares of the noise that power is looked for among."""
FEW = 64
"""Trials that must not all be alike."""
LAWS = "laws"
"""Registry kind of the laws that all things of a kind keep: ``laws:policy`` takes a thing and raises ContractError."""


@dataclass(frozen=True)
class AuditEffort:
    """How much is tried: share of each pair's own trials, the factors of power, and whether mutants are planted.

    ``copies``: of the mutants at least the broken copies, which cost little and say that an audit has teeth.
    """

    name: str
    share: float
    factors: tuple[float, ...]
    mutants: bool
    copies: bool = True


QUICK = AuditEffort("quick", 1.0, (0.8, 0.5), mutants=False)
USUAL = AuditEffort("usual", 1.0, (0.8, 0.5), mutants=True)
DEEP = AuditEffort("deep", 10.0, FACTORS, mutants=True)


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
        if kind == ADAPTER:
            yield from (Thing(kind, name, (), ()) for name in adapters())
            continue
        for entry in registry.entries(kind):
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


def examine(thing: Thing, effort: AuditEffort = QUICK, noise: str = "seeded", seed: int = 0) -> Verdict:
    """One thing: all its pairs, its power, and its mutants."""
    verdict = Verdict(thing.title)
    if thing.kind == ADAPTER:
        return _examine_adapter(thing, verdict, effort)
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
    built = next(iter(made.values()))[0]
    if effort.mutants and (broken := _broken_law(thing, built)):
        verdict.problem = verdict.problem or f"breaks a {broken}, so no mutant can be said to break it"
    for mutant in mutants_of(thing.kind, built):
        if effort.mutants or (effort.copies and mutant.copy is not None):
            verdict.caught[mutant.name] = caught_by(thing, built, mutant, effort, noise, seed)
    if effort.mutants and not verdict.caught:
        verdict.problem = verdict.problem or "nobody has planted a mutant in it"
    verdict.seconds = time.process_time() - started
    return verdict


def _examine_adapter(thing: Thing, verdict: Verdict, effort: AuditEffort) -> Verdict:
    started, adapter = time.process_time(), adapters()[thing.name]()
    try:
        adapter.check()
    except FairveilError as problem:
        verdict.problem = f"breaks a law: {problem}"
    for mutant in adapter.mutants if effort.mutants else ():
        verdict.caught[mutant.name] = adapter.caught_by(mutant)
    verdict.seconds = time.process_time() - started
    return verdict


def caught_by(thing: Thing, built: Any, mutant: Mutant, effort: AuditEffort, noise: str, seed: int) -> str:
    """What catches a mutant: an audit, a law, an error of the code itself; empty when it escapes."""
    if mutant.copy is not None:
        seen = all(_attempt(mutant.copy(budget), QUICK, noise, seed).violated for budget in BUDGETS)
        return f"audit of a copy at {', '.join(f'{budget:g}' for budget in BUDGETS)}" if seen else ""
    covered = [name for name in thing.pairs if _pair(thing, name)[1].covers]  # asked of the sound thing
    with mutant.plant(built):
        ways = [lambda: _seen_by_audits(thing, covered, effort, noise, seed), lambda: _broken_law(thing, built)]
        for way in reversed(ways) if mutant.by_law else ways:
            if found := way():
                return found
    return f"harmless: {mutant.harmless}" if mutant.harmless else ""


def _seen_by_audits(thing: Thing, covered: list[str], effort: AuditEffort, noise: str, seed: int) -> str:
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


def _attempt(pair: AuditPair, effort: AuditEffort, noise: str, seed: int) -> Finding:
    return audit(pair, trials=_trials(pair, effort), confidence=SURE, noise=noise, seed=seed)


def _trials(pair: AuditPair, effort: AuditEffort) -> int:
    return max(40, round(pair.trials * effort.share))


def _weakened(pair: AuditPair, factor: float, effort: AuditEffort, noise: str, seed: int) -> Finding:
    def run(world: int, trials: int, source: Any, rng: Any) -> Any:
        return pair.run(world, trials, Weakened(source, factor), rng)

    return _attempt(replace(pair, run=run), effort, noise, seed + 1)


def _note(verdict: Verdict, name: str, pair: AuditPair, effort: AuditEffort, noise: str, seed: int) -> None:
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


NEEDED = ("no-noise", "raw-report")
"""Mutants of which a thing has at least one: its served method draws nothing."""


def check_audited(kind: str, thing: Any) -> list[str]:
    """A thing with a promise has a pair of worlds and mutants, and the pair notices when served methods draw nothing.

    A pair that computes releases itself, beside the code that serves people, does not notice, and would go on saying
    "consistent" whatever became of that code. The mutants are planted in a copy of the thing with a class of its own:
    whoever is being served by the same class meanwhile is served by sound code. A plug-in's pairs are tried as well.
    Returns the names of the mutants.
    """
    family = f"{kind}:{thing.name}"
    here = [entry for entry in registry.known() if entry.kind == KIND and entry.name.partition("/")[0] == family]
    pairs = here or [entry for entry in registry.entries(KIND) if entry.name.partition("/")[0] == family]
    if not pairs:
        raise ContractError(
            "it promises privacy and has no pair of worlds",
            fix=f'register("audit-pair", "{family}"), see docs/guides/audit.md',
        )
    twin = _apart(thing)
    own = [entry for entry in registry.known() if entry.kind == MUTANT] if here else None
    mutants = {mutant.name: mutant for mutant in mutants_of(kind, twin, own)}
    planted = [mutants[name] for name in NEEDED if name in mutants]
    if not planted:
        raise ContractError(
            "it promises privacy and nobody has planted a mutant in it",
            allowed=" or ".join(NEEDED),
            fix=f'register("mutant", "{family}/no-noise"), see docs/guides/audit.md',
        )
    for mutant in planted:
        with mutant.plant(twin):
            if not any(_notices(entry.target, twin) for entry in pairs):
                raise ContractError(
                    f"no audit notices {mutant.words}",
                    given=mutant.name,
                    fix="let the pair of worlds call the methods that serve people, with the noise it is given",
                )
    if not type(thing).__module__.startswith("fairveil."):  # what is built in is audited by `fairveil audit all`
        for entry in pairs:
            _check_claim(entry.name, entry.target(thing))
    return list(mutants)


def _check_claim(name: str, pair: AuditPair) -> None:
    """A plug-in's own pair of worlds does not break its claim, tried as `fairveil audit all` would."""
    finding = _attempt(pair, QUICK, "seeded", 0)
    if pair.covers and (finding.violated or not _gives(pair)):
        raise ContractError(
            f"its own audit {name} breaks its claim",
            given=f"epsilon at least {finding.epsilon_lower:.3g}",
            allowed=f"{finding.epsilon:.3g}",
            fix="too little noise, a value that is not clipped, or a claim that is too small",
        )


def _apart(thing: Any) -> Any:
    """A copy whose class is its own, so that breaking its methods breaks nobody else's."""
    twin = copy.copy(thing)
    object.__setattr__(twin, "__class__", type(type(thing).__name__, (type(thing),), {}))
    return twin


def _notices(make: Any, thing: Any) -> bool:
    """Does a pair give the same output in every trial, or is the mutant refused outright?"""
    try:
        return not fresh(make(thing), "seeded", 0)
    except FairveilError:
        return True
