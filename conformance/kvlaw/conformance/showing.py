"""From one observation to what the comparison takes: columns decoded, probes checked, handed-out arrays recognised."""

import numpy as np
from attrs import define, evolve, field, frozen

from kvlaw.conformance.compare import Shown
from kvlaw.conformance.decode import (
    Columns,
    Decoder,
    NonsenseError,
    handed,
    of_padding,
    of_row,
    own_columns,
    own_state,
    visible_under,
)
from kvlaw.conformance.probes import check_probes
from kvlaw.conformance.questions import Asked
from kvlaw.conformance.stamps import SIDES, Stamper
from kvlaw.reference.expectation import Expectation
from kvlaw.reference.model import Model
from kvlaw.reference.numerics import attention
from kvlaw.reference.numerics.formats import decode, equal_bits
from kvlaw.reference.numerics.quantized_attention import KernelSet
from kvlaw.spec.calls import (
    AppendDecode,
    AppendWindow,
    Call,
    Filter,
    Finalize,
    LookAt,
    MakeMask,
    Prepare,
    Reset,
    RollBack,
    Trim,
)
from kvlaw.spec.observations import Bits, MaskView, Observation, ReadView, StateView
from kvlaw.spec.records import ReadRecord, Tokens


@frozen
class Exchange:
    """One call and what came back: on whom (``name``), what is expected, what was observed and what was asked."""

    call: Call | None
    name: str
    expectation: Expectation
    observation: Observation
    tokens: tuple[int, ...] = ()
    asked: Asked | None = None
    before: StateView | None = None
    """The state of the object that was shown last before the call."""
    row: Model | None = None
    """Of a row of a group: the row after the call."""

    @property
    def queries(self) -> int:
        """Count the queries per head."""
        return len(self.asked.pointers) if self.asked else len(self.tokens)


@frozen
class Arithmetic:
    """How many reads were compared with the NumPy model of MLX's arithmetic, and how many differed."""

    reads: int = 0
    different: int = 0


@define
class Showing:
    """Decodes the observations of one trace; ``compute`` compares random reads with the NumPy model, bit for bit."""

    stamper: Stamper
    compute: bool = False
    kernel_set: KernelSet = "unfused"
    arithmetic: Arithmetic = field(factory=Arithmetic)
    handed: dict[str, tuple[tuple[str, str], ...]] = field(factory=dict[str, tuple[tuple[str, str], ...]])
    foretold: dict[str, tuple[MakeMask, MaskView]] = field(factory=dict[str, tuple[MakeMask, MaskView]])

    def shown(self, exchange: Exchange) -> Shown:
        """Decode what was observed; an observation that cannot be what it claims to be is nonsense."""
        observation, decoder = exchange.observation, Decoder(self.stamper)
        try:
            read, dense = self._reads(decoder, exchange)
            after = decoder.state(observation.state)
            probes = self._probes(exchange) if read is not None and dense is None else None
        except (NonsenseError, TypeError, ValueError) as error:
            return Shown(observation, nonsense=str(error))
        if exchange.row is not None:
            own = frozenset(exchange.row.row.tokens)
            dead = exchange.row.past.padding | exchange.row.past.turned
            read = read and of_padding(read, dead)
            dense = dense and own_columns(dense, dead)
            after = after and own_state(after, own)
        if read is not None:
            self._compute(exchange, read)
        same, foretold = self._handed_same(exchange), self._foretold(exchange, read)
        counted = exchange.asked is not None and self.stamper.counts(exchange.asked.turn)
        respelt = self._respelt(exchange)
        shown = Shown(observation, read, dense, after, same, probes, counted, foretold=foretold, respelt=respelt)
        return evolve(shown, infinite=self._infinite(exchange), moved=same is False and self._moved(exchange))

    def _reads(self, decoder: Decoder, exchange: Exchange) -> tuple[ReadRecord | None, Columns | None]:
        view = exchange.observation.read
        if exchange.expectation.is_dense:
            arrays = exchange.observation.arrays or {}
            keys, values = (view.keys, view.values) if view else (arrays.get("keys"), arrays.get("values"))
            if keys is None or values is None:
                return None, None
            columns = decoder.columns(keys, values, exchange.expectation.form)
            width = int(keys.shape[2])
            form = None if columns.torn else exchange.expectation.form  # the columns of which they were found to be
            return ReadRecord(None, columns.ids, width, torn=columns.torn, form=form) if view else None, columns
        read = None if view is None else decoder.read(view, exchange.queries)
        real = exchange.expectation.real
        return (read if read is None or real is None else of_row(read, real)), None

    def _probes(self, exchange: Exchange) -> tuple[tuple[int, str, str], ...] | None:
        view, asked, sights = exchange.observation.read, exchange.asked, exchange.expectation.sights
        if view is None or view.output is None or asked is None or not sights:
            return None
        output, pointers = view.output, asked.pointers
        real = exchange.expectation.real
        if real is not None:
            if output.ndim != 4 or output.shape[2] != len(pointers):  # [B, H, L, D]
                wanted = f"an output of {len(pointers)} queries"
                return ((0, wanted, f"one of shape {list(output.shape)}"),)
            output, pointers = output[:, :, list(real)], pointers[list(real)]
        return check_probes(self.stamper, output, sights, pointers, asked.turn)

    def _foretold(self, exchange: Exchange, read: ReadRecord | None) -> tuple[tuple[Tokens, ...], ...] | None:
        """Say what a mask that was asked for beforehand lets this append's queries see (MASK-12)."""
        call, name = exchange.call, exchange.name
        if isinstance(call, MakeMask) and exchange.observation.mask is not None:
            self.foretold[name] = (call, exchange.observation.mask)
        if call is None or not (
            call.appends or isinstance(call, Trim | Reset | Filter | Prepare | Finalize | RollBack)
        ):
            return None
        made, mask = self.foretold.pop(name, (None, None))
        if made is None or mask is None or not isinstance(call, AppendDecode | AppendWindow) or read is None:
            return None
        phase = "decode" if isinstance(call, AppendDecode) else "window"  # a known append has the mask of a window
        if (made.phase, made.length, made.window) != (phase, call.length, call.window):
            return None
        shown = visible_under(mask, read, len(exchange.tokens))
        real = exchange.expectation.real
        return shown if shown is None or real is None else tuple(tuple(row[q] for q in real) for row in shown)

    def _respelt(self, exchange: Exchange) -> tuple[int, ...] | None:
        """List the spare columns that a conversion did not turn into the codes of what stood in them (PREC-9).

        Where the codes of arbitrary bytes are not modelled, only columns of zeros are looked at.
        """
        spare: tuple[int, ...] | None = exchange.expectation.value("spare")
        before, after = exchange.before, exchange.observation.state
        if spare is None or before is None or after is None or (before.form, after.form) != ("dense", "affine"):
            return None
        pairs = ((before.keys, after.keys), (before.values, after.values))
        wrong: set[int] = set()
        for side, (old, new) in zip(SIDES, pairs, strict=True):
            if old is None or new is None:
                return None
            known = [c for c in spare if c < min(old.shape[2], new.shape[2])]
            known = known if self.compute else [c for c in known if not old[:, :, c].any()]
            codes = self.stamper.codec.encode(side, old[:, :, known])
            wrong |= {c for i, c in enumerate(known) if not np.array_equal(codes[:, :, i], new[:, :, c])}
        return tuple(sorted(wrong))

    def _infinite(self, exchange: Exchange) -> tuple[int, ...] | None:
        """List the queries of padding whose outputs are no finite numbers (PAD-15), of data that do not overflow."""
        output = exchange.observation.read.output if exchange.observation.read else None
        padding: tuple[int, ...] = exchange.expectation.value("finite") or ()
        overflows = self.stamper.config.stamp == "random"
        if output is None or not padding or overflows or output.ndim != 4:  # [1, H, L, D]
            return None
        numbers = decode(output, self.stamper.config.dtype)
        return tuple(q for q in padding if q < output.shape[2] and not np.isfinite(numbers[:, :, q]).all())

    def _handed_same(self, exchange: Exchange) -> bool | None:
        """Recognise arrays that were handed out before; None the first time that they are shown."""
        now = handed(exchange.observation)
        if exchange.call is None or exchange.row is not None or not now:  # a row has its part of its group's arrays
            return None
        made = getattr(exchange.call, "as_", None)
        if made:
            self.handed[made] = now
            return None
        known = self.handed.get(exchange.name)
        return known == now if isinstance(exchange.call, LookAt) and known is not None else None

    def _moved(self, exchange: Exchange) -> bool:
        """Say whether of the arrays that were handed out the positions of rows have changed, and nothing else."""
        changed = set(handed(exchange.observation)) ^ set(self.handed.get(exchange.name, ()))
        return {name for name, _ in changed} == {"positions"}

    def _modelled(self, asked: Asked, view: ReadView, keys: Bits, values: Bits, mask: MaskView) -> Bits:
        """Attend by the NumPy model, over tensors or, with the subject's kernel set, over codes."""
        config, scale = self.stamper.config, self.stamper.scale
        under = "causal" if mask.kind == "causal" else mask.array
        if view.form != "affine":
            return attention.attend(asked.queries, keys, values, scale=scale, mask=under, dtype=config.dtype)
        return self.stamper.codec.attend(
            asked.queries, keys, values, scale, under, kernel_set=self.kernel_set, alone=asked.alone
        )

    def _compute(self, exchange: Exchange, read: ReadRecord) -> None:
        """Compare a random read's output with the NumPy model, over the bytes that were fetched in their order."""
        view, asked = exchange.observation.read, exchange.asked
        if not self.compute or self.stamper.config.stamp != "random" or view is None or asked is None:
            return
        if view.output is None or view.keys is None or view.values is None or view.mask is None or read.visible is None:
            return
        wanted, output = self._modelled(asked, view, view.keys, view.values, view.mask), view.output
        same = wanted.shape == output.shape
        if same and exchange.expectation.real is not None:
            real = list(exchange.expectation.real)
            wanted, output = wanted[:, :, real], output[:, :, real]
        same = same and bool(np.all(equal_bits(wanted, output, self.stamper.config.dtype)))
        self.arithmetic = Arithmetic(self.arithmetic.reads + 1, self.arithmetic.different + (not same))
