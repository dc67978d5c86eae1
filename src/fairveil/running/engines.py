"""Where blocks of work run: in this process, on all cores, or on a Ray cluster. The results are the same.

An engine maps blocks to parts in any order; the runner puts them back in block order before they are joined.
"""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
import resource
import signal
import socket
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairveil import plugins
from fairveil.errors import DependencyError, EngineError, SpecError
from fairveil.task import Part, Task, task_of

ATTEMPTS = 3
KEPT = 4
"""Specs whose cases a process holds at a time: a sweep of many does not fill the memory with their worlds."""


@dataclass(frozen=True)
class Job:
    """One block of one spec; ``key`` is the name under which processes keep what they prepared for the spec."""

    key: str
    index: int
    spec: dict[str, Any]
    block: dict[str, Any]


@dataclass(frozen=True)
class Done:
    """A finished block with what it cost."""

    part: Part
    cpu_seconds: float
    peak_mb: float


def few_threads() -> None:
    """Let compiled code in a worker use a few threads: the last long block then fills the cores that others left.

    More than a few would crowd a large machine where every worker is busy.
    """
    os.environ.setdefault("FAIRVEIL_THREADS", str(min(4, os.cpu_count() or 1)))


_cases: dict[str, tuple[Task, Any]] = {}


def keep(key: str, task: Task, case: Any) -> None:
    """Keep a prepared case in this process; the oldest one goes where there are too many."""
    while len(_cases) >= KEPT:
        del _cases[next(iter(_cases))]
    _cases[key] = (task, case)


def prepared(key: str, spec: dict[str, Any], last: bool = False) -> tuple[Task, Any]:
    """The task of a complete spec and its case, prepared once in this process; ``last``: nobody will ask again."""
    found = _cases.pop(key, None)
    if found is None:
        task = task_of(spec)
        found = task, task.prepare(spec).case
    if not last:
        keep(key, *found)
    return found


def work_on(job: Job) -> Done:
    """Do one block here; this is what every worker calls."""
    before, _ = used()
    try:
        task, case = prepared(job.key, job.spec)
        part = task.work(case, job.block)
    except Exception as problem:  # whatever a plug-in's code raises
        plugins.blame(problem)
    arrays = {name: np.asarray(value) for name, value in part.items()}
    odd = [name for name, array in arrays.items() if array.dtype == object]
    if odd:
        raise EngineError("a block's part holds something that is not an array or a number", given=odd)
    after, peak = used()
    return Done(arrays, after - before, peak)


def used() -> tuple[float, float]:
    """CPU seconds of this process until now, and its peak resident memory in MB: one question to the system."""
    found = resource.getrusage(resource.RUSAGE_SELF)
    unit = 1024.0**2 if sys.platform == "darwin" else 1024.0
    return found.ru_utime + found.ru_stime, found.ru_maxrss / unit


def work_alone(job: Job, files: tuple[str, ...] = ()) -> Done:
    """Do one block in a worker beside others."""
    few_threads()
    for file in files:
        plugins.load_file(file)
    return work_on(job)


def probe(address: str, seconds: float = 5.0) -> None:
    """Is anybody there? Ray itself would keep trying for minutes before it says no."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if not host or not port.isdigit():
        raise SpecError(
            "a Ray address is host:port", path="address", given=address, allowed="for example 10.0.0.5:6379"
        )
    try:
        socket.create_connection((host, int(port)), timeout=seconds).close()
    except OSError as problem:
        fix = f"start it with 'ray start --head', or check the address ({problem.strerror or type(problem).__name__})"
        raise EngineError("no Ray cluster answers there", path="address", given=address, fix=fix) from None


class Engine(ABC):
    """Base: does jobs in any order and yields each with what came out."""

    @abstractmethod
    def map(self, jobs: list[Job]) -> Iterator[tuple[Job, Done]]:
        raise NotImplementedError

    def compiling(self) -> bool:
        """Whether a worker is compiling; what this process compiles it tells by itself."""
        return False

    def close(self) -> None:  # noqa: B027  (most engines hold nothing)
        """Free what the engine holds."""


class SerialEngine(Engine):
    """One block after the other in this process."""

    def map(self, jobs: list[Job]) -> Iterator[tuple[Job, Done]]:
        return zip(jobs, map(work_on, jobs), strict=True)


@contextmanager
def _held_interrupts() -> Iterator[None]:
    """Hold Ctrl-C back for a moment. Workers started meanwhile never see it: to stop them is their owner's business."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _leave_with_parent() -> None:
    """In a worker: end when the process that asked for the work is gone, however it went."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _begin(compiling: Any) -> None:
    """In a worker, before its first block: it ends with its parent and says when it compiles."""
    from fairveil.compiling import told_of_compiling

    def tell(begins: bool) -> None:
        with compiling.get_lock():
            compiling.value += 1 if begins else -1

    _leave_with_parent()
    _worker.enter_context(told_of_compiling(tell))


_worker = ExitStack()
"""What lasts as long as a worker."""


class ProcessEngine(Engine):
    """A pool of worker processes. A worker that dies is replaced and its blocks are done again, up to three times."""

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers or os.cpu_count() or 1
        self._compiling: Any = None
        self._pool: concurrent.futures.ProcessPoolExecutor | None = None

    def _open(self) -> concurrent.futures.ProcessPoolExecutor:
        if self._pool is None:
            context = multiprocessing.get_context("spawn")
            self._compiling = context.Value("i", 0)
            self._pool = concurrent.futures.ProcessPoolExecutor(
                self.workers, mp_context=context, initializer=_begin, initargs=(self._compiling,)
            )
        return self._pool

    def compiling(self) -> bool:
        return self._compiling is not None and self._compiling.value > 0

    def map(self, jobs: list[Job]) -> Iterator[tuple[Job, Done]]:
        waiting = {(job.key, job.index): job for job in jobs}
        for _attempt in range(ATTEMPTS):
            try:
                yield from self._once(waiting)
            except BrokenProcessPool:
                self.close()
            if not waiting:
                return
        raise EngineError(
            "workers kept dying", given=f"{len(waiting)} blocks left", fix="give fewer workers, or the serial engine"
        )

    def _once(self, waiting: dict[tuple[str, int], Job]) -> Iterator[tuple[Job, Done]]:
        pool = self._open()
        files = plugins.files()
        with _held_interrupts():
            futures = {pool.submit(work_alone, job, files): job for job in waiting.values()}
        try:
            for future in concurrent.futures.as_completed(futures):
                done = future.result()
                job = futures[future]
                del waiting[job.key, job.index]
                yield job, done
        finally:
            for future in futures:
                future.cancel()

    def close(self) -> None:
        """End the workers. Nobody waits for a block that is under way: its result would be thrown away."""
        if self._pool is None:
            return
        workers = list((self._pool._processes or {}).values())
        self._pool.shutdown(wait=False, cancel_futures=True)
        for worker in workers:
            worker.terminate()
        for worker in workers:
            worker.join()
        self._pool = None


class RayEngine(Engine):
    """Blocks as Ray tasks, on a cluster (``address``) or on a local one; lost workers and nodes are retried."""

    def __init__(self, workers: int | None = None, address: str | None = None) -> None:
        try:
            import ray
        except ImportError:
            raise DependencyError("Ray is not installed", fix="pip install 'fairveil[ray]'") from None
        self._ray = ray
        self._own = not ray.is_initialized()
        if self._own:
            if address is not None:
                probe(address)
            os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
            options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
            try:
                if address is not None:
                    ray.init(address=address, **options)
                else:
                    ray.init(address="local", num_cpus=workers or os.cpu_count(), include_dashboard=False, **options)
            except (ConnectionError, RuntimeError, ValueError) as problem:
                raise EngineError(
                    "the Ray cluster cannot be reached",
                    given=address or "local",
                    fix=f"check the address, and RAY_AUTH_MODE on every node ({type(problem).__name__})",
                ) from None
        self._remote: Callable[..., Any] = ray.remote(max_retries=ATTEMPTS, num_cpus=1)(work_alone).remote

    def map(self, jobs: list[Job]) -> Iterator[tuple[Job, Done]]:
        ray = self._ray
        files = plugins.files()
        limit = max(2, 2 * int(ray.cluster_resources().get("CPU", 1)))
        queue = list(reversed(jobs))
        flying: dict[Any, Job] = {}
        while queue or flying:
            while queue and len(flying) < limit:
                job = queue.pop()
                flying[self._remote(job, files)] = job
            ready, _ = ray.wait(list(flying), num_returns=1)
            job = flying.pop(ready[0])
            try:
                yield job, ray.get(ready[0])
            except ray.exceptions.RayTaskError as problem:
                raise problem.as_instanceof_cause() from None
            except ray.exceptions.RayError as problem:
                raise EngineError(
                    "the Ray cluster lost a block for good", given=type(problem).__name__, fix="run again: it resumes"
                ) from None

    def close(self) -> None:
        if self._own and self._ray.is_initialized():
            self._ray.shutdown()


ENGINES = ("serial", "processes", "ray")


def make_engine(name: str, workers: int | None = None, address: str | None = None) -> Engine:
    """The engine of this name; ``address`` is for Ray only."""
    if workers is not None and (isinstance(workers, bool) or workers < 1):
        raise SpecError("the number of workers is wrong", path="workers", given=workers, allowed="at least 1")
    if address is not None and name != "ray":
        fix = "add --engine ray, or leave the address out"
        raise SpecError("an address is for the ray engine", path="address", given=address, fix=fix)
    if name == "serial":
        return SerialEngine()
    if name == "processes":
        return ProcessEngine(workers)
    if name == "ray":
        return RayEngine(workers, address)
    raise SpecError("there is no engine of this name", path="engine", given=name, allowed=", ".join(ENGINES))
