"""The subject that answers with what was recorded: a check walks it in lockstep, as any other, and only along vectors.

``RecordedSubject`` is told beforehand which trace is about to be walked (``expect``), and answers each call with the
observation of that ask. A trace that is not among the vectors, nor the beginning of one, is unsupported, and so is a
call that a vector does not go on with.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from attrs import define, field

from kvlaw.conformance.vectors.form import HANDED, Ask, Vectors, VectorsError, read_vectors
from kvlaw.conformance.vectors.results import Recorded, Results, header_of, read_results
from kvlaw.spec.calls import Call
from kvlaw.spec.clauses import PROFILES
from kvlaw.spec.config import KINDS, Config, DType, Kind, Policy
from kvlaw.spec.observations import Observation, Payload
from kvlaw.spec.structure import Json, shown
from kvlaw.spec.trace import Trace


@define(eq=False)
class RecordedSubject:
    """A subject made of a file of results."""

    results: Results
    policies: ClassVar[tuple[Policy, ...]] = ("dense",)
    dtypes: ClassVar[tuple[DType, ...]] = ("bf16", "f16", "f32")
    _walked: Recorded | None = field(default=None, init=False)
    _next: int = field(default=0, init=False)
    _known: dict[Trace, Recorded] = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Find the vectors by their traces."""
        self._known = {recorded.vector.trace: recorded for recorded in self.results.recorded.values()}

    @property
    def capabilities(self) -> frozenset[str]:
        """What the native test says that its cache has."""
        return self.results.capabilities

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kind of the vectors."""
        return (self.results.vectors.kind,)

    @property
    def traces(self) -> tuple[Trace, ...]:
        """All that this subject can be asked."""
        return tuple(self._known)

    @property
    def unasked(self) -> str:
        """Say which vectors have no results, or nothing."""
        missing, all_ = self.results.missing, len(self.results.vectors.vectors)
        if not missing:
            return ""
        some = ", ".join(missing[:3]) + (", ..." if len(missing) > 3 else "")
        return f"{len(missing)} of {all_} vectors have no results, or not all of them: {some}"

    def expect(self, trace: Trace) -> None:
        """Be ready for a trace: a vector, or the beginning of one."""
        begun = (r for known, r in self._known.items() if _begins(known, trace))
        self._walked = self._known.get(trace) or next(begun, None)

    def open(self, config: Config) -> Observation:
        """Answer as it was when the cache was opened."""
        self._next, walked = 0, self._walked
        if walked is None or walked.vector.config != config:
            return Observation("unsupported", message="only what is among the vectors was recorded")
        return walked.opened

    def apply(self, call: Call, payload: Payload | None, look: bool) -> Observation:
        """Answer as it was recorded for this ask."""
        at, self._next = self._next, self._next + 1
        walked = self._walked
        if walked is None or at >= len(walked.observations) or not _is(walked.vector.asks[at], call, payload, look):
            return Observation("unsupported", message="nothing was recorded for this call")
        return walked.observations[at]

    def close(self) -> None:
        """Forget which trace is walked."""
        self._walked = None


def open_results(path: Path, vectors: Path | None = None) -> RecordedSubject:
    """Make the subject of a file of results; ``vectors`` is the file that was replayed, if not what is exported now.

    Raises:
        VectorsError: if a file cannot be read, or the results are of other vectors.
    """
    told = header_of(path)["vectors"]
    return RecordedSubject(read_results(path, _exported(path, told) if vectors is None else read_vectors(vectors)))


def _exported(path: Path, told: Json) -> Vectors:
    """Make the vectors that are exported now, of the kind and the profile that were replayed."""
    from kvlaw.conformance.vectors.export import made

    kind, profile = told.get("kind"), told.get("profile")
    if kind not in KINDS or profile not in PROFILES:
        raise VectorsError(f"{path}:1: vectors: no kind {shown(kind)} of profile {shown(profile)} is known")
    return made(kind, profile)


def _begins(known: Trace, trace: Trace) -> bool:
    return known.config == trace.config and known.calls[: len(trace.calls)] == trace.calls


def _is(ask: Ask, call: Call, payload: Payload | None, look: bool) -> bool:
    """Say whether an ask is this call, with the same tokens."""
    tokens = payload.tokens if payload is not None and isinstance(call, HANDED) else ()
    return ask.call == call and ask.look == look and tuple(_flat(ask)) == tokens


def _flat(ask: Ask) -> Iterator[int]:
    for item in ask.tokens:
        yield from item if isinstance(item, tuple) else (item,)


__all__ = ["RecordedSubject", "open_results"]
