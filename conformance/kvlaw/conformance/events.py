"""What happens in a run, one value per happening: the record from which every report is made.

The order is fixed: ``RunStarted``; then for each target ``TargetStarted``, ``Progressed`` and ``FailureFound`` as they
come, ``WitnessReplayed`` for each expected failure, ``FailureFound`` again for each failure in its final form,
``ClauseJudged`` for each clause, ``TargetEnded``; at last ``RunEnded``.  Values are plain: they can be written as JSON
(``kvlaw.conformance.event_file``) and read on another machine, without the target.

Texts that come from a target (its name, its messages) are as they came: who shows them escapes them.
"""

from typing import ClassVar, Literal, TypeAlias, get_args

from attrs import field, frozen

from kvlaw.conformance.counting import counted
from kvlaw.spec.trace import Trace

CUT_OFF = "the record was cut off"
"""Why the check of a target ended whose end was not recorded: what it says of how much was played is not known."""
SCHEMA: Literal[1] = 1
"""The version of the event format."""

ClauseOutcome = Literal["pass", "fail", "expected fail", "not exercised", "not observed", "blocked", "not applicable"]
OUTCOMES: tuple[ClauseOutcome, ...] = get_args(ClauseOutcome)
VerdictWord = Literal["conformant", "violations", "stale expectations", "incomplete", "unusable"]
WitnessState = Literal["holds", "stale", "changed", "unknown", "twice", "misplaced"]
What = Literal["sees", "slots", "fetches", "reads"]
Ids = tuple[int, ...]


@frozen
class RunStarted:
    """A run begins: by which versions, on which platform, by which command line, and when (UTC, ISO 8601)."""

    event: ClassVar[str] = "run_started"
    schema: Literal[1]
    versions: dict[str, str]
    platform: str = ""
    command: tuple[str, ...] = ()
    started: str = ""


@frozen
class TargetStarted:
    """The check of a target begins: what it serves, what it can do, and what is to be played.

    ``fixed`` are the configuration fields that every trace has; the machines play from so many ``seeds``, the first of
    which is ``seed``; ``shard`` is ``1/3`` where only a part is played; ``spec`` the version of the specification to
    whose clauses the target is held, if that is not the newest.
    """

    event: ClassVar[str] = "target_started"
    target: str
    kinds: tuple[str, ...]
    profile: str
    budget: str
    seed: int
    seeds: int = 1
    fixed: dict[str, int | float | str | bool] = field(factory=dict[str, int | float | str | bool])
    capabilities: tuple[str, ...] = ()
    shard: str = ""
    spec: str = ""


@frozen
class Progressed:
    """How far a target's check is: what is played, and how many of its parts are ``done``, of how many ``parts``."""

    event: ClassVar[str] = "progressed"
    target: str
    kind: str = ""
    stage: str = ""
    calls: int = 0
    failures: int = 0
    done: int = 0
    parts: int = 0


@frozen
class Strip:
    """Tokens in a row of cells, as the law wants them and as the target shows them, at one step.

    ``what`` says what the cells are: the tokens that a query ``sees``, the ``slots`` of the storage in their order,
    what a call ``fetches`` or ``reads``.  ``of`` names the row of a group or the layer of a list, ``query`` the query
    (None: the last one), ``column`` where it stands in the append.  Token ids count from 1; 0 is a slot that holds no
    token.  ``law`` lists what is allowed, ``must`` what is required where that is less; None where the law fixes
    nothing, ``shown`` None where the target shows nothing.  ``more`` counts cells that were cut off.
    """

    what: What
    of: str = ""
    query: int | None = None
    column: int | None = None
    law: Ids | None = None
    must: Ids | None = None
    shown: Ids | None = None
    more: int = 0


@frozen
class StepShown:
    """One call of a trace in words: what was asked, what the law says, what the target shows.

    Where they part, ``field`` says in what, ``expected`` and ``observed`` the two values.
    """

    call: str
    law: str
    shown: str
    field: str = ""
    expected: str = ""
    observed: str = ""
    strips: tuple[Strip, ...] = ()

    @property
    def diverges(self) -> bool:
        """The target breaks the law here."""
        return bool(self.field)


@frozen
class LawText:
    """An executable law of a clause: of one step, of any two moments, or of two runs."""

    scope: str
    when: str
    then: str


@frozen
class FailureFound:
    """A trace on which a target breaks a clause.

    A failure is told as soon as it is found, and once more when the check ends, on the shortest trace (``minimal``) and
    with its ``steps``; the last one of a clause and a kind of cache counts.  ``steady`` is False where the same trace
    did not fail again.  ``seen`` lists the storage policies that fail by the same clause.
    ``built`` is the vendor's call by which the first cache of the trace is made, where it is known.
    """

    event: ClassVar[str] = "failure_found"
    target: str
    clause: str
    id: str
    trace: Trace
    text: str
    field: str
    expected: str
    observed: str
    title: str
    level: str
    prose: str = ""
    laws: tuple[LawText, ...] = ()
    rationale: str = ""
    where: str = ""
    others: tuple[str, ...] = ()
    steps: tuple[StepShown, ...] = ()
    profile: str = "core"
    seed: int = 0
    minimal: bool = False
    steady: bool = True
    seen: tuple[str, ...] = ()
    built: str = ""

    @property
    def kind(self) -> str:
        """The kind of cache that fails."""
        return self.trace.config.kind

    @property
    def size(self) -> str:
        """Say how long its trace is, and whether it is known to be the shortest."""
        calls = len(self.trace.calls)
        return f"{'shortest' if self.minimal else 'a'} trace, {counted(calls, 'call')}"

    @property
    def replay(self) -> str:
        """The command that shows it again where it was found."""
        return f"kvlaw replay {self.id}"

    @property
    def read(self) -> str:
        """The command that shows the clause."""
        return f"kvlaw spec show {self.clause}"


@frozen
class WitnessReplayed:
    """The stored trace of an expected failure was played: it fails still (``holds``), or the expectation has to change.

    ``stale``: it passes; ``changed``: it fails by another clause (``breaks``) or in another way; ``unknown``: its
    clause is not one that is checked; ``twice``: it is listed before; ``misplaced``: it is listed for a target
    (``listed_for``) that is not there.  ``text`` is its trace, ``observed`` what the target showed when it was listed,
    ``listed`` the place where it stands; ``reason`` and ``link`` are the user's, ``message`` says what is wrong, and
    what to do.  ``met`` counts how often the search met it again, and went on behind it.
    """

    event: ClassVar[str] = "witness_replayed"
    target: str
    clause: str
    id: str
    state: WitnessState
    reason: str = ""
    link: str = ""
    message: str = ""
    text: str = ""
    observed: str = ""
    listed: str = ""
    listed_for: str = ""
    breaks: str = ""
    met: int = 0

    @property
    def holds(self) -> bool:
        """It still fails as it is listed."""
        return self.state == "holds"


@frozen
class ClauseJudged:
    """What came out for one clause; ``why`` says why it was not judged.

    ``expected`` are the ids of its expected failures that still fail, ``behind`` the clauses whose expected failures
    kept it from being exercised: then it is no gap of the search.
    """

    event: ClassVar[str] = "clause_judged"
    target: str
    clause: str
    title: str
    level: str
    outcome: ClauseOutcome
    exercised: int = 0
    why: str = ""
    expected: tuple[str, ...] = ()
    behind: tuple[str, ...] = ()

    @property
    def family(self) -> str:
        """The family of the clause."""
        return self.clause.partition("-")[0]


@frozen
class TargetEnded:
    """The check of a target is over: its verdict, what that rests on, and why it ended before its time if it did.

    ``arithmetic`` is the word of the comparison with the NumPy model, of so many ``reads``; ``errors`` counts what went
    wrong in calls by message, ``rules`` what the machines did, ``detours`` how often a trace went on behind an expected
    failure.  Not ``modelled`` where the model does not speak of the target, or of the platform.
    """

    event: ClassVar[str] = "target_ended"
    target: str
    verdict: VerdictWord
    exit_code: int
    calls: int = 0
    traces: int = 0
    seconds: float = 0.0
    arithmetic: str = "not observed"
    reads: int = 0
    errors: dict[str, int] = field(factory=dict[str, int])
    rules: dict[str, int] = field(factory=dict[str, int])
    interrupted: bool = False
    stopped: str = ""
    detours: int = 0
    modelled: bool = True

    @property
    def counted(self) -> bool:
        """Say whether its numbers are those of the whole check, not what was told before its record was cut off."""
        return CUT_OFF not in self.stopped


@frozen
class RunEnded:
    """The run is over; ``events`` counts the events before this one."""

    event: ClassVar[str] = "run_ended"
    exit_code: int
    events: int
    interrupted: bool = False


Event: TypeAlias = (
    RunStarted | TargetStarted | Progressed | FailureFound | WitnessReplayed | ClauseJudged | TargetEnded | RunEnded
)
EVENTS: dict[str, type[Event]] = {kind.event: kind for kind in get_args(Event)}
"""The word in the field ``event`` to its class."""

__all__ = [
    "CUT_OFF",
    "EVENTS",
    "OUTCOMES",
    "SCHEMA",
    "ClauseJudged",
    "ClauseOutcome",
    "Event",
    "FailureFound",
    "Ids",
    "LawText",
    "Progressed",
    "RunEnded",
    "RunStarted",
    "StepShown",
    "Strip",
    "TargetEnded",
    "TargetStarted",
    "VerdictWord",
    "What",
    "WitnessReplayed",
    "WitnessState",
]
