"""What a loop refuses, each with a stable code and the HTTP status that the service answers with."""

from __future__ import annotations

from fairveil.errors import FairveilError


class LoopError(FairveilError):
    """Base of what loops refuse. ``status`` is the answer over HTTP; ``retry`` says that repeating may help."""

    code, exit_code, status, retry = "invalid", 2, 422, False


class Invalid(LoopError):
    """A request does not fit its loop."""


class EventReused(LoopError):
    """The event id was used with another body."""

    code = "event-reused"


class SubjectTwice(LoopError):
    """One person stands at more places of a request than the loop counts in its promise."""

    code = "subject-twice"


class OutOfRange(LoopError):
    """A reward outside the declared range of a strict loop."""

    code = "out-of-range"


class UnsoundPolicy(LoopError):
    """The policy cannot serve people: the message names one that can."""

    code, exit_code = "unsound-policy", 4


class UnknownLoop(LoopError):
    code, status = "unknown-loop", 404


class UnknownEvent(LoopError):
    code, status = "unknown-event", 404


class Unknown(LoopError):
    """A release, a ledger or a token that does not exist."""

    code, status = "unknown", 404


class RewardDiffers(LoopError):
    """Another value than the first reward of the event; the first stands."""

    code, status = "reward-differs", 409


class NameTaken(LoopError):
    code, status = "name-taken", 409


class NoBudget(LoopError):
    """The ledger does not allow a release; decisions never get this."""

    code, exit_code, status = "budget", 3, 409


class Overlap(LoopError):
    """A place of the range is in a report of the same kind."""

    code, status = "overlap", 409


class NotDue(LoopError):
    """Places of the range are not settled."""

    code, status = "not-due", 409


class NotKept(LoopError):
    """What a report needs was not kept, or is gone."""

    code, status = "not-kept", 409


class NoSupport(LoopError):
    """The log cannot answer: nothing explored, decided by a law that nobody knows, or people who were not counted."""

    code = "no-support"


class Uncounted(NoSupport):
    """Places of a range are not those that were counted for the people in them."""


class SaysNothing(LoopError):
    """The interval would be wider than the range of the rewards."""

    code = "says-nothing"


class LedgerInDoubt(LoopError):
    """The ledger does not continue what is stored, or an epoch waits to be accepted: nothing is drawn until then."""

    code, exit_code, status = "ledger", 5, 409


class OneAtATime(LoopError):
    """Another one is under way."""

    code, status = "busy", 409


class Forgotten(LoopError):
    """Retention has erased the event; only its key is known."""

    code, status = "forgotten", 410


class Closed(LoopError):
    """The loop was closed."""

    code, status = "closed", 410


class StorageFailed(LoopError):
    """The store cannot be reached or written. The outcome may be unknown: repeat with the same event id.

    ``kind``: in one word, for whoever operates it: full, denied, busy, down, damaged, or storage.
    """

    code, exit_code, status, retry = "storage", 7, 503, True
    kind = "storage"


class Overloaded(LoopError):
    """Too many requests wait for the writer."""

    code, exit_code, status, retry = "overloaded", 7, 503, True
