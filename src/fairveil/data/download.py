"""One download: progress, resume, checksum, atomic rename. A half file is never taken for a whole one."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import os
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from fairveil._version import __version__
from fairveil.errors import DataError

CHUNK = 1 << 16
TIMEOUT = 30.0
ATTEMPTS = 4
AGAIN = (408, 425, 429, 500, 502, 503, 504)

Advance = Callable[[int, int | None], None]
"""Called with the bytes received so far and the expected total (None when the server does not say)."""


def download(url: str, target: Path, *, sha256: str = "", pause: float = 0.5, progress: bool | None = None) -> Path:
    """Fetch ``url`` to ``target``. What was received stays in ``target.part`` and the next call continues there.

    Raises DataError when the server cannot be reached, answers with an error, keeps cutting the transfer short, or
    sends other bytes than the checksum says (then the part is deleted: it is of no use).
    """
    part = target.with_name(target.name + ".part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _locked(part), _shown(_words(url), progress) as advance:
            _receive(url, part, pause, advance)
            if sha256 and (found := digest(part)) != sha256:
                part.unlink()
                raise DataError(
                    "the download does not have the expected checksum",
                    path=url,
                    given=f"sha256 {found}",
                    allowed=f"sha256 {sha256}",
                    fix="try again; if it stays so, the file at its home has changed",
                )
            os.replace(part, target)
    except OSError as problem:
        raise DataError(
            f"the download cannot be written ({problem.strerror or problem})",
            path=str(target.parent),
            fix="free some space or make the folder writable; set XDG_CACHE_HOME to use another one",
        ) from problem
    return target


def _words(url: str) -> str:
    """What is fetched, and from whom; a file in the cache has another name."""
    parts = urllib.parse.urlsplit(url)
    return f"fetching {parts.path.rpartition('/')[2] or parts.path} from {parts.hostname}"


def digest(path: Path) -> str:
    """sha256 of a file's bytes."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _receive(url: str, part: Path, pause: float, advance: Advance) -> None:
    if not url.startswith(("https://", "http://")):
        raise DataError("this address cannot be downloaded", path=url, allowed="https:// or http://")
    reason = ""
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(pause * 2 ** (attempt - 1))
        try:
            if _transfer(url, part, advance):
                return
            reason = "the connection closed before the end of the file"
        except urllib.error.HTTPError as answer:
            reason = f"the server answered {answer.code} {answer.reason}"
            if answer.code == 416:  # the part is longer than the file: start afresh
                part.unlink(missing_ok=True)
            elif answer.code not in AGAIN:
                break
        except (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError) as problem:
            reason = str(getattr(problem, "reason", problem)) or type(problem).__name__
    kept = f"; {part.stat().st_size} bytes are kept and the next try continues there" if part.exists() else ""
    raise DataError(f"the download failed: {reason}{kept}", path=url, fix="check the connection and try again")


def _transfer(url: str, part: Path, advance: Advance) -> bool:
    """One connection; True when the whole file has arrived."""
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"User-Agent": f"fairveil/{__version__}"})
    if have:
        request.add_header("Range", f"bytes={have}-")
    with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
        resumed = answer.status == 206 and _starts_at(answer.headers.get("Content-Range", "")) == have
        if not resumed:
            have = 0  # the server sent the whole file
        length = answer.headers.get("Content-Length")
        total = have + int(length) if length and length.isdigit() else None
        with part.open("ab" if resumed else "wb") as out:
            while chunk := answer.read(CHUNK):
                out.write(chunk)
                have += len(chunk)
                advance(have, total)
            out.flush()
            os.fsync(out.fileno())
    return total is None or have == total


def _starts_at(content_range: str) -> int:
    with contextlib.suppress(ValueError, IndexError):
        return int(content_range.split()[1].split("-")[0])
    return -1


@contextlib.contextmanager
def _locked(part: Path) -> Iterator[None]:
    """Two processes that want the same file take turns, where the platform has file locks."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    with part.with_name(part.name + ".lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(handle, fcntl.LOCK_UN)


@contextlib.contextmanager
def _shown(name: str, progress: bool | None) -> Iterator[Advance]:
    """A progress bar on a terminal, nothing elsewhere."""
    if not (sys.stderr.isatty() if progress is None else progress):
        yield lambda have, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    with bar:
        task: Any = bar.add_task(name, total=None)
        yield lambda have, total: bar.update(task, completed=have, total=total)
