"""Targets by name: what stands before the colon says what it is.

``builtin:…``, ``py:module:attribute``, ``cmd:COMMAND LINE``, ``release:mlx-lm==VERSION:CACHE``, ``vectors:FILE``,
``fault:NAME``.

``open_target`` makes the subject, ``target_kinds`` says which kinds of cache it serves. Whatever is wrong with a
target (an unknown name, a module that cannot be imported, a constructor that raises) is a ``TargetError`` that names
it and the way out.
"""

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import attrs
from attrs import frozen

from kvlaw.conformance.adapter import Adapter, AdapterSubject
from kvlaw.conformance.demands import terms_of
from kvlaw.conformance.guard import describe
from kvlaw.conformance.interrupts import users_alone
from kvlaw.conformance.staying import staying
from kvlaw.conformance.subjects.declared import check_declared
from kvlaw.conformance.subjects.errors import MisnamedError, TargetError, nearest
from kvlaw.conformance.subjects.mlx_lm_targets import CACHES, open_release, read_release
from kvlaw.conformance.subjects.paths import meant_by_path
from kvlaw.reference.numerics.quantized_attention import KERNEL_SETS, KernelSet
from kvlaw.spec.config import KINDS, RECURRENT_KINDS, ROW_KINDS, SERIAL_KINDS, Config, Kind, Policy
from kvlaw.spec.contract import Subject

if TYPE_CHECKING:
    from kvlaw.conformance.testee.launch import Launch

Options = Mapping[str, str]
NOTHING: Mapping[str, str] = {}

OPTIONS: dict[str, tuple[str, ...]] = {
    "builtin": ("clone", "kernels", "seconds", "step"),
    "py": ("array", "clone", "kind", "seconds"),
    "release": ("clone", "seconds", "step"),
    "vectors": ("vectors",),
    "fault": ("seconds",),
    "cmd": ("hello", "log", "seconds"),
}
"""The options that targets of each scheme take."""
_FIELDS = tuple(a.name for a in attrs.fields(Config) if a.name != "kind")

SECONDS = "10"
"""How long a call may take, unless said otherwise."""
MOST_SECONDS = 86_400
CLONES = ("method", "deepcopy", "from_state")


@frozen
class Builtin:
    """A target that the suite knows by name."""

    kinds: tuple[Kind, ...]
    make: Callable[[Options], Adapter]
    needs: tuple[str, ...] = ()
    coded: bool = False
    """Its kernel set can be chosen."""
    steps: tuple[str, ...] = ()
    """The ways to make a compiled step of its caches."""


def _oracle(_options: Options) -> Adapter:
    from kvlaw.conformance.subjects.oracle import ReferenceAdapter

    return ReferenceAdapter()


def _mlx_impl(kind: Kind, policy: Policy = "dense") -> Callable[[Options], Adapter]:
    def make(options: Options) -> Adapter:
        from kvlaw.conformance.subjects.mlx_impl import MlxImplAdapter

        return MlxImplAdapter(kind, policy, cast("KernelSet", options.get("kernels", "unfused")))

    return make


def _mlx_impl_rows(kind: Kind, policy: Policy = "dense") -> Callable[[Options], Adapter]:
    def make(options: Options) -> Adapter:
        from kvlaw.conformance.subjects.mlx_impl_rows import MlxImplRowsAdapter

        return MlxImplRowsAdapter(kind, policy, cast("KernelSet", options.get("kernels", "unfused")))

    return make


def _mlx_impl_recurrent(kind: Kind) -> Callable[[Options], Adapter]:
    def make(_options: Options) -> Adapter:
        from kvlaw.conformance.subjects.mlx_impl_recurrent import MlxImplRecurrentAdapter

        return MlxImplRecurrentAdapter(kind)

    return make


_PREFIXES: dict[Policy, str] = {"dense": "", "affine": "affine_", "bf16_first": "bf16_first_"}

BUILTINS: dict[str, Builtin] = {
    "oracle": Builtin(KINDS, _oracle),
    "mlx_impl.full": Builtin(("full",), _mlx_impl("full"), ("mlx",)),
    "mlx_impl.ring": Builtin(("ring",), _mlx_impl("ring"), ("mlx",)),
    "mlx_impl.affine_full": Builtin(("full",), _mlx_impl("full", "affine"), ("mlx",), coded=True),
    "mlx_impl.affine_ring": Builtin(("ring",), _mlx_impl("ring", "affine"), ("mlx",), coded=True),
    "mlx_impl.bf16_first_full": Builtin(("full",), _mlx_impl("full", "bf16_first"), ("mlx",), coded=True),
    "mlx_impl.bf16_first_ring": Builtin(("ring",), _mlx_impl("ring", "bf16_first"), ("mlx",), coded=True),
    **{
        f"mlx_impl.{prefix}{kind}": Builtin((kind,), _mlx_impl_rows(kind, policy), ("mlx",), coded=bool(prefix))
        for policy, prefix in _PREFIXES.items()
        for kind in ROW_KINDS
    },
    **{f"mlx_impl.{kind}": Builtin((kind,), _mlx_impl_recurrent(kind), ("mlx",)) for kind in RECURRENT_KINDS},
    **{
        f"mlx_lm.{name}": Builtin(known.kinds, known.installed, ("mlx", "mlx_lm"), steps=known.steps)
        for name, known in CACHES.items()
        if not known.gone
    },
}
"""The known targets, as they are written behind ``builtin:``."""

PACKAGES = {"mlx": "mlx", "mlx_lm": "mlx-lm"}
"""Module to the package that brings it."""


def open_target(text: str, options: Options = NOTHING, mapping: Mapping[str, str] = NOTHING) -> Subject:
    """Make the subject that ``text`` names.

    ``options`` are ``clone``, ``kind``, ``array`` and ``seconds`` (the limit of one call); ``mapping`` says by which
    parameter a factory takes a field of the configuration.  Raises ``TargetError`` if the target cannot be run,
    ``MisnamedError`` if there can be none of that name, or with that option.
    """
    scheme, name = _split(text)
    _check(scheme, options, mapping)
    if scheme == "fault":
        return _fault(name)
    if scheme == "cmd":
        return _process(name, options)
    if scheme == "vectors":
        return _results(name, options)
    if scheme == "release":
        made = _release(name, options)
    else:
        made = _builtin(name, options) if scheme == "builtin" else _python(name, options, mapping)
    return AdapterSubject(made, _seconds(options, "60" if text == "builtin:oracle" else SECONDS), text)


def open_object(found: Any, name: str, options: Options = NOTHING, mapping: Mapping[str, str] = NOTHING) -> Subject:
    """Make the subject of an object: a subject itself, an ``Adapter``, a cache class or a factory of caches."""
    if callable(getattr(found, "apply", None)) and callable(getattr(found, "open", None)):
        with _told(name):
            subject: Subject = found() if isinstance(found, type) else found
            check_declared(subject, name)
        return subject
    _check("py", options, mapping)
    from kvlaw.conformance.subjects.python import adapt

    with _told(name):
        made = adapt(found, name.removeprefix("py:"), options, mapping)
        check_declared(made, name)
    return AdapterSubject(made, _seconds(options), name)


def target_kinds(
    text: str, options: Options = NOTHING, mapping: Mapping[str, str] = NOTHING, opened: Subject | None = None
) -> tuple[Kind, ...]:
    """Say which kinds of cache a target serves, which may be ``opened``; raise ``TargetError`` if it cannot be run."""
    scheme, name = _split(text)
    if scheme == "builtin":
        return _known(name).kinds
    if scheme == "fault":
        return _planted(name).kinds
    return terms_of(opened or open_target(text, options, mapping)).kinds or SERIAL_KINDS


def members(text: str) -> tuple[str, ...]:
    """List the targets of a family, ``builtin:mlx_impl``; of anything else the target itself."""
    name = text.removeprefix("builtin:")
    listed = tuple(f"builtin:{known}" for known in BUILTINS if known.startswith(f"{name}."))
    return listed if listed and text != name else (text,)


def known_targets() -> tuple[str, ...]:
    """List every target that has a name."""
    return tuple(f"builtin:{name}" for name in BUILTINS)


def check_name(text: str, options: Options = NOTHING, mapping: Mapping[str, str] = NOTHING) -> None:
    """Raise ``TargetError`` for a name or an option that no target can have; nothing is opened, imported or read."""
    scheme, name = _split(text)
    own = {given: value for given, value in options.items() if given not in _FIELDS}
    _check(scheme, {given: value for given, value in own.items() if given != "kind"}, mapping)
    if scheme == "builtin":
        _known(name)
    elif scheme == "fault":
        _planted(name)
    elif scheme == "release":
        read_release(name)
    elif scheme == "py" and not all(name.partition(":")):
        raise MisnamedError(f"py:{name}: write py:module:attribute, such as py:acme.cache:RingCache")


def is_written(text: str) -> bool:
    """Say whether a text is written as targets are: a scheme, a colon, a name."""
    scheme, colon, name = text.partition(":")
    return bool(colon) and scheme in OPTIONS and bool(name)


def unknown(text: str, configured: tuple[str, ...] = ()) -> str:
    """Say of a text that no target has it for a name, which is meant, and which there are: those configured first."""
    if hint := meant_by_path(text):
        return f"{text.removeprefix('py:')!r} is no target{hint}"
    if not configured:
        return f"unknown target {text!r}{_meant(text)}; targets are\n{_listed()}"
    meant = nearest(text, configured) or _meant(text)
    if meant:
        return f"unknown target {text!r}{meant} configured are {', '.join(configured)}; kvlaw check --help lists others"
    listed = "\n".join(f"  {name}" for name in configured)
    return f"unknown target {text!r}; configured are\n{listed}\nothers are\n{_listed()}"


def _split(text: str) -> tuple[str, str]:
    scheme, _, name = text.partition(":")
    if not is_written(text) or _names_file(text):
        raise MisnamedError(unknown(text))
    return scheme, name


def _names_file(text: str) -> bool:
    """Say whether ``py:`` is given a file where it takes a module."""
    scheme, _, name = text.partition(":")
    module = name.partition(":")[0]
    return scheme == "py" and ("/" in module or module.endswith(".py"))


def _meant(text: str) -> str:
    if text in BUILTINS:
        return f"; did you mean 'builtin:{text}'?"
    scheme, colon, name = text.partition(":")
    if colon and name and nearest(scheme, OPTIONS):
        return nearest(scheme, OPTIONS)
    return f"; did you mean 'py:{text}'?" if colon and name else nearest(text, [*known_targets(), *BUILTINS])


def _listed() -> str:
    others = (
        *("py:module:attribute", "cmd:COMMAND LINE"),
        *("release:mlx-lm==VERSION:CACHE", "vectors:FILE", "fault:NAME"),
    )
    return "\n".join(f"  {target}" for target in (*known_targets(), *others))


def _check(scheme: str, options: Options, mapping: Mapping[str, str]) -> None:
    """Refuse options that targets of a scheme do not take; raises ``TargetError``."""
    for name in options:
        if name not in OPTIONS[scheme]:
            raise MisnamedError(
                f"a {scheme}: target has no option {name!r}{nearest(name, (*OPTIONS[scheme], *_FIELDS))}; "
                f"it takes {', '.join(OPTIONS[scheme])}, and every field of a configuration: {', '.join(_FIELDS)}"
            )
    if mapping and scheme != "py":
        raise MisnamedError(f"only py: targets map fields to parameters, not {scheme}: targets")
    if (clone := options.get("clone")) is not None and clone not in CLONES:
        raise MisnamedError(f"clone={clone}{nearest(clone, CLONES)}; the ways to copy are {', '.join(CLONES)}")


def _seconds(options: Options, usual: str = SECONDS, name: str = "seconds", what: str = "a call") -> float:
    """Read the time limit of a call; the oracle, which does not hang, gets more: it attends wide windows slowly."""
    text = options.get(name, usual)
    try:
        seconds = float(text)
    except ValueError:
        raise MisnamedError(f"{name}={text}: the time limit of {what} is a number of seconds") from None
    if not 0 < seconds <= MOST_SECONDS:
        raise MisnamedError(f"{name}={text}: the time limit of {what} is above 0, and at most {MOST_SECONDS:,} (a day)")
    return seconds


def _known(name: str) -> Builtin:
    if name not in BUILTINS:
        raise MisnamedError(f"unknown target 'builtin:{name}'{nearest(name, BUILTINS)}; targets are\n{_listed()}")
    return BUILTINS[name]


def _builtin(name: str, options: Options) -> Adapter:
    builtin = _known(name)
    _check_kernels(name, builtin, options.get("kernels"))
    _check_steps(name, builtin, options.get("step"))
    for module in builtin.needs:
        if find_spec(module) is None:
            raise TargetError(f"builtin:{name} needs {module}: pip install {PACKAGES[module]}")
    with _told(f"builtin:{name}"):
        return builtin.make(options)


def _release(name: str, options: Options) -> Adapter:
    if find_spec("mlx") is None:
        raise TargetError(f"release:{name} needs mlx: pip install mlx")
    with _told(f"release:{name}"):
        return open_release(name, options)


def _check_kernels(name: str, builtin: Builtin, kernels: str | None) -> None:
    """Refuse a kernel set that there is not, or for a target that has none to choose."""
    if kernels is None:
        return
    if not builtin.coded:
        coded = ", ".join(f"builtin:{known}" for known, found in BUILTINS.items() if found.coded)
        raise MisnamedError(f"kernels={kernels}: builtin:{name} has no kernel sets; {coded} have")
    if kernels not in KERNEL_SETS:
        raise MisnamedError(
            f"kernels={kernels}{nearest(kernels, KERNEL_SETS)}; the kernel sets are {', '.join(KERNEL_SETS)}"
        )


def _check_steps(name: str, builtin: Builtin, step: str | None) -> None:
    """Refuse a way to compile that there is not, or for a target whose caches have none."""
    if step is None or step in builtin.steps:
        return
    if not builtin.steps:
        able = ", ".join(f"builtin:{known}" for known, found in BUILTINS.items() if found.steps)
        raise MisnamedError(f"step={step}: the steps of builtin:{name} are not made by an option; those of {able} are")
    raise MisnamedError(f"step={step}{nearest(step, builtin.steps)}; the ways are {', '.join(builtin.steps)}")


def _python(name: str, options: Options, mapping: Mapping[str, str]) -> Adapter:
    from kvlaw.conformance.subjects.python import adapter

    with _told(f"py:{name}"):
        made = adapter(name, options, mapping)
        check_declared(made, f"py:{name}")
        return made


def _process(command: str, options: Options) -> Subject:
    """Start a testee."""
    from kvlaw.conformance.testee.subject import ProcessSubject

    subject = ProcessSubject(*launch_of(command, options))
    try:
        check_declared(subject, subject.name)
    except TargetError:
        subject.close()
        raise
    return subject


def launch_of(command: str, options: Options, mapping: Mapping[str, str] = NOTHING) -> "tuple[Launch, float]":
    """Say how a testee is started, and how long its calls may take; raises ``TargetError``."""
    from kvlaw.conformance.testee.launch import HELLO_SECONDS, Launch

    _check("cmd", options, mapping)
    hello = _seconds(options, str(HELLO_SECONDS), "hello", "the hello")
    return Launch.of(command, hello, options.get("log")), _seconds(options)


@contextmanager
def _told(name: str) -> Generator[None]:
    """Make a ``TargetError`` of whatever a target raises while it is made ready; the user's interrupt passes."""
    try:
        with users_alone(), staying():
            yield
    except (KeyboardInterrupt, TargetError):
        raise
    except BaseException as error:
        raise TargetError(f"{name} cannot be run: {describe(error)}") from error


def _fault(name: str) -> Subject:
    """Open a planted fault."""
    _planted(name)
    from kvlaw.conformance.faults.registry import subject

    return subject(name)


def _results(name: str, options: Options) -> Subject:
    """Open the results of a native test that replayed vectors."""
    from kvlaw.conformance.vectors.form import VectorsError
    from kvlaw.conformance.vectors.recorded import open_results

    try:
        replayed = options.get("vectors")
        return open_results(Path(name), None if replayed is None else Path(replayed))
    except VectorsError as error:
        raise TargetError(str(error)) from error


def _planted(name: str) -> Any:
    """Find a planted fault by name."""
    from kvlaw.conformance.faults.registry import load_faults

    known = load_faults()
    if name not in known:
        raise MisnamedError(f"unknown fault {name!r}{nearest(name, known)}; `kvlaw faults` lists them")
    return known[name]


def arithmetic_is_modelled(subject: Subject) -> bool:
    """Say whether the NumPy model of MLX's arithmetic speaks of this subject: by the canaries where MLX computes."""
    computes = getattr(getattr(subject, "adapter", None), "computes", "own")
    if computes != "mlx":
        return computes == "model"
    from kvlaw.conformance.subjects import canary

    codes = "policy" in subject.capabilities
    return canary.arithmetic_is_modelled() and (not codes or canary.codec_is_modelled())


__all__ = [
    "BUILTINS",
    "OPTIONS",
    "TargetError",
    "arithmetic_is_modelled",
    "check_name",
    "is_written",
    "known_targets",
    "members",
    "nearest",
    "open_object",
    "open_target",
    "target_kinds",
    "unknown",
]
