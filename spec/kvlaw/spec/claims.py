"""What a hand-written trace expects behind ``->``: claims, and how tokens and claims are read and written.

    refused | ok | 2 (the answer, or drops 2, or finds 2)
    sees t6..t13 | order t9,t2..t8 | fetches t9,t2..t8 | holds t9,t2,_ | mask causal
    can_trim 0..3 | offset 13 | columns 8 | size 8 | nbytes 64 | write_index 1 | bytes_per_token 64 | identity full
    storage dense | form affine (of what a read fetched) | floor 5 | max_append 3 (or unbounded)
    tail _,t1,t2 | slots t5,t1,t2,_,t4 | reads t1,t5 (of a recurrent layer: a token per output)

Claims are joined by ``and``.  Tokens are written ``t4``, runs ``t4..t9``, a spare column ``_``, no token at all
``nothing``; the sets of several queries are parted by ``|``.  On a list of layers, ``layer 1 sees t3..t6`` speaks of
one layer; without it a claim speaks of every layer, and ``can_trim`` and ``max_append`` of the list as a whole.
On a group ``row 1 sees t3..t6`` speaks of one row; without it ``sees``, ``order``, ``fetches``, ``holds``, ``mask``,
``form``, ``offset``, ``size``, ``floor``, ``tail``, ``slots`` and ``reads`` speak of every row, the others (and ``rows
2``, their number) of the group.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

from attrs import evolve, frozen

from kvlaw.spec.structure import TraceError

MOST = 1_000_000
"""The most tokens, counts or repetitions that one range may write out."""

NUMBERS = ("rows", "offset", "columns", "size", "nbytes", "write_index", "bytes_per_token", "floor")
MASKS = ("none", "causal", "array")
WORDS = ("identity", "storage", "form", "round")
OF_QUERIES = ("sees", "order")
OF_COLUMNS = ("fetches", "holds")
OF_STATES = ("tail", "slots")
"""Claims about the state of a recurrent layer."""
OF_CALLS = ("refused", "ok", "answer")
"""Claims about what becomes of a call; a list of layers is asked as one."""
CLAIMS = (*OF_CALLS, *OF_QUERIES, *OF_COLUMNS, *OF_STATES, "reads", "mask", "can_trim", *WORDS, "max_append", *NUMBERS)
"""The claims that may stand after ``->`` (an answer is written as the bare number)."""


@frozen
class Claim:
    """One expectation of a hand-written trace.

    ``value`` is a number for ``answer`` and the numbers, a word for mask, identity and storage, a tuple of ids for
    ``fetches``, ``holds``, ``tail``, ``slots`` and ``reads``, of counts for ``can_trim``, of one tuple of ids per query
    for ``sees`` and ``order``, else None. ``layer`` is the layer of a list that it speaks of, ``row`` the row of a
    group, None for all.
    """

    what: str
    value: Any = None
    layer: int | None = None
    row: int | None = None


def parse_claims(text: str) -> tuple[Claim, ...]:
    """Read what stands behind ``->``; raise ``TraceError`` that quotes the claim which cannot be read."""
    return tuple(_parse_claim(piece.strip()) for piece in re.split(r"\band\b", text))


def _parse_claim(text: str) -> Claim:
    if match := re.fullmatch(r"(layer|row)\s+(\d{1,18})\s+(.+)", text):
        claim = _parse_claim(match[3])
        if claim.what in (*OF_CALLS, "rows") or claim.layer is not None or claim.row is not None:
            raise TraceError(f"{text!r}: a {match[1]} shows what it sees or holds; {match[3]!r} is no such claim")
        number = int(match[2])
        return evolve(claim, layer=number) if match[1] == "layer" else evolve(claim, row=number)
    if text in ("refused", "ok"):
        return Claim(text)
    if match := re.fullmatch(r"(?:drops\s+|finds\s+)?(-?\d{1,18})", text):  # as reports say it
        return Claim("answer", int(match[1]))
    what, _, rest = text.partition(" ")
    reader = _READERS.get(what)
    if reader is None or not rest.strip():
        raise TraceError(f"cannot read the expectation {text!r}; it may claim {', '.join(CLAIMS)}")
    return Claim(what, reader(rest.strip(), text))


def _sets(text: str, _: str) -> tuple[tuple[int, ...], ...]:
    return tuple(parse_tokens(piece) for piece in text.split("|"))


def _tokens(text: str, _: str) -> tuple[int, ...]:
    return parse_tokens(text)


def _counts(text: str, claim: str) -> tuple[int, ...]:
    if text == "none":
        return ()
    counts: list[int] = []
    for piece in _pieces(text):
        match = re.fullmatch(r"(\d{1,18})(?:\.\.(\d{1,18}))?", piece)
        if match is None:
            raise TraceError(f"{claim!r}: {piece!r} is no count: write 0..3, or 0,2, or none")
        counts += _range(match[1], match[2], piece)
    return tuple(counts)


def _number(text: str, claim: str) -> int:
    if not re.fullmatch(r"\d{1,18}", text):
        raise TraceError(f"{claim!r}: {text!r} is no number")
    return int(text)


def _position(text: str, claim: str) -> int:
    """Read an offset: that of a row whose left padding is still to come is negative."""
    return -_number(text[1:], claim) if text.startswith("-") else _number(text, claim)


def _mask(text: str, claim: str) -> str:
    if text not in MASKS:
        raise TraceError(f"{claim!r}: a mask is one of {', '.join(MASKS)}")
    return text


def _bound(text: str, claim: str) -> int | str:
    return text if text == "unbounded" else _number(text, claim)


def _word(text: str, claim: str) -> str:
    if len(text.split()) != 1:
        raise TraceError(f"{claim!r}: one word is wanted")
    return text


_READERS: dict[str, Callable[[str, str], Any]] = {
    **dict.fromkeys(OF_QUERIES, _sets),
    **dict.fromkeys((*OF_COLUMNS, *OF_STATES, "reads"), _tokens),
    "can_trim": _counts,
    "mask": _mask,
    **dict.fromkeys(WORDS, _word),
    "max_append": _bound,
    **dict.fromkeys(NUMBERS, _number),
    "offset": _position,
}


def parse_tokens(text: str) -> tuple[int, ...]:
    """Read token ids: ``t1,t2,t7..t9``; ``_`` is a spare column (0), ``nothing`` the empty set."""
    if text.strip() == "nothing":
        return ()
    ids: list[int] = []
    for piece in _pieces(text):
        match = re.fullmatch(r"t([1-9]\d{0,17})(?:\.\.t?([1-9]\d{0,17}))?", piece)
        if match is None and piece != "_":
            raise TraceError(f"{piece!r} is no token: write t4, t4..t9, _ or nothing; ids start at 1")
        ids += [0] if match is None else _range(match[1], match[2], piece)
    if not ids:
        raise TraceError("no token is named: write t4, t4..t9, _ or nothing")
    return tuple(ids)


def _pieces(text: str) -> list[str]:
    return [piece for piece in re.split(r"[,\s]+", text) if piece]


def _range(low: str, high: str | None, piece: str) -> range:
    first, last = int(low), int(high or low)
    if not first <= last < first + MOST:
        raise TraceError(f"{piece!r}: a range goes up, by at most {MOST:,}")
    return range(first, last + 1)


def format_tokens(ids: Sequence[int]) -> str:
    """Write token ids in runs: ``t1,t7..t9``; 0 is a spare or unknown column (``_``), no ids are ``nothing``."""
    return _runs(ids, "t", "nothing")


def _runs(numbers: Sequence[int], letter: str, empty: str) -> str:
    runs: list[list[int]] = []
    for number in numbers:
        spare = letter and number <= 0
        if runs and not spare and runs[-1][-1] == number - 1 and not (letter and runs[-1][-1] <= 0):
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(_run(run, letter) for run in runs) or empty


def _run(run: list[int], letter: str) -> str:
    if letter and run[0] <= 0:
        return "_"
    return f"{letter}{run[0]}" if len(run) == 1 else f"{letter}{run[0]}..{letter}{run[-1]}"


def write_claims(claims: Sequence[Claim]) -> str:
    """Write claims as they stand behind ``->``."""
    return " and ".join(_write_claim(claim) for claim in claims)


def _write_claim(claim: Claim) -> str:
    if claim.layer is not None:
        return f"layer {claim.layer} {_write_claim(evolve(claim, layer=None))}"
    if claim.row is not None:
        return f"row {claim.row} {_write_claim(evolve(claim, row=None))}"
    match claim.what:
        case "refused" | "ok":
            return claim.what
        case "answer":
            return str(claim.value)
        case what if what in OF_QUERIES:
            return f"{claim.what} {' | '.join(format_tokens(ids) for ids in claim.value)}"
        case what if what in (*OF_COLUMNS, *OF_STATES, "reads"):
            return f"{what} {format_tokens(claim.value)}"
        case "can_trim":
            return f"can_trim {_runs(claim.value, '', 'none')}"
        case _:
            return f"{claim.what} {claim.value}"
