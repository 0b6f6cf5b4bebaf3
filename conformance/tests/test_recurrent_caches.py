"""Our recurrent caches against the NumPy rows, bit for bit, on arbitrary inputs and random histories.

The reference keeps every position and cuts lists; ours keeps a state and plays rounds again. After every call both show
the same offsets, tails and matrices, the same outputs where positions count, and what a convolution would read; what
one refuses, the other refuses, and stays as it was. Where MLX's arithmetic is not the modelled one, this is skipped.

KVLAW_LONG=1 plays some 100,000 calls.
"""

import os
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from kvlaw.conformance.subjects.canary import arithmetic_is_modelled
from kvlaw.conformance.subjects.mlx_arithmetic import from_mlx, to_mlx
from kvlaw.mlx_impl import CacheError, RecurrentCache, RecurrentRows, merge_recurrent
from kvlaw.reference.layout import Refusal
from kvlaw.reference.numerics import DTYPES, Bits, DType, equal_bits, family
from kvlaw.reference.numerics.gated_delta import Inputs
from kvlaw.reference.recurrent import Recurrent, merge

HISTORIES = 350 if os.environ.get("KVLAW_LONG") == "1" else 25
CALLS = 50
CHANNELS, GROUPS, HEADS, KEY, VALUE = 5, 1, 2, 4, 3
FAMILIES = ("normal", "normal * 100", "zeros of both signs", "halves", "some infinity", "any exponent")

pytestmark = pytest.mark.skipif(
    not arithmetic_is_modelled(), reason="the running MLX has not the modelled x86-64 CPU arithmetic: not observed"
)


class Pair:
    """A group of ours and the rows of the reference; ``serial`` plays one row in a serial cache."""

    def __init__(self, number: int, dtype: DType, *, serial: bool) -> None:
        self.rng, self.numpy = random.Random(f"{number} {dtype}"), np.random.default_rng([number, DTYPES.index(dtype)])
        self.dtype: DType = dtype
        self.kernel = self.rng.choice((1, 2, 4, 4, 5))
        self.serial = serial
        count = 1 if serial else self.rng.randint(0, 3)
        self.ours: Any = RecurrentCache(self.kernel) if serial else RecurrentRows(self.kernel, count)
        self.theirs = Recurrent.of_empty_rows(self.kernel, count)
        self.done = Counter[str]()

    # What is drawn.

    def draw(self, *shape: int, dtype: DType | None = None) -> Bits:
        return family(self.rng.choice(FAMILIES), self.numpy, shape, dtype or self.dtype)

    def step(self, rows: int) -> tuple[Bits, Inputs]:
        length = self.rng.choice((1, 1, 2, 3, 5))
        keys = [family("normal", self.numpy, (rows, length, GROUPS, KEY), self.dtype) for _ in range(2)]
        values = self.draw(rows, length, HEADS, VALUE)
        decay = family("uniform", self.numpy, (rows, length, HEADS), "f32")
        beta = family("uniform", self.numpy, (rows, length, HEADS), self.dtype)
        return self.draw(rows, length, CHANNELS), Inputs(keys[0], keys[1], values, decay, beta, self.dtype)

    def given(self, inputs: Bits, projected: Inputs) -> list[mx.array]:
        parts = (inputs, projected.queries, projected.keys, projected.values)
        gates = (to_mlx(projected.decay, "f32"), to_mlx(projected.beta, self.dtype))
        return [*(to_mlx(part, self.dtype) for part in parts), *gates]

    # Calls on both.

    def both(self, name: str, ours: Callable[[], Any], theirs: Callable[[], Any]) -> tuple[Any, Any] | None:
        """Carry a call out on both sides; None if both refuse."""
        refused, answers = [], []
        for act, refusal in ((ours, CacheError), (theirs, Refusal)):
            try:
                answers.append(act())
            except refusal as error:
                refused.append(str(error))
        assert len(refused) != 1, (name, refused)
        self.done[f"{name} refused" if refused else name] += 1
        return None if refused else (answers[0], answers[1])

    def play(self) -> None:
        acts = [self.advance, self.advance, self.advance, self.begin, self.begin, self.end, self.end, self.clone]
        acts += [] if self.serial else [self.prepare, self.finalize, self.filter, self.extract, self.merge, self.reset]
        for _ in range(CALLS):
            self.rng.choice(acts)()
            self.compare()

    def advance(self) -> None:
        wrong = self.rng.random() < 0.03 and not (self.serial and self.theirs.shapes is None)  # it takes any batch
        inputs, projected = self.step(len(self.theirs.rows) + wrong)
        if inputs.shape[0] == len(self.theirs.rows) > 0:
            self.same(from_mlx(self.ours.window(to_mlx(inputs, self.dtype))), self.theirs.window(inputs), self.dtype)
        counted = self.theirs.counts(inputs.shape[1])
        given = self.given(inputs, projected)
        outputs = self.both(
            "advance", lambda: self.ours.advance(*given), lambda: self.theirs.advance(inputs, projected)
        )
        if outputs is not None:
            self.same(from_mlx(outputs[0])[counted], outputs[1][counted], self.dtype)

    def begin(self) -> None:
        self.both("begin", self.ours.begin_round, self.theirs.begin_round)

    def end(self) -> None:
        rows, appended = len(self.theirs.rows), self.theirs.appended
        if self.rng.random() < 0.3:
            self.both("commit", self.ours.commit_round, self.theirs.commit_round)
            return
        keeps = [self.rng.randint(0, appended + (self.rng.random() < 0.05)) for _ in range(rows)]
        if self.serial:
            self.both("roll back", lambda: self.ours.roll_back(keeps[0]), lambda: self.theirs.roll_back(keeps))
        else:
            self.both("roll back", lambda: self.ours.roll_back(keeps), lambda: self.theirs.roll_back(keeps))

    def prepare(self) -> None:
        rows = len(self.theirs.rows) or self.rng.randint(1, 2)
        left = [self.rng.randint(0, 2) if self.theirs.shapes is None else 0 for _ in range(rows)]
        lengths = [pad + self.rng.randint(0, 4) for pad in left]
        right = [max(lengths) + 1 - length for length in lengths] if self.rng.random() < 0.8 else None
        lists = (left if self.rng.random() < 0.7 else [1] * rows, lengths, right)
        self.both("prepare", lambda: self.ours.prepare(*lists), lambda: self.theirs.prepare(*lists))

    def finalize(self) -> None:
        self.both("finalize", self.ours.finalize, self.theirs.finalize)

    def filter(self) -> None:
        rows = len(self.theirs.rows)
        kept = self.rng.sample(range(rows), self.rng.randint(min(1, rows), rows)) if self.rng.random() < 0.9 else [rows]
        self.both("filter", lambda: self.ours.filter(kept), lambda: self.theirs.filter(kept))

    def extract(self) -> None:
        row = self.rng.randrange(len(self.theirs.rows) + 1)
        found = self.both("extract", lambda: self.ours.extract(row), lambda: self.theirs.extract(row))
        if found is not None:
            self.compare_states(*found)

    def merge(self) -> None:
        """Merge with a serial cache that has a few positions, on either side."""
        own, other = RecurrentCache(self.kernel), Recurrent.of_empty_rows(self.kernel, 1)
        for _ in range(self.rng.randint(0, 2)):
            inputs, projected = self.step(1)
            own.advance(*self.given(inputs, projected))
            other.advance(inputs, projected)
        first = self.rng.random() < 0.5
        sources = ([own, self.ours], [other, self.theirs]) if first else ([self.ours, own], [self.theirs, other])
        found = self.both("merge", lambda: merge_recurrent(sources[0]), lambda: merge(sources[1]))
        self.compare_states(own, other)
        if found is not None and len(found[1].rows) < 6:
            self.ours, self.theirs = found

    def clone(self) -> None:
        """Go on with the clones; what happens to them must not reach what they were made of."""
        before = (self.ours, self.theirs)
        self.ours, self.theirs = self.ours.clone(), self.theirs.clone()
        inputs, projected = self.step(len(self.theirs.rows) or 1)
        given = self.given(inputs, projected)
        self.both("advance", lambda: self.ours.advance(*given), lambda: self.theirs.advance(inputs, projected))
        self.compare_states(*before)

    def reset(self) -> None:
        if self.rng.random() < 0.3:
            self.both("reset", self.ours.reset, self.theirs.reset)

    # Comparison.

    def compare(self) -> None:
        assert self.ours.in_round == (self.theirs.starts is not None)
        self.compare_states(self.ours, self.theirs)

    def compare_states(self, ours: Any, theirs: Recurrent) -> None:
        offsets = ours.offsets if isinstance(ours, RecurrentRows) else (ours.offset,)
        assert tuple(offsets) == theirs.offsets
        shown, expected = ours.state(), theirs.state()
        assert ("conv" in shown) == (expected is not None)
        if expected is None:
            assert ours.nbytes == 0
            return
        self.same(from_mlx(shown["conv"]), expected[0], self.dtype)
        self.same(from_mlx(shown["matrix"]), expected[1], "f32")
        assert ours.nbytes == sum(part.nbytes for part in expected)

    def same(self, ours: Bits, theirs: Bits, dtype: DType) -> None:
        assert equal_bits(ours, theirs, dtype), self.done


@pytest.mark.parametrize("serial", [False, True], ids=["rows", "serial"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_random_histories_leave_the_same_bits(dtype: DType, *, serial: bool) -> None:
    done = Counter[str]()
    for number in range(HISTORIES):
        pair = Pair(number, dtype, serial=serial)
        pair.play()
        done += pair.done
    least = 15 if serial else 4
    for name in ("advance", "roll back", "commit", "begin refused", "roll back refused"):
        assert done[name] > least, done
    for name in () if serial else ("prepare", "finalize", "filter", "extract", "merge", "reset"):
        assert done[name] > least, done
    for name in () if serial else ("prepare refused", "extract refused", "merge refused", "advance refused"):
        assert done[name] > least, done
