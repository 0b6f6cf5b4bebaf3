"""A check as plain pytest items, one per clause, in a vendor's own suite.

    # tests/test_conformance.py
    from kvlaw.conformance import conformance_tests

    test_ring = conformance_tests("acme.cache:RingCache", kind="ring", window=8)

gives ``test_ring[TRIM-4]`` and so on: passed, failed with the clause's failure block, or skipped with the reason (not
applicable, never exercised), and ``test_ring[verdict]``, which fails unless the verdict is *conformant*. The check is
made once, when the first of its items runs, also under pytest-xdist, however it deals out the items
(``pytest_shared``): the other workers wait for the result.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

import pytest
from attrs import define, evolve, field

from kvlaw.spec.clauses import load_clauses

if TYPE_CHECKING:
    from pathlib import Path

    from kvlaw.conformance.opening import Opened
    from kvlaw.conformance.result import CheckResult, ClauseResult

VERDICT = "verdict"
BUDGETS = ("quick", "ci", "deep")
_WIDTH = 110


def conformance_tests(
    target: Any = None,
    *,
    profile: str = "core",
    budget: str = "ci",
    seed: int = 0,
    allow_incomplete: bool = False,
    spec: str = "",
    mapping: Mapping[str, str] | None = None,
    **settings: Any,
) -> Callable[..., None]:
    """Make the tests of a target, to be assigned to a name that pytest collects.

    Args:
        target: a name as ``kvlaw check`` takes it (``acme.cache:RingCache`` means ``py:acme.cache:RingCache``), or the
            object: a cache class, a factory, an ``Adapter``. None: ``--kvlaw-target`` gives it.
        profile: ``core`` or ``layout``.
        budget: ``quick``, ``ci`` or ``deep``.
        seed: the seed of the machines.
        allow_incomplete: let ``[verdict]`` pass although a MUST clause was never exercised.
        spec: the version of the specification whose clauses count, as ``"1.4"``: those of later ones turn nothing red.
        mapping: our field to the parameter by which a factory takes it, as ``{"window": "max_size"}``.
        settings: fields that are fixed in every trace (``window=8``), and options of the target (``kind="ring"``).
    """
    suite = Suite(target, profile, budget, seed, allow_incomplete, spec, dict(mapping or {}), settings)

    def test(kvlaw_run: "Suite", kvlaw_item: str, request: pytest.FixtureRequest) -> None:
        from kvlaw.conformance.pytest_shared import place

        kvlaw_run.judge(kvlaw_item, place(request))

    test.kvlaw_suite = suite  # type: ignore[attr-defined] # the mark by which the plugin knows the function
    return test


@define
class Suite:
    """One target under one set of options; checks it once."""

    target: Any
    profile: str
    budget: str
    seed: int
    allow_incomplete: bool
    spec: str
    mapping: dict[str, str]
    settings: dict[str, Any]
    _variants: dict[tuple[object, ...], "Suite"] = field(
        factory=dict[tuple[object, ...], "Suite"], init=False, eq=False
    )
    _made: "tuple[CheckResult, Opened] | None" = field(default=None, init=False, eq=False)

    def chosen(self, config: pytest.Config) -> "Suite":
        """Give this suite under the options of the command line; the same one each time."""
        names = ("target", "profile", "budget", "seed", "allow_incomplete", "spec")
        said = {name: config.getoption(f"kvlaw_{name}", None) for name in names}
        given = {name: value for name, value in said.items() if value is not None}
        pairs = tuple(tuple(config.getoption(name, None) or ()) for name in ("kvlaw_set", "kvlaw_map"))
        if any(pairs):
            from kvlaw.conformance.pytest_options import said as chosen_on

            chosen = chosen_on(config)
            given["settings"] = {**self.settings, **chosen.settings}
            given["mapping"] = {**self.mapping, **chosen.mapping}
        key = (*((name, given[name]) for name in names if name in given), pairs)
        return self._variants.setdefault(key, evolve(self, **given))

    def items(self) -> list[str]:
        """List the ids of the items: the clauses of the profile, and the verdict; raise ``ValueError`` without such."""
        if self.budget not in BUDGETS:
            raise ValueError(f"unknown budget {self.budget!r}; known are {', '.join(BUDGETS)}")
        return [*load_clauses().of_version(self.spec).of_profile(self.profile), VERDICT]

    def judge(self, item: str, at: "Path | None" = None) -> None:
        """Pass, fail or skip one item; ``at`` is where the result is shared with other processes."""
        result, opened = self._checked(at)
        if result.interrupted:
            raise KeyboardInterrupt
        if item == VERDICT:
            self._verdict(result)
            return
        clause = next(r for r in result.clauses if r.clause.id == item)
        if clause.outcome == "not applicable":
            pytest.skip(f"not applicable: {clause.why}")
        if clause.outcome == "blocked":
            pytest.skip(clause.why)
        if clause.outcome == "not exercised":
            pytest.skip(f"not exercised: its situation never arose within budget {result.budget}")
        if clause.outcome == "fail":
            _fail(clause, result, opened, self.spec)

    def _checked(self, at: "Path | None") -> "tuple[CheckResult, Opened]":
        if self._made is None:
            from kvlaw.conformance.pytest_shared import shared

            opened = self._opened()
            self._made = shared(at, lambda: self._check(opened)), opened
        return self._made

    def _opened(self) -> "Opened":
        from kvlaw.conformance.check import probe
        from kvlaw.conformance.opening import SettingError, open_any
        from kvlaw.conformance.subjects.targets import TargetError

        if self.target is None:
            pytest.fail("no target: name one in conformance_tests(...) or with --kvlaw-target", pytrace=False)
        try:
            opened = open_any(self.target, self.settings, self.mapping)
        except (SettingError, TargetError) as error:
            pytest.fail(f"the target could not be run: {error}", pytrace=False)
        if trouble := probe(opened.subject, opened.kinds, opened.fixed):
            pytest.fail(f"the target could not be run: {opened.name} cannot open {trouble}", pytrace=False)
        return opened

    def _check(self, opened: "Opened") -> "CheckResult":
        from kvlaw.conformance.check import Plan, check
        from kvlaw.conformance.subjects.targets import arithmetic_is_modelled

        profile, budget = cast("Any", self.profile), cast("Any", self.budget)
        modelled = arithmetic_is_modelled(opened.subject)
        plan = Plan(opened.name, opened.kinds, profile, budget, self.seed, opened.fixed, modelled, spec=self.spec)
        return check(plan, opened.subject)

    def _verdict(self, result: "CheckResult") -> None:
        """Fail unless the verdict is conformant, or incomplete and that is allowed."""
        failed = " ".join(r.clause.id for r in result.failed)
        missing = " ".join(r.clause.id for r in result.open if r.clause.level == "MUST")
        if failed:
            pytest.fail(f"violations: {result.target} breaks {failed} (profile {result.profile})", pytrace=False)
        if result.stopped:
            pytest.fail(f"incomplete: {result.stopped}", pytrace=False)
        if missing and not self.allow_incomplete:
            pytest.fail(f"incomplete: never exercised within budget {result.budget}: {missing}", pytrace=False)


def _fail(clause: "ClauseResult", result: "CheckResult", opened: "Opened", spec: str) -> None:
    """Raise the failure class of a clause, with the failure block as its text."""
    from kvlaw.conformance.failures import failure_class

    failure = failure_class(clause.clause.id)(_blocks(clause, result, opened, spec))
    failure.kvlaw_block = str(failure)
    raise failure


def _blocks(clause: "ClauseResult", result: "CheckResult", opened: "Opened", spec: str) -> str:
    """Print the failure block of each kind of cache, and keep the failure for ``kvlaw replay``."""
    from io import StringIO

    from rich.console import Console

    from kvlaw.conformance.check import replay
    from kvlaw.conformance.reports.terminal import failure_block
    from kvlaw.conformance.store import save
    from kvlaw.conformance.telling import failure_found

    text = StringIO()
    console = Console(file=text, width=_WIDTH, color_system=None, highlight=False, emoji=False)
    for failure in clause.failures:
        try:
            save(failure)
        except OSError as error:
            console.print(f"{failure.id} is not kept for replay: {error}", markup=False)
        steps = replay(opened.subject, cast("Any", result.profile), failure.trace, spec=spec)
        console.print(failure_block(failure_found(failure, steps)))
    return text.getvalue()


__all__ = ["VERDICT", "Suite", "conformance_tests"]
