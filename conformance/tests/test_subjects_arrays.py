"""Transport: every bit pattern through MLX and NumPy and back, masks of both forms, and copies that last."""

from typing import Any

import ml_dtypes
import mlx.core as mx
import numpy as np
import pytest

from kvlaw.conformance.interface import NonsenseError
from kvlaw.conformance.subjects.arrays import NumpyArrays, mask_bits
from kvlaw.conformance.subjects.mlx_arrays import MlxArrays
from kvlaw.spec.config import Config

ALL_16 = np.arange(1 << 16, dtype=np.uint16).reshape(1, 4, 256, 64)
SOME_32 = np.concatenate(
    [
        np.arange(0, 1 << 32, 65_521, dtype=np.uint64).astype(np.uint32)[: 256 * 255],
        np.array([0, 1 << 31, 0x7F800000, 0xFF800000, 0x7F800001, 0xFFC00001, 1, 0x807FFFFF] * 32, np.uint32),
    ]
).reshape(1, 4, 256, 64)
LIBRARIES = [MlxArrays(), NumpyArrays()]


@pytest.mark.parametrize("arrays", LIBRARIES, ids=lambda a: a.name)
@pytest.mark.parametrize(("dtype", "bits"), [("bf16", ALL_16), ("f16", ALL_16), ("f32", SOME_32)])
def test_every_bit_passes_through(arrays: Any, dtype: str, bits: Any) -> None:
    array = arrays.tensor(bits, dtype)
    assert arrays.dtype_of(array) == dtype
    assert tuple(array.shape) == bits.shape
    back = arrays.bits(array)
    assert back.dtype == bits.dtype
    assert np.array_equal(back, bits)


@pytest.mark.parametrize("arrays", LIBRARIES, ids=lambda a: a.name)
@pytest.mark.parametrize(("dtype", "bits"), [("bf16", ALL_16), ("f16", ALL_16), ("f32", SOME_32)])
def test_bits_of_slices_transposes_and_empty_arrays(arrays: Any, dtype: str, bits: Any) -> None:
    array = arrays.tensor(bits, dtype)
    assert np.array_equal(arrays.bits(array[:, :, 3:250:2]), bits[:, :, 3:250:2])
    assert np.array_equal(arrays.bits(array.transpose(0, 2, 1, 3)), bits.transpose(0, 2, 1, 3))
    assert np.array_equal(arrays.bits(array[:, 1:2, 5:6]), bits[:, 1:2, 5:6])
    assert arrays.bits(array[:, :, :0]).shape == (1, 4, 0, 64)


@pytest.mark.parametrize("arrays", LIBRARIES, ids=lambda a: a.name)
def test_an_array_is_a_copy_of_its_bits_and_its_bits_a_copy_of_the_array(arrays: Any) -> None:
    given = np.full((1, 1, 2, 32), 0x3F80, np.uint16)  # 1.0 in bf16
    array = arrays.tensor(given, "bf16")
    given[...] = 0
    shown = arrays.bits(array)
    assert (shown == 0x3F80).all()
    shown[...] = 0
    assert (arrays.bits(array) == 0x3F80).all()
    arrays.poison(array)
    assert (arrays.bits(array) == 0x429A).all()  # 77.0 = 1.203125 * 2^6: sign 0, exponent 133, fraction 0011010


def test_mlx_poison_is_seen_by_who_holds_the_array_but_not_by_who_computed_with_it() -> None:
    arrays = MlxArrays()
    array = arrays.tensor(np.full((1, 1, 1, 32), 0x3F80, np.uint16), "bf16")
    held, computed = array, array + 0
    arrays.poison(array)
    assert (arrays.bits(held) == 0x429A).all()
    assert (arrays.bits(computed) == 0x3F80).all()


def test_numbers_and_masks_keep_their_type() -> None:
    arrays = MlxArrays()
    assert arrays.bits(mx.array(7)).tolist() == 7
    assert arrays.bits(mx.array([True, False])).dtype == np.bool_
    assert arrays.dtype_of(mx.array([1])) == "mlx.core.int32"
    assert NumpyArrays().dtype_of(np.zeros(1)) == "float64"


@pytest.mark.parametrize("arrays", LIBRARIES, ids=lambda a: a.name)
def test_what_is_no_array_is_named(arrays: Any) -> None:
    with pytest.raises(NonsenseError, match="a list instead of"):
        arrays.dtype_of([1.0])
    assert not arrays.is_array([1.0])


def test_masks_are_read_in_both_forms() -> None:
    seen = np.array([[True, False]])
    assert mask_bits(seen) is seen
    assert mask_bits(np.array([[0.0, -np.inf]])).tolist() == [[True, False]]
    assert mask_bits(np.array([[-0.0, np.finfo(np.float16).min]], np.float16)).tolist() == [[True, False]]
    assert MlxArrays().mask(mx.array([[0.0, -1e9]], mx.bfloat16)).tolist() == [[True, False]]
    assert MlxArrays().mask(mx.array([[True, False]])).tolist() == [[True, False]]
    with pytest.raises(NonsenseError, match="other entries"):
        mask_bits(np.array([0.0, -3.0]))
    with pytest.raises(NonsenseError, match="int32"):
        mask_bits(np.array([0, 1], np.int32))


def test_numpy_caches_get_numpys_dtypes() -> None:
    arrays = NumpyArrays()
    array = arrays.tensor(np.full(3, 0x4000, np.uint16), "bf16")
    assert array.dtype == ml_dtypes.bfloat16
    assert array.astype(np.float32).tolist() == [2.0, 2.0, 2.0]
    assert arrays.tensor(np.full(1, 0x4000, np.uint16), "f16").tolist() == [2.0]
    assert arrays.tensor(np.full(1, 0x40000000, np.uint32), "f32").tolist() == [2.0]
    assert array.flags.writeable


def test_mlx_attends_with_masks_of_all_forms() -> None:
    """One query over two columns with values 1 and 3 and equal scores: the mean of what is visible."""
    arrays = MlxArrays()
    queries, keys = mx.zeros((1, 1, 1, 32)), mx.zeros((1, 1, 2, 32))
    values = mx.concatenate([mx.full((1, 1, 1, 32), 1.0), mx.full((1, 1, 1, 32), 3.0)], 2)

    def answer(mask: Any) -> float:
        return arrays.attend(queries, keys, values, 1.0, mask)[0, 0, 0, 0].item()

    assert answer(None) == 2.0
    assert answer("causal") == 2.0
    assert answer(mx.array([[True, False]])) == 1.0
    assert answer(np.array([[False, True]])) == 3.0


def test_one_query_over_codes_is_attended_as_mlx_lms_models_do() -> None:
    models = pytest.importorskip("mlx_lm.models.base", reason="mlx-lm has the function")
    arrays, rng = MlxArrays(cpu=True), np.random.default_rng(1)
    queries, keys, values = (
        mx.array(rng.standard_normal(shape).astype(np.float32)).astype(mx.bfloat16)
        for shape in ((2, 4, 1, 64), (2, 2, 5, 64), (2, 2, 5, 64))
    )
    coded: list[Any] = [mx.quantize(x, group_size=32, bits=4) for x in (keys, values)]
    mask = np.array([1, 1, 0, 1, 0], np.bool_)[None, None, None].repeat(2, 0)
    config = Config("full", bits=4, group=32)
    answer = arrays.attend_codes(queries, coded[0], coded[1], 0.25, mask, config)
    wanted = models.quantized_scaled_dot_product_attention(
        queries, coded[0], coded[1], scale=0.25, mask=arrays.visible(mask), group_size=32, bits=4
    )
    assert answer.shape == (2, 4, 1, 64)
    assert np.array_equal(arrays.bits(answer), arrays.bits(wanted))


def test_values_of_other_bits_are_read_by_their_own() -> None:
    """A query of zeros weighs all alike: the output is the mean of what the values stand for."""
    arrays = MlxArrays(cpu=True)
    keys = mx.quantize(mx.ones((1, 1, 2, 32)), group_size=32, bits=2)
    values = mx.quantize(mx.arange(64, dtype=mx.float32).reshape(1, 1, 2, 32), group_size=32, bits=8)
    config = Config("full", bits=2, value_bits=8, group=32, dtype="f32")
    answer = arrays.attend_codes(mx.zeros((1, 1, 1, 32)), keys, values, 1.0, np.array([[[[True, False]]]]), config)
    assert np.allclose(np.array(answer)[0, 0, 0], np.arange(32), atol=31 / 255)
