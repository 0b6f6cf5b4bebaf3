"""The protocol machine: drives a cache the way runtimes do.

Prefill in chunks, decode for a while, draft and verify with a trim or a round, a cloned prefix that goes its own way,
a restart from a file, a new conversation after a reset. How a history is filled (one window, decodes, mixed) is drawn.
"""

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from kvlaw.conformance.machines.compiled_rules import GeneratesCompiled
from kvlaw.conformance.machines.contract import lengths
from kvlaw.conformance.machines.file_rules import ResumeRules
from kvlaw.conformance.machines.reuse_rules import SharesPrefixes
from kvlaw.conformance.machines.round_rules import DraftRules
from kvlaw.spec.calls import AppendDecode, AppendWindow, Clone, Publish, Reset, Trim


class ProtocolMachine(GeneratesCompiled, DraftRules, ResumeRules, SharesPrefixes):
    """Calls as a runtime would."""

    optional = ("verify", "prefix", "conversation", "own_window", "draft", "resume", "share", "compiled")

    @precondition(lambda self: not self.over)
    @rule(data=st.data(), chunks=st.integers(1, 3))
    def prefill(self, data: st.DataObject, chunks: int) -> None:
        """Prefill a prompt in chunks of one length and a rest."""
        length = data.draw(st.sampled_from(lengths(self.config.window, self.model.offset)))
        for _ in range(chunks):
            self.do(AppendWindow(length=length, **self.passing))
        rest = data.draw(st.integers(0, 2))
        if rest:
            self.do(AppendWindow(length=rest, **self.passing))
        self.fired("prefill")

    @precondition(lambda self: not self.over)
    @rule(count=st.integers(1, 6))
    def generate(self, count: int) -> None:
        """Decode some tokens."""
        for _ in range(count):
            self.do(AppendDecode(**self.passing))
        self.fired("generate")

    @precondition(lambda self: self.compiling)
    @rule(data=st.data(), count=st.integers(2, 8))
    def generate_compiled(self, data: st.DataObject, count: int) -> None:
        """Decode some tokens by compiled steps."""
        self.generate_by_steps(data, "c0", count, self.passing)
        self.fired("generate_compiled")

    @property
    def room(self) -> int:
        """Count the drafts that a verify window can hold besides the last good token, and all be trimmed again."""
        return 4 if self.config.window is None else min(4, self.config.window - self.model.offset - 2)

    @precondition(lambda self: not self.over and "verify" in self.used and "trim" in self.can and self.room > 0)
    @rule(data=st.data())
    def verify(self, data: st.DataObject) -> None:
        """Verify drafts in one window and trim the rejected ones, while the ring stays below its window."""
        drafts = data.draw(st.integers(1, self.room), label="drafts")
        rejected = data.draw(st.integers(1, drafts), label="rejected")
        self.do(AppendWindow(length=drafts + 1, **self.passing))
        if not self.over:
            self.do(Trim(n=rejected))
        self.fired("verify")

    @precondition(
        lambda self: not self.over and "verify" in self.used and "bypass" in self.can and self.model.offset > 0
    )
    @rule(drafts=st.integers(1, 4), kept=st.integers(0, 4))
    def verify_past_the_window(self, drafts: int, kept: int) -> None:
        """Verify drafts and cut the rejected columns right after the window."""
        self.do(AppendWindow(length=drafts + 1, **self.passing))
        if not self.over:
            self.do(Trim(n=max(0, drafts - kept), bypass=True))
        self.fired("verify_past_the_window")

    @precondition(lambda self: not self.over and "draft" in self.used and "rounds" in self.can)
    @rule(data=st.data())
    def draft(self, data: st.DataObject) -> None:
        """Verify drafts in a round and take the rejected ones back, wherever the window ends."""
        self.draft_and_verify(data, "c0", self.passing)
        self.fired("draft")

    @precondition(
        lambda self: not self.over and "prefix" in self.used and "clone" in self.can and len(self.run_.oracle.world) < 6
    )
    @rule(count=st.integers(1, 4), cut=st.integers(0, 2))
    def reuse_prefix(self, count: int, cut: int) -> None:
        """Let a clone go its own way, then go on with the source; the source may be cut and written again first."""
        name = f"c{len(self.calls) + 1}"
        self.do(Clone(as_=name))
        if not self.over and 0 < cut <= self.model.offset and "trim" in self.can and self.room > -2:
            self.do(Trim(n=cut))
            self.do(AppendDecode(**self.passing))
        self.do(AppendWindow(length=count, on=name, **self.passing))
        self.do(AppendDecode(**self.passing))
        self.do(AppendDecode(on=name, **self.passing))
        self.fired("reuse_prefix")

    @precondition(
        lambda self: not self.over and "resume" in self.used and "files" in self.can and self.model.round is None
    )
    @rule(data=st.data())
    def restart(self, data: st.DataObject) -> None:
        """Save, and start anew from the file."""
        self.resume(data, self.passing)
        self.fired("restart")

    @precondition(
        lambda self: not self.over and "share" in self.used and "reuse" in self.can and self.model.round is None
    )
    @rule(data=st.data())
    def another_request(self, data: st.DataObject) -> None:
        """Publish, and let another request start from what it shares."""
        self.do(Publish())
        for _ in range(data.draw(st.integers(0, 2), label="decodes meanwhile")):
            self.do(AppendDecode(**self.passing))
        self.request(data, "c0", self.passing)
        self.fired("another_request")

    @precondition(lambda self: not self.over and "conversation" in self.used and "reset" in self.can)
    @rule()
    def new_conversation(self) -> None:
        """Reset."""
        self.do(Reset())
        self.fired("new_conversation")
