"""The text form of a trace, as examples, failures and the command line write it.

    ring window=8 sinks=0 ; window 12 ; trim 2 -> refused ; decode -> sees t6..t13 ; decode x5

Parts are parted by ``;`` or a new line; ``#`` opens a comment.  The opening names kind and configuration
(``heads=4 D=64 Dv=32 dtype=f16 poison``); each call is its verb, what it needs, then options: ``w=4`` (window
argument), ``array``, ``unread``, ``bypass``, ``malformed=heads``, ``on c1``, ``as r1``, ``x5`` (five in a row).
``mask 3 decode`` asks for the mask of a decode; ``list full + ring window=4 as l0`` opens layers; ``look NAME``,
``attend NAME`` and ``drop NAME`` name their object, ``load NAME as c1`` and ``damage NAME how=truncate`` their file.
``reuse t1..t4,t9 as c1`` names the tokens of its prompt.
After ``->`` stands what is expected (``claims``), for a repeated call of its last one.  ``merge c0 s1 as g1`` names
its sources, ``filter 1,0`` and ``extract 0 as e1`` their rows, ``prepare left=2,0 lengths=3,4 right=1,0`` one number
per row.  ``parse`` reads, ``write`` writes; what cannot be read is quoted in a ``TraceError``.
"""

import re
from collections.abc import Sequence
from typing import Any, cast

import attrs
from attrs import field, frozen

from kvlaw.spec.calls import CALLS, Call, MakeCache, Merge, OpenList
from kvlaw.spec.claims import CLAIMS, MOST, OF_QUERIES, Claim, format_tokens, parse_claims, parse_tokens, write_claims
from kvlaw.spec.config import Config, LayerSpec
from kvlaw.spec.nearest import nearest
from kvlaw.spec.structure import Json, written
from kvlaw.spec.trace import Trace, TraceError, load

_SHORT = {"heads": "kv_heads", "Dv": "value_dim", "D": "head_dim"}
_FLAGS = ("array", "unread", "bypass", "poison", "other")
_FIRST = {
    **dict.fromkeys(("window", "known", "dense", "mask", "advance"), "length"),
    **dict.fromkeys(("look", "attend", "drop", "load", "damage"), "on"),
    **dict.fromkeys(("extract", "hand_back"), "row"),
    **dict.fromkeys(("filter", "commit_prefill"), "rows"),
    "trim": "n",
    "roll_back": "keep",
    "reuse": "tokens",
}
"""What the first bare word behind a verb says."""
_PER_ROW = ("keep", "rows", "left", "lengths", "right")
"""The options of calls that are lists of integers, written ``1,0`` (``none``: an empty one)."""
_READS = ("decode", "compiled", "window", "known", "attend")
SHOWN_BY = {
    "answer": ("trim", "reuse"),
    "reads": ("advance",),
    **dict.fromkeys(OF_QUERIES, _READS),
    "fetches": (*_READS, "dense"),
    "mask": (*_READS, "mask"),
    "form": (*_READS, "dense"),
}
"""The calls that show what a claim speaks of, where not every call does."""


@frozen
class Written:
    """A trace as written by hand: the trace, and for the opening and each call the claims that stand behind it."""

    trace: Trace
    opening: tuple[Claim, ...] = ()
    claims: tuple[tuple[Claim, ...], ...] = field(default=(), converter=tuple[tuple[Claim, ...], ...])


def parse(text: str) -> Written:
    """Read the text form; raise ``TraceError`` that quotes the part which cannot be read."""
    parts = [part.strip() for part in re.split(r";|\n", re.sub(r"#.*", "", text)) if part.strip()]
    if not parts:
        raise TraceError("an empty trace: it opens with a kind, such as 'ring window=8'")
    opening, opening_claims = _split(parts[0])
    _check_claims("the opening", opening_claims, parts[0])
    _check_layers(0, opening_claims, parts[0])
    calls: list[Call] = []
    claims: list[tuple[Claim, ...]] = []
    lists: dict[str, int] = {}
    groups = parse_config(opening).is_rows
    _check_rows(groups, opening_claims, parts[0])
    for part in parts[1:]:
        body, expected = _split(part)
        call, times = parse_call(body)
        _check_claims(call.verb, expected, part)
        _check_layers(_layers_of(call, lists), expected, part)
        _check_rows(groups, expected, part)
        calls += [call] * times
        claims += [()] * (times - 1) + [expected]
    return Written(Trace(parse_config(opening), tuple(calls)), opening_claims, tuple(claims))


def _split(part: str) -> tuple[str, tuple[Claim, ...]]:
    body, arrow, expected = part.partition("->")
    if not body.strip():
        raise TraceError(f"{part!r}: a call must stand before '->'")
    if not arrow:
        return body.strip(), ()
    if not expected.strip():
        raise TraceError(f"{part!r}: something must stand after '->', such as 'refused' or 'sees t1..t4'")
    try:
        return body.strip(), parse_claims(expected)
    except TraceError as error:
        raise TraceError(f"{part!r}: {error}") from None


def _check_claims(verb: str, claims: Sequence[Claim], part: str) -> None:
    """Refuse a claim behind a call that shows no such thing: it would never be checked."""
    if verb == "dense" and any(claim.what in OF_QUERIES for claim in claims):
        raise TraceError(f"{part!r}: a dense fetch has no queries; write which columns it fetches: 'fetches t1..t4'")
    for claim in claims:
        shown_by = SHOWN_BY.get(claim.what, (verb,))
        if verb not in shown_by:
            what = "an answer (a number)" if claim.what == "answer" else repr(claim.what)
            raise TraceError(f"{part!r}: {verb} shows nothing to hold {what} against; only {', '.join(shown_by)} can")


def _layers_of(call: Call, lists: dict[str, int]) -> int:
    """Say how many layers the object of a call has, 0 if it is no list; keep the lists, their copies and reads."""
    layers = len(call.layers) if isinstance(call, OpenList) else lists.get(call.on, 0)
    made = getattr(call, "as_", None)
    if made:
        lists[made] = layers
    return layers


def _check_layers(layers: int, claims: Sequence[Claim], part: str) -> None:
    """Refuse a claim about a layer that is not there: it would never be checked."""
    for claim in claims:
        if claim.layer is not None and not layers:
            raise TraceError(f"{part!r}: there are no layers: the call acts on one cache, not on a list")
        if claim.layer is not None and claim.layer >= layers:
            raise TraceError(f"{part!r}: there is no layer {claim.layer}; the list has layers 0 to {layers - 1}")


def _check_rows(groups: bool, claims: Sequence[Claim], part: str) -> None:
    """Refuse a claim about a row where there are no groups: it would never be checked."""
    if not groups and any(claim.row is not None or claim.what == "rows" for claim in claims):
        raise TraceError(f"{part!r}: there are no rows: open a group, such as 'ring_rows window=8'")


def parse_config(text: str) -> Config:
    """Read the opening of a trace: ``ring window=8 sinks=2 dtype=f16``."""
    if text.split(maxsplit=1)[0] in CALLS:
        raise TraceError(
            f"{text!r} is a call, and the opening before it is missing: a trace begins with a kind of cache and its "
            f"configuration, as in 'ring window=8 ; {text}'"
        )
    return load(Config, _layer(text.split(), text), f"{text!r}")


def _layer(words: Sequence[str], part: str) -> Json:
    if not words:
        raise TraceError(f"{part!r}: a layer is missing: write full, or ring window=4")
    data: Json = {"kind": words[0]}
    for word in words[1:]:
        _add(data, *_option(word, part), part)
    return data


def _option(word: str, part: str) -> tuple[str, object]:
    name, equals, value = word.partition("=")
    if not equals and word in _FLAGS:
        return word, True
    if not equals or not value or not name:
        raise TraceError(f"{part!r}: cannot read {word!r}; options are written name=value")
    return ("window" if name == "w" else _SHORT.get(name, name)), _scalar(value)


def _add(data: Json, name: str, value: object, part: str) -> None:
    if name in data:
        raise TraceError(f"{part!r}: {name} is given twice")
    data[name] = value


def _scalar(value: str) -> object:
    if re.fullmatch(r"-?\d{1,4000}", value):  # Python itself refuses to read integers of more than 4,300 digits
        return int(value)
    if re.fullmatch(r"-?\d+(\.\d+|e[-+]?\d+|\.\d+e[-+]?\d+)", value):
        return float(value)
    constants: dict[str, object] = {"true": True, "false": False, "none": None}
    return constants.get(value, value)


def parse_call(text: str) -> tuple[Call, int]:
    """Read one call without what is expected of it, and how often it is made (``x5``)."""
    verb, *words = text.split()
    if verb not in CALLS:
        raise TraceError(f"{text!r}: unknown call {verb!r}{nearest(verb, CALLS)}; known are {', '.join(CALLS)}")
    data, words = _made_of(verb, words, text)
    times = 1
    while words:
        word = words.pop(0)
        if _FIRST.get(verb) == "on" and "on" not in data and "=" not in word and word not in ("on", "as"):
            data["on"] = word
        elif word in ("on", "as") and words:
            _add(data, word, words.pop(0), text)
        elif re.fullmatch(r"x\d+", word):
            times = _times(word, text)
        elif verb in _FIRST and _FIRST[verb] not in data and "=" not in word and word not in _FLAGS:
            data[_FIRST[verb]] = _value(_FIRST[verb], word, text)
        elif verb == "mask" and word in ("decode", "window"):
            _add(data, "phase", word, text)
        else:
            name, value = _option(word, text)
            _add(data, name, _value(name, str(value), text) if name in _PER_ROW else value, text)
    return cast("Call", load(cast("type[Any]", CALLS[verb]), data, f"{text!r}")), times


def _made_of(verb: str, words: list[str], part: str) -> tuple[Json, list[str]]:
    """Read what a call makes an object of, and give the words behind it: layers, sources, or one layer."""
    if verb == OpenList.verb:
        layers, words = _layers(words, part)
        return {"layers": layers}, words
    if verb not in (Merge.verb, MakeCache.verb):
        return {}, words
    named, words = _until_names(words)
    if verb == Merge.verb:
        return {"sources": named}, words
    return ({"layer": _layer(named, part)} if named else {}), words


def _value(name: str, word: str, part: str) -> object:
    """Read a value: a list of integers where the field is one number per row, else a number or a word."""
    if name == "tokens":
        return list(parse_tokens(word))
    if name not in _PER_ROW:
        return _scalar(word)
    if word in ("none", "None"):
        return []
    numbers = [_scalar(piece) for piece in word.split(",")]
    if any(type(number) is not int for number in numbers):
        raise TraceError(f"{part!r}: {name} is a list of integers such as 1,0, or none, not {word!r}")
    return numbers


def _until_names(words: list[str]) -> tuple[list[str], list[str]]:
    end = next((i for i, word in enumerate(words) if word in ("as", "on")), len(words))
    return words[:end], words[end:]


def _times(word: str, part: str) -> int:
    digits = word.removeprefix("x").lstrip("0")
    if not digits or len(digits) >= len(str(MOST)):
        raise TraceError(f"{part!r}: {word!r} is no number of repetitions from 1 to {MOST - 1:,}")
    return int(digits)


def _layers(words: list[str], part: str) -> tuple[list[Json], list[str]]:
    end = next((i for i, word in enumerate(words) if word in ("as", "on")), len(words))
    layers = [_layer(piece.split(), part) for piece in " ".join(words[:end]).split("+")]
    return layers, words[end:]


def write(trace: Trace | Written) -> str:
    """Write a trace on one line, with its claims if it has any; equal calls in a row are written once with ``xN``."""
    told = trace if isinstance(trace, Written) else Written(trace)
    calls = told.trace.calls
    claims = told.claims or ((),) * len(calls)
    parts = [_with_claims(write_config(told.trace.config), told.opening)]
    start = 0
    for index, call in enumerate(calls):
        last = index + 1 == len(calls) or calls[index + 1] != call or bool(claims[index])
        if last:
            times = index + 1 - start
            parts.append(_with_claims(write_call(call) + (f" x{times}" if times > 1 else ""), claims[index]))
            start = index + 1
    return " ; ".join(parts)


def _with_claims(text: str, claims: Sequence[Claim]) -> str:
    return f"{text} -> {write_claims(claims)}" if claims else text


_DESCRIBED = tuple(attribute.name for attribute in attrs.fields(LayerSpec))
"""The fields that a layer's own description writes."""


def write_config(config: Config) -> str:
    """Write the opening of a trace."""
    names = {full: short for short, full in _SHORT.items()}
    text = [config.describe()]
    for attribute in attrs.fields(Config):
        value = getattr(config, attribute.name)
        if attribute.name not in _DESCRIBED and value != attribute.default:
            text.append(_write_option(names.get(attribute.name, str(attribute.name)), value))
    return " ".join(text)


def write_call(call: Call) -> str:
    """Write one call."""
    first = _FIRST.get(call.verb)
    text = [call.verb]
    if isinstance(call, OpenList):
        text.append(" + ".join(layer.describe() for layer in call.layers))
    elif isinstance(call, Merge):
        text += call.sources
    elif isinstance(call, MakeCache):
        text += [call.layer.describe()] if call.layer else []
    elif first is not None:
        value = getattr(call, first)
        text.append(format_tokens(value) if first == "tokens" else _written(value))
    options: list[str] = []
    names: list[str] = []
    for attribute in attrs.fields(type(call)):
        value = getattr(call, attribute.name)
        if attribute.name in (first, "layer", "layers", "sources") or value == attribute.default:
            continue
        if attribute.name in ("on", "as_"):
            names.append(f"{written(attribute.name)} {value}")
        else:
            options.append(str(value) if attribute.name == "phase" else _write_option(str(attribute.name), value))
    return " ".join(text + options + names)


def _write_option(name: str, value: object) -> str:
    return name if value is True else f"{'w' if name == 'window' else name}={_written(value)}"


def _written(value: Any) -> str:
    return (",".join(map(str, value)) or "none") if isinstance(value, tuple) else str(value)  # type: ignore[reportUnknownVariableType, reportUnknownArgumentType] # whatever it holds


__all__ = [
    "CLAIMS",
    "SHOWN_BY",
    "Claim",
    "LayerSpec",
    "Written",
    "format_tokens",
    "parse",
    "parse_call",
    "parse_claims",
    "parse_config",
    "parse_tokens",
    "write",
    "write_call",
    "write_claims",
    "write_config",
]
