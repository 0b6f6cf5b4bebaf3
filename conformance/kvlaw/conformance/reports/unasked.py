"""What a target was not asked, since it does not offer it or is another kind of cache; and what was compared besides.

Clauses that do not apply are no passes and no gaps, but whoever reads a report has to see that they are there.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby

from kvlaw.conformance.counting import counted
from kvlaw.conformance.events import ClauseJudged
from kvlaw.conformance.reports.run import TargetReport

MOST_NAMED = 5
_LACKS = re.compile(r"the target lacks (?P<names>\w+(?:, \w+)*): ")
OFFERS = {
    "affine": "storage as codes",
    "attend": "attention of its own",
    "bf16_first": "storage as codes",
    "bytes_per_token": "reporting its bytes",
    "bracket": "prefill brackets",
    "bypass": "trims past the window",
    "can_trim": "saying what can be trimmed",
    "codes": "storage as codes",
    "compiled": "compiled decode",
    "dense": "dense fetch",
    "files": "save and load",
    "fingerprint": "fingerprints of models in files",
    "floor": "reuse floor",
    "hand_back": "handing rows back",
    "known": "appends of decided tokens",
    "left_padding": "left padding",
    "list_appends": "appends to lists of layers",
    "lists": "lists of layers",
    "mask": "masks",
    "max_append": "limits of appends",
    "padding": "right padding",
    "phases": "separate calls for decode and window",
    "policy": "storage as codes",
    "recurrent": "recurrent state",
    "reuse": "prefix reuse",
    "rounds": "rollback",
    "identity": "reporting its identity",
    "nbytes": "reporting its bytes",
    "size": "reporting its size",
    "storage": "reporting its storage",
    "state": "handing out its state",
    "value_bits": "storage as codes",
    "window_argument": "window argument of masks",
}
"""What a capability is called where its own name does not say it."""


def not_offered(report: TargetReport) -> str:
    """Say in one line what the target does not offer, and how many clauses it was not asked for that; or nothing.

    The line is open, in brackets: a form says there where the clauses are listed.
    """
    unasked = [c for c in report.clauses if c.outcome == "not applicable"]
    lacking = [found["names"].split(", ") for c in unasked if (found := _LACKS.match(c.why))]
    names = Counter(name for some in lacking for name in dict.fromkeys(OFFERS.get(n, n) for n in some))
    named = [name for name, _ in names.most_common(MOST_NAMED)]
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    others = len(unasked) - len(lacking)
    beside = f", and {others} for other kinds of cache" if others else ""
    return f"{', '.join(named)}{more} ({counted(len(lacking), 'clause')} not asked{beside}" if lacking else ""


def families(clauses: Sequence[ClauseJudged]) -> Iterable[tuple[str, list[ClauseJudged]]]:
    """Group clauses by family, without families of which none applies."""
    for family, group in groupby(clauses, key=lambda clause: clause.family):
        members = list(group)
        if any(clause.outcome != "not applicable" for clause in members):
            yield family, members


def arithmetic(report: TargetReport) -> str:
    """Say what came of comparing outputs bit for bit; nothing for a target that was not asked for any.

    No clause depends on it: it says whether also the rounding of attention is that of MLX on this platform.
    """
    ended = report.end
    if ended.reads:
        what = f"outputs of {ended.reads} reads, bit for bit against a model of MLX's rounding; no verdict rests on it"
        return f"{ended.arithmetic}: {what}"
    if ended.modelled or "attend" not in report.started.capabilities:
        return ""
    return (
        f"{ended.arithmetic}: the rounding of this platform's attention is not one that kvlaw models bit for bit; "
        "nothing to do, no verdict rests on it"
    )


__all__ = ["OFFERS", "arithmetic", "families", "not_offered"]
