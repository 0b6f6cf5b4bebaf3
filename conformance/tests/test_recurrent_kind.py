"""Recurrent layers as the suite sees them: whose bytes a state holds, which caches keep the law, and which do not."""

from collections.abc import Callable
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from attrs import evolve

from kvlaw.conformance.adapter import AdapterSubject
from kvlaw.conformance.check import EFFORTS, Plan, check, replay
from kvlaw.conformance.claims import unkept, unobserved
from kvlaw.conformance.demands import terms_of
from kvlaw.conformance.recurrent_stamps import FOREIGN, RecurrentDecoder, recurrent_inputs
from kvlaw.conformance.result import CheckResult
from kvlaw.conformance.stamps import Stamper, spoil
from kvlaw.conformance.subjects.mlx_lm_arrays import ArraysAdapter
from kvlaw.conformance.subjects.targets import open_target
from kvlaw.mlx_impl import RecurrentCache
from kvlaw.mlx_impl.mlx_lm_recurrent import RecurrentDropIn
from kvlaw.reference.numerics.formats import decode, encode
from kvlaw.spec.config import DTYPES, RECURRENT_KINDS, Config, DType, Kind
from kvlaw.spec.contract import Subject
from kvlaw.spec.observations import Bits, StateView
from kvlaw.spec.records import CacheRecord
from kvlaw.spec.text_form import parse

# Whose bytes.


def handed(tokens: tuple[int, ...], dtype: DType = "bf16") -> tuple[RecurrentDecoder, dict[str, Bits]]:
    stamper = Stamper(Config("recurrent", dtype=dtype))
    payload = stamper.payload(tokens, np.zeros(0, np.uint16))
    return RecurrentDecoder(stamper), recurrent_inputs(payload, tokens)


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_hots_say_what_a_token_writes_and_asks(dtype: DType) -> None:
    _, parts = handed((1, 7), dtype)
    keys, queries = decode(parts["keys"], dtype), decode(parts["queries"], dtype)
    assert keys.shape == queries.shape == (1, 2, 2, 64)
    assert np.argwhere(keys[0, :, 0]).tolist() == [[0, 1], [1, 2]]
    assert np.argwhere(queries[0, :, 1]).tolist() == [[0, 2], [1, 4]]
    assert (decode(parts["beta"], dtype) == 1).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_tails_outputs_and_slots_name_their_tokens(dtype: DType) -> None:
    decoder, parts = handed((1, 2, 3), dtype)
    tail = np.concatenate([np.zeros_like(parts["inputs"][:, :1]), parts["inputs"][:, 1:]], axis=1)
    matrix = np.zeros((1, 2, 64, 64), np.float32)
    matrix[0, :, :, 3] = decode(parts["values"], dtype)[0, 2]
    state = decoder.state(StateView(tail=tail, matrix=encode(matrix, "f32")), CacheRecord())
    assert (state.tail, state.slots) == ((0, 2, 3), (0, 0, 0, 3, 0))
    assert decoder.answers(parts["values"]) == (1, 2, 3)
    assert decoder.answers(np.zeros_like(parts["values"])) == (0, 0, 0)


def test_what_is_no_tokens_is_foreign() -> None:
    decoder, parts = handed((1, 2, 3))
    values, blank = parts["values"], np.zeros((1, 2, 64, 64), np.float32)
    swapped = values[:, :, ::-1]
    assert decoder.answers(swapped) == (FOREIGN,) * 3  # each head's bytes in the other's place
    mixed = np.stack([values[:, 0, 0], values[:, 1, 1]], 1)[:, np.newaxis]
    assert decoder.answers(mixed) == (FOREIGN,)  # the heads disagree

    def slots(matrix: np.ndarray[Any, Any]) -> Any:
        return decoder.state(StateView(matrix=encode(matrix, "f32")), CacheRecord()).slots

    near, spread = blank.copy(), blank.copy()
    near[0, :, :, 0] = decode(values, "bf16")[0, 0] * np.float32(1 + 1e-6)  # what a rounding hides
    spread[0, :, 0, 9] = 1  # a slot that nobody writes
    assert slots(near) == (FOREIGN, 0, 0, 0, 0)
    assert slots(spread) == (FOREIGN,) * 5


@pytest.mark.parametrize("pattern", [0x7FC00001, 0x7F800001, 0xFFFFFFFF])
def test_what_is_no_number_is_foreign_and_warns_of_nothing(pattern: int) -> None:
    decoder, _ = handed((1,))
    matrix, tail = np.full((1, 2, 64, 64), pattern, np.uint32), np.full((1, 3, 128), pattern >> 16, np.uint16)
    state = decoder.state(StateView(tail=tail, matrix=matrix), CacheRecord())
    assert (state.tail, state.slots) == ((FOREIGN,) * 3, (FOREIGN,) * 5)
    matrix[..., 2:] = 0
    assert decoder.state(StateView(matrix=matrix), CacheRecord()).slots == (FOREIGN, FOREIGN, 0, 0, 0)


def test_an_advance_of_no_positions_reaches_the_layer() -> None:
    stamper = Stamper(Config("recurrent"))
    spoilt = spoil(stamper.payload((1, 2), np.zeros(0, np.uint16)), "empty", decode_call=False)
    shapes = {name: part.shape for name, part in recurrent_inputs(spoilt, (1, 2)).items()}
    heads = (1, 0, 2, 64)
    assert shapes == {"inputs": (1, 0, 128), "queries": heads, "keys": heads, "values": heads, "beta": (1, 0, 2)}


@pytest.mark.parametrize("shape", [(1, 3, 128, 1), (2, 3, 128), (1, 3, 64)])
def test_a_tail_of_another_shape_is_nonsense(shape: tuple[int, ...]) -> None:
    decoder, _ = handed((1,))
    with pytest.raises(ValueError, match="the tail has shape"):
        decoder.state(StateView(tail=np.zeros(shape, np.uint16)), CacheRecord())


# Caches that keep the law.


class DropIns(ArraysAdapter):
    """Our drop-ins, asked as mlx-lm's own cache is; their kernel is that of the trace."""

    def __init__(self) -> None:
        super().__init__(lambda: RecurrentDropIn(RecurrentCache(self.config.kernel)))


SUBJECTS: dict[str, Callable[[], Subject]] = {
    "builtin:oracle": lambda: open_target("builtin:oracle"),
    "drop-ins": lambda: AdapterSubject(DropIns()),
}


THIRD = evolve(EFFORTS["ci"], contract=113, rows_contract=73)
"""A third of what a check plays, which `make conform` plays whole."""


@pytest.mark.parametrize("name", SUBJECTS)
def test_ours_are_conformant_and_every_clause_arises(name: str) -> None:
    subject = SUBJECTS[name]()
    kinds: tuple[Kind, ...] = tuple(kind for kind in RECURRENT_KINDS if kind in terms_of(subject).kinds)
    profile = "core" if name == "drop-ins" else "layout"  # they answer as mlx-lm's do, of which core speaks
    result = check(Plan(name, kinds, profile, effort=THIRD), subject)
    assert result.verdict == "conformant", [(c.clause.id, c.outcome) for c in result.clauses if c.outcome == "fail"]
    assert {c.clause.family for c in result.clauses if c.outcome == "pass"} == {"REC"}


WRITTEN = (
    "recurrent conv=3 ; advance 3 -> reads _,_,t1 and tail t2..t3 and slots _,t1..t3,_",
    "recurrent ; advance 4 ; begin_round ; advance 2 ; roll_back 1 -> offset 5 and tail t3..t5 and slots t5,t1..t4",
    "recurrent_rows ; advance 1 ; begin_round ; advance 2 ; roll_back 0,2 -> row 0 offset 1 and row 1 tail t2,t5..t6",
    "recurrent_rows ; prepare lengths=1,2 right=1,0 ; advance 2 ; finalize -> row 0 tail _,_,t1 and row 1 offset 2",
)


@pytest.mark.parametrize("text", WRITTEN)
@pytest.mark.parametrize("target", ["builtin:oracle", "builtin:mlx_impl.recurrent", "builtin:mlx_impl.recurrent_rows"])
def test_histories_worked_out_by_hand(target: str, text: str) -> None:
    written = parse(text)
    subject = open_target(target)
    if written.trace.config.kind not in terms_of(subject).kinds:
        assert target != "builtin:oracle"
        return
    steps = replay(subject, "layout", written.trace)
    assert (unkept(written, steps), unobserved(written, steps)) == ([], [])


def test_a_poisoned_caller_changes_no_state_and_no_replay() -> None:
    written = parse(
        "recurrent poison ; advance 2 ; begin_round ; advance 2 ; roll_back 1 -> tail t1..t3 ; advance 1 -> reads t5"
    )
    for target in ("builtin:oracle", "builtin:mlx_impl.recurrent"):
        assert unkept(written, replay(open_target(target), "layout", written.trace)) == []


# Caches that do not.


def failing(result: CheckResult) -> set[str]:
    return {c.clause.id for c in result.clauses if c.outcome == "fail"}


def test_what_is_found_in_mlx_lm() -> None:
    # REC-10: cache.py, ArraysCache.extract takes c[idx : idx + 1] of arrays that are still None
    # REC-12, report B100: state hands out the very list, and from_state keeps it
    subject = open_target("builtin:mlx_lm.ArraysCache", {"clone": "from_state"})
    result = check(Plan("builtin:mlx_lm.ArraysCache", RECURRENT_KINDS, effort=THIRD), subject)
    assert failing(result) >= {"REC-10", "REC-12"}


class PutsZerosBack(ArraysAdapter):
    """A model that puts a tail of zeros back."""

    def advance(self, cache: Any, step: Any) -> Any:
        outputs = super().advance(cache, step)
        cache[0] = mx.zeros_like(cache[0])
        return outputs


def test_a_model_that_forgets_the_tail_is_found() -> None:
    result = check(Plan("zeros", ("recurrent",), effort=THIRD), AdapterSubject(PutsZerosBack()))
    assert failing(result) == {"REC-3"}
