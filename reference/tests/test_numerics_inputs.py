"""The input families are what their names say, in every format."""

from collections.abc import Callable

import numpy as np
import pytest

from kvlaw.reference.numerics import DTYPES, FAMILY_NAMES, DType, Float32, bits_dtype, decode, families, family

SHAPE = (40, 50)


def drawn(name: str, dtype: DType) -> Float32:
    return decode(family(name, np.random.default_rng(3), SHAPE, dtype), dtype)


def share(marks: np.ndarray) -> float:
    return float(np.mean(marks))


def smallest_normal(dtype: DType) -> float:
    return 2.0**-14 if dtype == "f16" else 2.0**-126


IS_WHAT_ITS_NAME_SAYS: dict[str, Callable[[Float32, DType], bool]] = {
    "normal": lambda x, _: abs(float(x.mean())) < 0.1 and 0.9 < float(x.std()) < 1.1,
    "normal * 100": lambda x, _: 90 < float(x.std()) < 110,
    "uniform": lambda x, _: bool(((x >= 0) & (x <= 1)).all()),
    "just above 3": lambda x, _: bool(((x >= 3) & (x <= 3.02)).all()),
    "just below -3": lambda x, _: bool(((x <= -3) & (x >= -3.02)).all()),
    "halves": lambda x, _: bool((x * 2 == np.rint(x * 2)).all()) and set(np.unique(x)) == set(np.arange(-20, 21) / 2),
    "zeros": lambda x, _: not x.view(np.uint32).any(),
    "zeros of both signs": lambda x, _: not x.any() and 0.4 < share(np.signbit(x)) < 0.6,
    "tiny": lambda x, dtype: float(np.abs(x).max()) < smallest_normal(dtype) and share(x != 0) > 0.5,
    "huge": lambda x, dtype: float(np.abs(x).max()) > (3e4 if dtype == "f16" else 1e37),
    "two-valued": lambda x, _: set(np.unique(x)) == {-1.5, 1.5},
    "row constants": lambda x, _: bool((x == x[:, :1]).all()) and len(np.unique(x)) > 20,
    "some infinity": lambda x, _: 0 < share(x == np.inf) < 0.03 and not np.isnan(x).any(),
    "some -infinity": lambda x, _: 0 < share(x == -np.inf) < 0.03 and not np.isnan(x).any(),
    "some NaN": lambda x, _: 0 < share(np.isnan(x)) < 0.03 and not np.isinf(x).any(),
    "all NaN": lambda x, _: bool(np.isnan(x).all()),
    "all infinity": lambda x, _: bool((x == np.inf).all()),
    "infinities and NaN": lambda x, _: all(map(np.any, (np.isnan(x), x == np.inf, x == -np.inf))),
    "any bits": lambda x, _: share(np.isnan(x)) > 0,
    "finite bits": lambda x, _: bool(np.isfinite(x).all()) and float(np.abs(x).max()) > 6e4,
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", IS_WHAT_ITS_NAME_SAYS)
def test_a_family_is_what_its_name_says(name: str, dtype: DType) -> None:
    assert IS_WHAT_ITS_NAME_SAYS[name](drawn(name, dtype), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_thirty_families_of_the_asked_shape_and_format(dtype: DType) -> None:
    arrays = list(families(np.random.default_rng(0), (2, 3, 5), dtype))
    assert [name for name, _ in arrays] == list(FAMILY_NAMES)
    assert len(set(FAMILY_NAMES)) == 30
    assert all(bits.shape == (2, 3, 5) and bits.dtype == bits_dtype(dtype) for _, bits in arrays)


@pytest.mark.parametrize("name", FAMILY_NAMES)
def test_a_family_depends_on_the_generator_alone(name: str) -> None:
    first, second = (family(name, np.random.default_rng(9), SHAPE, "bf16") for _ in range(2))
    assert np.array_equal(first, second)


def test_an_unknown_family_is_refused() -> None:
    with pytest.raises(KeyError, match="nonsense"):
        family("nonsense", np.random.default_rng(0), SHAPE, "f32")
