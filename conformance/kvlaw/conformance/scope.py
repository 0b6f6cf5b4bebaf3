"""Which clauses a fixed setting leaves without a situation: ``--set window=8`` never sees a window of 1.

Such a clause is *not applicable* to that check, by name and reason; all else that was never exercised stays open.
"""

from collections.abc import Callable, Mapping
from typing import Any

Fixed = Mapping[str, Any]
Rule = tuple[tuple[str, ...], Callable[[Fixed], bool], str]


def _is(name: str, *values: Any) -> Callable[[Fixed], bool]:
    return lambda fixed: name in fixed and fixed[name] in values


def _no_sinks(fixed: Fixed) -> bool:
    return fixed.get("sinks") == 0 or fixed.get("window") == 1


def _sinks_fit(fixed: Fixed) -> bool:
    return "sinks" in fixed and "window" in fixed and fixed["sinks"] < fixed["window"]


_RULES: tuple[Rule, ...] = (
    (("RING-10",), lambda fixed: fixed.get("window", 1) != 1, "a window of 1 is never drawn"),
    (("VIS-9", "RING-12", "RING-13", "MASK-13"), _no_sinks, "no ring with sinks is drawn"),
    (("RING-14",), lambda fixed: _sinks_fit(fixed) or fixed.get("sinks") == 0, "the sinks are always below the window"),
    (("MASK-8", "TRIM-2"), _is("window", 1), "there is nothing below a window of 1"),
    (("VIS-10",), lambda fixed: fixed.get("batch") == fixed.get("kv_heads") == 1, "there is one row and one head"),
    (("OWN-8",), _is("poison", False), "the caller's arrays are never overwritten"),
    (("ERR-6",), lambda fixed: "window" in fixed, "the configuration is always a possible one"),
)


def ruled_out(clause: str, fixed: Fixed) -> str:
    """Say why the fixed settings leave a clause no situation; an empty text if they leave it one."""
    for clauses, applies, why in _RULES:
        if clause in clauses and applies(fixed):
            settings = ", ".join(f"{name}={value}" for name, value in fixed.items())
            return f"with {settings} {why}"
    return ""
