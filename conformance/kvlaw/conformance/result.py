"""The verdict of a check: an outcome per clause, one word for all, an exit code, and JSON to script with."""

from typing import Any, Literal

from attrs import field, frozen

from kvlaw.conformance.expectations.witnesses import Witness
from kvlaw.conformance.failures import Failure
from kvlaw.spec.clauses import Clause

ClauseOutcome = Literal["pass", "fail", "expected fail", "not exercised", "blocked", "not applicable"]
VerdictWord = Literal["conformant", "violations", "stale expectations", "incomplete"]
EXIT_CODES: dict[str, int] = {
    "conformant": 0,
    "violations": 1,
    "stale expectations": 1,
    "usage": 2,
    "unusable": 3,
    "incomplete": 4,
}
"""0 conformant, 1 a MUST (or, in the layout profile, any clause) failed, or a listed failure is not as it is listed, 2
usage, 3 the target could not be run, 4 incomplete."""


@frozen
class ClauseResult:
    """What came out for one clause; ``why`` says why it is not applicable, or which failure blocks it.

    ``expected`` are the listed failures of the clause that still fail, ``behind`` the clauses whose listed failures
    kept it from being exercised.
    """

    clause: Clause
    outcome: ClauseOutcome
    exercised: int = 0
    failures: tuple[Failure, ...] = ()
    why: str = ""
    expected: tuple[Witness, ...] = ()
    behind: tuple[str, ...] = ()


@frozen
class ArithmeticResult:
    """The comparison of general data with the NumPy model; no clause depends on it."""

    modelled: bool
    reads: int = 0
    different: int = 0

    @property
    def word(self) -> str:
        """Say ``exact``, ``differs`` or ``not observed``."""
        if not self.modelled or not self.reads:
            return "not observed"
        return "exact" if not self.different else f"differs ({self.different} of {self.reads} reads)"


@frozen
class CheckResult:
    """The whole result of checking one target."""

    target: str
    profile: str
    budget: str
    seed: int
    versions: dict[str, str]
    clauses: tuple[ClauseResult, ...] = field(converter=tuple)
    arithmetic: ArithmeticResult = field(factory=lambda: ArithmeticResult(modelled=False))
    calls: int = 0
    traces: int = 0
    seconds: float = 0.0
    rules: dict[str, int] = field(factory=dict[str, int])
    errors: dict[str, int] = field(factory=dict[str, int])
    kinds: tuple[str, ...] = ()
    interrupted: bool = False
    stopped: str = ""
    """Why the check ended before its time, other than by the user."""
    left: tuple[str, ...] = ()
    """What was not played to its end, where it was stopped."""
    shard: tuple[int, int] = (1, 1)
    """Which of how many shares of the check this is."""

    witnesses: tuple[Witness, ...] = ()
    """What became of each listed failure."""
    learnt: tuple[Failure, ...] = ()
    """The failures that were found and not listed, each on its shortest trace, where they were to be learnt."""
    detours: int = 0
    """How often a trace went on behind a listed failure."""

    @property
    def whole(self) -> bool:
        """Say whether all was played that was to be."""
        return not (self.interrupted or self.stopped)

    @property
    def failed(self) -> tuple[ClauseResult, ...]:
        """The clauses that failed."""
        return tuple(r for r in self.clauses if r.outcome == "fail")

    @property
    def open(self) -> tuple[ClauseResult, ...]:
        """The clauses whose situation never arose with the field observed, for no reason that is listed."""
        return tuple(r for r in self.clauses if r.outcome in ("not exercised", "blocked") and not r.behind)

    @property
    def behind(self) -> tuple[ClauseResult, ...]:
        """The clauses that listed failures kept from being exercised."""
        return tuple(r for r in self.clauses if r.behind)

    @property
    def expected(self) -> tuple[Witness, ...]:
        """The listed failures that still fail as listed."""
        return tuple(w for w in self.witnesses if w.holds)

    @property
    def outdated(self) -> tuple[Witness, ...]:
        """The listed failures that are not what they were."""
        return tuple(w for w in self.witnesses if not w.holds)

    @property
    def verdict(self) -> VerdictWord:
        """One word: violations before stale expectations before incomplete before conformant.

        Expectations are stale where all that is broken is listed, and a listed failure is not as it is listed. Only
        MUST clauses can make a check incomplete.
        """
        if self.failed:
            return "violations"
        if self.outdated:
            return "stale expectations"
        if not self.whole or any(r.clause.level == "MUST" for r in self.open):
            return "incomplete"
        return "conformant"

    @property
    def exit_code(self) -> int:
        """The exit code of the verdict."""
        return EXIT_CODES[self.verdict]

    def to_json(self) -> dict[str, Any]:
        """Write the result as plain JSON values."""
        from kvlaw.conformance.reports.json_form import target_json
        from kvlaw.conformance.telling import report_of

        return target_json(report_of(self), self.versions)
