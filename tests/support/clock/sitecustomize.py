"""A clock that is FAIRVEIL_CLOCK seconds ahead, for every Python process that has this folder on its path."""

import datetime
import os
import time

AHEAD = float(os.environ.get("FAIRVEIL_CLOCK", "0"))
_time, _datetime = time.time, datetime.datetime


class _Any(type):
    def __instancecheck__(cls, one: object) -> bool:
        return isinstance(one, _datetime)


class _Ahead(_datetime, metaclass=_Any):
    @classmethod
    def now(cls, tz=None):
        return _datetime.fromtimestamp(_time() + AHEAD, tz)

    @classmethod
    def utcnow(cls):
        return _datetime.fromtimestamp(_time() + AHEAD, datetime.UTC).replace(tzinfo=None)


if AHEAD:
    time.time = lambda: _time() + AHEAD
    datetime.datetime = _Ahead  # type: ignore[misc]
