"""From what a user names to what can be checked: a target, its kinds of cache, and the configuration that is fixed.

A target is named by text (``builtin:mlx_impl.ring``, ``py:acme.cache:RingCache``, or shorter ``acme.cache:RingCache``)
or given as an object: a subject, an ``Adapter``, a cache class or a factory. Settings that are fields of a
configuration (``window=8``) are fixed in every trace, the others are options of the target. Whatever is wrong is a
``SettingError`` or the ``TargetError`` of ``subjects.targets``.
"""

import inspect
import shlex
from collections.abc import Mapping
from typing import Any

import attrs
from attrs import frozen

from kvlaw.conformance.demands import terms_of
from kvlaw.conformance.limits import config_too_large
from kvlaw.spec.config import KINDS, RECURRENT_KINDS, SERIAL_KINDS, WINDOWED, Config, Kind
from kvlaw.spec.contract import Subject
from kvlaw.spec.structure import TraceError, load

FIXABLE = tuple(a.name for a in attrs.fields(Config) if a.name != "kind")
"""The configuration fields that a setting can fix."""
NOTHING: Mapping[str, Any] = {}


class SettingError(ValueError):
    """A setting that cannot be: the text names it and says what is possible."""


@frozen
class Opened:
    """A target that can be checked: under its name, with the kinds that it serves and the fields that are fixed.

    The name has the options by which the target was made, as on the command line.
    """

    name: str
    subject: Subject
    kinds: tuple[Kind, ...]
    fixed: dict[str, Any]

    @property
    def target(self) -> str:
        """The target alone, without its options."""
        return shlex.split(self.name)[0]


def open_any(target: Any, settings: Mapping[str, Any] = NOTHING, mapping: Mapping[str, str] = NOTHING) -> Opened:
    """Open a target by name or as an object; raise ``SettingError`` or ``TargetError``."""
    fixed = {name: value for name, value in settings.items() if name in FIXABLE}
    options = {name: str(value) for name, value in settings.items() if name not in FIXABLE}
    kind = _kind(options, target)
    named = full_name(target) if isinstance(target, str) else name_of(target)
    subject, kinds = _subject(target, named, options, mapping)
    fixed = _policed(named, subject, fixed)
    options = {**options, "kind": kind} if kind is not None and named.startswith("py:") else options
    word = shlex.quote(named) if named.startswith("cmd:") else named
    words = [word, *_words("--set", options), *_words("--map", mapping)]
    return Opened(" ".join(words), subject, _fitting(named, kinds, kind, fixed), fixed)


def _words(option: str, pairs: Mapping[str, Any]) -> list[str]:
    return [f"{option} {shlex.quote(f'{name}={value}')}" for name, value in pairs.items()]


def _kind(options: dict[str, str], target: Any) -> Kind | None:
    """Take the kind that is asked for out of the options; a ``py:`` target has to know it, to build an example."""
    asked = options.get("kind")
    if asked not in (None, *KINDS):
        raise SettingError(f"kind={asked}: the kinds are {', '.join(KINDS)}")
    if isinstance(target, str) and not full_name(target).startswith("py:"):
        options.pop("kind", None)
    return asked


def full_name(text: str) -> str:
    """Give the full name of a target: ``acme.cache:RingCache`` is ``py:acme.cache:RingCache``."""
    from kvlaw.conformance.subjects.targets import OPTIONS

    scheme, colon, rest = text.partition(":")
    return f"py:{text}" if colon and rest and scheme not in OPTIONS else text


def check_named(text: str, settings: Mapping[str, Any], mapping: Mapping[str, str]) -> None:
    """Raise ``TargetError`` for a name or a setting that no target can have; nothing is opened, imported or read."""
    from kvlaw.conformance.subjects.targets import check_name

    check_name(full_name(text), {name: str(value) for name, value in settings.items()}, mapping)


def name_of(target: Any) -> str:
    """Name an object: by where it can be imported from, else by its type."""
    importable = inspect.isclass(target) or inspect.isroutine(target)
    known: Any = target if importable else target.__class__
    path = f"{known.__module__}:{known.__qualname__}"
    return f"py:{path}" if importable and "<" not in path else f"{path} (an object)"


def _subject(
    target: Any, named: str, options: Mapping[str, str], mapping: Mapping[str, str]
) -> tuple[Subject, tuple[Kind, ...]]:
    from kvlaw.conformance.subjects.targets import open_object, open_target, target_kinds

    if isinstance(target, str) and named.startswith("cmd:"):  # which kinds it serves, only the process can say
        subject = open_target(named, options, mapping)
        return subject, terms_of(subject).kinds or SERIAL_KINDS
    if isinstance(target, str):
        subject = open_target(named, options, mapping)
        return subject, target_kinds(named, options, mapping, subject)
    subject = open_object(target, named, options, mapping)
    return subject, terms_of(subject).kinds or SERIAL_KINDS


def _fitting(named: str, kinds: tuple[Kind, ...], kind: Kind | None, fixed: Mapping[str, Any]) -> tuple[Kind, ...]:
    """Keep the kinds that are asked for and that can have the fixed fields."""
    from kvlaw.conformance.machines.policies import FIELDS

    if kind is not None and kind not in kinds:
        raise SettingError(f"kind={kind}: {named} serves {', '.join(kinds)} only")
    rings = "window" in fixed or "sinks" in fixed
    coded, states = any(name in fixed for name in FIELDS), "conv" in fixed
    left: tuple[Kind, ...] = tuple(
        k
        for k in kinds
        if (kind is None or k == kind)
        and not (rings and k not in WINDOWED)
        and not (coded and k in RECURRENT_KINDS)
        and not (states and k not in RECURRENT_KINDS)
    )
    if not left and not rings:
        has = "a convolution" if states else "a storage policy"
        raise SettingError(f"{_written(fixed)}: {named} is checked as {', '.join(kinds)}, and none has {has}")
    if not left:
        raise SettingError(f"{_written(fixed)}: only a ring has a window and sinks, and {named} is checked as full")
    for known in left:
        _check(known, fixed)
    return left


def _policed(named: str, subject: Subject, fixed: dict[str, Any]) -> dict[str, Any]:
    """Refuse a storage policy that the target is not checked with; a start or a group asks for bits."""
    from kvlaw.conformance.machines.policies import DEFAULT_BITS, FIELDS, fitting, served

    if not any(name in fixed for name in FIELDS):
        return fixed
    policies = served(subject, subject.capabilities)
    if not fitting(policies, fixed):
        lacks = f"{_written(fixed)}: {named} is checked with {' and '.join(policies)} storage only"
        hint = "; a factory that takes bits or start by another name has to be told: --map bits=kv_bits"
        raise SettingError(lacks + (hint if named.startswith("py:") else ""))
    return {"bits": DEFAULT_BITS, **fixed}


def _check(kind: Kind, fixed: Mapping[str, Any]) -> None:
    """Refuse values that no configuration can have."""
    sinks = fixed.get("sinks", 0)
    window = fixed.get("window", sinks + 1 if kind in WINDOWED and type(sinks) is int else None)
    try:
        config = load(Config, {"kind": kind, **fixed, **({} if window is None else {"window": window})}, "--set")
    except TraceError as error:
        raise SettingError(str(error)) from None
    if problem := config.problem or config_too_large(config):
        raise SettingError(f"{_written(fixed)}: {problem}")


def _written(fixed: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in fixed.items())


__all__ = ["FIXABLE", "Opened", "SettingError", "check_named", "full_name", "name_of", "open_any"]
