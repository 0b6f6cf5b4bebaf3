"""A state machine whose every rule is one or more calls in lockstep.

A machine class is bound to a ``Session`` (``bind``). In record mode a divergence ends the trace and is noted in the
session; in raise mode it raises the failure class of its clause, for use as an ordinary Hypothesis test. Each trace
first draws which of the optional calls it uses at all (swarm testing), so that one failing call does not end every
trace.
"""

from typing import Any, ClassVar, TypeVar, cast

from attrs import evolve
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import HypothesisException
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from kvlaw.conformance.expectations.detours import Detour
from kvlaw.conformance.expectations.marks import Mark, mark_of
from kvlaw.conformance.failures import failure_class
from kvlaw.conformance.lockstep import Step
from kvlaw.conformance.machines.configs import configs
from kvlaw.conformance.machines.policies import served
from kvlaw.conformance.machines.steady import drawn_by_seed
from kvlaw.conformance.minimise import acted_on
from kvlaw.conformance.session import Session, StoppedError, within_means
from kvlaw.reference.model import Model
from kvlaw.spec.calls import Call
from kvlaw.spec.config import Config, Kind, Policy
from kvlaw.spec.text_form import write
from kvlaw.spec.trace import Trace


class LockstepMachine(RuleBasedStateMachine):
    """What protocol and contract machines share: the session, the configuration, one call at a time."""

    session: ClassVar[Session]
    kind: ClassVar[Kind]
    fixed: ClassVar[dict[str, Any]] = {}
    raising: ClassVar[bool] = False
    optional: ClassVar[tuple[str, ...]] = ()

    def __init__(self) -> None:
        """Start a fresh trace."""
        super().__init__()
        self.over = False
        self.calls: list[Call] = []
        self.used: frozenset[str] = frozenset()
        self.run_ = self.session.lockstep()
        self.config = Config(self.kind)
        self.detour: Detour | None = None
        self.avoided: frozenset[Mark] = frozenset()
        self.detours = 0
        self.halted = False

    @initialize(data=st.data())
    def open(self, data: st.DataObject) -> None:
        """Draw a configuration and which calls this trace uses, and open."""
        subject = self.session.subject
        palette = {name: getattr(subject, name) for name in ("dtypes", "code_bits") if hasattr(subject, name)}
        drawn = configs(self.kind, self.can, self.fixed, policies=self.policies, odd=self.layout, **palette)
        self.config = data.draw(drawn, label="config")
        if self.config.bits and not self.session.arithmetic:  # nobody knows the codes of arbitrary data there
            self.config = evolve(self.config, stamp="code")
        wanted = data.draw(
            st.lists(st.booleans(), min_size=len(self.optional), max_size=len(self.optional)), label="uses"
        )
        self.used = frozenset(name for name, want in zip(self.optional, wanted, strict=True) if want)
        with within_means():
            opened = self.run_.open(self.config)
        self.take(opened)

    @precondition(lambda self: self.over)
    @rule()
    def rest(self) -> None:
        """Do nothing: the trace is over."""

    @property
    def can(self) -> frozenset[str]:
        """The target's capabilities."""
        return self.session.subject.capabilities

    @property
    def policies(self) -> tuple[Policy, ...]:
        """The kinds of storage policy with which the target is checked."""
        return served(self.session.subject, self.can)

    @property
    def layout(self) -> bool:
        """The layout profile is checked: what our design refuses may be asked."""
        return self.session.profile == "layout"

    @property
    def model(self) -> Model:
        """The oracle's model of ``c0``."""
        found = self.run_.oracle.world.get("c0")
        return found if isinstance(found, Model) else Model.empty(self.config.layer)

    @property
    def passing(self) -> dict[str, Any]:
        """What a model passes for the mask: nothing, or its sliding window."""
        own = "own_window" in self.used and "window_argument" in self.can and self.config.window is not None
        return {"window": self.config.window} if own else {}

    def caches(self) -> list[str]:
        """List the serial caches."""
        return [name for name, thing in self.run_.oracle.world.items() if isinstance(thing, Model)]

    def fresh(self, letter: str) -> str:
        """Give a name that nothing has."""
        return f"{letter}{len(self.calls) + 1}"

    def all_of(self, *calls: Call) -> None:
        """Make calls until the trace is over."""
        for call in calls:
            self.do(call)

    def do(self, call: Call) -> None:
        """Make one call on both sides, unless the trace is over or a refused call has left nothing of that name."""
        if self.over or not all(name in self.run_.oracle.world for name in acted_on(call)):
            return
        if self.avoided and mark_of(call, self.run_.oracle.world) in self.avoided:
            self.over = self.halted = True  # until the rule ends: what it does next builds on this call
            return
        with within_means():
            step = self.run_.step(call)
        self.calls.append(step.call or call)  # a read that is asked later has a name by now
        self.take(step)

    def take(self, step: Step) -> None:
        """Note a step; a divergence ends the trace."""
        self.detour = self.session.note(self.config, tuple(self.calls), step)
        if step.divergences and self.raising:
            first = step.divergences[0]
            text = write(Trace(self.config, tuple(self.calls)))
            raise failure_class(first.clause)(
                f"{first.clause}: expected {first.expected}, observed {first.observed}\n  {text}"
            )
        self.over = self.over or bool(step.divergences) or step.ends or step.record.outcome not in ("ok", "refused")
        self.over = self.over or (step.call is None and step.record.outcome != "ok")

    @invariant()
    def go_on(self) -> None:
        """Go on between two rules, if the trace has met a listed failure: without what sets that off."""
        detour, self.detour = self.detour, None
        if detour is not None:
            self.session.close(self.run_)
            way = self.session.go_on(detour, self.avoided, self.detours)
            if way is not None:
                self.run_, self.config, self.calls = way.run, way.run.config, list(way.calls)
                self.avoided, self.detours, self.over = way.avoided, way.made, not self.found_again()
        elif self.halted:
            self.over = not self.found_again()
        self.halted = False

    def found_again(self) -> bool:
        """Say whether what this machine acts on is there, behind a detour."""
        return bool(self.caches())

    def teardown(self) -> None:
        """Look at everything once more, if the trace looked at nothing so far."""
        self.go_on()
        while not self.over:
            with within_means():
                steps = self.run_.finish()
            for step in steps:
                self.take(step)
            self.over = True
            self.go_on()
        self.session.close(self.run_)

    def fired(self, name: str) -> None:
        """Count that a rule did something."""
        self.session.rules[f"{type(self).__name__}.{name}"] += 1


Machine = TypeVar("Machine", bound=LockstepMachine)


def bind(
    machine: type[Machine], session: Session, kind: Kind, fixed: dict[str, Any], *, raising: bool = False
) -> type[Machine]:
    """Make a machine class that plays on one session."""
    bound = {"session": session, "kind": kind, "fixed": fixed, "raising": raising}
    return cast("type[Machine]", type(machine.__name__, (machine,), bound))


def play(machine: type[LockstepMachine], examples: int, steps: int, number: int) -> None:
    """Run a bound machine from seed ``number``: ``examples`` traces of up to ``steps`` rules; all settings explicit."""
    chosen = settings(
        max_examples=examples,
        stateful_step_count=steps,
        database=None,
        deadline=None,
        derandomize=False,
        print_blob=False,
        report_multiple_bugs=True,
        suppress_health_check=cast("list[HealthCheck]", list(HealthCheck)),
        phases=(Phase.explicit, Phase.generate, Phase.shrink) if machine.raising else (Phase.generate,),
    )
    with drawn_by_seed():
        try:
            run_state_machine_as_test(seed(number)(machine), settings=chosen)
        except HypothesisException as error:
            end = _end_behind(error)  # to Hypothesis a trace that is broken off looks like a flaky one
            if end is not None:
                raise end from None
            raise


def _end_behind(error: BaseException) -> BaseException | None:
    """Find the end of the check, by the user or otherwise, at which another error was raised."""
    at: BaseException | None = error
    while at is not None and not isinstance(at, StoppedError | KeyboardInterrupt):
        at = at.__cause__ or at.__context__
    return at
