"""Our caches of codes by every kernel set, chosen by ``--set kernels=`` and compared with its model, bit for bit.

The histories here reach over several tiles of 512 columns, before and after the wrap of a ring, where the machines stay
within one tile.
"""

from typing import Any, cast

import numpy as np
import pytest

from kvlaw.conformance.adapter import AdapterSubject
from kvlaw.conformance.demands import terms_of
from kvlaw.conformance.lockstep import Lockstep
from kvlaw.conformance.subjects.canary import arithmetic_is_modelled, codec_is_modelled
from kvlaw.conformance.subjects.errors import TargetError
from kvlaw.conformance.subjects.mlx_arithmetic import from_mlx, to_mlx
from kvlaw.conformance.subjects.targets import open_target
from kvlaw.reference.layout import Cache
from kvlaw.reference.numerics import DType, encode, equal_bits
from kvlaw.reference.numerics.quantized_attention import KERNEL_SETS, KernelSet
from kvlaw.spec.config import LayerSpec
from kvlaw.spec.text_form import parse

HALVES: tuple[DType, ...] = ("bf16", "f16")
SETS = cast("tuple[KernelSet, ...]", KERNEL_SETS)

modelled_only = pytest.mark.skipif(
    not (arithmetic_is_modelled() and codec_is_modelled()),
    reason="the running MLX has not the modelled x86-64 CPU arithmetic (canary): not observed",
)


def coded_target(kernel_set: str, name: str = "affine_ring") -> AdapterSubject:
    subject = open_target(f"builtin:mlx_impl.{name}", {"kernels": kernel_set})
    assert isinstance(subject, AdapterSubject)
    return subject


# The option -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "kernels", "named"),
    [
        ("mlx_impl.affine_ring", "tile", ["did you mean 'tiled'", "unfused, tiled_causal, tiled"]),
        ("mlx_impl.full", "tiled", ["builtin:mlx_impl.full has no kernel sets", "builtin:mlx_impl.affine_full"]),
        ("mlx_lm.QuantizedKVCache", "unfused", ["has no kernel sets"]),
    ],
)
def test_a_kernel_set_that_cannot_be_chosen_is_named(target: str, kernels: str, named: list[str]) -> None:
    with pytest.raises(TargetError) as raised:
        open_target(f"builtin:{target}", {"kernels": kernels})
    assert all(part in str(raised.value) for part in named), raised.value


@pytest.mark.parametrize("name", ["affine_full", "affine_ring", "bf16_first_full", "bf16_first_ring"])
def test_a_tiled_target_is_checked_with_what_it_reads(name: str) -> None:
    kind = "ring window=4" if "ring" in name else "full"
    start = " start=1" if "first" in name else ""
    subject = coded_target("tiled", name)
    terms = terms_of(subject)
    assert (terms.kernel_set, terms.code_bits, terms.dtypes) == ("tiled", (4, 8), ("bf16", "f16"))
    outcomes = {
        text: subject.open(parse(f"{kind}{start} {text} ; window 2").trace.config).outcome
        for text in ("bits=4", "bits=8 value_bits=4", "bits=4 dtype=f16", "bits=5", "bits=4 value_bits=2")
    }
    assert list(outcomes.values()) == ["ok", "ok", "ok", "unsupported", "unsupported"]
    assert subject.open(parse(f"{kind}{start} bits=4 dtype=f32 ; window 2").trace.config).outcome == "unsupported"
    assert subject.open(parse(f"{kind}{start} bits=7 ; window 2").trace.config).outcome == "refused"


RANDOM = "ring window=8 bits=4 dtype=f16 stamp=random ; window 6 ; window 4 ; decode ; window 2 array ; known 2"


def reads_that_differ(subject: AdapterSubject) -> tuple[int, int]:
    """Play a trace of arbitrary data; say how many reads were compared and how many differ."""
    lockstep = Lockstep(subject, "layout", frozenset({"READ-11"}), arithmetic=True)
    steps = lockstep.run(parse(RANDOM).trace)
    assert not any(step.divergences for step in steps)
    return lockstep.arithmetic.reads, lockstep.arithmetic.different


@modelled_only
@pytest.mark.parametrize("kernel_set", SETS)
def test_reads_are_compared_with_the_model_of_the_kernel_set(kernel_set: str) -> None:
    compared, different = reads_that_differ(coded_target(kernel_set))
    assert compared >= 5
    assert different == 0


@modelled_only
@pytest.mark.parametrize(("built", "modelled"), [(a, b) for a in SETS for b in SETS if a != b])
def test_the_model_of_another_kernel_set_differs(built: str, modelled: KernelSet) -> None:
    """The first window of the trace is plainly causal, the others are not: each pair of sets differs in one of them."""
    subject = coded_target(built)
    subject.adapter.kernel_set = modelled
    _, different = reads_that_differ(subject)
    assert different >= 1


# Several tiles --------------------------------------------------------------------------------------------------------


class Twins:
    """One cache of each implementation, appended to alike."""

    def __init__(self, layer: LayerSpec, dtype: DType, kernel_set: KernelSet) -> None:
        mx, impl = pytest.importorskip("mlx.core"), pytest.importorskip("kvlaw.mlx_impl")
        self.dtype: DType = dtype
        self.kernel_set: KernelSet = kernel_set
        self.rng = np.random.default_rng(7)
        self.model = Cache(layer)
        formats: dict[str, Any] = {"bf16": mx.bfloat16, "f16": mx.float16}
        self.cache = impl.make(
            layer.kind,
            layer.window,
            layer.sinks,
            bits=layer.bits,
            value_bits=layer.value_bits,
            group=layer.group,
            kernels=kernel_set,
            dtype=formats[dtype],
        )

    def normal(self, heads: int, length: int) -> Any:
        return encode(self.rng.standard_normal((1, heads, length, 64)), self.dtype)

    def append(self, act: str, length: int, window: int | None, as_array: bool) -> tuple[int, bool]:
        """Append by the named call, attend by both, and say how many columns were read and whether all bits agree.

        A long append is not attended, to save time.
        """
        keys, values, queries = self.normal(2, length), self.normal(2, length), self.normal(4, length)
        name = f"append_{act}"
        expected = getattr(self.model, name)(keys, values, self.dtype, window, as_array)
        handed = (to_mlx(part, self.dtype) for part in (keys, values))
        read = getattr(self.cache, name)(*handed, window=window, as_array=as_array)
        if length > 100:
            return 0, True
        observed = from_mlx(read.attend(to_mlx(queries, self.dtype), scale=0.125))
        modelled = expected.codec.attend(
            queries,
            expected.keys,
            expected.values,
            0.125,
            expected.mask,
            kernel_set=self.kernel_set,
            alone=act != "window",
        )
        return expected.keys.shape[2], equal_bits(observed, modelled, self.dtype)


HISTORY: tuple[tuple[str, int, int | None, bool], ...] = (
    ("window", 580, None, False),
    ("window", 6, None, False),  # 586 columns: two tiles, plainly causal
    ("window", 5, None, True),  # the same, written as an array
    ("window", 3, 400, False),  # a narrower window hides columns of the first tile
    ("decode", 1, None, False),
    ("window", 1, None, False),  # one query, by name a window
    ("known", 4, None, False),
    ("window", 600, None, False),  # a ring of 640 wraps
    ("window", 7, None, True),
    ("decode", 1, 500, False),
    ("known", 3, None, True),
    ("window", 2, None, False),
)

LAYERS = (
    LayerSpec("full", bits=8, value_bits=4),
    LayerSpec("ring", 640, bits=4, group=32),
    LayerSpec("ring", 640, 3, bits=4, value_bits=8),
)


@modelled_only
@pytest.mark.parametrize("kernel_set", SETS)
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("layer", LAYERS, ids=LayerSpec.describe)
def test_a_history_over_several_tiles_reads_as_the_model_does(
    layer: LayerSpec, dtype: DType, kernel_set: KernelSet
) -> None:
    twins = Twins(layer, dtype, kernel_set)
    columns: list[int] = []
    for number, (act, length, window, as_array) in enumerate(HISTORY):
        narrower = None if layer.sinks else window  # a ring with sinks takes no narrower window (MASK-13)
        seen, agree = twins.append(act, length, narrower, as_array)
        assert agree, (number, act, length)
        columns.append(seen)
    assert sum(seen > 512 for seen in columns) >= 9
    assert (max(columns) > 1024) == (layer.kind == "full")
