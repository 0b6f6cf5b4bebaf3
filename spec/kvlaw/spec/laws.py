"""Laws: executable conditions over records, taken from the text of the clauses.

A law has a ``when`` and a ``then``, both Python expressions over the names of its scope:

* ``step``: ``config``, ``W`` (None for a growing cache), ``s``, ``call``, ``before``, ``after``, ``result`` (the
  record: ``.ok .refused .answer .read .mask``), ``read`` (its read, or None), ``o`` (offset before, by the answers
  given), ``L`` (positions appended), ``live``/``live_before`` (ids by position); the opening of the run is a step
  as well, with ``call is None``; of a call on a group every row is a step of its own, where ``L`` counts the real
  tokens that the row got and ``read`` has the queries of these alone;
* ``group``: ``config``, ``W``, ``s``, ``call``, ``before``, ``after``, ``result`` of a call on a group, and ``rows``
  (the steps of its rows, in order);
* ``trace``: ``config``, ``W``, ``s``, ``first`` and ``second`` (two steps of one run, first earlier), ``between``
  (the steps strictly between them) and ``run``;
* ``pair``: ``config``, ``W``, ``s``, ``one`` and ``other`` (two runs).  A pair law names how the second run is made
  from the first in ``runs:`` (``PAIRS``; ``kvlaw.conformance.pairs`` makes them);

and in each scope the functions of ``law_helpers``.  Where a law meets an unobserved value it does not apply, nor where
its ``when`` cannot be evaluated.  A ``then`` that fails in any other way (an index beyond what was shown, the least of
nothing) is false: the record is not as the law says.
"""

from collections.abc import Iterator, Mapping
from types import CodeType
from typing import Any, Literal, get_args

from attrs import field, frozen

from kvlaw.spec.law_helpers import HELPERS, all_see, narrower, newest, queries, same_in, same_observed, seen, window_of
from kvlaw.spec.law_text import LawError, Scope, compile_law, run_law
from kvlaw.spec.records import Record, Run, Unobserved

Pair = Literal["rechunked", "retold", "unread"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
PAIRS: tuple[Pair, ...] = get_args(Pair)
"""How the second run of a pair is made: other chunk sizes; the same trace again; reads never asked."""

_FAILURES = (Unobserved, TypeError, AttributeError, LookupError, ValueError, ArithmeticError)


@frozen
class Law:
    """One law of a clause: scope, condition and consequence as written; a pair law also how to make the second run."""

    clause: str
    scope: Scope
    when: str
    then: str
    runs: str = ""
    _when: CodeType = field(init=False, eq=False, repr=False)
    _then: CodeType = field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        """Compile both expressions; raise ``LawError`` that names the clause and what is wrong."""
        for name, text in (("when", self.when), ("then", self.then)):
            try:
                code = compile_law(text, self.scope, HELPERS)
            except LawError as error:
                raise LawError(f"{self.clause}: {name}: {error}") from None
            object.__setattr__(self, f"_{name}", code)

    def holds(self, names: Mapping[str, Any]) -> bool | None:
        """Say whether the law holds for the names of its scope: True, False, or None where it does not apply."""
        known = dict(names)
        try:
            if not run_law(self._when, HELPERS, known):
                return None
        except _FAILURES:
            return None
        try:
            return bool(run_law(self._then, HELPERS, known))
        except _FAILURES as error:
            # None met an operator: W of a growing cache, a window argument that was not given
            return None if isinstance(error, Unobserved) or "NoneType" in str(error) else False

    def over(self, run: Run) -> Iterator[tuple[int, bool]]:
        """Walk a run: (step index, holds) wherever the law applies; the opening is step -1, without a call.

        A pair law takes two runs (``over_pair``).
        """
        found: Iterator[tuple[int, bool | None]] = iter(())
        if self.scope == "step":
            opening = (-1, Record(None, run.opened))
            steps = ((i, one) for i, step in (opening, *enumerate(run.steps)) for one in (step.rows or (step,)))
            found = ((i, self.holds(step_names(run, step))) for i, step in steps if not step.group)
        elif self.scope == "group":
            found = ((i, self.holds(group_names(run, step))) for i, step in enumerate(run.steps) if step.group)
        elif self.scope == "trace":
            found = self._over_moments(run)
        yield from ((index, verdict) for index, verdict in found if verdict is not None)

    def _over_moments(self, run: Run) -> Iterator[tuple[int, bool | None]]:
        for late in range(len(run.steps)):
            for early in range(late):
                yield late, self.holds(moment_names(run, early, late))

    def over_pair(self, one: Run, other: Run) -> bool | None:
        """Say whether a pair law holds for two runs; None where it does not apply."""
        return self.holds({**base_names(one), "one": one, "other": other})


def base_names(run: Run) -> dict[str, Any]:
    """Give the names that every scope has."""
    return {"config": run.config, "W": run.config.window, "s": run.config.sinks}


def step_names(run: Run, step: Record) -> dict[str, Any]:
    """Give the names of the ``step`` scope."""
    return {
        **base_names(run),
        "call": step.call,
        "before": step.before,
        "after": step.after,
        "result": step,
        "read": step.read,
        "o": len(step.live_before),
        "L": len(step.real) if step.real is not None else 0 if step.call is None else step.call.appends,
        "live": step.live,
        "live_before": step.live_before,
    }


def group_names(run: Run, step: Record) -> dict[str, Any]:
    """Give the names of the ``group`` scope."""
    names = ("call", "before", "after")
    return {**base_names(run), **{name: getattr(step, name) for name in names}, "result": step, "rows": step.rows}


def moment_names(run: Run, early: int, late: int) -> dict[str, Any]:
    """Give the names of the ``trace`` scope for two steps of a run, by index."""
    between = run.steps[early + 1 : late]
    return {**base_names(run), "first": run.steps[early], "second": run.steps[late], "between": between, "run": run}


__all__ = [
    "HELPERS",
    "PAIRS",
    "SCOPES",
    "Law",
    "LawError",
    "Pair",
    "Scope",
    "Unobserved",
    "all_see",
    "base_names",
    "group_names",
    "moment_names",
    "narrower",
    "newest",
    "queries",
    "same_in",
    "same_observed",
    "seen",
    "step_names",
    "window_of",
]
