"""How tokens are told apart in a recurrent state: each writes one slot of its matrix, and asks one.

A matrix has a column per key lane.  The harness gives token t a key that is a one-hot of lane ``t mod 5``, a query that
is a one-hot of lane ``2 t mod 5``, and the value of its stamp, with decay and beta 1.  So t puts its value in place of
what its slot held, and its output is the value of the newest token that wrote the slot that it asks: exact in every
format and on every backend.
"""

from kvlaw.spec.records import Tokens

SLOTS = 5
"""How many slots of a matrix are written."""


def written_by(token: int) -> int:
    """Give the slot that a token writes."""
    return token % SLOTS


def asked_by(token: int) -> int:
    """Give the slot that a token asks, once it has written its own."""
    return 2 * token % SLOTS


def tail_of(tokens: Tokens, kernel: int) -> Tokens:
    """List the newest ``kernel`` - 1 tokens of a row, oldest first; 0 for those before its first."""
    return ((0,) * (kernel - 1) + tokens)[len(tokens) :]


def slots_of(tokens: Tokens) -> Tokens:
    """List, slot by slot, the newest token of a row that wrote it; 0 if none did."""
    return tuple(next((t for t in reversed(tokens) if written_by(t) == slot), 0) for slot in range(SLOTS))


def answers_of(before: Tokens, tokens: Tokens) -> Tokens:
    """List what the outputs of ``tokens`` behind those of ``before`` are the values of; 0: no token's."""
    upto = (before + tokens[: i + 1] for i in range(len(tokens)))
    return tuple(slots_of(line)[asked_by(token)] for line, token in zip(upto, tokens, strict=True))
