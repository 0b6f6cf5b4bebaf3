"""Laws: executable conditions over records, taken from the text of the clauses.

A law has a ``when`` and a ``then``, both Python expressions over the names of its scope:

* ``step``: ``config``, ``W`` (None for a growing cache), ``s``, ``call``, ``before``, ``after``, ``result`` (the record:
  ``.ok .refused .answer .read .mask``), ``read`` (its read, or None), ``o`` (offset before, by the answers given), ``L``
  (positions appended), ``live``/``live_before`` (ids by position), and the helpers below;
* ``trace``: ``config``, ``W``, ``s``, ``first`` and ``second`` (two steps of one run, first earlier), ``between`` (the steps
  strictly between them), ``run`` and the helpers;
* ``pair``: ``config``, ``W``, ``s``, ``one`` and ``other`` (two runs), and the helpers.  A pair law names how the second run
  is made from the first in ``runs:`` (``kvlaw.conformance.pairs``).

A law that meets an unobserved value (None in an expression that needs a number) does not apply to that step.
"""

from collections.abc import Callable, Iterator, Mapping
from types import CodeType
from typing import Any, Literal

from attrs import field, frozen

from kvlaw.spec.records import Record, Run, Tokens, same

Scope = Literal["step", "trace", "pair"]


class LawError(ValueError):
    """A law whose text is no valid expression, or that raises on a record."""


@frozen
class Law:
    """One law of a clause: scope, condition and consequence as written, and for pair laws the way to make the second run."""

    clause: str
    scope: Scope
    when: str
    then: str
    runs: str = ""
    _when: CodeType = field(init=False, eq=False, repr=False)
    _then: CodeType = field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        """Compile both expressions; raise ``LawError`` for a syntax error."""
        for name, text in (("_when", self.when), ("_then", self.then)):
            try:
                object.__setattr__(self, name, compile(text, f"{self.clause} {name[1:]}", "eval"))
            except SyntaxError as error:
                raise LawError(f"{self.clause}: {name[1:]}: {error.msg}: {text!r}") from None

    def holds(self, names: Mapping[str, Any]) -> bool | None:
        """Say whether the law holds: True, False, or None where it does not apply."""
        scope = {**HELPERS, **names}
        if not self._evaluate(self._when, scope):
            return None
        verdict = self._evaluate(self._then, scope)
        return None if verdict is None else bool(verdict)

    def _evaluate(self, code: CodeType, scope: dict[str, Any]) -> Any:
        try:
            # as globals: the names inside a generator expression are looked up there
            return eval(code, {**scope, "__builtins__": _SAFE})  # noqa: S307  # the text of our own spec, compiled above
        except Unobserved:
            return None
        except (TypeError, AttributeError, IndexError):
            return None  # an unobserved value (None) met an operator

    def over(self, run: Run) -> Iterator[tuple[int, bool]]:
        """Walk a run and give (step index, holds) wherever the law applies; pair laws need ``holds`` itself."""
        if self.scope == "step":
            yield from self._over_steps(run)
        elif self.scope == "trace":
            yield from self._over_moments(run)

    def _over_steps(self, run: Run) -> Iterator[tuple[int, bool]]:
        for index, step in enumerate(run.steps):
            verdict = self.holds(step_names(run, step))
            if verdict is not None:
                yield index, verdict

    def _over_moments(self, run: Run) -> Iterator[tuple[int, bool]]:
        for late, second in enumerate(run.steps):
            for early in range(late):
                between = run.steps[early + 1 : late]
                names = {**base_names(run), "first": run.steps[early], "second": second, "between": between, "run": run}
                verdict = self.holds(names)
                if verdict is not None:
                    yield late, verdict


class Unobserved(Exception):  # noqa: N818  # a signal, not an error
    """A helper met a value that was not observed."""


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
        "L": 0 if step.call is None else step.call.appends,
        "live": step.live,
        "live_before": step.live_before,
    }


def seen(read: Any) -> Tokens:
    """List what the last query of row 0 sees, in fetch order."""
    if read is None or read.visible is None:
        raise Unobserved
    return read.visible[0][-1]


def queries(read: Any) -> tuple[tuple[int, int, Tokens], ...]:
    """List (row, query, ids seen) for every query of a read."""
    if read is None or read.visible is None:
        raise Unobserved
    return tuple((r, q, ids) for r, row in enumerate(read.visible) for q, ids in enumerate(row))


def window_of(live: Tokens, position: int, window: int | None, sinks: int = 0) -> set[int]:
    """Give the ids that a query at ``position`` may see: its newest ``window`` positions, ``sinks`` pinned ones counted in."""
    if window is None or position < window:
        return set(live[: position + 1])
    return set(live[:sinks]) | set(live[max(sinks, position + 1 - (window - sinks)) : position + 1])


def narrower(window: int | None, argument: int | None) -> int | None:
    """Combine a cache's window and a window argument: the smaller one counts, None bounds nothing."""
    bounds = [w for w in (window, argument) if w is not None]
    return min(bounds) if bounds else None


def newest(live: Tokens, count: int, sinks: int = 0) -> Tokens:
    """Give, oldest first, the ids of ``count`` positions: up to ``sinks`` pinned ones, then the newest others."""
    kept = min(count, len(live))
    pinned = min(sinks, kept)
    return live[:pinned] + live[len(live) - (kept - pinned) :]


def same_in(one: Any, other: Any, *names: str) -> bool:
    """Tell whether two records are equal in those of the named fields that both sides observed."""
    pairs = [(getattr(one, name), getattr(other, name)) for name in names]
    return all(a == b for a, b in pairs if a is not None and b is not None)


HELPERS: dict[str, Callable[..., Any]] = {
    "same": same,
    "same_in": same_in,
    "newest": newest,
    "seen": seen,
    "queries": queries,
    "window_of": window_of,
    "narrower": narrower,
}
"""What every law may call, besides Python's own small functions."""

_SAFE = {
    f.__name__: f
    for f in (all, any, abs, bool, dict, enumerate, int, isinstance, len, list, max, min, range, set, sorted, str, sum, tuple, zip, float)
}
