"""Fits of an estimator, its clones and its copies: one count, which is told where no ledger pays for them all.

Clones and copies of this process share the count itself. A pickled one carries the way to a file of this machine in
which all of them count, so a search with several processes costs what it costs with one. Copies that the file does not
reach (another machine, a model that is loaded after the process has ended) cannot be counted here: whatever was
pickled says that its numbers are not established. Rows are never compared: every further fit is taken to be on the
same people.

>>> import copy
>>> tally, promise = Tally(), Guarantee.pure(1.0, model="global", unit="one row", neighbours="replace-row")
>>> copy.deepcopy(tally) is tally, tally.count("plan", promise, planned=2).established
(True, True)
"""

from __future__ import annotations

import copy
import hashlib
import json
import math
import os
import tempfile
import threading
import uuid
import warnings
import weakref
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

from fairveil.privacy.guarantee import Guarantee

COPIED = (
    "not established: this estimator was pickled or went to another process, and fits of copies that its counter does "
    "not reach are not in these numbers; a ledger counts them all"
)
LARGEST_DELTA = 0.999


class RefitWarning(UserWarning):
    """A private estimator (or a clone or copy of it) was fitted more often than its budget was planned for."""


class Fit(NamedTuple):
    """One fit: the plan it belongs to, for how many fits that is, what the whole plan costs, whether a ledger paid."""

    plan: str
    planned: int
    epsilon: float
    delta: float
    paid: bool = False


_LOCK = threading.RLock()
_LIVE: weakref.WeakValueDictionary[str, Tally] = weakref.WeakValueDictionary()
"""Counters of this process by their ids: what is unpickled where its counter lives goes on with that one."""


class Tally:
    """Fits of an estimator, its clones and its copies; ``copied`` once it left the process."""

    def __init__(self, name: str | None = None, fits: Sequence[Fit] = (), file: str | None = None) -> None:
        self.name, self.fits, self.file = name or uuid.uuid4().hex, list(fits), file
        self.copied, self.warned, self._process = name is not None, False, os.getpid()
        _LIVE[self.name] = self

    def __copy__(self) -> Tally:
        return self

    def __deepcopy__(self, memo: Any) -> Tally:
        return self

    def __reduce__(self) -> Any:
        with _LOCK:
            self.copied = True
            if self.file is None:
                self._share()
            return _unpickled, (self.name, list(self.fits), self.file)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """A counter of version 0.1.0, which was pickled without a name: plans, and what is left of the last."""
        Tally.__init__(self)
        plans, fits, left = state["plans"], state["fits"], state["left"]
        self.copied = True
        if len(plans) == 1:
            self.fits = [Fit(_digest(plans[0][0]), fits + left, *plans[0][1:])] * fits
        else:
            self.fits = [Fit(f"plan {place}", 1, *plan[1:]) for place, plan in enumerate(plans)]

    def _share(self) -> None:
        """Go on in a file that copies in other processes of this machine add to; it ends with this counter."""
        with suppress(OSError):  # no place for it: copies then count for themselves, and say so
            handle, self.file = tempfile.mkstemp(prefix="fairveil-fits-")
            os.write(handle, b"".join(map(_line, self.fits)))
            os.close(handle)
            weakref.finalize(self, _remove, self.file, os.getpid())

    def count(self, key: Any, promise: Guarantee, planned: int) -> Guarantee:
        """One more fit, before anything is drawn; what all fits so far cost together if they saw the same people."""
        with _LOCK:
            self.copied |= os.getpid() != self._process
            self._add(Fit(_digest(key), planned, promise.epsilon or 0.0, promise.delta or 0.0))
            plans, warned = self._plans(), self.warned
            self.warned |= len(plans) > 1
        if len(plans) > 1 and not warned:
            warnings.warn(
                f"this private estimator and its clones were fitted {len(self.fits)} times, but the budget was planned "
                f"for {planned}: on the same people that costs epsilon {math.fsum(plan.epsilon for plan in plans):g}, "
                "and held-out scores of a search are not protected. Where it has them, ledger= has every fit charged "
                "and retrainings plans them",
                RefitWarning,
                stacklevel=4,
            )
        return self.stated(promise, planned)

    def count_paid(self, key: Any, promise: Guarantee, planned: int) -> Guarantee:
        """One more fit, which a ledger charges. Its promise is its own as long as one has charged them all."""
        with _LOCK:
            self._add(Fit(_digest(key), planned, promise.epsilon or 0.0, promise.delta or 0.0, paid=True))
            return promise if all(fit.paid for fit in self.fits) else self.stated(promise, planned)

    def stated(self, promise: Guarantee, planned: int) -> Guarantee:
        """What all fits so far cost together, as the promise of one of them."""
        with _LOCK:
            plans = self._plans()
        copied = (COPIED,) if self.copied else ()
        if len(plans) < 2:
            return replace(promise, established=False, notes=(*promise.notes, *copied)) if copied else promise
        epsilon, delta = math.fsum(plan.epsilon for plan in plans), math.fsum(plan.delta for plan in plans)
        excess = (
            f"fitted {len(self.fits)} times by this estimator and its clones, but the budget was split over {planned}; "
            f"the numbers are the sums over all fits, for the same people in every one"
        )
        notes = (*promise.notes, excess, *copied)
        return replace(promise, epsilon=epsilon, delta=min(delta, LARGEST_DELTA), established=False, notes=notes)

    def _plans(self) -> list[Fit]:
        """Every plan that was begun, as its first fit."""
        return [fit for fit, times in Counter(self.fits).items() for _ in range(-(-times // fit.planned))]

    def _add(self, fit: Fit) -> None:
        if self.file is not None:
            try:
                handle = os.open(self.file, os.O_WRONLY | os.O_APPEND)
                os.write(handle, _line(fit))
                os.close(handle)
                with open(self.file) as lines:
                    self.fits = [Fit(*json.loads(line)) for line in lines]
                return
            except OSError:
                self.file = None  # its counter has ended, or lives elsewhere
        self.fits.append(fit)


def _unpickled(name: str, fits: list[Fit], file: str | None) -> Tally:
    with _LOCK:
        found = _LIVE.get(name) or Tally(name, fits, file)
        found.file, found.copied = found.file or file, True
        return found


def _line(fit: Fit) -> bytes:
    return json.dumps(fit).encode() + b"\n"


def _remove(file: str, process: int) -> None:
    if os.getpid() == process:
        with suppress(OSError):
            os.unlink(file)


def _digest(key: Any) -> str:
    """A name of public settings that is the same in every process."""
    return hashlib.sha256(repr(key).encode()).hexdigest()[:32]


class Counted:
    """Mixin of private estimators in scikit-learn's shape: clones and copies share the counter.

    Parameters named in ``_shared`` are handed on to clones as they are.
    """

    _shared: ClassVar[tuple[str, ...]] = ()
    _tally: Tally | None = None

    def __sklearn_clone__(self) -> Any:
        from sklearn.base import clone

        given = self.get_params(deep=False)  # type: ignore[attr-defined]
        shared = {name: given.pop(name) for name in self._shared}
        made: Any = type(self)(**{name: clone(value, safe=False) for name, value in given.items()})
        for name, value in shared.items():
            setattr(made, name, value)
        for name in ("_metadata_request", "_sklearn_output_config"):
            if hasattr(self, name):
                setattr(made, name, copy.deepcopy(getattr(self, name)))
        made._tally = self._counter()
        return made

    def __getstate__(self) -> Any:
        self._counter()  # made now, so that whatever copy this becomes shares it
        return super().__getstate__()

    def _counter(self) -> Tally:
        if self._tally is None:
            self._tally = Tally()
        return self._tally
