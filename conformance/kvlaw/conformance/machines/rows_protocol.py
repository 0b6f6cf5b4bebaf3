"""The protocol machine of groups: what a runtime's continuous batching does.

Prompts of very different length are prefilled together with padding, in chunks, or each alone; they join the batch that
is being decoded, all rows decode and verify drafts, rows leave, go on alone and come back, and a batch that has become
empty is filled again.
"""

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from kvlaw.conformance.machines.batch_rules import CROWD, BatchRules
from kvlaw.conformance.machines.calls import lengths
from kvlaw.conformance.machines.row_rules import some_rows
from kvlaw.reference import index_group
from kvlaw.spec.calls import (
    AppendDecode,
    AppendWindow,
    Filter,
    LookAt,
    MakeCache,
    Prepare,
    Reset,
    Trim,
)

data_ = st.data()


class RowsProtocolMachine(BatchRules):
    """Calls on a batch as a runtime would make them."""

    optional = (
        *("bracket", "retire", "back", "own_window", "snapshot", "conversation", "keep_old", "draft"),
        "compiled",
    )

    # Prefill.

    @precondition(lambda self: self.running and "padding" in self.can)
    @rule(data=data_)
    def prefill(self, data: st.DataObject) -> None:
        """Prefill a prompt for each row of the batch: the first, or the next of a conversation."""
        plan = self.draw_padded(data, self.batch)
        self.prefill_padded(data, self.batch, plan, bracket="bracket" in self.used, retire="retire" in self.used)
        self.fired("prefill")

    @precondition(lambda self: self.running)
    @rule(data=data_, chunks=st.integers(1, 3))
    def prefill_alike(self, data: st.DataObject, chunks: int) -> None:
        """Prefill prompts of one length, in chunks."""
        length = data.draw(st.sampled_from(lengths(self.config.window, self.model.offset)))
        for _ in range(chunks):
            self.do(AppendWindow(length=length, on=self.batch, **self.passing))
        self.fired("prefill_alike")

    @precondition(lambda self: not self.over and "merge" in self.can and len(self.here.rows) < self.most_rows)
    @rule(data=data_, count=st.integers(1, 3), first=st.booleans())
    def admit(self, data: st.DataObject, count: int, first: bool) -> None:
        """Let new prompts join: prefilled each alone, together with padding, or not yet prefilled at all."""
        names = self.newcomers(min(count, self.most_rows - len(self.here.rows)))
        how = data.draw(st.sampled_from(("alone", "together", "together", "empty")))
        if how == "alone":
            for name in names:
                length = data.draw(st.sampled_from(lengths(self.config.window, 0)))
                self.do(AppendWindow(length=length, on=name, **self.passing))
        elif how == "together" and "padding" in self.can:
            made = self.together(names, "p")
            names = (made,) if made is not None else ()
            for name in names:
                plan = self.draw_padded(data, name)
                self.prefill_padded(data, name, plan, bracket="bracket" in self.used, retire="retire" in self.used)
        if names:
            self.join((*names, self.batch) if first else (self.batch, *names))
        self.fired("admit")

    # Decoding.

    @precondition(lambda self: self.running)
    @rule(count=st.integers(1, 5))
    def generate(self, count: int) -> None:
        """Decode some tokens for all rows."""
        for _ in range(count):
            self.do(AppendDecode(on=self.batch, **self.passing))
        self.fired("generate")

    @precondition(lambda self: self.running and self.compiling)
    @rule(data=data_, count=st.integers(2, 6))
    def generate_compiled(self, data: st.DataObject, count: int) -> None:
        """Decode some tokens for all rows by compiled steps."""
        self.generate_by_steps(data, self.batch, count, self.passing)
        self.fired("generate_compiled")

    @property
    def room(self) -> int:
        """Count the drafts that a verify window can hold besides the last good token, and all be trimmed again."""
        window = self.config.window
        return 4 if window is None else min(4, window - index_group.active(self.here.state) - 2)

    @precondition(lambda self: self.running and "trim" in self.can and self.room > 0)
    @rule(data=data_)
    def verify(self, data: st.DataObject) -> None:
        """Verify drafts of all rows in one window and trim what was rejected."""
        drafts = data.draw(st.integers(1, self.room), label="drafts")
        self.do(AppendWindow(length=drafts + 1, on=self.batch, **self.passing))
        self.do(Trim(n=data.draw(st.integers(1, drafts), label="rejected"), on=self.batch))
        self.fired("verify")

    @precondition(lambda self: self.running and "draft" in self.used and "rounds" in self.can)
    @rule(data=data_)
    def draft(self, data: st.DataObject) -> None:
        """Verify drafts of all rows in a round; each keeps what it accepts."""
        self.draft_and_verify(data, self.batch, self.passing)
        self.fired("draft")

    # Rows that leave.

    @precondition(lambda self: self.running and "extract" in self.can and len(self.run_.oracle.world) < CROWD)
    @rule(data=data_, back=st.booleans(), go_on=st.integers(0, 2))
    def leave(self, data: st.DataObject, back: bool, go_on: int) -> None:
        """Take a row out as a cache of its own, keep the others, and perhaps go on with it alone."""
        name = self.take_out(data, back=back)
        if go_on:
            length = data.draw(st.sampled_from(lengths(self.config.window, 0)[:4]))
            self.do(AppendWindow(length=length, on=name) if go_on == 2 else AppendDecode(on=name))
            self.do(AppendDecode(on=name))
        if self.here.rows:
            self.do(AppendDecode(on=self.batch, **self.passing))
        self.fired("leave")

    @precondition(lambda self: self.coming_back and len(self.here.rows) < self.most_rows)
    @rule(data=data_, first=st.booleans())
    def come_back(self, data: st.DataObject, first: bool) -> None:
        """Let a row that left join again."""
        name = data.draw(st.sampled_from(self.away))
        self.join((name, self.batch) if first else (self.batch, name))
        self.fired("come_back")

    @property
    def coming_back(self) -> bool:
        """There is a row that left, and can join again."""
        there = [name for name in self.away if name in self.run_.oracle.world]
        return not self.over and "merge" in self.can and bool(there) and there == self.away

    @precondition(lambda self: self.running and "filter" in self.can)
    @rule(data=data_)
    def retire(self, data: st.DataObject) -> None:
        """Keep some rows, perhaps in another order, and decode on."""
        self.do(Filter(rows=some_rows(data, len(self.here.rows), least=1), on=self.batch))
        self.do(AppendDecode(on=self.batch, **self.passing))
        self.fired("retire")

    @precondition(lambda self: self.running and self.empties and "filter" in self.can)
    @rule(data=data_, count=st.integers(1, 3))
    def refill(self, data: st.DataObject, count: int) -> None:
        """Let all rows retire, look at the empty batch, and fill it again: by padded prompts or by a merge."""
        self.do(Filter(rows=(), on=self.batch))
        self.do(LookAt(on=self.batch))
        if "padding" in self.can and data.draw(st.booleans()):
            plan = self.draw_padded(data, self.batch, count)
            self.prefill_padded(data, self.batch, plan, bracket="bracket" in self.used, retire=False)
        elif "padding" in self.can and data.draw(st.booleans()):
            self.do(Prepare(right=(0,) * count, lengths=(1,) * count, on=self.batch))
            self.do(AppendDecode(on=self.batch))
        elif "merge" in self.can:
            name = self.fresh("s")
            self.do(MakeCache(as_=name))
            self.do(AppendWindow(length=2, on=name))
            self.join((self.batch, name))
        self.fired("refill")

    @precondition(lambda self: not self.over)
    @rule()
    def look(self) -> None:
        """Look at the batch, which may have no rows, and at who is away."""
        for name in (self.batch, *self.away):
            self.do(LookAt(on=name))
        self.fired("look")

    # Copies.

    @precondition(
        lambda self: (
            self.running and "snapshot" in self.used and "clone" in self.can and len(self.run_.oracle.world) < CROWD
        )
    )
    @rule(count=st.integers(1, 4))
    def snapshot(self, count: int) -> None:
        """Clone the batch and let the clone go its own way."""
        self.part_ways(count)
        self.fired("snapshot")

    @precondition(lambda self: not self.over and "conversation" in self.used and "reset" in self.can)
    @rule()
    def new_conversation(self) -> None:
        """Empty all rows."""
        self.do(Reset(on=self.batch))
        self.fired("new_conversation")


__all__ = ["RowsProtocolMachine"]
