"""Traces written by hand for mutants of groups: they say in a few calls what a drawn trace seldom hits.

``rebuild`` tries them before the drawn ones, and stores, shortened, those that kill a mutant which nothing else kills.
They are in ``by_hand.txt``, one in a line, by topic.
"""

from importlib.resources import files

from kvlaw.conformance.faults.mutants import Named
from kvlaw.spec.text_form import parse


def by_hand() -> tuple[Named, ...]:
    """Give the traces, each under a name."""
    lines = (files(__name__.rpartition(".")[0]) / "by_hand.txt").read_text(encoding="utf-8").splitlines()
    texts = [line for line in lines if line and not line.startswith("#")]
    return tuple((f"by hand {number}", parse(text).trace) for number, text in enumerate(texts, 1))
