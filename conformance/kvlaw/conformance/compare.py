"""Exact comparison of what was observed with what is expected, and which clause a difference is charged to.

No tolerances: numbers and ids are equal or not. A field that was not observed is not compared and exercises nothing. A
difference is charged to one primary clause, the most specific one that its *nature* speaks of (a duplicate is VIS-3, a
dropped token that comes back TRIM-8, ...); the other clauses that ask for the value are listed with it.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

from attrs import field, frozen

from kvlaw.conformance.decode import Columns
from kvlaw.reference.expectation import Expectation, Expected
from kvlaw.reference.history import Sight
from kvlaw.reference.model import Model
from kvlaw.spec.observations import Observation
from kvlaw.spec.records import CacheRecord, ReadRecord, Tokens
from kvlaw.spec.text_form import format_tokens


@frozen
class Divergence:
    """One difference: the field, the clause charged, the others concerned, and both values in words."""

    field: str
    clause: str
    others: tuple[str, ...]
    expected: str
    observed: str
    layer: int | None = None
    query: int | None = None

    @property
    def clauses(self) -> tuple[str, ...]:
        """The charged clause and the others."""
        return (self.clause, *self.others)


@frozen
class Shown:
    """An observation with its decoded parts, as the comparison takes it."""

    observation: Observation
    read: ReadRecord | None = None
    dense: Columns | None = None
    after: CacheRecord | None = None
    handed_same: bool | None = None
    probes: tuple[tuple[int, str, str], ...] | None = None
    nonsense: str | None = None
    foretold: tuple[tuple[Tokens, ...], ...] | None = None


@frozen
class Verdict:
    """The comparison of one call: the differences, and which clauses were exercised by a field that was observed."""

    divergences: tuple[Divergence, ...] = field(default=(), converter=tuple)
    exercised: frozenset[str] = frozenset()


def compare(expectation: Expectation, shown: Shown, model: Model | None, clauses: frozenset[str]) -> Verdict:
    """Compare one call's observation with its expectation, by the clauses that count."""
    charged = tuple(c for c in expectation.charged if c in clauses)
    outcome = shown.observation.outcome
    if outcome == "unsupported":
        return Verdict()
    if expectation.ends and outcome in expectation.outcomes:
        return Verdict(exercised=frozenset(charged) if len(expectation.outcomes) == 1 else frozenset())
    if outcome not in expectation.outcomes or shown.nonsense:
        return Verdict((_misanswered(expectation, shown, clauses),), frozenset(charged))
    exercised: set[str] = set(charged) if len(expectation.outcomes) == 1 else set()
    found: list[Divergence] = []
    for expected in expectation.expected:
        cited = tuple(c for c in expected.clauses if c in clauses)
        if not cited:
            continue
        result = _CHECKS[expected.field](expected, shown, model)
        if result is None:
            continue
        exercised |= set(cited)
        found += [_charge(difference, cited) for difference in result]
    return Verdict(tuple(sorted(found, key=_rank)), frozenset(exercised))


def _misanswered(expectation: Expectation, shown: Shown, clauses: frozenset[str]) -> Divergence:
    """Charge a wrong outcome, or an answer that is nonsense, to what the call was charged with."""
    observation = shown.observation
    outright = observation.outcome not in expectation.outcomes
    got = shown.nonsense or ""
    got = f"{observation.outcome} {observation.message}".strip() if outright or not got else got
    asked = [*expectation.charged, *(c for e in expectation.expected for c in e.clauses)]
    cited = tuple(dict.fromkeys(c for c in asked if c in clauses)) or ("POS-2",)
    misshapen = observation.outcome != "refused" and any(
        w in got for w in (" have shape ", " instead of ", " not bf16", " not f")
    )
    nature = ("READ-14", "READ-10", "GROW-4") if misshapen else ()
    if observation.outcome == "error" and got.startswith("error the output"):
        nature = ("READ-10", "READ-11") if "words" in got and "scales" in got else ("READ-11",)
    name = "answer" if shown.nonsense else "outcome"
    wanted = " or ".join(expectation.outcomes)
    return _charge(Difference(name, wanted, got, nature), cited)


@frozen
class Difference:
    """A difference before it is charged: what it is by nature, and the clauses that speak of such."""

    field: str
    expected: str
    observed: str
    nature: tuple[str, ...] = ()
    query: int | None = None


def _charge(difference: Difference, cited: tuple[str, ...]) -> Divergence:
    speaking = [c for c in difference.nature if c in cited]
    primary = speaking[0] if speaking else cited[0]
    others = (*speaking[1:], *(c for c in cited if c != primary and c not in speaking))
    return Divergence(
        difference.field, primary, others, difference.expected, difference.observed, query=difference.query
    )


_ORDER = (
    "answer",
    "offset",
    "storage",
    "form",
    "torn",
    "handed",
    "sights",
    "dense_sights",
    "held",
    "fetched",
    "mask",
    "mask_array",
    "mask_width",
    "order",
    "can_trim",
    "columns",
    "probes",
)


def _rank(divergence: Divergence) -> int:
    return _ORDER.index(divergence.field) if divergence.field in _ORDER else len(_ORDER)


Check = Callable[[Expected, Shown, Model | None], "list[Difference] | None"]


def _number(name: str, words: str = "", pick: Callable[[Any], Any] | None = None) -> Check:
    def check(expected: Expected, shown: Shown, _model: Model | None) -> list[Difference] | None:
        value = getattr(shown.after, name, None)
        if value is None:
            return None
        wanted = pick(expected.value) if pick else expected.value
        return [] if value == wanted else [Difference(name, f"{words}{wanted}", str(value))]

    return check


def _bound(name: str, lowest: bool) -> Check:
    def check(expected: Expected, shown: Shown, _model: Model | None) -> list[Difference] | None:
        value = getattr(shown.after, name, None)
        if value is None:
            return None
        fine = value >= expected.value if lowest else value <= expected.value
        return [] if fine else [Difference(name, f"at {'least' if lowest else 'most'} {expected.value}", str(value))]

    return check


def _per_column(expected: Expected, shown: Shown, _model: Model | None) -> list[Difference] | None:
    after = shown.after
    if after is None or after.nbytes is None or after.columns is None:
        return None
    wanted = after.columns * expected.value
    return (
        []
        if after.nbytes == wanted
        else [Difference("nbytes", f"{after.columns} columns of {expected.value} = {wanted}", str(after.nbytes))]
    )


def _can_trim(expected: Expected, shown: Shown, _model: Model | None) -> list[Difference] | None:
    flags = shown.after.can_trim if shown.after else None
    if flags is None:
        return None
    wanted = tuple(expected.value)[: len(flags)]
    return [] if flags[: len(wanted)] == wanted else [Difference("can_trim", _counts(wanted), _counts(flags))]


def _counts(flags: tuple[bool, ...]) -> str:
    able = [str(n) for n, flag in enumerate(flags) if flag]
    return "can trim " + (", ".join(able) if able else "nothing")


def _layers_can_trim(_expected: Expected, shown: Shown, _model: Model | None) -> list[Difference] | None:
    """Compare what a list says it can trim with what its layers say, each for itself (TRIM-14)."""
    flags = shown.after.can_trim if shown.after else None
    said = [layer.state.can_trim for layer in shown.observation.layers if layer.state is not None]
    if flags is None or not said or len(said) < len(shown.observation.layers):
        return None
    known = [layer for layer in said if layer is not None]
    if len(known) < len(said):
        return None
    wanted = tuple(all(n < len(layer) and layer[n] for layer in known) for n in range(len(flags)))
    return [] if flags == wanted else [Difference("can_trim", _counts(wanted), _counts(flags))]


def _identity(expected: Expected, shown: Shown, _model: Model | None) -> list[Difference] | None:
    said = shown.after.identity if shown.after else None
    if said is None:
        return None
    anothers = re.fullmatch(r"full|ring\(window=\d+,sinks=\d+\)", said)
    policy = () if _policy(said) == _policy(expected.value) else ("PREC-12",)
    nature = (*policy, "ID-2", "ID-3" if anothers else "ID-1")
    return [] if said == expected.value else [Difference("identity", expected.value, said, nature)]


def _policy(identity: str) -> list[str]:
    """List the parts of an identity that name a storage policy."""
    return re.findall(r"(?:bits|value_bits|group|start)=\w+", identity)


def _answer(expected: Expected, shown: Shown, _model: Model | None) -> list[Difference] | None:
    answer = shown.observation.answer
    if answer is None:
        return None
    return [] if answer == expected.value else [Difference("answer", str(expected.value), str(answer))]


def _held(expected: Expected, shown: Shown, model: Model | None) -> list[Difference] | None:
    after = shown.after
    if after is None or after.held is None:
        return None
    grows = model is not None and model.layer.window is None
    held = after.held[: len(expected.value)] if grows else after.held
    torn = next((what for _, column, what in after.torn if column < len(held)), None)
    if torn is not None:
        codes = ("PREC-7",) if after.form == "affine" and "no token" in torn else ()
        return [Difference("torn", "keys and values of one token", torn, (*codes, *_torn_nature(torn)))]
    if held == tuple(expected.value):
        return []
    nature = _held_nature(held, tuple(expected.value), model)
    return [Difference("held", format_tokens(expected.value), format_tokens(held), nature)]


def _held_nature(held: tuple[int, ...], wanted: tuple[int, ...], model: Model | None) -> tuple[str, ...]:
    pinned = model.layer.sinks if model else 0
    came_back = model is not None and bool((set(held) - set(wanted)) & model.past.dropped)
    return (*(("RING-13",) if held[:pinned] != wanted[:pinned] else ()), *(("RING-15",) if came_back else ()))


def _torn_nature(what: str) -> tuple[str, ...]:
    return ("VIS-10", "VIS-6") if "row" in what else ("GROW-2", "OWN-8", "VIS-6") if "no token" in what else ("VIS-6",)


def _sights(expected: Expected, shown: Shown, model: Model | None) -> list[Difference] | None:
    read = shown.read
    if read is None or read.visible is None:
        return None
    sights: tuple[Sight, ...] = expected.value
    found: list[Difference] = []
    for number, row in enumerate(read.visible):
        fetched = read.fetched[number] if read.fetched else ()
        for query, (ids, sight) in enumerate(zip(row, sights, strict=False)):
            if not sight.admits(ids):
                nature = (*_codes_nature(ids, shown, sight), *_nature(ids, sight, model, fetched))
                found.append(_sight_difference(ids, sight, nature, query if len(sights) > 1 else None))
    if not found and read.torn:
        what = _seen_torn(read)
        codes = _codes_nature((0,), shown, Sight((), ())) if what and "no token" in what else ()
        nature = (*codes, *_torn_nature(what or ""))
        found += [Difference("torn", "keys and values of one token", what, nature)] if what else []
    return found[:1]


def _seen_torn(read: ReadRecord) -> str | None:
    """Describe a torn column that some query sees."""
    if read.fetched is None or read.visible is None:
        return None
    for row, column, what in read.torn:
        token = read.fetched[row][column]
        if any(token in ids for ids in read.visible[row]):
            return f"t{token}: {what}"
    return None


def _sight_difference(ids: tuple[int, ...], sight: Sight, nature: tuple[str, ...], query: int | None) -> Difference:
    wanted = (
        format_tokens(sorted(sight.required))
        if sight.required == sight.allowed
        else f"{format_tokens(sight.required)} at least"
    )
    return Difference("sights", f"sees {wanted}", f"sees {format_tokens(ids)}", nature, query)


def _nature(ids: tuple[int, ...], sight: Sight, model: Model | None, fetched: tuple[int, ...]) -> Iterator[str]:
    """Name the clauses that speak of this very difference, the most telling first."""
    extra, missing = set(ids) - set(sight.allowed), set(sight.required) - set(ids)
    if model is not None:
        yield from _past_nature(extra, missing, model)
    if len(set(ids)) < len(ids):
        yield "VIS-3"
    if 0 in extra:
        yield from ("GROW-2", "OWN-8", "VIS-4") if missing else ("VIS-4",)
    if model is not None and (pinned := missing & set(model.row.tokens[: model.layer.sinks])):
        yield from ("VIS-9", "RING-12") if pinned & set(fetched) else ("RING-12", "VIS-9")
    if missing and sight.allowed and sight.allowed[-1] in missing:
        yield "VIS-5"
    yield from _bounds_nature(extra, missing, sight, model)


def _codes_nature(ids: tuple[int, ...], shown: Shown, sight: Sight) -> tuple[str, ...]:
    """Tell codes that are no token's where they are stored from those that a read alone gets wrong."""
    if shown.read is None or shown.read.form != "affine" or 0 not in ids:
        return ()
    after = shown.after
    sound = after is not None and after.held is not None and set(sight.required) <= set(after.held) and not after.torn
    return ("READ-10", "PREC-7") if sound else ("PREC-7", "READ-10")


def _past_nature(extra: set[int], missing: set[int], model: Model) -> Iterator[str]:
    """Name the clauses that speak of what happened to the cache before."""
    past = model.past
    if model.lenient:
        yield "RING-14"
    if extra & past.dropped:
        yield from ("OWN-7", "TRIM-8") if past.reset and not past.trimmed else ("TRIM-8",)
    if missing and missing <= past.unread:
        yield "READ-5"
    if extra - past.dropped - set(model.row.tokens) - {0}:
        yield "OWN-3"
    if missing & _before_a_trim(model):
        yield from ("TRIM-1", "TRIM-2")


def _before_a_trim(model: Model) -> set[int]:
    """Give the tokens that stood last after a trim: a trim that takes one too many takes these."""
    line = model.row.tokens
    return {line[i - 1] for i in range(1, len(line)) if line[i] - 1 in model.past.dropped}


def _bounds_nature(extra: set[int], missing: set[int], sight: Sight, model: Model | None) -> Iterator[str]:
    narrow = ("READ-15", "MASK-11", "MASK-4", "MASK-8", "MASK-9")
    yield from ("READ-12", "PREC-8")  # they are cited for known appends and next to a conversion alone
    own = sight.allowed[-1] if sight.allowed else 0
    beyond = {t for t in extra if 0 < t < own} & set(model.row.tokens if model else ())
    if beyond or missing:
        yield from narrow
        yield from ("RING-10", "RING-11")
    if missing and model and model.layer.window is None:
        yield "GROW-1"
    if missing and model and model.layer.window is not None:
        yield "RING-1"
    yield from ("VIS-8", "VIS-1", "VIS-2", "VIS-4")


def _foretold(expected: Expected, shown: Shown, _model: Model | None) -> list[Difference] | None:
    if shown.foretold is None:
        return None
    for row in shown.foretold:
        for query, (ids, sight) in enumerate(zip(row, expected.value, strict=True)):
            if not sight.admits(ids):
                told = _sight_difference(ids, sight, (), query)
                return [Difference("foretold", told.expected, f"by the mask handed out before: {told.observed}")]
    return []


def _order(expected: Expected, shown: Shown, _model: Model | None) -> list[Difference] | None:
    read = shown.read
    if read is None or read.visible is None:
        return None
    for row in read.visible:
        for query, (ids, wanted) in enumerate(zip(row, expected.value, strict=False)):
            if ids != wanted and set(ids) == set(wanted):
                return [Difference("order", format_tokens(wanted), format_tokens(ids), query=query)]
    return []


def _form(expected: Expected, shown: Shown, _model: Model | None) -> list[Difference] | None:
    form = shown.read.form if shown.read else None
    if form is None:
        return None
    return [] if form == expected.value else [Difference("form", f"{expected.value} columns", f"{form} columns")]


def _mask_kind(expected: Expected, shown: Shown, _model: Model | None) -> list[Difference] | None:
    mask = shown.read.mask if shown.read else shown.observation.mask.kind if shown.observation.mask else None
    if mask is None:
        return None
    return [] if mask == expected.value else [Difference("mask", str(expected.value), mask)]


def _mask_array(expected: Expected, shown: Shown, _model: Model | None) -> list[Difference] | None:
    mask, arrays = shown.observation.mask, shown.observation.arrays or {}
    array = mask.array if mask is not None else arrays.get("mask")
    if array is None:
        return None
    rows = [list(row) for row in array.reshape(-1, array.shape[-1]).tolist()] if array.ndim and array.size else []
    wanted = [list(row) for row in expected.value]
    if rows and rows == wanted * (len(rows) // len(wanted)):
        return []
    return [Difference("mask_array", _bools(wanted), _bools(rows))]


def _bools(rows: list[list[bool]]) -> str:
    return " | ".join("".join("x" if flag else "." for flag in row) for row in rows)


def _mask_width(expected: Expected, shown: Shown, _model: Model | None) -> list[Difference] | None:
    read = shown.read
    if read is None or read.width is None or read.mask is None:
        return None
    if read.mask_shape is None:
        return []
    rows, columns = (1, 1, *read.mask_shape)[-2:]
    fits = columns == read.width and rows in (1, expected.value) and read.visible is not None
    return (
        []
        if fits
        else [
            Difference(
                "mask_width", f"a mask [..., {expected.value}, {read.width}]", f"one of shape {list(read.mask_shape)}"
            )
        ]
    )


def _dense_sights(expected: Expected, shown: Shown, model: Model | None) -> list[Difference] | None:
    if shown.dense is None:
        return None
    sight: Sight = expected.value
    for ids in shown.dense.ids:
        if sight.admits(ids):
            continue
        extra = tuple(t for t in ids if t not in sight.allowed)
        nature = ("TRIM-8",) if model and set(extra) & model.past.dropped else ("READ-14",)
        return [
            Difference(
                "dense_sights",
                f"{format_tokens(sight.required)} at least, live ones only",
                format_tokens(ids),
                (*nature, "READ-6"),
            )
        ]
    return (
        [Difference("torn", "keys and values of one token", shown.dense.torn[0][2], ("READ-14", "READ-6"))]
        if shown.dense.torn
        else []
    )


def _fetched(expected: Expected, shown: Shown, _model: Model | None) -> list[Difference] | None:
    if shown.dense is None:
        return None
    wrong = [ids for ids in shown.dense.ids if ids != expected.value]
    return [Difference("fetched", format_tokens(expected.value), format_tokens(wrong[0]))] if wrong else []


def _handed(_expected: Expected, shown: Shown, _model: Model | None) -> list[Difference] | None:
    if shown.handed_same is None:
        return None
    return (
        []
        if shown.handed_same
        else [Difference("handed", "the same arrays as when they were handed out", "other bytes")]
    )


def _probes(_expected: Expected, shown: Shown, _model: Model | None) -> list[Difference] | None:
    if shown.probes is None:
        return None
    return [
        Difference("probes", wanted, got, ("READ-11", "READ-4") if "head" in got else (), query)
        for query, wanted, got in shown.probes[:1]
    ]


_CHECKS: dict[str, Check] = {
    "offset": _number("offset"),
    "size": _number("size"),
    "columns": _number("columns"),
    "columns_max": _bound("columns", lowest=False),
    "nbytes_min": _bound("nbytes", lowest=True),
    "nbytes_max": _bound("nbytes", lowest=False),
    "nbytes_per_column": _per_column,
    "bytes_per_token": _number("bytes_per_token"),
    "identity": _identity,
    "storage": _number("storage"),
    "floor": _number("floor"),
    "max_append": _number("max_append"),
    "form": _form,
    "write_index": _number("write_index"),
    "can_trim": _can_trim,
    "layers_can_trim": _layers_can_trim,
    "answer": _answer,
    "held": _held,
    "sights": _sights,
    "order": _order,
    "foretold": _foretold,
    "mask": _mask_kind,
    "mask_array": _mask_array,
    "mask_width": _mask_width,
    "dense_sights": _dense_sights,
    "fetched": _fetched,
    "handed": _handed,
    "probes": _probes,
}
