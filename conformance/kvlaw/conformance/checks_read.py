"""Comparisons of what a read, a dense fetch or a mask shows: visible sets, their order, forms of masks, probes."""

from attrs import evolve

from kvlaw.conformance.differences import Check, Difference, Shown
from kvlaw.conformance.natures import file_nature, past_nature, sight_nature, torn_nature
from kvlaw.reference.expectation import Expected
from kvlaw.reference.history import Sight
from kvlaw.reference.model import Model
from kvlaw.spec.records import ReadRecord
from kvlaw.spec.text_form import format_tokens


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
                spoilt = file_nature(model) if model is not None and model.past.spoilt else ()
                nature = (*spoilt, *_codes_nature(ids, shown, sight), *sight_nature(ids, sight, model, fetched))
                found.append(_sight_difference(ids, sight, nature, query if len(sights) > 1 else None))
    if not found and read.torn:
        what = _seen_torn(read)
        codes = _codes_nature((0,), shown, Sight((), ())) if what and "no token" in what else ()
        nature = (*file_nature(model), *codes, *torn_nature(what or ""))
        found += [Difference("torn", "keys and values of one token", what, nature)] if what else []
    return found[:1]


def _codes_nature(ids: tuple[int, ...], shown: Shown, sight: Sight) -> tuple[str, ...]:
    """Tell codes that are no token's where they are stored from those that a read alone gets wrong."""
    if shown.read is None or shown.read.form != "affine" or 0 not in ids:
        return ()
    after = shown.after
    sound = after is not None and after.held is not None and set(sight.required) <= set(after.held) and not after.torn
    return ("READ-10", "PREC-7") if sound else ("ROUND-10", "PREC-7", "READ-10")


def _seen_torn(read: ReadRecord) -> str | None:
    """Describe a torn column that some query sees."""
    if read.fetched is None or read.visible is None:
        return None
    for row, column, what in read.torn:
        token = read.fetched[row][column]
        if any(token in ids for ids in read.visible[row]):
            return f"t{token}: {what}"
    return None


def sight_words(sight: Sight) -> str:
    """Say what a query must see, and what it may see besides."""
    free = sorted(set(sight.allowed) - set(sight.required))
    must = [format_tokens(sorted(sight.required))] if sight.required or not free else []
    return ", ".join([*must, *([f"perhaps {format_tokens(free)}"] if free else [])])


def _sight_difference(ids: tuple[int, ...], sight: Sight, nature: tuple[str, ...], query: int | None) -> Difference:
    return Difference("sights", f"sees {sight_words(sight)}", f"sees {format_tokens(ids)}", nature, query)


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
    wanted, got = f"a mask of shape [..., {expected.value}, {read.width}]", f"one of shape {list(read.mask_shape)}"
    return [] if fits else [Difference("mask_width", wanted, got)]


def _dense_sights(expected: Expected, shown: Shown, model: Model | None) -> list[Difference] | None:
    if shown.dense is None:
        return None
    sight: Sight = expected.value
    for ids in shown.dense.ids:
        if sight.admits(ids):
            continue
        extra = tuple(t for t in ids if t not in sight.allowed)
        missing = set(sight.required) - set(ids)
        nature = (*(past_nature(set(extra), missing, model) if model else ()), "READ-14")
        return [Difference("dense_sights", sight_words(sight), format_tokens(ids), (*nature, "READ-6"))]
    torn = shown.dense.torn
    return [Difference("torn", "keys and values of one token", torn[0][2], ("READ-14", "READ-6"))] if torn else []


def _row_dense(expected: Expected, shown: Shown, model: Model | None) -> list[Difference] | None:
    """Compare what a row of a group was handed out; its padding lies there as well."""
    if shown.dense is None:
        return None
    dense = evolve(shown.dense, ids=tuple(tuple(t for t in row if t) for row in shown.dense.ids))
    return _dense_sights(expected, evolve(shown, dense=dense), model)


def _mask_rows(expected: Expected, shown: Shown, _model: Model | None) -> list[Difference] | None:
    """Compare the entries of a row's real queries in a mask array."""
    mask = shown.observation.mask
    if mask is None or mask.array is None:
        return None
    shaped = mask.array.ndim and mask.array.size
    rows: list[list[bool]] = mask.array.reshape(-1, mask.array.shape[-1]).tolist() if shaped else []
    for query, wanted in expected.value.items():
        told = rows[query : query + 1]
        if told != [list(wanted)]:
            return [Difference("mask_array", _bools([list(wanted)]), _bools(told), query=query)]
    return []


def _fetched(expected: Expected, shown: Shown, _model: Model | None) -> list[Difference] | None:
    if shown.dense is None:
        return None
    wrong = [ids for ids in shown.dense.ids if ids != expected.value]
    return [Difference("fetched", format_tokens(expected.value), format_tokens(wrong[0]))] if wrong else []


def _apart(_expected: Expected, shown: Shown, _model: Model | None) -> list[Difference] | None:
    apart = shown.read.apart if shown.read else None
    if apart is None:
        return None
    wanted = "each query answers, bit for bit, what it answers alone"
    return [Difference("apart", wanted, "other bits", query=apart[0])] if apart else []


def _finite(_expected: Expected, shown: Shown, _model: Model | None) -> list[Difference] | None:
    """Look for infinities and for what is no number in the outputs of padding."""
    if shown.infinite is None:
        return None
    odd = "an infinity, or no number at all"
    return [Difference("finite", "an output of numbers", odd, query=query) for query in shown.infinite[:1]]


def _elsewhere(got: str) -> tuple[str, ...]:
    """Name the clause that a probe breaks which was answered by another head or row."""
    return ("READ-11", "READ-4") if "KV head" in got else ("VIS-10",) if "of row" in got else ()


def _probes(_expected: Expected, shown: Shown, _model: Model | None) -> list[Difference] | None:
    if shown.probes is None:
        return None
    return [Difference("probes", wanted, got, _elsewhere(got), query) for query, wanted, got in shown.probes[:1]]


READ_CHECKS: dict[str, Check] = {
    "sights": _sights,
    "order": _order,
    "form": _form,
    "foretold": _foretold,
    "mask": _mask_kind,
    "mask_array": _mask_array,
    "mask_rows": _mask_rows,
    "mask_width": _mask_width,
    "dense_sights": _dense_sights,
    "row_dense": _row_dense,
    "fetched": _fetched,
    "apart": _apart,
    "finite": _finite,
    "probes": _probes,
}
"""Field of a read, a dense fetch or a mask to the check of it."""
