"""From bytes to token ids: whose column stands where, which columns are torn, and what cannot be read at all."""

from typing import Any

import numpy as np
import pytest

from kvlaw.conformance.decode import Decoder, NonsenseError, digest, spread
from kvlaw.conformance.stamps import Stamper
from kvlaw.spec.config import Config
from kvlaw.spec.observations import MaskView, ReadView

CONFIG = Config("full", batch=2, kv_heads=2, head_dim=64, value_dim=96)


@pytest.fixture(name="stamper")
def make_stamper() -> Stamper:
    return Stamper(CONFIG)


def planes(stamper: Stamper, tokens: tuple[int, ...]) -> tuple[Any, Any]:
    """The columns of some tokens; 0 is a column of zeros."""
    made = stamper.payload(tokens, np.zeros(0, np.uint16))
    return made.keys.copy(), made.values.copy()


def test_columns_are_named_in_their_order_and_zeros_are_nobodys(stamper: Stamper) -> None:
    found = Decoder(stamper).columns(*planes(stamper, (0, 0, 7, 3, 0, 200)))
    assert found.ids == ((0, 0, 7, 3, 0, 200), (0, 0, 7, 3, 0, 200))
    assert found.torn == ()


def test_nothing_but_zeros_and_no_columns_at_all(stamper: Stamper) -> None:
    assert Decoder(stamper).columns(*planes(stamper, (0, 0))).ids == ((0, 0), (0, 0))
    assert Decoder(stamper).columns(*planes(stamper, ())).ids == ((), ())


@pytest.mark.parametrize(
    ("side", "source", "what"),
    [
        (0, (1, 1, 3), "key of head 1 is t4's"),  # head 1 of row 1 holds the next token's key
        (1, (1, 1, 3), "value of head 1 is t4's"),
        (0, (0, 1, 2), "key of head 1 is t9's of row 0, head 1"),  # the right token, the wrong row
        (1, (1, 0, 2), "value of head 1 is t9's of row 1, head 0"),  # the wrong head
        (1, None, "value of head 1 is no token's"),
    ],
)
def test_a_torn_column_is_told_by_row_column_side_and_owner(
    stamper: Stamper, side: int, source: Any, what: str
) -> None:
    """Columns are spare, spare, t9, t4; the column of t9 is spoilt in head 1 of row 1."""
    both = planes(stamper, (0, 0, 9, 4))
    plane = both[side]
    plane[1, 1, 2] = 77 if source is None else plane[source]
    found = Decoder(stamper).columns(*both)
    assert found.ids == ((0, 0, 9, 4), (0, 0, 9, 4))
    assert found.torn == ((1, 2, what),)


def test_an_overwritten_key_is_nobodys(stamper: Stamper) -> None:
    keys, values = planes(stamper, (5, 6))
    keys[0, 0, 1] = 77
    found = Decoder(stamper).columns(keys, values)
    assert found.ids == ((5, 0), (5, 6))


@pytest.mark.parametrize(
    ("side", "spoilt", "named"),
    [
        (0, None, "keys are no array"),
        (0, np.zeros((2, 2, 64), np.uint16), "keys are no array"),
        (0, np.zeros((2, 1, 2, 64), np.uint16), "keys have shape [2, 1, 2, 64], not [2, 2, S, 64]"),
        (1, np.zeros((2, 2, 2, 64), np.uint16), "values have shape [2, 2, 2, 64], not [2, 2, S, 96]"),
        (1, np.zeros((2, 2, 2, 96), np.uint32), "values are not bf16: 4 bytes an element"),
        (0, np.zeros((2, 2, 1, 64), np.uint16), "1 keys, but 2 values"),
    ],
)
def test_planes_that_are_none_are_named(stamper: Stamper, side: int, spoilt: Any, named: str) -> None:
    both = list(planes(stamper, (1, 2)))
    both[side] = spoilt
    with pytest.raises(NonsenseError) as caught:
        Decoder(stamper).columns(*both)
    assert named in str(caught.value)


def test_what_queries_see_is_listed_in_fetch_order(stamper: Stamper) -> None:
    keys, values = planes(stamper, (8, 2, 5))
    mask = np.array([[True, False, True], [True, True, True]])
    read = Decoder(stamper).read(ReadView(keys, values, MaskView("array", mask)), 2)
    assert read.visible == (((8, 5), (8, 2, 5)),) * 2
    assert (read.width, read.mask, read.mask_shape) == (3, "array", (2, 3))
    causal = Decoder(stamper).read(ReadView(keys, values, MaskView("causal")), 2)
    assert causal.visible == (((8, 2), (8, 2, 5)),) * 2
    unmasked = Decoder(stamper).read(ReadView(keys, values, MaskView("none")), 1)
    assert unmasked.visible == (((8, 2, 5),),) * 2


def test_masks_that_do_not_fit_show_nothing() -> None:
    assert spread(MaskView("array", np.ones((1, 2), np.bool_)), batch=1, length=1, width=3) is None
    assert spread(MaskView("array", np.ones((2, 3), np.bool_)), batch=1, length=3, width=3) is None
    heads_differ = np.array([[[[True, True]], [[True, False]]]])
    assert spread(MaskView("array", heads_differ), batch=1, length=1, width=2) is None


def test_digests_tell_bytes_and_shapes_apart() -> None:
    one = np.arange(6, dtype=np.uint16)
    assert digest(one) == digest(one.copy())
    assert len({digest(one), digest(one.reshape(2, 3)), digest(one[::-1]), digest(one, one)}) == 4
