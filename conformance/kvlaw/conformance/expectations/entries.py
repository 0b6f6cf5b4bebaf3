"""One expected failure: which target breaks which clause, on which trace and how, why that is known, and where to read.

``observed`` is what the target showed when the failure was listed (``observed_of``), in words that stay the same from
run to run: of a wrong outcome the outcome alone, whatever the message of the exception says.
"""

from hashlib import blake2b

from attrs import field, frozen

from kvlaw.conformance.compare import Divergence
from kvlaw.spec.text_form import write
from kvlaw.spec.trace import Trace


@frozen
class Expected:
    """An expected failure; ``where`` says where it is listed, for messages.

    ``comments`` are written below the trace of an entry that is new or refreshed, for people alone.
    """

    target: str
    clause: str
    trace: Trace
    observed: str = ""
    reason: str = ""
    link: str = ""
    where: str = ""
    comments: tuple[str, ...] = field(default=(), eq=False)

    @property
    def id(self) -> str:
        """A short id that names the clause, and tells the trace and the target apart from others."""
        parts = f"{self.target}\n{self.trace.dumps()}"
        return f"{self.clause}-{blake2b(parts.encode(errors='replace'), digest_size=4).hexdigest()}"

    @property
    def text(self) -> str:
        """The trace in its text form."""
        return write(self.trace)


def observed_of(divergence: Divergence) -> str:
    """Say what a target showed in place of what it should."""
    words = divergence.observed.split()
    shown = words[0] if divergence.field == "outcome" and words else divergence.observed
    return f"{divergence.field}: {shown}"


__all__ = ["Expected", "observed_of"]
