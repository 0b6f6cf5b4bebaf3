"""What a lemma is: a function that CrossHair confirms, and a twin, the same claim with one fault, that it refutes.

`lemma` and `twin_of` register functions where they are written; `lemmas.LEMMAS` is the whole list in that order.
`Claim.preconditions` reads the `pre:` lines, so that tests can also evaluate a lemma on a grid without CrossHair.
"""

import inspect
from collections.abc import Callable
from typing import Any

from attrs import define, field

Claimed = Callable[..., bool]


@define
class Claim:
    """Hold one function with a contract in its docstring.

    function: returns True where what it claims holds; its parameters are int, bool, int | None, Ring or Full.
    """

    function: Claimed

    @property
    def sentence(self) -> str:
        """Give the first line of the docstring: for a lemma what holds, for a twin what is wrong."""
        return (inspect.getdoc(self.function) or "").partition("\n")[0]

    @property
    def preconditions(self) -> tuple[str, ...]:
        """List the expressions of the `pre:` lines, in their order."""
        lines = [line.strip() for line in (self.function.__doc__ or "").splitlines()]
        return tuple(line.removeprefix("pre:").strip() for line in lines if line.startswith("pre:"))

    @property
    def address(self) -> str:
        """Give `module:function`, by which a worker process finds it."""
        return f"{self.function.__module__}:{self.function.__name__}"


@define
class Lemma:
    """Hold a lemma, the clauses whose integer rules it proves, and its twin once that is registered."""

    claim: Claim
    clauses: tuple[str, ...]
    twin: Claim | None = field(default=None)

    @property
    def name(self) -> str:
        """Give the name of the function."""
        return self.claim.function.__name__

    @property
    def sentence(self) -> str:
        """Say in one sentence what the lemma proves."""
        return self.claim.sentence


REGISTERED: dict[str, Lemma] = {}
"""Lemmas by name, in the order in which they were written."""


def lemma(*clauses: str) -> Callable[[Claimed], Claimed]:
    """Register the decorated function as a lemma for `clauses`; raises ValueError if the name is taken."""

    def register(function: Claimed) -> Claimed:
        name = function.__name__
        if name in REGISTERED:
            raise ValueError(f"two lemmas are called {name}")
        REGISTERED[name] = Lemma(Claim(function), clauses)
        return function

    return register


def twin_of(original: Claimed) -> Callable[[Claimed], Claimed]:
    """Register the decorated function as the twin of a lemma; raises ValueError if it has one."""

    def register(function: Claimed) -> Claimed:
        proved = REGISTERED[original.__name__]
        if proved.twin is not None:
            raise ValueError(f"{proved.name} has two twins")
        proved.twin = Claim(function)
        return function

    return register


def parameters(function: Claimed) -> dict[str, Any]:
    """Give the annotation of each parameter of a lemma."""
    return {name: parameter.annotation for name, parameter in inspect.signature(function).parameters.items()}
