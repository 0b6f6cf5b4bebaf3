"""Which clauses count for a target: those of the profile and the version that speak of what it is and can do.

A fixed setting leaves some clauses without a situation: ``--set window=8`` never sees a window of 1. Such a clause is
*not applicable* to that check, by name and reason; all else that was never exercised stays open.
"""

from collections.abc import Callable, Mapping
from typing import Any

from kvlaw.spec.clauses import Clause, Profile, load_clauses
from kvlaw.spec.config import ROW_KINDS
from kvlaw.spec.contract import CAPABILITIES

Fixed = Mapping[str, Any]
Rule = tuple[tuple[str, ...], Callable[[Fixed], bool], str]


def _is(name: str, *values: Any) -> Callable[[Fixed], bool]:
    return lambda fixed: name in fixed and fixed[name] in values


def _no_sinks(fixed: Fixed) -> bool:
    return fixed.get("sinks") == 0 or fixed.get("window") == 1


def _sinks_fit(fixed: Fixed) -> bool:
    return "sinks" in fixed and "window" in fixed and fixed["sinks"] < fixed["window"]


def _other_start(*values: Any) -> Callable[[Fixed], bool]:
    return lambda fixed: "start" in fixed and fixed["start"] not in values


_CONVERTED = ("PREC-1", "PREC-4", "PREC-7", "PREC-8", "PREC-9", "READ-10", "READ-11", "READ-14", "READ-15")
"""Clauses that speak of a conversion, or of the codes after it."""
_POLICY = ("bits", "value_bits", "group", "start")
_RULES: tuple[Rule, ...] = (
    (("RING-10",), lambda fixed: fixed.get("window", 1) != 1, "a window of 1 is never drawn"),
    (("VIS-9", "RING-12", "RING-13", "MASK-13", "ROWS-7"), _no_sinks, "no ring with sinks is drawn"),
    (("RING-14",), lambda fixed: _sinks_fit(fixed) or fixed.get("sinks") == 0, "the sinks are always below the window"),
    (("MASK-8", "TRIM-2", "TRIM-8"), _is("window", 1), "there is nothing below a window of 1"),
    (("VIS-10",), lambda fixed: fixed.get("batch") == fixed.get("kv_heads") == 1, "there is one row and one head"),
    (("OWN-8",), _is("poison", False), "the caller's arrays are never overwritten"),
    (("ERR-6",), lambda fixed: bool({"window", *_POLICY} & fixed.keys()), "the configuration is always a possible one"),
    (("PREC-2",), _other_start(0), "no cache has the start 0"),
    (("PREC-3",), _other_start("never"), "no cache has the start never"),
    (("PREC-11",), _other_start(), "every cache has a start"),
    (_CONVERTED, _is("start", "never"), "no cache ever converts"),
)


def ruled_out(clause: str, fixed: Fixed) -> str:
    """Say why the fixed settings leave a clause no situation; an empty text if they leave it one."""
    for clauses, applies, why in _RULES:
        if clause in clauses and applies(fixed):
            settings = ", ".join(f"{name}={value}" for name, value in fixed.items())
            return f"with {settings} {why}"
    return ""


def applicable(clause: Clause, kind: str, capabilities: frozenset[str]) -> str:
    """Say why a clause does not apply to a target of ``kind``; an empty text if it does."""
    if kind not in clause.applies:
        return f"speaks of {', '.join(sorted(clause.applies))} only"
    lacking = sorted(clause.needs - capabilities)
    return f"the target lacks {', '.join(lacking)}: {CAPABILITIES[lacking[0]]}" if lacking else ""


def counted(profile: Profile, kind: str, capabilities: frozenset[str], spec: str = "") -> frozenset[str]:
    """List the clauses that count for a target of ``kind`` with these capabilities.

    ``spec`` is the version of the specification whose clauses count, without one the newest.  For groups those of
    files and prefixes count as well: they hold for the serial caches beside the groups.
    """
    chosen = load_clauses().of_version(spec).of_profile(profile)
    beside = [c for c in chosen.values() if kind in ROW_KINDS and not c.needs.isdisjoint(_KEPT)]
    kept = frozenset(c.id for c in beside if not applicable(c, kind.removesuffix("_rows"), capabilities))
    return kept | frozenset(c.id for c in chosen.values() if not applicable(c, kind, capabilities))


_KEPT = ("files", "reuse")
"""What is needed by clauses that speak of caches which are kept."""
