"""The text form of a trace, as examples, failures and the command line write it.

    ring window=8 sinks=0 ; window 12 ; trim 2 -> refused ; decode -> sees t6..t13 ; decode x5

The opening names kind and configuration; each call is its verb, what it needs, then options: ``w=4`` (window argument),
``array``, ``unread``, ``bypass``, ``malformed=heads``, ``on c1``, ``as r1``, ``x5`` (five such calls in a row).
``list full + ring window=4 as l0`` opens layers.  ``look NAME``, ``attend NAME`` and ``drop NAME`` name their object.
After ``->`` stands what is expected: ``refused``, ``ok``, a number (the answer), or claims joined by ``and``:
``sees t6..t13`` (each query's set, queries parted by ``|``; one set alone means the last query), ``order t9,t2..t8``
(the same in fetch order), ``holds t9,t2,_`` (stored columns, ``_`` spare), ``mask causal``, ``offset 13``, ``columns 8``,
``size 8``, ``nbytes 64``, ``write_index 1``, ``bytes_per_token 64``, ``identity full``, ``storage dense``,
``can_trim 0..3`` (exactly these counts; ``can_trim none``).
"""

import re
from typing import Any

import attrs
from attrs import field, frozen

from kvlaw.spec.calls import CALLS, Call
from kvlaw.spec.config import Config, LayerSpec
from kvlaw.spec.trace import Trace, TraceError, load

_OPTIONS = {"w": "window", "heads": "kv_heads", "Dv": "value_dim", "D": "head_dim"}
_FLAGS = ("array", "unread", "bypass", "poison")
_POSITIONAL = {
    "window": "length",
    "dense": "length",
    "mask": "length",
    "trim": "n",
    "look": "on",
    "attend": "on",
    "drop": "on",
}
_NUMBERS = ("offset", "columns", "size", "nbytes", "write_index", "bytes_per_token")
CLAIMS = ("refused", "ok", "answer", "sees", "order", "holds", "mask", "can_trim", "identity", "storage", *_NUMBERS)
"""The claims that may stand after ``->``."""


@frozen
class Claim:
    """One expectation of a hand-written trace: what is claimed, and its value in Python terms."""

    what: str
    value: Any = None


@frozen
class Written:
    """A trace as written by hand: the trace, and for the opening and each call the claims that stand behind it."""

    trace: Trace
    opening: tuple[Claim, ...] = ()
    claims: tuple[tuple[Claim, ...], ...] = field(default=(), converter=tuple)


def parse(text: str) -> Written:
    """Read the text form; raise ``TraceError`` that names the part which cannot be read."""
    parts = [part.strip() for part in re.split(r";|\n", re.sub(r"#.*", "", text)) if part.strip()]
    if not parts:
        raise TraceError("an empty trace: it opens with a kind, such as 'ring window=8'")
    opening, opening_claims = _split(parts[0])
    calls: list[Call] = []
    claims: list[tuple[Claim, ...]] = []
    for part in parts[1:]:
        body, expected = _split(part)
        call, times = _parse_call(body)
        calls += [call] * times
        claims += [()] * (times - 1) + [expected]
    return Written(Trace(_parse_config(opening), tuple(calls)), opening_claims, tuple(claims))


def _split(part: str) -> tuple[str, tuple[Claim, ...]]:
    body, arrow, expected = part.partition("->")
    if arrow and not expected.strip():
        raise TraceError(f"{part!r}: something must stand after '->', such as 'refused' or 'sees t1..t4'")
    return body.strip(), tuple(_claim(x.strip(), part) for x in re.split(r"\band\b", expected)) if arrow else ()


def _claim(text: str, part: str) -> Claim:
    what, _, rest = text.partition(" ")
    if text in ("refused", "ok"):
        return Claim(text)
    if re.fullmatch(r"-?\d+", text):
        return Claim("answer", int(text))
    if what in ("sees", "order"):
        return Claim(what, tuple(parse_tokens(piece) for piece in rest.split("|")))
    if what == "holds":
        return Claim(what, parse_tokens(rest))
    if what == "can_trim":
        return Claim(what, () if rest.strip() == "none" else _numbers(rest))
    if what in _NUMBERS and re.fullmatch(r"\d+", rest.strip()):
        return Claim(what, int(rest))
    if what in ("mask", "identity", "storage") and rest:
        return Claim(what, rest.strip())
    raise TraceError(f"{part!r}: cannot read the expectation {text!r}; it may claim {', '.join(CLAIMS)}")


def parse_tokens(text: str) -> tuple[int, ...]:
    """Read token ids: ``t1,t2,t7..t9``; ``_`` is a spare column (0), ``nothing`` the empty set."""
    ids: list[int] = []
    for piece in filter(None, re.split(r"[,\s]+", text.strip())):
        if piece in ("_", "nothing"):
            ids += [0] if piece == "_" else []
        elif match := re.fullmatch(r"t(\d+)(?:\.\.t?(\d+))?", piece):
            ids += range(int(match[1]), int(match[2] or match[1]) + 1)
        else:
            raise TraceError(f"{piece!r} is no token: write t4, t4..t9 or _")
    return tuple(ids)


def format_tokens(ids: "tuple[int, ...] | list[int]") -> str:
    """Write token ids in runs: ``t1,t7..t9``; 0 is a spare or unknown column (``_``)."""
    runs: list[list[int]] = []
    for token in ids:
        if runs and token > 1 and runs[-1][-1] == token - 1 and runs[-1][0] > 0:
            runs[-1].append(token)
        else:
            runs.append([token])
    return ",".join(_run(run) for run in runs) or "nothing"


def _run(run: list[int]) -> str:
    if run[0] <= 0:
        return "_"
    return f"t{run[0]}" if len(run) == 1 else f"t{run[0]}..t{run[-1]}"


def _numbers(text: str) -> tuple[int, ...]:
    numbers: list[int] = []
    for piece in filter(None, re.split(r"[,\s]+", text)):
        low, _, high = piece.partition("..")
        numbers += range(int(low), int(high or low) + 1)
    return tuple(numbers)


def _parse_config(text: str) -> Config:
    words = text.split()
    data: dict[str, Any] = {"kind": words[0]}
    for word in words[1:]:
        data |= _option(word, text)
    return load(Config, data, f"{text!r}")


def _option(word: str, part: str) -> dict[str, Any]:
    name, equals, value = word.partition("=")
    if not equals and word in _FLAGS:
        return {word: True}
    if not equals or not value:
        raise TraceError(f"{part!r}: cannot read {word!r}; options are written name=value")
    return {_OPTIONS.get(name, name): _scalar(value)}


def _scalar(value: str) -> Any:
    if re.fullmatch(r"-?\d+", value):
        return int(value)
    if re.fullmatch(r"-?\d+\.\d+", value):
        return float(value)
    return {"true": True, "false": False, "none": None}.get(value, value)


def _parse_call(text: str) -> tuple[Call, int]:
    verb, *words = text.split()
    if verb not in CALLS:
        raise TraceError(f"{text!r}: unknown call {verb!r}; known are {', '.join(CALLS)}")
    data: dict[str, Any] = {}
    times = 1
    if verb == "list":
        layers, words = _layers(words, text)
        data["layers"] = layers
    while words:
        word = words.pop(0)
        if word in ("on", "as") and words:
            data[word] = words.pop(0)
        elif re.fullmatch(r"x\d+", word):
            times = int(word[1:])
        elif verb in _POSITIONAL and _POSITIONAL[verb] not in data and "=" not in word and word not in _FLAGS:
            data[_POSITIONAL[verb]] = word if _POSITIONAL[verb] == "on" else _scalar(word)
        elif verb == "mask" and word in ("decode", "window"):
            data["phase"] = word
        else:
            data |= _option(word, text)
    return load(CALLS[verb], data, f"{text!r}"), times


def _layers(words: list[str], part: str) -> tuple[list[Any], list[str]]:
    end = next((i for i, word in enumerate(words) if word in ("as", "on")), len(words))
    layers: list[Any] = []
    for piece in " ".join(words[:end]).split("+"):
        kind, *options = piece.split()
        layer: dict[str, Any] = {"kind": kind}
        for word in options:
            layer |= _option(word, part)
        layers.append(layer)
    return layers, words[end:]


def write_config(config: Config) -> str:
    """Write the opening of a trace."""
    text = [config.describe()]
    for attribute in attrs.fields(Config):
        value = getattr(config, attribute.name)
        if attribute.name in ("kind", "window", "sinks") or value == attribute.default:
            continue
        name = {v: k for k, v in _OPTIONS.items() if k != "w"}.get(attribute.name, attribute.name)
        text.append(name if value is True else f"{name}={value}")
    return " ".join(text)


def write_call(call: Call) -> str:
    """Write one call."""
    positional = _POSITIONAL.get(call.verb)
    text: list[str] = [call.verb]
    tail: list[str] = []
    if call.verb == "list":
        text.append(" + ".join(layer.describe() for layer in call.layers))  # type: ignore[union-attr] # only a list has layers
    elif positional:
        text.append(str(getattr(call, positional)))
    for attribute in attrs.fields(type(call)):
        value = getattr(call, attribute.name)
        if attribute.name in (positional, "layers") or value == attribute.default:
            continue
        tail.append(_written_option(attribute.name, value))
    return " ".join(text + sorted(tail, key=lambda word: word.startswith(("on ", "as "))))


def _written_option(name: str, value: Any) -> str:
    if name in ("on", "as_"):
        return f"{name.rstrip('_')} {value}"
    if name == "phase":
        return str(value)
    return name if value is True else f"{'w' if name == 'window' else name}={value}"


def write(trace: Trace) -> str:
    """Write a whole trace on one line; equal calls in a row are written once with ``xN``."""
    parts: list[tuple[str, int]] = []
    for call in trace.calls:
        text = write_call(call)
        if parts and parts[-1][0] == text:
            parts[-1] = (text, parts[-1][1] + 1)
        else:
            parts.append((text, 1))
    return " ; ".join([write_config(trace.config), *(t if n == 1 else f"{t} x{n}" for t, n in parts)])


__all__ = [
    "CLAIMS",
    "Claim",
    "LayerSpec",
    "Written",
    "format_tokens",
    "parse",
    "parse_tokens",
    "write",
    "write_call",
    "write_config",
]
