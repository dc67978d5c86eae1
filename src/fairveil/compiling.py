"""Compiled code: kept between processes under what it calls, and formulas that a type picks.

`njit` is numba's; kernels take it from here because this module keys their cached code by what that code is made of:
the function, every function, constant and kind of this package that it can reach, the types it was compiled for, numba,
Python, the machine, and this file, which says how. An edited callee or constant in another file then compiles its
callers anew, an edit elsewhere does not, and nobody removes cache files by hand.

A *kind* is a NamedTuple of public numbers. `by_kind` makes a function whose body is chosen by the kind of its first
argument, so an engine can call a formula that it does not know. `Kernel` compiles an engine's entry points: for kinds
of this package into the shared cache, for kinds from outside (plug-ins) in memory only. Otherwise a process without the
plug-in could not read the cache, and an edited plug-in would run its old formula.
"""

from __future__ import annotations

import enum
import gc
import hashlib
import os
import pickle
import re
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from functools import partial
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, TypeVar

import numba
import numpy as np
from numba import types
from numba._dynfunc import make_function
from numba.core import caching, event
from numba.core.cpu import CPUContext, CPUTargetOptions
from numba.core.dispatcher import Dispatcher
from numba.core.serialize import dumps
from numba.core.targetconfig import TargetConfig
from numba.extending import overload

PACKAGE = Path(__file__).resolve().parent
OURS = "kept under what it calls"
"""The stamp of our kernels' files, where numba has a time."""
VERSION = f"{numba.__version__} {sys.version_info[:2]} {hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:12]}"
"""Of numba and Python, and how this module has code compiled."""
F = TypeVar("F", bound=Callable[..., Any])

_tried: set[str] = set()
_compiler: Any = numba.njit
APART = f"{PACKAGE.name}.streams"
"""Functions of these modules are translated once, whoever calls them: a step alone and a whole stream give the same
bits, which code that is optimised anew inside each of its callers need not."""
NORMAL = ("numba.np.random.distributions", "random_standard_normal")


def njit(*given: Any, **options: Any) -> Any:
    """Numba's, without the wrapper for C: nothing here is handed over as a C function, and every wrapper is compiled.

    Functions of numba that ours call are compiled as ours are. A function that is called both by Python and by
    compiled code is compiled without a wrapper where compiled code calls it.
    """
    if not given:
        return partial(njit, **options)
    made = _compiler(*given, no_cfunc_wrapper=True, **options)
    if not options.get("no_cpython_wrapper") and not given[0].__module__.startswith(APART):
        within = inner(given[0], inline=options.get("inline", "never"))
        made.get_call_template, made.get_overload = within.get_call_template, within.get_overload
    elif options.get("no_cpython_wrapper"):
        made.get_call_template = partial(_call_template, made.get_call_template)
    return made


def _call_template(numbas: Callable[..., Any], given: Any, named: Any) -> Any:
    """A constant is given as any number of its type: numba would compile a function again for each one."""
    return numbas([types.unliteral(one) for one in given], {name: types.unliteral(one) for name, one in named.items()})


def inner(function: F, inline: str = "never") -> Any:
    """A function that compiled code alone calls: it has no wrapper for Python either, and no file of its own."""
    return njit(function, nogil=True, no_cpython_wrapper=True, inline=inline)


class _Compiling(event.Listener):
    """Tells when compiling begins and when it ends; what is compiled meanwhile belongs to it."""

    def __init__(self, tell: Callable[[bool, Any], None]) -> None:
        self.tell, self.depth = tell, 0

    def on_start(self, event: Any) -> None:
        self.depth += 1
        if self.depth == 1:
            self.tell(True, event.data["dispatcher"])

    def on_end(self, event: Any) -> None:
        self.depth -= 1
        if self.depth == 0:
            self.tell(False, event.data["dispatcher"])


def told_of_compiling(tell: Callable[[bool], None]) -> AbstractContextManager[None]:
    """While this lasts, ``tell`` is called with True when code is compiled and with False when that is done."""
    return event.install_listener("numba:compile", _Compiling(lambda begins, _: tell(begins)))


class _Ours:
    """Whether one of our kernels is being compiled. Collecting garbage rests meanwhile: a twentieth of the time."""

    def __init__(self) -> None:
        self.now = self.collects = False

    def tell(self, begins: bool, dispatcher: Any) -> None:
        home = dispatcher.py_func.__module__
        self.now = begins and home.partition(".")[0] == PACKAGE.name and not home.startswith(APART)
        if self.now:
            self.collects = gc.isenabled()
            gc.disable()
        elif self.collects:
            self.collects = False
            gc.enable()


_ours = _Ours()
_numbas_finalize, _numbas_executable = CPUTargetOptions.finalize, CPUContext.get_executable


def _finalize(self: Any, flags: Any, options: Any) -> None:
    _numbas_finalize(self, flags, options)
    flags.inherit_if_not_set("no_cfunc_wrapper")


def _executable(self: Any, library: Any, fndesc: Any, env: Any) -> Any:
    """Of a function without wrappers nobody calls the machine code: its callers take in its unoptimised LLVM code,
    and the whole is optimised and translated once, with the outermost of them. Numba's normal sampler is optimised by
    itself first: a loop of ours that takes it in as it is draws a third as fast.
    """
    wrappers = {fndesc.llvm_cpython_wrapper_name, fndesc.llvm_cfunc_wrapper_name}
    apart = not _ours.now or (fndesc.modname, fndesc.qualname) == NORMAL
    if apart or wrappers & {function.name for function in library._final_module.functions}:
        return _numbas_executable(self, library, fndesc, env)
    for part in dict.fromkeys(library._linking_libraries):
        library._reload_init.update(part._reload_init)
        library._final_module.link_in(part._get_module_for_linking(), preserve=True)
    library._verify_declare_only_symbols()
    library._finalized = True
    return make_function(fndesc.lookup_module(), fndesc.qualname.split(".")[-1], "", 0, env, (library,))


OUTSIDE = {"no_cpython_wrapper", "no_cfunc_wrapper", "release_gil"}
"""Options that concern the wrappers of a function, not what is inside it."""


def _same_options(self: Any, other: Any) -> bool:
    """Whether functions of numba's that are called under these options are the same.

    Numba asks at every call that it types; taking all options of both would be a twentieth of the time, and the same
    function of numba's would be compiled again for callers that differ in their wrappers alone.
    """
    if type(self) is not type(other):
        return False
    set_in = {*self._values, *other._values} - OUTSIDE if self._values != other._values else ()
    return all(getattr(self, name) == getattr(other, name) for name in set_in)


class _OfOurs:
    """Mixed into numba's cache locators: kernels of this package are found by what they call, not by a time stamp."""

    def get_source_stamp(self) -> str:
        return OURS

    def ensure_cache_path(self) -> None:
        """A folder is tried once: numba would write a file into it for each of its functions."""
        folder = self.get_cache_path()  # type: ignore[attr-defined]
        if folder not in _tried:
            super().ensure_cache_path()  # type: ignore[misc]
            _tried.add(folder)

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> Any:
        ours = PACKAGE in Path(py_file).resolve().parents
        return super().from_function(py_func, py_file) if ours else None  # type: ignore[misc]


class _Provided(_OfOurs, caching.UserProvidedCacheLocator):
    """In the folder that NUMBA_CACHE_DIR names."""


class _InTree(_OfOurs, caching.InTreeCacheLocator):
    """Beside the sources."""


class _UserWide(_OfOurs, caching.UserWideCacheLocator):
    """In the user's cache folder, where the sources cannot be written beside."""


class KernelFiles:
    """Numba's place for the compiled code of one function, without an index: a file is named by its key.

    An index names kinds by their classes, and cannot be read once one of them is gone. A key is (types, digest):
    compiled code of other sources for the same types is removed when new code is kept.
    """

    def __init__(self, folder: str, base: str) -> None:
        self.folder, self.base = Path(folder), re.sub(r"-\d+(?=\.py)", "", base)

    def load(self, key: tuple[str, str]) -> Any:
        try:
            return pickle.loads((self.folder / self._name(key)).read_bytes())
        except (OSError, EOFError, pickle.UnpicklingError):
            return None

    def save(self, key: tuple[str, str], data: Any) -> None:
        place = self.folder / self._name(key)
        written = place.with_name(f"{place.name}.{uuid.uuid4().hex[:8]}")
        written.write_bytes(dumps(data))
        os.replace(written, place)
        for old in self.folder.glob(f"{self._name((key[0], '*'))}"):
            if old != place:
                with suppress(OSError):
                    old.unlink()

    def flush(self) -> None:
        for old in self.folder.glob(f"{self.base}.*.nbc"):
            old.unlink()

    def _name(self, key: tuple[str, str]) -> str:
        return f"{self.base}.{key[0]}.{key[1]}.nbc"


_numbas_files, _numbas_key = caching.IndexDataCacheFile, caching.Cache._index_key


def _files(cache_path: str, filename_base: str, source_stamp: Any) -> Any:
    ours = source_stamp == OURS
    return KernelFiles(cache_path, filename_base) if ours else _numbas_files(cache_path, filename_base, source_stamp)


def _key(self: Any, sig: Any, codegen: Any) -> Any:
    if not isinstance(self._cache_file, KernelFiles):
        return _numbas_key(self, sig, codegen)
    where = f"{VERSION} {codegen.magic_tuple()}"
    made_for = hashlib.sha256(f"{sig} {where}".encode()).hexdigest()[:12]
    return made_for, digest(self._py_func, sig)


if _InTree not in caching.CacheImpl._locator_classes:
    caching.CacheImpl._locator_classes = [_Provided, _InTree, _UserWide, *caching.CacheImpl._locator_classes]
    caching.IndexDataCacheFile = _files  # type: ignore[misc, assignment]
    caching.Cache._index_key = _key  # type: ignore[method-assign]
    CPUTargetOptions.finalize = _finalize  # type: ignore[method-assign]
    CPUContext.get_executable = _executable  # type: ignore[method-assign]
    TargetConfig.__eq__ = _same_options  # type: ignore[method-assign]
    TargetConfig.__hash__ = lambda self: hash(type(self))  # type: ignore[method-assign]
    event.register("numba:compile", _Compiling(_ours.tell))


def digest(function: Callable[..., Any], sig: Any = ()) -> str:
    """What compiled code of a function is made of, for arguments of these types."""
    kinds = list(_kinds(sig))
    made_of = _Reached([kind for kind in kinds if isinstance(kind, type)])
    for part in (*kinds, function):
        made_of.add(part)
    return hashlib.sha256("\n".join(made_of.lines).encode()).hexdigest()[:24]


def _kinds(sig: Any) -> Iterator[Any]:
    """Kinds and compiled functions among argument types, also inside tuples."""
    for given in sig:
        if isinstance(given, types.BaseNamedTuple):
            yield given.instance_class  # type: ignore[attr-defined]
        if isinstance(given, types.BaseTuple):
            yield from _kinds(given)
        elif isinstance(given, types.Dispatcher):
            yield given.dispatcher


class _Reached:
    """Everything of this package that code can reach, as lines of text; each thing once."""

    def __init__(self, kinds: list[type]) -> None:
        self.kinds, self.lines, self.seen = kinds, list[str](), set[int]()

    def add(self, value: Any) -> None:
        """One value that compiled code reads by name."""
        if isinstance(value, Dispatcher):
            for name, given in sorted(value.targetoptions.items()):  # a set of words prints in any order
                self.lines.append(f"option {name} {sorted(given) if isinstance(given, set) else given}")
            value = value.py_func
        if isinstance(value, Kernel):
            value = value.function
        if isinstance(value, FunctionType):
            self._add_function(value)
        elif isinstance(value, tuple | list | frozenset | set):
            self.lines.append(f"{type(value).__qualname__} of {len(value)}")
            for part in value if isinstance(value, tuple | list) else sorted(value, key=repr):
                self.add(part)
        elif isinstance(value, type):
            self.lines.append(f"{value.__module__}.{value.__qualname__} {getattr(value, '_fields', '')}")
            for member in value if issubclass(value, enum.Enum) else ():
                self.add(member)
        else:
            self.lines.append(_words(value))

    def _add_function(self, function: FunctionType) -> None:
        self.lines.append(f"{function.__module__}.{function.__qualname__}")
        if id(function) in self.seen or not (function.__module__ or "").startswith(PACKAGE.name):
            return
        self.seen.add(id(function))
        self.add(function.__defaults__ or ())
        self._add_code(function.__code__, function.__globals__)
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
            self.lines.append(name)
            self.add(cell.cell_contents)
        bodies = getattr(function, "bodies", {})
        for kind in self.kinds:
            if kind in bodies:
                self.add(bodies[kind])

    def _add_code(self, code: CodeType, names: dict[str, Any]) -> None:
        self.lines.append(f"{code.co_code.hex()} {code.co_varnames} {code.co_names}")
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                self._add_code(constant, names)
            else:
                self.add(constant)
        for name in code.co_names:
            found = names.get(name, self)
            if isinstance(found, ModuleType) and found.__name__.partition(".")[0] == PACKAGE.name:
                for inner in code.co_names:
                    if hasattr(found, inner):
                        self.add(getattr(found, inner))
            elif found is not self:
                self.add(found)


def _words(value: Any) -> str:
    """A constant, or the name of something of another package."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape} {value.tobytes().hex()}"
    if isinstance(value, enum.Enum):
        return f"{type(value).__qualname__} {value.value!r}"
    if isinstance(value, ModuleType | BuiltinFunctionType):
        return str(value.__name__)
    words = repr(value)
    if " at 0x" in words:
        raise TypeError(f"compiled code reads a {type(value).__name__} that has no name of its own: {words}")
    return words


def by_kind(default: F) -> F:
    """A function for compiled code whose body depends on the kind of its first argument; the decorated body is for
    kinds that have none of their own. ``of(kind)`` registers one, with the same parameters.
    """
    bodies: dict[type, Callable[..., Any]] = {}

    @overload(default, strict=False)
    def choose(numbers: Any, *rest: Any) -> Any:
        kind: Any = getattr(numbers, "instance_class", None)
        return bodies.get(kind, default) if isinstance(numbers, types.BaseNamedTuple) else None

    def of(kind: type) -> Callable[[F], F]:
        def add(body: F) -> F:
            bodies[kind] = body
            return body

        return add

    default.of, default.bodies = of, bodies  # type: ignore[attr-defined]
    return default


class Kernel:
    """An entry point of an engine, compiled for every kind of numbers that it is called with.

    Functions that an entry point calls are compiled into it; they are decorated with ``njit(nogil=True)``, without a
    cache of their own where they take numbers.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.shared = njit(cache=True, nogil=True)(function)
        self.outside: dict[type, Any] = {}
        self.known: dict[type, Any] = {}

    def __call__(self, numbers: Any, *rest: Any) -> Any:
        kind = type(numbers)
        if kind not in self.known:
            self.known[kind] = self.of(kind)
        return self.known[kind](numbers, *rest)

    def of(self, kind: type) -> Any:
        """The compiled function for a kind of numbers."""
        if kind.__module__.partition(".")[0] == "fairveil":
            return self.shared
        if kind not in self.outside:
            self.outside[kind] = njit(nogil=True)(self.function)
        return self.outside[kind]
