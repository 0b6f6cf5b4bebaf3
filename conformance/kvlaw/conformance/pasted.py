"""A trace as it is found anywhere that kvlaw prints one, read as if it had been written by hand.

Taken are the text form itself, its line in a report or in a file of expectations (``trace   ring window=1 ; decode``,
``trace = "ring ..."``), a table of steps with its frame or behind ``#``, of which the calls are taken, and the JSON of
a stored failure. Claims may be written as reports tell what was shown: ``-> outcome: ok``, ``-> sights: sees t1``,
``-> row 0 sees t1, row 1 sees t2``.
"""

import re
import tomllib
from collections.abc import Iterator

from kvlaw.spec.claims import CLAIMS
from kvlaw.spec.text_form import Written, parse
from kvlaw.spec.trace import Trace, TraceError

_FRAME = " \t│┃|"
_TABLE = re.compile(r"(?P<number>\s*)call\s{2,}(?P<law>the law says)(\s{2,}.*)?$")
_LINE = re.compile(r"trace(?:\s*=\s*|\s{2,})(?P<text>\S.*)$")
_SIZE = re.compile(r"\s{2,}\([^()]*\)$")


def read(text: str) -> Written:
    """Read a trace, however it was copied; raise ``TraceError`` that says what cannot be read."""
    if text.lstrip().startswith("{"):
        return Written(Trace.loads(text))
    lines = [_bare(line) for line in text.split("\n")]
    told = _of_line(lines, wrapped="│" in text) or _of_table(lines)
    return parse(told or _claimed("\n".join(lines) if _framed(text) else text.strip().strip("`")))


def _framed(text: str) -> bool:
    """Tell whether every line stands in a frame or behind ``#``."""
    return all(line.lstrip()[:1] in ("│", "┃", "#", "") for line in text.split("\n"))


def _bare(line: str) -> str:
    """Take a line out of its frame, or from behind ``#``; what it is indented by stays."""
    line = line.rstrip().rstrip(_FRAME)
    stripped = line.lstrip()
    return stripped[2:] if stripped[:2] in ("│ ", "┃ ", "# ") else "" if stripped in ("│", "#") else line


def _of_line(lines: list[str], *, wrapped: bool) -> str:
    """Take the trace from the line that has its name before it, and in a frame from those on which it goes on."""
    named = sum(_LINE.match(line.strip()) is not None for line in lines)
    if named > 1:
        raise TraceError(f"{named} traces stand there: copy one of them")
    for number, line in enumerate(lines):
        found = _LINE.match(line.strip())
        if found is None:
            continue
        if found["text"][:1] in "\"'":
            return _toml(line.strip())
        whole = [_SIZE.sub("", found["text"])]
        for more in lines[number + 1 :] if wrapped else ():
            if not more.strip():
                break
            whole.append(more.strip())
        return " ".join(whole)
    return ""


def _toml(line: str) -> str:
    try:
        return str(tomllib.loads(line)["trace"])
    except tomllib.TOMLDecodeError as error:
        raise TraceError(f"{line}: no valid TOML: {error}") from None


def _of_table(lines: list[str]) -> str:
    """Take the calls from a table of steps: its column of calls, where a long one goes on below."""
    head = next((n for n, line in enumerate(lines) if _TABLE.match(line)), None)
    if head is None:
        return ""
    found = _TABLE.match(lines[head])
    begins = found.start("number") + len(found["number"]) if found else 0
    ends = found.start("law") if found else 0
    return " ; ".join(_calls(lines[head + 1 :], begins, ends))


def _calls(lines: list[str], begins: int, ends: int) -> Iterator[str]:
    call: list[str] = []
    for line in lines:
        mark, cell = line[:begins].strip(" >"), line[begins:ends].strip()
        if not line.strip() or (mark and not mark.isdecimal()):
            break
        opens = bool(mark) or not call
        if opens and call:
            yield " ".join(call)
            call = []
        call += [cell] if cell else []
    if call:
        yield " ".join(call)


_REPORTED = (
    (re.compile(r"\b(?:outcome|sights|answer|handed|dense_sights):\s*"), ""),
    (re.compile(r"\b((?:layer|row) \d+):\s*"), r"\1 "),
    (re.compile(rf"\b({'|'.join(CLAIMS)}):\s*"), r"\1 "),
    (re.compile(r"\bstands at (\d+)"), r"offset \1"),
    (re.compile(rf",\s+(?=(?:layer|row) \d|drops|finds|{'|'.join(CLAIMS)})"), " and "),
)
"""What reports say of what was shown, and the claim that says so."""


def _claimed(text: str) -> str:
    """Write what stands behind each ``->`` as claims."""
    parts = re.split(r"(;|\n)", text)
    return "".join(_part(part) for part in parts)


def _part(part: str) -> str:
    body, arrow, claims = part.partition("->")
    for pattern, plain in _REPORTED if arrow else ():
        claims = pattern.sub(plain, claims)
    return f"{body}{arrow}{claims}"


__all__ = ["read"]
