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
from typing import TYPE_CHECKING, Any

import pytest
from attrs import define, evolve, field

from kvlaw.spec.clauses import load_clauses

if TYPE_CHECKING:
    from pathlib import Path

    from kvlaw.conformance.expectations.witnesses import Witness
    from kvlaw.conformance.opening import Opened
    from kvlaw.conformance.parts import Plan
    from kvlaw.conformance.project import Job
    from kvlaw.conformance.rerunning import Rerun
    from kvlaw.conformance.result import CheckResult, ClauseResult

VERDICT = "verdict"
BUDGETS = ("quick", "ci", "deep")
UPDATE = "kvlaw check --update-expectations"
BY_ITSELF = f"(`{UPDATE}` removes what passes, and refreshes what fails otherwise)"
_WIDTH = 110


def conformance_tests(
    target: Any = None,
    *,
    profile: str | None = None,
    budget: str | None = None,
    seed: int | None = None,
    allow_incomplete: bool = False,
    spec: str | None = None,
    mapping: Mapping[str, str] | None = None,
    **settings: Any,
) -> Callable[..., None]:
    """Make the tests of a target, to be assigned to a name that pytest collects.

    Args:
        target: a name as ``kvlaw check`` takes it (``acme.cache:RingCache`` means ``py:acme.cache:RingCache``), or the
            object: a cache class, a factory, an ``Adapter``. None: ``--kvlaw-target`` gives it, or the configuration.
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
    profile: str | None
    budget: str | None
    seed: int | None
    allow_incomplete: bool
    spec: str | None
    mapping: dict[str, str]
    settings: dict[str, Any]
    root: "Path | None" = None
    _variants: dict[tuple[object, ...], "Suite"] = field(
        factory=dict[tuple[object, ...], "Suite"], init=False, eq=False
    )
    _job: "Job | None" = field(default=None, init=False, eq=False)
    _made: "tuple[CheckResult, Rerun] | None" = field(default=None, init=False, eq=False)

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
        return self._variants.setdefault(key, evolve(self, root=config.rootpath, **given))

    def job(self) -> "Job":
        """Give what is checked, as the project's configuration and this suite say; raise ``ValueError`` if none is."""
        if self._job is None:
            from kvlaw.conformance.pytest_project import job_of

            if self.budget not in (None, *BUDGETS):
                raise ValueError(f"unknown budget {self.budget!r}; known are {', '.join(BUDGETS)}")
            self._job = job_of(self)
        return self._job

    def items(self) -> list[str]:
        """List the ids of the items: the clauses of the profile, and the verdict; raise ``ValueError`` without such."""
        job = self.job()
        return [*load_clauses().of_version(job.spec).of_profile(job.profile), VERDICT]

    def judge(self, item: str, at: "Path | None" = None) -> None:
        """Pass, fail or skip one item, or fail it as expected; ``at`` is where processes share the result."""
        result, rerun = self._checked(at)
        if result.interrupted:
            raise KeyboardInterrupt
        if item == VERDICT:
            self._verdict(result)
            return
        clause = next(r for r in result.clauses if r.clause.id == item)
        if wrong := [w for w in result.outdated if w.expected.clause == item]:
            pytest.fail("\n".join([*map(outdated, wrong), BY_ITSELF]), pytrace=False)
        if clause.outcome == "expected fail":
            pytest.xfail("; ".join(map(known, clause.expected)))
        if clause.outcome == "not applicable":
            pytest.skip(f"not applicable: {clause.why}")
        if clause.outcome == "blocked" or clause.behind:
            pytest.skip(clause.why)
        if clause.outcome == "not exercised":
            pytest.skip(f"not exercised: its situation never arose within budget {result.budget}")
        if clause.outcome == "fail":
            _fail(clause, rerun, self.job())

    def _checked(self, at: "Path | None") -> "tuple[CheckResult, Rerun]":
        if self._made is None:
            from kvlaw.conformance.check import check
            from kvlaw.conformance.pytest_shared import shared
            from kvlaw.conformance.rerunning import Rerun

            opened, plan = self._ready()
            self._made = shared(at, lambda: check(plan, opened.subject)), Rerun(opened.subject, plan)
        return self._made

    def _ready(self) -> "tuple[Opened, Plan]":
        from click import ClickException

        from kvlaw.conformance.cli_targets import ready

        job = self.job()
        if not job.target:
            told = "no target: name one in conformance_tests(...) or with --kvlaw-target, or configure one (kvlaw init)"
            pytest.fail(told, pytrace=False)
        try:
            return ready(job)
        except ClickException as error:
            told = error.message
        pytest.fail(f"the target could not be run: {told}", pytrace=False)

    def _fixed(self) -> str:
        """Say what is fixed in every trace, behind the name of the target."""
        from kvlaw.conformance.reports.run import fixed_words

        told = "" if self._made is None else fixed_words(self._made[1].plan.fixed)
        return f" ({told})" if told else ""

    def _verdict(self, result: "CheckResult") -> None:
        """Fail unless the verdict is conformant, or incomplete and that is allowed."""
        failed = " ".join(r.clause.id for r in result.failed)
        missing = " ".join(r.clause.id for r in result.open if r.clause.level == "MUST")
        wrong = "".join(f"\n{outdated(witness)}" for witness in result.outdated)
        wrong += f"\n{BY_ITSELF}" if wrong else ""
        if failed:
            told = f"violations: {result.target}{self._fixed()} breaks {failed} (profile {result.profile})"
            pytest.fail(f"{told}{unlisted(self.job(), failed)}{wrong}", pytrace=False)
        if wrong:
            pytest.fail(f"stale expectations:{wrong}", pytrace=False)
        if result.stopped:
            pytest.fail(f"incomplete: {result.stopped}", pytrace=False)
        if missing and not self.job().allow_incomplete:
            pytest.fail(f"incomplete: never exercised within budget {result.budget}: {missing}", pytrace=False)


def _fail(clause: "ClauseResult", rerun: "Rerun", job: "Job") -> None:
    """Raise the failure class of a clause, with the failure block as its text."""
    from kvlaw.conformance.failures import failure_class

    failure = failure_class(clause.clause.id)(_blocks(clause, rerun) + unlisted(job, clause.clause.id))
    failure.kvlaw_block = str(failure)
    raise failure


def _blocks(clause: "ClauseResult", rerun: "Rerun") -> str:
    """Print the failure block of each kind of cache, and keep the failure for ``kvlaw replay``.

    The first line says in words what is broken: it is what pytest's short summary shows.
    """
    from io import StringIO

    from rich.console import Console

    from kvlaw.conformance.reports.failure_text import headline
    from kvlaw.conformance.reports.fit import fit
    from kvlaw.conformance.reports.run import fixed_words
    from kvlaw.conformance.reports.terminal import failure_block
    from kvlaw.conformance.rerunning import built_by
    from kvlaw.conformance.store import save
    from kvlaw.conformance.telling import failure_found

    text = StringIO()
    console = Console(file=text, width=_WIDTH, color_system=None, highlight=False, emoji=False)
    told = [(failure, *rerun.again(failure)) for failure in clause.failures]
    shown = [failure_found(now, steps, built_by(rerun.subject, now.trace.config)) for _, now, steps in told]
    console.print(headline(fit(shown[0])), markup=False, soft_wrap=True)
    for (failure, _, _), found in zip(told, shown, strict=True):
        try:
            save(failure)
        except OSError as error:
            console.print(f"{failure.id} is not kept for replay: {error}", markup=False)
        console.print(failure_block(found, fixed=fixed_words(rerun.plan.fixed)))
    return text.getvalue()


def known(witness: "Witness") -> str:
    """Say why a failure is expected."""
    entry = witness.expected
    return " ".join(part for part in (f"{entry.id}: {entry.reason}", entry.link) if part)


def outdated(witness: "Witness") -> str:
    """Say what is wrong with an expectation, where it stands, and what to do."""
    entry = witness.expected
    return f"{entry.clause} is {witness.state}: {witness.why} ({entry.where or entry.target}: {entry.text})"


def unlisted(job: "Job", clauses: str) -> str:
    """Say how failures are listed, where some are."""
    return f"\nnot listed: {clauses}; repair it, or list it with `{UPDATE}` if it is known" if job.expected else ""


__all__ = ["VERDICT", "Suite", "conformance_tests"]
