"""Faults of what comes with a policy: identity, refusals, clones, lists and bytes (PREC-12 to PREC-15, GROW-9)."""

from typing import Any

from attrs import evolve

from kvlaw.conformance.faults.parts import Asked, WrongCache
from kvlaw.conformance.faults.planted_precision import BoundaryFault
from kvlaw.conformance.faults.planted_precision_codes import CodecFault
from kvlaw.conformance.faults.registry import fault
from kvlaw.conformance.interface import Tensors
from kvlaw.conformance.subjects.oracle import ReferenceAdapter
from kvlaw.reference.codes import Codec
from kvlaw.reference.layout import Cache, Read, Refusal
from kvlaw.spec.calls import AppendName
from kvlaw.spec.config import LayerSpec
from kvlaw.spec.observations import StateView, Unbounded

# Identity.


class NamingAdapter(ReferenceAdapter):
    """Shows the identity that a cache gives itself."""

    def show(self, cache: Any) -> StateView:
        return evolve(super().show(cache), identity=self.named(cache))

    def named(self, cache: Any) -> str:
        """Name a cache."""
        raise NotImplementedError


@fault("identity-follows-the-storage", breaks="PREC-12", profile="layout", trace="full bits=4 start=2", report="B96")
class IdentityFollowsTheStorage(NamingAdapter):
    """The identity of a cache that has not converted yet is that of a dense one."""

    def named(self, cache: Any) -> str:
        layer: LayerSpec = cache.layer
        return (evolve(layer, bits=None, value_bits=None, start=None) if cache.storage == "dense" else layer).identity


@fault(
    "conversion-changes-the-identity",
    breaks="PREC-12",
    profile="layout",
    trace="full bits=4 start=2 ; window 2",
    report="B66",
)
class ConversionChangesTheIdentity(NamingAdapter):
    """A cache that has converted takes the identity of one with codes from the first append on."""

    def named(self, cache: Any) -> str:
        layer: LayerSpec = cache.layer
        return (evolve(layer, start=None) if cache.storage == "affine" else layer).identity


@fault("identity-forgets-value-bits", breaks="PREC-12", profile="layout", trace="full bits=4 value_bits=8")
class IdentityForgetsValueBits(NamingAdapter):
    """The identity names the bits of the keys and says nothing of those of the values."""

    def named(self, cache: Any) -> str:
        return evolve(cache.layer, value_bits=None).identity


# Refusals.


@fault("takes-any-bits", breaks="PREC-13", profile="layout", trace="full bits=7")
class TakesAnyBits(Cache):
    """Any number of bits up to 8 is taken when the cache is built."""

    def __init__(self, layer: LayerSpec) -> None:
        known = layer.bits in (None, *range(1, 9))
        super().__init__(evolve(layer, bits=4) if known and layer.bits else layer)
        self.layer = layer


@fault("start-without-bits", breaks="PREC-13", profile="layout", trace="full start=5")
class StartWithoutBits(Cache):
    """A start without bits is passed over, and the cache is a dense one."""

    def __init__(self, layer: LayerSpec) -> None:
        super().__init__(evolve(layer, start=None) if layer.bits is None else layer)


@fault("value-bits-without-bits", breaks="PREC-13", profile="layout", trace="full value_bits=4")
class ValueBitsWithoutBits(Cache):
    """Bits of values without bits of keys are passed over, and the cache is a dense one."""

    def __init__(self, layer: LayerSpec) -> None:
        super().__init__(evolve(layer, value_bits=None) if layer.bits is None else layer)


@fault("start-below-0", breaks="PREC-13", profile="layout", trace="full bits=4 start=-1")
class StartBelow0(Cache):
    """A start below 0 is taken for 0."""

    def __init__(self, layer: LayerSpec) -> None:
        below = isinstance(layer.start, int) and layer.start < 0
        super().__init__(evolve(layer, start=0) if below else layer)


@fault(
    "moves-the-offset-before-it-raises",
    breaks="PREC-13",
    profile="layout",
    trace="full bits=4 group=128 ; window 2",
    report="B52",
)
class MovesTheOffsetBeforeItRaises(WrongCache):
    """A head dim that is no multiple of the group raises when the offset has moved already."""

    def act(self, asked: Asked) -> Read:
        if self.layer.bits is not None and asked.well_formed and asked.keys.shape[-1] % self.layer.group:
            self.state = evolve(self.state, offset=self.offset + asked.length)
            raise Refusal("the last axis has to be a multiple of the group")
        return super().act(asked)


class _KeysDecide(Codec):
    @property
    def fits(self) -> bool:
        return self.key_width % self.layer.group == 0


@fault(
    "looks-at-the-keys-alone",
    breaks="PREC-13",
    profile="layout",
    trace="full bits=4 group=128 D=128 start=4 ; decode",
)
class LooksAtTheKeysAlone(CodecFault):
    """The head dim of the values is not looked at, as long as the cache is dense."""

    codec_type = _KeysDecide


# Clones.


@fault(
    "clones-convert-together", breaks="PREC-14", trace="full bits=4 start=2 ; decode ; clone as c1 ; decode ; look c1"
)
class ClonesConvertTogether(BoundaryFault):
    """A clone shares the record of the conversion, and converts when its source does."""

    def __init__(self, layer: LayerSpec) -> None:
        self.twins: list[ClonesConvertTogether] = []
        super().__init__(layer)

    def clone(self) -> Cache:
        twin = super().clone()
        assert isinstance(twin, ClonesConvertTogether)
        self.twins.append(twin)
        return twin

    def settle(self) -> None:
        before = self.codec
        super().settle()
        for twin in self.twins if before is None and self.codec is not None else ():
            if twin.codec is None and twin.planes is not None:
                twin.codec, twin.floor = self.codec, self.floor
                twin.planes = twin.converted(twin.planes)


@fault("clones-lose-the-floor", breaks="PREC-14", trace="full bits=4 start=2 ; window 2 ; clone as c1", report="B61")
class ClonesLoseTheFloor(Cache):
    """A clone has the codes of its source and no reuse floor."""

    def clone(self) -> Cache:
        twin = super().clone()
        twin.floor = 0
        return twin


@fault("clones-are-dense-again", breaks="PREC-14", trace="ring window=2 bits=4 start=2 ; window 2 ; clone as c1")
class ClonesAreDenseAgain(BoundaryFault):
    """A clone is made by way of half precision, and waits for its start again."""

    def clone(self) -> Cache:
        twin = super().clone()
        if isinstance(twin, BoundaryFault) and self.layer.start is not None:
            twin.restore()
        return twin


# Lists.


@fault(
    "first-layer-bounds-the-list",
    breaks="PREC-15",
    profile="layout",
    trace="full bits=4 start=5 ; list full bits=4 start=5 + full bits=4 start=3 as l0",
    report="B51",
)
class FirstLayerBoundsTheList(ReferenceAdapter):
    """The positions that can be appended to a list are those of its first layer."""

    def max_append_layers(self, caches: list[Any]) -> int | Unbounded | None:
        return caches[0].max_append


@fault(
    "layers-left-alone-have-a-say",
    breaks="PREC-15",
    profile="layout",
    trace="full bits=4 start=2 ; list full + full bits=4 start=2 as l0",
)
class LayersLeftAloneHaveASay(ReferenceAdapter):
    """A list with a layer that stays dense takes any number of positions."""

    def max_append_layers(self, caches: list[Any]) -> int | Unbounded | None:
        return super().max_append_layers(caches) if all(cache.layer.bits for cache in caches) else "unbounded"


@fault(
    "layers-convert-together",
    breaks="PREC-15",
    profile="layout",
    trace="full bits=4 start=2 ; list full bits=4 start=5 + full bits=4 start=2 as l0 ; window 2 on l0",
    report="B51",
)
class LayersConvertTogether(ReferenceAdapter):
    """All layers of a list convert as soon as one is due."""

    cache_type = BoundaryFault

    def append_layers(
        self, caches: list[Any], tensors: Tensors, phase: AppendName, window: int | None, array: bool
    ) -> list[Any]:
        reads = super().append_layers(caches, tensors, phase, window, array)
        if any(cache.codec is not None for cache in caches):
            for cache, (keys, values) in zip(caches, tensors, strict=True):
                if cache.codec is None and cache.layer.bits is not None:
                    cache.codec = cache.make_codec(keys.bits, values.bits, cache.dtype)
                    cache.planes, cache.floor = cache.converted(cache.planes), cache.offset
        return reads


# Bytes.


class ByteFault(Cache):
    """A cache that holds the bytes it should, and reports others per token."""

    @property
    def nbytes(self) -> int:
        return 0 if self.planes is None else self.columns * self.planes.keys.shape[0] * super().bytes_per_token


@fault("bytes-forget-scales", breaks="GROW-9", profile="layout", trace="full bits=4 ; decode", report="B102")
class BytesForgetScales(ByteFault):
    """Bytes per token of codes are those of the words, without scales and biases."""

    @property
    def bytes_per_token(self) -> int:
        codec, planes = self.codec, self.planes
        if codec is None or planes is None:
            return super().bytes_per_token
        return (
            planes.keys.shape[1]
            * (codec.width("keys") * codec.bits("keys") + codec.width("values") * codec.bits("values"))
            // 8
        )


@fault("bytes-of-key-bits", breaks="GROW-9", profile="layout", trace="full bits=4 value_bits=8 ; decode", report="B55")
class BytesOfKeyBits(ByteFault):
    """Bytes per token count the values with the bits of the keys."""

    @property
    def bytes_per_token(self) -> int:
        if self.codec is None or self.planes is None:
            return super().bytes_per_token
        alike = Codec(
            evolve(self.layer, value_bits=None), self.codec.dtype, self.codec.key_width, self.codec.value_width
        )
        return self.planes.keys.shape[1] * (alike.column_bytes("keys") + alike.column_bytes("values"))


@fault("bytes-of-codes-from-the-start", breaks="GROW-9", profile="layout", trace="full bits=2 start=2 ; decode")
class BytesOfCodesFromTheStart(Cache):
    """A cache that has not converted yet reports the bytes that its codes will take."""

    @property
    def bytes_per_token(self) -> int:
        if self.planes is None or self.layer.bits is None or self.codec is not None:
            return super().bytes_per_token
        codec = self.make_codec(self.planes.keys, self.planes.values, self.dtype)
        return self.planes.keys.shape[1] * (codec.column_bytes("keys") + codec.column_bytes("values"))

    @property
    def nbytes(self) -> int:
        return 0 if self.planes is None else self.columns * self.planes.keys.shape[0] * super().bytes_per_token
