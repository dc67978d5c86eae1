"""Who is alive: a lock under a token, held by a process for all its work in one folder or on one server.

Whoever finds work that somebody began asks whether the process behind the token still holds its lock. A lock that is
lost (a connection that was cut) is taken again under a new token: what was begun under the old one is over for others,
who may have seen that it was dead. What a process itself is at it knows by heart, whatever the token.
"""

from __future__ import annotations

import abc
import os
import threading
import uuid
import weakref
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

T = TypeVar("T")


class Forked(Protocol):
    """Something that has locks or connections, and is told about forks."""

    def before_fork(self) -> None: ...

    def after_fork_in_parent(self) -> None: ...

    def after_fork_in_child(self) -> None: ...


class AcrossForks:
    """Tells its members about forks: users of connections first of what comes, and last of what was."""

    def __init__(self) -> None:
        self._members: tuple[weakref.WeakSet[Forked], ...] = tuple(weakref.WeakSet() for _ in range(3))
        self._told: list[Forked] = []
        os.register_at_fork(before=self._before, after_in_parent=self._in_parent, after_in_child=self._in_child)

    def add(self, member: Forked, order: int) -> None:
        """``order``: 0 locks of the process, 1 connections, 2 those who use them."""
        self._members[order].add(member)

    def _before(self) -> None:
        for members in reversed(self._members):
            for member in list(members):
                member.before_fork()
                self._told.append(member)

    def _in_parent(self) -> None:
        while self._told:
            self._told.pop().after_fork_in_parent()

    def _in_child(self) -> None:
        while self._told:
            self._told.pop().after_fork_in_child()


forks = AcrossForks()


class Guarded:
    """Has a lock that no fork crosses: it waits until nothing is under way, and a child has one of its own."""

    guard: Any

    def __init__(self, order: int, make: Callable[[], Any] = threading.RLock) -> None:
        self.guard, self._make_guard = make(), make
        forks.add(self, order)

    def before_fork(self) -> None:
        self.guard.acquire()

    def after_fork_in_parent(self) -> None:
        self.guard.release()

    def after_fork_in_child(self) -> None:
        self.guard = self._make_guard()


class OneEach(Guarded, Generic[T]):
    """At most one thing of a name in this process, for as long as somebody uses it."""

    def __init__(self) -> None:
        super().__init__(0, threading.Lock)
        self._found: weakref.WeakValueDictionary[str, T] = weakref.WeakValueDictionary()

    def get(self, name: str, make: Callable[[], T]) -> T:
        with self.guard:
            found = self._found.get(name)
            if found is None:
                found = self._found[name] = make()
            return found


Work = tuple[dict[str, object], dict[str, str]]


class Life(Guarded, abc.ABC):
    """The lock of this process in one place, and what it is at there. Safe to share between threads."""

    def __init__(self) -> None:
        self.token = uuid.uuid4().hex
        self._sessions: dict[str, weakref.WeakSet[Session]] = {}
        self._work: dict[str, Work] = {}
        super().__init__(0)

    @abc.abstractmethod
    def begin(self, name: str) -> None:
        """Hold the lock, where those who look at ``name`` find it; call it under the writer lock of ``name``."""

    @abc.abstractmethod
    def sees(self, name: str, token: str) -> bool:
        """Whether some process holds the lock of a token."""

    def sweep(self, name: str) -> None:
        """Remove what dead processes left, where they leave anything; call it under the writer lock of ``name``."""

    @abc.abstractmethod
    def hide(self, name: str) -> None:
        """Nobody here works on ``name`` any more."""

    @abc.abstractmethod
    def let_go(self) -> None:
        """Free the lock without a trace, as the end of a process does."""

    def join(self, session: Session, name: str) -> Work:
        with self.guard:
            while session not in self._sessions.setdefault(name, weakref.WeakSet()):
                self._sessions[name].add(session)  # again when the garbage collector ended the last other one just now
            return self._work.setdefault(name, ({}, {}))

    def leave(self, session: Session, name: str) -> None:
        """After the last of ``name`` its work is over, after the last of all the lock is free."""
        with self.guard:
            others = self._sessions.get(name)
            if others is None or session not in others:
                return
            others.discard(session)
            if not others:
                del self._sessions[name], self._work[name]
                self.hide(name)
            if not self._sessions:
                self.let_go()

    def forget(self) -> None:
        """What the end of a process does; whoever goes on begins under a new token."""
        with self.guard:
            self.let_go()
            self.token = uuid.uuid4().hex
            for under_way, kept in self._work.values():
                under_way.clear()
                kept.clear()

    def after_fork_in_child(self) -> None:
        """The lock is the parent's: the child drops its copy, and has begun nothing yet."""
        super().after_fork_in_child()
        self._sessions, self._work = {}, {}
        self.forget()


class Session:
    """One user's share in the life of its process: several of one ``name`` know of each other's work.

    ``under_way``: what is being made now, and by whom. ``kept``: what was made and could not be stored yet.
    """

    def __init__(self, life: Life, name: str) -> None:
        self._life, self._name = life, name
        self.under_way, self.kept = life.join(self, name)

    @property
    def token(self) -> str:
        """Another one after the lock was lost; ask for it after `begin`."""
        return self._life.token

    def begin(self) -> None:
        """Start to be visible, or see that this process still is; call it under the writer lock."""
        self._life.begin(self._name)

    def alive(self, token: str) -> bool:
        """Whether another process lives under this token; what this one is at stands in ``under_way``."""
        return token != self._life.token and self._life.sees(self._name, token)

    def sweep(self) -> None:
        """Remove what dead processes left; call it under the writer lock."""
        self._life.sweep(self._name)

    def end(self) -> None:
        self._life.leave(self, self._name)

    def forget(self) -> None:
        """As if the process had died: for tests of what the others do then."""
        self._life.forget()


lives: OneEach[Life] = OneEach()
"""The life of this process in each place."""
