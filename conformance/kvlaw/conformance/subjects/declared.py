"""What an adapter says of itself, looked at before anything is asked of it: a wrong word is named, with the right ones.

The suite reads these attributes everywhere, outside of any guarded call; a typo among the capabilities would silently
make clauses not applicable.
"""

from collections.abc import Collection
from collections.abc import Set as AbstractSet
from typing import Any, cast

from kvlaw.conformance.subjects.errors import TargetError, nearest
from kvlaw.reference.numerics.quantized_attention import KERNEL_SETS
from kvlaw.spec.config import CODE_BITS, DTYPES, KINDS, POLICIES
from kvlaw.spec.contract import CAPABILITIES

_SEVERAL: dict[str, tuple[Any, ...]] = {
    "kinds": KINDS,
    "policies": POLICIES,
    "dtypes": DTYPES,
    "code_bits": CODE_BITS,
}
_ONE: dict[str, tuple[str, ...]] = {"kernel_set": KERNEL_SETS, "computes": ("mlx", "model", "own")}


def check_declared(subject: Any, name: str) -> None:
    """Check the attributes by which an adapter, or a subject, says what it is; what it does not have is not checked.

    Raises:
        TargetError: for a value that it cannot have; names the attribute and what is possible.
    """
    able: Any = subject.capabilities
    if not isinstance(able, AbstractSet):
        raise TargetError(f"{name}: capabilities is {_named(able)}; a frozenset of words is wanted")
    for word in cast("AbstractSet[Any]", able):
        _known(name, "capabilities", word, CAPABILITIES)
    for attribute, possible in _SEVERAL.items():
        values: Any = getattr(subject, attribute, possible)
        if not isinstance(values, tuple | list) or not values:
            raise TargetError(f"{name}: {attribute} is {values!r:.60}; a tuple is wanted, of {_listed(possible)}")
        for value in cast("Collection[Any]", values):
            _known(name, attribute, value, possible)
    for attribute, possible in _ONE.items():
        _known(name, attribute, getattr(subject, attribute, possible[0]), possible)


def _known(name: str, attribute: str, value: Any, possible: Collection[Any]) -> None:
    if type(value) not in (str, int) or value not in possible:
        hint = nearest(value, possible) if isinstance(value, str) else ""
        raise TargetError(f"{name}: {attribute} has {value!r:.60}{hint}; possible are {_listed(possible)}")


def _listed(values: Collection[Any]) -> str:
    return ", ".join(str(value) for value in values)


def _named(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


__all__ = ["check_declared"]
