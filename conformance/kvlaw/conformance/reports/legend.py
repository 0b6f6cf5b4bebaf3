"""The shorthand of a failure, written out: the options in its trace, the letters in its rule, the words of its values.

Only what stands in this failure is told, each in half a line, so that nobody has to look anything up.
"""

import re
from collections.abc import Callable, Iterator

from kvlaw.conformance.events import FailureFound
from kvlaw.conformance.reports.wording import aside, demanded, shown
from kvlaw.spec.calls import Call
from kvlaw.spec.config import Config
from kvlaw.spec.structure import TraceError
from kvlaw.spec.text_form import parse_call

_SPOILT = {
    "batch": "tensors of twice as many sequences",
    "rank": "tensors with an axis too few",
    "heads": "tensors of twice as many heads",
    "head_dim": "keys of another head dimension",
    "dtype": "tensors of another dtype",
    "lengths": "one position more in the values than in the keys",
    "empty": "tensors of no position",
    "two": "two positions where the call has one",
}
_DAMAGED = {
    "truncate": "cut short",
    "empty": "left without a byte",
    "extra": "bytes are put behind its end",
    "header": "a number of its header is changed",
    "tensor": "a byte of its tensors is changed",
    "version": "it says a later version of the format",
    "older": "it says an earlier version of the format",
    "foreign": "it is another kind of file",
}
_OPTIONS = {
    r"w=-?\d+": "the window argument of its mask: its queries see no more than so many newest positions",
    r"array": "the mask is asked for as an array",
    r"unread": "what the append hands out is never looked at",
    r"bypass": "a trim that takes back the newest block, also where other trims are no longer possible",
    **{f"malformed={how}": f"spoilt on purpose: {what}" for how, what in _SPOILT.items()},
    r"look=last": "nothing is looked at before the end of the trace",
    r"poison": "the caller overwrites its arrays after each append",
    r"as [\w.]+": "what it makes goes by that name",
    r"on [\w.]+": "made on the object of that name, not on the first cache",
    r"x\d+": "that many times",
    **{f"how={how}": f"how the file is spoilt: {what}" for how, what in _DAMAGED.items()},
    r"space=\w+": "the model to which the prefix belongs",
    r"rows=\d+": "a group with so many rows",
    r"batch=\d+": "so many sequences side by side",
    r"heads=\d+": "so many heads of keys and values",
    r"groups=\d+": "so many query heads for each head of keys and values",
    r"D=\d+": "the head dimension of the keys",
    r"Dv=\d+": "the head dimension of the values",
    r"conv=\d+": "the convolution reads so many positions",
    r"stamp=\w+": "what numbers the keys and values are made of",
    r"value_bits=\d+": "the codes of the values have so many bits",
    r"group=\d+": "so many numbers of a code share a scale",
    r"sinks=-?\d+": "so many first tokens are pinned: visible for ever",
    r"bits=\d+": "stored as codes of so many bits",
    r"start=(?:-?\d+|never)": "half precision first, codes from that position on",
    r"other": "for another model than it was saved for",
    r"left=[-\d,]+": "columns of padding before each row",
    r"right=[-\d,]+": "columns of padding behind each row",
    r"lengths=[-\d,]+": "real tokens of each row",
}
"""What stands behind a call or an opening, and what it means."""

_VERBS = {
    "window": "appends a block of tokens",
    "decode": "",
    "trim": "",
    "attend": "attends again over what that append handed out",
    "look": "looks at the object again, without a call",
    "state": "asks for the arrays that the cache holds",
}
"""Calls whose own sentence says too little here; no words for those that need none."""

_LETTERS: dict[str, Callable[[Config], str]] = {
    "W": lambda config: f"the window, here {config.window}" if config.window is not None else "the window",
    "s": lambda config: f"the number of sinks, here {config.sinks}",
    "o": lambda _: "the offset before the call: how many positions there are",
    "L": lambda _: "how many positions the append has",
    "w": lambda _: "the window argument of the append",
    "n": lambda _: "how many positions the trim is asked to drop",
    "K": lambda config: (
        f"the width of the convolution, here {config.kernel}"
        if config.is_recurrent
        else "how many positions were appended in the open round"
    ),
}
"""Letters in the text of a clause."""

_SIGNS = {
    r"\bt\d+": ("t1", "the first token that was appended"),
    r"\bquery \d": ("query 0", "the first token of this append"),
    r"\bstands at\b": ("stands at", "how many positions the row has, which is its offset"),
    r"(?<![\w_])_(?![\w_])": ("_", "no token: nothing is there, or bytes that are no token's"),
    r"(?<![\w?])\?(?![\w?])": ("?", "bytes that are no token's"),
    r"\bperhaps\b": ("perhaps", "allowed, not required"),
    r"\bprobe\b": (
        "probe",
        "a query that the newest, the oldest or one given token wins, by its output",
    ),
}
"""What stands in values."""

_TERMS = {
    "bypass trim": ("bypass trim", "one that takes back the newest block, also where others are no longer possible"),
    "can_trim": ("can_trim(n)", "what the cache says of a trim beforehand; is_trimmable() in mlx-lm's interface"),
}
"""What stands in the text of a clause."""


def legend(failure: FailureFound, *, calls: bool = True) -> list[tuple[str, str]]:
    """List the shorthand in a failure with its meaning, in the order in which it is met; with ``calls`` verbs too."""
    return list(dict.fromkeys((*_of_trace(failure, calls=calls), *_of_letters(failure), *_of_values(failure))))


def _of_trace(failure: FailureFound, *, calls: bool) -> Iterator[tuple[str, str]]:
    parts = [part.strip() for part in failure.text.split(";")]
    met: dict[str, tuple[str, str]] = {}
    for number, part in enumerate(parts):
        verb = part.partition(" ")[0]
        if calls and number and verb not in met and (meaning := _VERBS.get(verb, means(part, failure.trace.config))):
            met[verb] = (verb, meaning[:1].lower() + meaning[1:])
        for pattern, meaning in _OPTIONS.items():
            found = re.search(rf"(?<= ){pattern}(?= |$)", part)
            if found is not None and pattern not in met:
                met[pattern] = (found[0], meaning)
    yield from met.values()


def _of_letters(failure: FailureFound) -> Iterator[tuple[str, str]]:
    rule = f"{failure.title}\n{failure.prose}"
    for letter, meaning in _LETTERS.items():
        if re.search(rf"(?<![\w'’.]){letter}(?![\w'’])", rule) and (told := meaning(failure.trace.config)):
            yield letter, told
    yield from (told for term, told in _TERMS.items() if term in rule)


def _of_values(failure: FailureFound) -> Iterator[tuple[str, str]]:
    values = " ".join(words for step in failure.steps for words in (demanded(step), shown(step), aside(step)))
    for pattern, sign in _SIGNS.items():
        if re.search(pattern, values):
            yield sign


def means(call: str, config: Config | None = None) -> str:
    """Say what a call does, by the first sentence of its class; ``config`` is that of the cache it is made on."""
    try:
        asked, _ = parse_call(call)
    except TraceError:  # of another version, or written by hand
        return ""
    alone = config is not None and not config.is_rows and config.batch == 1
    return sentence_of(asked, alone=alone)


def sentence_of(call: Call, *, alone: bool = False) -> str:
    """Say what a call does, with its numbers in the sentence.

    What is said of an option that the call does not have is left out, and of rows where a cache is ``alone``.
    """
    first = (call.__doc__ or "").strip().partition("\n")[0]
    told = "; ".join(part for part in first.split("; ") if _is_asked(call, part))
    told = re.sub(r"(?:: one number, or one)? per row\b", "", told) if alone else told
    told = re.sub(r"``(\w+)``", lambda name: _value(getattr(call, name[1], None), name[1]), told)
    told = re.sub(r"\s*\([A-Z]+-\d+(?:, [A-Z]+-\d+| to [A-Z]+-\d+)*\)", "", told)
    return re.sub(r"\b1 positions\b", "1 position", told).rstrip(".")


def _is_asked(call: Call, part: str) -> bool:
    """Tell whether a part of a sentence speaks of the call as it is, not of an option that it does not have."""
    option = re.match(r"``(\w+)`` ", part)
    return option is None or bool(getattr(call, option[1], True))


def _value(value: object, name: str) -> str:
    """Give a number that a call has for the name that its sentence has for it."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else name


__all__ = ["legend", "means", "sentence_of"]
