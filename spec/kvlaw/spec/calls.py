"""The calls of a trace: what is asked of the named objects of a small world.

``open(config)`` makes the cache ``c0``.  Every call says what it acts ``on`` and may name what it makes (``as_``,
written ``as`` in JSON and text).  Appends carry a number of positions, never tensors: the harness makes keys, values
and queries from token ids (``kvlaw.conformance.stamps``).  A call on a list acts on all its layers, all or nothing
(ERR-8).
"""

import math
import re
from typing import ClassVar, Literal, TypeAlias, get_args

from attrs import Attribute, field, frozen, validators

from kvlaw.spec.config import LayerSpec

Phase = Literal["decode", "window"]
AppendName = Literal["decode", "window", "known", "compiled"]
Spoilt = Literal["rank", "batch", "heads", "head_dim", "dtype", "lengths", "empty"]
Malformed = Literal["rank", "batch", "heads", "head_dim", "dtype", "lengths", "empty", "two"]
MALFORMED: tuple[Malformed, ...] = get_args(Malformed)
"""The ways to spoil the tensors of an append; ``two`` (two positions in a decode) is for decodes alone."""

NAME = r"(?!(?:on|as)$)[A-Za-z_][A-Za-z0-9_.]*"
"""What an object may be called: a word that the text form cannot take for anything else."""

Damage = Literal["truncate", "empty", "extra", "header", "tensor", "version", "older", "foreign"]
DAMAGES: tuple[Damage, ...] = get_args(Damage)
"""The ways to spoil a file: cut short, of no bytes, with bytes behind its end, a number of its header or a byte of its
tensors altered, written by a later or an earlier version of its format, or something else altogether."""

_LAYER = {"schema": {"anyOf": [{"$ref": "#/$defs/layer"}, {"type": "null"}]}}
_SCHEMA = {"schema": {"pattern": f"^{NAME}$"}}
_malformed = validators.optional(validators.in_(MALFORMED))
_spoilt = validators.optional(validators.in_(get_args(Spoilt)))


def _is_name(_: object, attribute: "Attribute[str]", value: object) -> None:
    if not isinstance(value, str) or not re.fullmatch(NAME, value):
        field_name = attribute.name.rstrip("_")
        raise ValueError(
            f"{field_name!r} must be a word of letters, digits, '_' and '.', and not 'on' or 'as': {value!r}"
        )


def _is_finite(_: object, attribute: "Attribute[float]", value: float) -> None:
    if not math.isfinite(value):
        raise ValueError(f"{attribute.name!r} must be finite: {value}")


def _hold_columns(_: object, _attribute: object, layers: tuple[LayerSpec, ...]) -> None:
    if any(layer.is_recurrent for layer in layers):
        raise ValueError("the layers of a list hold keys and values: none can be recurrent")


@frozen(kw_only=True)
class BaseCall:
    """What every call has: the object that it acts on."""

    verb: ClassVar[str] = ""
    on: str = field(default="c0", validator=_is_name, metadata=_SCHEMA)

    @property
    def appends(self) -> int:
        """Positions per row that this call appends."""
        return 0

    def __getattr__(self, name: str) -> bool:
        """Answer ``call.is_trim`` and its like, for laws: is this the call with that verb?"""
        if name.startswith("is_") and name[3:] in CALLS:
            return self.verb == name[3:]
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}", name=name, obj=self)


@frozen(kw_only=True)
class Append(BaseCall):
    """What decode and window share.

    ``window`` is the window argument w that a graph passes for the mask, ``array`` asks for the mask as an array,
    ``unread`` says that the read is never asked (READ-5), ``malformed`` spoils the tensors in one way (ERR-2 to ERR-4).
    """

    as_: str | None = field(default=None, validator=validators.optional(_is_name), metadata=_SCHEMA)
    window: int | None = None
    array: bool = False
    unread: bool = False
    malformed: Malformed | None = field(default=None, validator=_malformed)


@frozen(kw_only=True)
class AppendDecode(Append):
    """Append one position per row and attend it."""

    verb: ClassVar[str] = "decode"

    @property
    def appends(self) -> int:
        """One position."""
        return 1

    @property
    def length(self) -> int:
        """One position."""
        return 1


@frozen(kw_only=True)
class CompiledDecode(AppendDecode):
    """Append one position per row and attend it, by a step that was compiled (DEC-1)."""

    verb: ClassVar[str] = "compiled"


@frozen(kw_only=True)
class AppendWindow(Append):
    """Append ``length`` positions per row, causal inside, and attend them."""

    verb: ClassVar[str] = "window"
    length: int
    malformed: Spoilt | None = field(default=None, validator=_spoilt)

    @property
    def appends(self) -> int:
        """``length`` positions."""
        return self.length


@frozen(kw_only=True)
class AppendKnown(AppendWindow):
    """Append ``length`` positions that are already decided; each is attended with one-query arithmetic (READ-12)."""

    verb: ClassVar[str] = "known"


@frozen(kw_only=True)
class FetchDense(BaseCall):
    """Append ``length`` positions and hand out keys and values for a graph that attends by itself (READ-6)."""

    verb: ClassVar[str] = "dense"
    length: int
    as_: str | None = field(default=None, validator=validators.optional(_is_name), metadata=_SCHEMA)
    malformed: Spoilt | None = field(default=None, validator=_spoilt)

    @property
    def appends(self) -> int:
        """``length`` positions."""
        return self.length


@frozen(kw_only=True)
class Advance(BaseCall):
    """Run ``length`` positions per row through a recurrent layer, and hand out their outputs (REC-2)."""

    verb: ClassVar[str] = "advance"
    length: int
    malformed: Spoilt | None = field(default=None, validator=_spoilt)

    @property
    def appends(self) -> int:
        """``length`` positions."""
        return self.length


@frozen(kw_only=True)
class MakeMask(BaseCall):
    """Ask for the mask of the append that would come next, without appending (MASK-12)."""

    verb: ClassVar[str] = "mask"
    length: int
    phase: Phase = field(default="window", validator=validators.in_(get_args(Phase)))
    window: int | None = None
    array: bool = False
    as_: str | None = field(default=None, validator=validators.optional(_is_name), metadata=_SCHEMA)


@frozen(kw_only=True)
class Attend(BaseCall):
    """Ask a read again (READ-2, OWN-1)."""

    verb: ClassVar[str] = "attend"
    malformed: Malformed | None = field(default=None, validator=_malformed)


@frozen(kw_only=True)
class LookAt(BaseCall):
    """Observe an object without acting: a cache, or arrays that were handed out earlier."""

    verb: ClassVar[str] = "look"


@frozen(kw_only=True)
class Trim(BaseCall):
    """Drop the newest ``n`` positions; ``bypass`` lets a ring cut the newest columns of its last window (TRIM-11)."""

    verb: ClassVar[str] = "trim"
    n: int | float = field(validator=_is_finite)
    bypass: bool = False


@frozen(kw_only=True)
class Clone(BaseCall):
    """Make an independent cache that equals the source (OWN-2, OWN-3)."""

    verb: ClassVar[str] = "clone"
    as_: str = field(validator=_is_name, metadata=_SCHEMA)


@frozen(kw_only=True)
class TakeState(BaseCall):
    """Hand out the cache's state: its arrays as they are now (OWN-4)."""

    verb: ClassVar[str] = "state"
    as_: str = field(validator=_is_name, metadata=_SCHEMA)


@frozen(kw_only=True)
class Reset(BaseCall):
    """Return the cache to its constructed, empty state (OWN-7)."""

    verb: ClassVar[str] = "reset"


@frozen(kw_only=True)
class Drop(BaseCall):
    """Let go of an object."""

    verb: ClassVar[str] = "drop"


@frozen(kw_only=True)
class OpenList(BaseCall):
    """Make a list of layers with the tensor shapes of the trace's configuration."""

    verb: ClassVar[str] = "list"
    layers: tuple[LayerSpec, ...] = field(
        validator=[validators.min_len(1), _hold_columns], metadata={"schema": {"minItems": 1}}
    )
    as_: str = field(validator=_is_name, metadata=_SCHEMA)


@frozen(kw_only=True)
class MakeCache(BaseCall):
    """Make an empty serial cache, with the layer of the trace's groups or with another ``layer``."""

    verb: ClassVar[str] = "cache"
    layer: LayerSpec | None = field(default=None, metadata=_LAYER)
    as_: str = field(validator=_is_name, metadata=_SCHEMA)


@frozen(kw_only=True)
class Merge(BaseCall):
    """Make a new group of the rows of groups and caches, in the order of ``sources``; these stay as they are."""

    verb: ClassVar[str] = "merge"
    sources: tuple[str, ...] = field(validator=validators.deep_iterable(_is_name))
    as_: str = field(validator=_is_name, metadata=_SCHEMA)


@frozen(kw_only=True)
class Extract(BaseCall):
    """Make a serial cache of one row's raw storage."""

    verb: ClassVar[str] = "extract"
    row: int
    as_: str = field(validator=_is_name, metadata=_SCHEMA)


@frozen(kw_only=True)
class HandBack(BaseCall):
    """Make a serial cache of one row, with the policy of its group."""

    verb: ClassVar[str] = "hand_back"
    row: int
    as_: str = field(validator=_is_name, metadata=_SCHEMA)


@frozen(kw_only=True)
class Filter(BaseCall):
    """Keep these rows, in this order."""

    verb: ClassVar[str] = "filter"
    rows: tuple[int, ...]


@frozen(kw_only=True)
class Prepare(BaseCall):
    """Announce the padding of a prefill, one number per row: columns before it (``left``) and behind it (``right``).

    ``lengths`` counts the columns before the right padding, left padding included.
    """

    verb: ClassVar[str] = "prepare"
    left: tuple[int, ...] | None = None
    lengths: tuple[int, ...] | None = None
    right: tuple[int, ...] | None = None


@frozen(kw_only=True)
class Finalize(BaseCall):
    """End a padded prefill: take off the right padding that was appended."""

    verb: ClassVar[str] = "finalize"


@frozen(kw_only=True)
class BeginPrefill(BaseCall):
    """Open the bracket in which appends change no row's storage."""

    verb: ClassVar[str] = "begin_prefill"


@frozen(kw_only=True)
class CommitPrefill(BaseCall):
    """Settle the rows whose prefill is complete."""

    verb: ClassVar[str] = "commit_prefill"
    rows: tuple[int, ...]


@frozen(kw_only=True)
class EndPrefill(BaseCall):
    """Close the bracket."""

    verb: ClassVar[str] = "end_prefill"


@frozen(kw_only=True)
class BeginRound(BaseCall):
    """Open a round: what is appended from here on can be taken back (ROUND-1)."""

    verb: ClassVar[str] = "begin_round"


@frozen(kw_only=True)
class CommitRound(BaseCall):
    """Close the round and keep all that was appended in it."""

    verb: ClassVar[str] = "commit_round"


@frozen(kw_only=True)
class RollBack(BaseCall):
    """Close the round and keep the first ``keep`` positions that were appended in it: one number, or one per row."""

    verb: ClassVar[str] = "roll_back"
    keep: tuple[int, ...]


@frozen(kw_only=True)
class Save(BaseCall):
    """Write a cache, or a list of layers, to a file (PERS-1); a file of that name is replaced."""

    verb: ClassVar[str] = "save"
    as_: str = field(validator=_is_name, metadata=_SCHEMA)


@frozen(kw_only=True)
class Load(BaseCall):
    """Make of a file what was saved in it (PERS-1); ``other`` loads it for another model than it was saved for."""

    verb: ClassVar[str] = "load"
    other: bool = False
    as_: str = field(validator=_is_name, metadata=_SCHEMA)


@frozen(kw_only=True)
class SpoilFile(BaseCall):
    """Spoil a file in one way (PERS-8 to PERS-11)."""

    verb: ClassVar[str] = "damage"
    how: Damage = field(validator=validators.in_(DAMAGES))


@frozen(kw_only=True)
class Publish(BaseCall):
    """Store a cache, or a list of layers, under its own tokens, for prompts that begin with them (REUSE-6)."""

    verb: ClassVar[str] = "publish"
    space: str = field(default="main", validator=_is_name, metadata=_SCHEMA)


@frozen(kw_only=True)
class Reuse(BaseCall):
    """Make a cache like the one acted on, with as much of a prompt in it as was published; answer how much (REUSE-1).

    ``tokens`` is the prompt, ``space`` where to look.
    """

    verb: ClassVar[str] = "reuse"
    tokens: tuple[int, ...] = field(validator=validators.deep_iterable(validators.ge(1)))
    space: str = field(default="main", validator=_is_name, metadata=_SCHEMA)
    as_: str = field(validator=_is_name, metadata=_SCHEMA)


Call: TypeAlias = (
    AppendDecode
    | AppendWindow
    | AppendKnown
    | FetchDense
    | MakeMask
    | Attend
    | LookAt
    | Trim
    | Clone
    | TakeState
    | Reset
    | Drop
    | OpenList
    | BeginRound
    | CommitRound
    | RollBack
    | Save
    | Load
    | SpoilFile
    | Publish
    | Reuse
    | MakeCache
    | Merge
    | Extract
    | HandBack
    | Filter
    | Prepare
    | Finalize
    | BeginPrefill
    | CommitPrefill
    | EndPrefill
    | CompiledDecode
    | Advance
)
CALLS: dict[str, type[Call]] = {
    kind.verb: kind
    for kind in (
        AppendDecode,
        AppendWindow,
        AppendKnown,
        FetchDense,
        MakeMask,
        Attend,
        LookAt,
        Trim,
        Clone,
        TakeState,
        Reset,
        Drop,
        OpenList,
        BeginRound,
        CommitRound,
        RollBack,
        Save,
        Load,
        SpoilFile,
        Publish,
        Reuse,
        MakeCache,
        Merge,
        Extract,
        HandBack,
        Filter,
        Prepare,
        Finalize,
        BeginPrefill,
        CommitPrefill,
        EndPrefill,
        CompiledDecode,
        Advance,
    )
}
"""Verb (the ``call`` field in JSON, the first word in text) to its class."""
