"""NumPy groups against cases worked out by hand: columns, masks, refusals, and the moments at which rows convert."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from attrs import define

from kvlaw.reference import index_group
from kvlaw.reference.layout import Cache, Refusal
from kvlaw.reference.layout_group import GroupRead, RowGroup, merge
from kvlaw.spec.config import LayerSpec, Start

HEADS, DIM = 2, 32

RING = LayerSpec("ring_rows", 4)
FIRST = LayerSpec("ring_rows", 4, bits=4, group=32, start=3)


def plane(rows: list[list[int]]) -> Any:
    """Make float32 bits ``[B, HEADS, L, DIM]`` in which every number of a column is its token's id."""
    columns = np.array(rows, np.float32)[:, None, :, None]
    return np.broadcast_to(columns, (len(rows), HEADS, len(rows[0]), DIM)).copy().view(np.uint32)


def ids_of(bits: Any) -> list[int]:
    """Read the ids of one row back, the same in every head and every number."""
    values = bits.view(np.float32)
    assert (values == values[:, :1, :, :1]).all()
    return [int(x) for x in values[0, 0, :, 0]]


@define
class Told:
    """A group that is fed ids 1, 2, 3, ... row by row; values are the ids plus 1000."""

    group: RowGroup
    next: int = 1

    @classmethod
    def of(cls, layer: LayerSpec, rows: int) -> "Told":
        return cls(RowGroup(layer, rows))

    def tensors(self, length: int) -> tuple[Any, Any]:
        count = self.group.count
        ids = [list(range(self.next + b * length, self.next + (b + 1) * length)) for b in range(count)]
        self.next += count * length
        return plane(ids), plane([[i + 1000 for i in row] for row in ids])

    def window(self, length: int, **options: Any) -> GroupRead:
        return self.group.append_window(*self.tensors(length), "f32", **options)

    def decode(self, times: int = 1) -> GroupRead:
        return [self.group.append_decode(*self.tensors(1), "f32") for _ in range(times)][-1]

    @property
    def held(self) -> list[list[int]]:
        return [ids_of(self.group.planes(b).keys) for b in range(self.group.count)]


def seen(read: GroupRead, b: int) -> list[list[int]]:
    """List the ids that each query of a row sees."""
    row = read.rows[b]
    keys, mask = ids_of(row.keys), row.mask
    if isinstance(mask, np.ndarray):
        assert mask.shape == (1, 1, row.length, len(keys))
        return [[key for key, shown in zip(keys, entries, strict=True) if shown] for entries in mask[0, 0]]
    return [keys[: len(keys) - row.length + i + 1] for i in range(row.length)]


def serial(layer: LayerSpec, ids: list[int]) -> Cache:
    cache = Cache(layer.serial)
    for i in ids:
        cache.append_decode(plane([[i]]), plane([[i + 1000]]), "f32")
    return cache


# Columns and masks.


def test_rows_are_written_side_by_side_and_wrap_together():
    told = Told.of(RING, 2)
    read = told.window(3)  # ids 1 2 3 and 4 5 6
    assert (read.mask, told.held) == ("causal", [[1, 2, 3], [4, 5, 6]])
    assert seen(told.decode(), 1) == [[4, 5, 6, 8]]
    assert seen(told.decode(), 0) == [[9, 2, 3, 7]]
    assert (told.held, told.group.write_index) == ([[9, 2, 3, 7], [10, 5, 6, 8]], 1)
    assert told.group.nbytes == 4 * 2 * told.group.bytes_per_token == 4 * 2 * (2 * 2 * 32 * 4)


def test_a_merge_aligns_rows_and_its_mask_has_a_row_each():
    group = merge([serial(RING, [1]), serial(RING, [11, 12, 13, 14, 15])])
    told = Told(group, 21)
    assert told.held == [[0, 0, 0, 1], [12, 13, 14, 15]]
    assert (group.columns, group.write_index, group.offsets) == (4, 4, (1, 5))
    read = told.decode()  # 21 and 22, written over the dead column and over 12
    assert isinstance(read.mask, np.ndarray)
    assert read.mask.shape == (2, 1, 1, 4)
    assert [seen(read, b) for b in (0, 1)] == [[[21, 1]], [[22, 13, 14, 15]]]
    assert told.held == [[21, 0, 0, 1], [22, 13, 14, 15]]


def test_left_and_right_padding_is_seen_by_nobody_and_taken_off():
    told = Told.of(LayerSpec("full_rows"), 2)
    told.group.prepare(left=(2, 0), lengths=(3, 1), right=(0, 2))
    read = told.window(3)  # row 0: _ _ 3, row 1: 4 _ _
    assert (seen(read, 0)[2], seen(read, 1)[0]) == ([3], [4])
    told.group.finalize()
    assert (told.group.offsets, told.group.columns, told.group.write_index) == ((1, 1), 3, 3)
    read = told.decode()
    assert [seen(read, b) for b in (0, 1)] == [[[3, 7]], [[4, 8]]]


def test_a_block_of_padding_alone_leaves_a_row_as_it_was():
    told = Told.of(RING, 2)
    told.group.prepare(lengths=(5, 2), right=(0, 3))
    told.window(2)
    told.window(2)
    read = told.window(1)
    assert told.group.offsets == (5, 2)
    assert seen(read, 0) == [[2, 5, 6, 9]]
    told.group.finalize()
    cache = told.group.extract(1)
    assert cache.planes is not None
    assert ids_of(cache.planes.keys) == [3, 4]
    assert seen(told.decode(), 1) == [[12, 3, 4]]  # five columns: the decode wraps


def test_a_group_that_loses_its_last_column_holds_no_shape():
    told = Told.of(RING, 2)
    told.group.prepare(lengths=(0, 0), right=(2, 2))
    told.window(2)
    told.group.finalize()
    assert (told.group.columns, told.group.nbytes, told.group.bytes_per_token) == (0, 0, 0)
    told.group.append_window(*two_bytes([[1], [2]]))
    assert told.group.offsets == (1, 1)


def test_a_mask_is_an_array_where_it_is_asked_for():
    group = RowGroup(RING, 2)
    assert (group.mask(2, "window"), group.mask(1, "decode")) == ("causal", None)
    asked = group.mask(2, "window", array=True)
    assert isinstance(asked, np.ndarray)
    assert asked.tolist() == [[[[True, False], [True, True]]]] * 2


def test_a_dense_fetch_of_one_position_is_a_block_while_padding_is_announced():
    told = Told.of(RING, 2)
    told.window(5)
    twin = Told(told.group.clone(), told.next)
    assert [ids_of(planes.keys) for planes in twin.group.fetch_dense(*twin.tensors(1), "f32")] == [
        [11, 3, 4, 5],
        [12, 8, 9, 10],
    ]
    told.group.prepare(lengths=(1, 0), right=(0, 1))
    assert [ids_of(planes.keys) for planes in told.group.fetch_dense(*told.tensors(1), "f32")] == [
        [3, 4, 5, 11],
        [8, 9, 10, 12],
    ]


def test_a_filter_to_no_rows_frees_everything_and_rows_join_again():
    told = Told.of(RING, 2)
    told.window(3)
    told.group.filter(())
    assert (told.group.count, told.group.columns, told.group.nbytes, told.group.bytes_per_token) == (0, 0, 0, 0)
    assert told.group.trim(0) == 0
    group = merge([told.group, serial(RING, [1, 2])])
    assert (group.count, group.offsets, group.columns) == (1, (2,), 4)


def test_sources_clones_and_rows_that_are_taken_out_stay_as_they_were():
    told = Told.of(RING, 2)
    told.window(3)
    clone, cache, joined = told.group.clone(), told.group.extract(0), merge([told.group, told.group])
    assert joined.offsets == (3, 3, 3, 3)
    told.decode(3)
    joined.filter((3,))
    assert [ids_of(clone.planes(b).keys) for b in (0, 1)] == [[1, 2, 3], [4, 5, 6]]
    assert cache.planes is not None
    assert ids_of(cache.planes.keys) == [1, 2, 3]
    assert ids_of(joined.planes(0).keys) == [4, 5, 6]
    state = told.group.take_state()
    told.group.reset()
    assert [row["offset"].item() for row in state] == [6, 6]
    assert (told.group.count, told.group.offsets, told.group.columns) == (2, (0, 0), 0)


def test_each_row_of_a_read_answers_for_itself():
    told = Told.of(LayerSpec("full_rows"), 2)
    told.group.prepare(left=(1, 0))
    read = told.window(2)
    queries = plane([[1, 1], [1, 1]])
    both = read.attend(queries, 1e-3)
    rows = [read.rows[b].attend(queries[b : b + 1], 1e-3) for b in (0, 1)]
    assert np.array_equal(both, np.concatenate(rows))
    assert ids_of(both[:1, :, 1:]) == [1002]  # one visible key: its value
    with pytest.raises(Refusal, match="READ-9"):
        read.attend(queries[:1], 1.0)


# Refusals, before any change.


def fingerprint(group: RowGroup) -> tuple[Any, ...]:
    planes = [(row.coded, row.floor, row.planes and row.planes.keys.tobytes()) for row in group.rows]
    return group.state, group.prefilling, group.shape, planes


def padded() -> RowGroup:
    told = Told.of(RING, 2)
    told.window(2)
    told.group.prepare(lengths=(1, 2), right=(1, 0))
    return told.group


def lacking() -> RowGroup:
    group = RowGroup(RING, 2)
    group.prepare(left=(1, 0))
    return group


def ready() -> RowGroup:
    told = Told.of(FIRST, 2)
    told.window(4)  # due, so that whatever settles too early shows
    return told.group


def one(ids: list[list[int]]) -> tuple[Any, Any, str]:
    return plane(ids), plane(ids), "f32"


def two_bytes(ids: list[list[int]]) -> tuple[Any, Any, str]:
    return plane(ids).astype(np.uint16), plane(ids).astype(np.uint16), "bf16"


Case = tuple[Callable[[], RowGroup], Callable[[RowGroup], Any], str]

REFUSED: list[Case] = [
    (padded, lambda g: g.append_decode(*one([[1], [2]])), "PAD-9"),
    (padded, lambda g: g.mask(1, "decode"), "PAD-9"),
    (padded, lambda g: g.trim(0), "PAD-9"),
    (padded, lambda g: g.extract(0), "PAD-9"),
    (padded, lambda g: g.hand_back(1), "PAD-9"),
    (padded, lambda g: merge([g]), "PAD-9"),
    (padded, lambda g: g.prepare(left=(0, 0)), "PAD-9"),
    (lacking, lambda g: g.append_decode(*one([[1], [2]])), "PAD-9"),
    (lacking, lambda g: g.prepare(), "PAD-9"),
    (lacking, lambda g: merge([g, g]), "PAD-9"),
    (ready, lambda g: g.prepare(left=(1, 0)), "PAD-12"),
    (ready, lambda g: g.prepare(right=(1, 0)), "PAD-12"),
    (ready, lambda g: g.prepare(lengths=(1,), right=(1, 0)), "PAD-12"),
    (ready, lambda g: g.mask(0, "window"), "ERR-4"),
    (ready, lambda g: g.mask(2, "decode"), "ERR-4"),
    (ready, lambda g: g.trim(0), "TRIM-7"),
    (ready, lambda g: g.trim(-1), "ERR-5"),
    (ready, lambda g: g.extract(2), "ROWS-29"),
    (ready, lambda g: g.hand_back(-1), "ROWS-29"),
    (ready, lambda g: g.commit_prefill((0, 2)), "ROWS-29"),
    (ready, lambda g: g.filter((0, 0)), "ROWS-18"),
    (ready, lambda g: g.filter((2,)), "ROWS-18"),
    (ready, lambda g: g.append_window(*one([[1], [2], [3]])), "ROWS-30"),
    (ready, lambda g: g.append_decode(*one([[1, 2], [3, 4]])), "ERR-4"),
    (ready, lambda g: g.append_window(*one([[1], [2]]), window=0), "ERR-7"),
    (ready, lambda g: g.append_window(plane([[1], [2]]), plane([[1, 2], [3, 4]]), "f32"), "ERR-2"),
    (ready, lambda g: g.append_window(plane([[1], [2]]), plane([[1], [2]])[0], "f32"), "ERR-2"),
    (ready, lambda g: g.append_window(plane([[1], [2]])[0], plane([[1], [2]]), "f32"), "ERR-2"),
    (ready, lambda g: g.append_window(plane([[1], [2]])[:, :1], plane([[1], [2]])[:, :1], "f32"), "ERR-2"),
    (ready, lambda g: g.append_window(*two_bytes([[1], [2]])), "ERR-3"),
    (ready, lambda g: g.append_window(plane([[1], [2]])[..., :24], plane([[1], [2]]), "f32"), "PREC-13"),
    (lambda: RowGroup(FIRST, 2), lambda g: g.append_window(*one([[1]])), "ROWS-30"),
    (lambda: RowGroup(RING), lambda g: g.append_window(*one([[1]])), "ROWS-11"),
    (lambda: RowGroup(RING), lambda g: g.mask(2, "window"), "ROWS-11"),
    (lambda: RowGroup(RING), lambda g: g.trim(1), "TRIM-7"),
]


@pytest.mark.parametrize(("make", "call", "clause"), REFUSED)
def test_a_refused_call_changes_nothing(make: Callable[[], RowGroup], call: Callable[[RowGroup], Any], clause: str):
    group = make()
    before = fingerprint(group)
    with pytest.raises(Refusal, match=clause):
        call(group)
    assert fingerprint(group) == before


@pytest.mark.parametrize(
    "layer",
    [LayerSpec("ring_rows", 4, sinks=1), LayerSpec("ring_rows", 0), LayerSpec("full_rows", 4), LayerSpec("full")],
)
def test_impossible_groups_are_refused(layer: LayerSpec):
    with pytest.raises(Refusal, match="ERR-6"):
        RowGroup(layer, 1)


def coded(start: Start, bits: int = 4, value_bits: int | None = None) -> Cache:
    return serial(LayerSpec("ring_rows", 4, bits=bits, value_bits=value_bits, group=32, start=start), [1])


@pytest.mark.parametrize(
    ("sources", "clause"),
    [
        ([], "ROWS-8"),
        ([serial(RING, [1]), serial(LayerSpec("full_rows"), [1])], "ROWS-7"),
        ([serial(RING, [1]), serial(LayerSpec("ring_rows", 5), [1])], "ROWS-7"),
        ([Cache(LayerSpec("ring", 4, 1))], "ROWS-7"),
        ([coded(3), coded(3, bits=8)], "ROWS-7"),
        ([coded(3), coded(None, value_bits=8)], "ROWS-7"),
        ([coded(3), coded(4)], "ROWS-8"),
        ([coded(3), coded("never")], "ROWS-8"),
        ([coded(None), serial(RING, [1])], "ROWS-8"),
        ([RowGroup(RING), coded(None)], "ROWS-8"),
    ],
)
def test_what_does_not_go_together_is_refused(sources: list[Any], clause: str):
    with pytest.raises(Refusal, match=clause):
        merge(sources)


def test_shapes_and_dtypes_that_differ_are_not_merged():
    small = Cache(RING.serial)
    small.append_decode(plane([[1]])[..., :16], plane([[1]]), "f32")
    half = Cache(RING.serial)
    half.append_decode(plane([[1]]).astype(np.uint16), plane([[1]]).astype(np.uint16), "bf16")
    for other in (small, half):
        with pytest.raises(Refusal, match="ROWS-8"):
            merge([serial(RING, [1]), other])
    with pytest.raises(Refusal, match="PREC-13"):
        merge([RowGroup(FIRST), small])
    assert merge([RowGroup(FIRST), serial(RING, [1])]).storage == "dense"


# When rows convert.


def storages(group: RowGroup) -> list[str]:
    return [group.row_storage(b) for b in range(group.count)]


def floors(group: RowGroup) -> list[int]:
    return [group.floor(b) for b in range(group.count)]


def test_a_row_converts_at_the_start_of_an_append_that_brings_it_a_real_token():
    told = Told.of(FIRST, 2)
    told.group.prepare(lengths=(3, 4), right=(1, 0))
    told.window(3)
    assert (told.group.storage, told.group.max_append) == ("dense", "unbounded")
    told.window(1)  # padding for row 0
    assert (told.group.storage, floors(told.group)) == ("mixed", [0, 3])
    assert told.group.bytes_per_token == HEADS * 2 * DIM * 4
    codes = HEADS * 2 * (DIM // 2 + 8)
    assert told.group.nbytes == told.group.columns * (HEADS * 2 * DIM * 4 + codes)
    told.group.finalize()
    assert told.group.storage == "mixed"
    read = told.decode()
    assert ([row.form for row in read.rows], told.group.storage) == (["affine", "affine"], "packed")
    assert floors(told.group) == [3, 3]
    told.group.reset()
    assert (told.group.storage, floors(told.group), told.group.max_append) == ("dense", [0, 0], 3)


def test_max_append_is_that_of_the_row_that_is_due_first():
    told = Told.of(FIRST, 2)
    told.group.prepare(left=(1, 0))
    told.window(2)  # offsets 1 and 2
    assert [told.group.max_append_of(b) for b in (0, 1)] == [2, 1]
    assert told.group.max_append == 1


def test_a_trim_converts_what_is_due_first_and_a_refused_one_nothing():
    told = Told.of(FIRST, 2)
    told.window(3)
    with pytest.raises(Refusal, match="TRIM-7"):
        told.group.trim(4)
    assert told.group.storage == "dense"
    told.group.trim(0)
    assert (storages(told.group), floors(told.group)) == (["affine", "affine"], [3, 3])
    told.group.trim(3)
    assert (told.group.storage, told.group.offsets, floors(told.group)) == ("packed", (0, 0), [3, 3])


def test_start_0_converts_with_the_first_position_there_and_leaves_no_floor():
    told = Told.of(LayerSpec("full_rows", bits=4, group=32, start=0), 2)
    told.group.begin_prefill()
    assert told.group.storage == "dense"
    told.group.end_prefill()
    assert [row.form for row in told.window(1).rows] == ["dense", "dense"]
    assert [row.form for row in told.decode().rows] == ["affine", "affine"]
    assert floors(told.group) == [0, 0]


def test_in_the_bracket_of_a_prefill_only_a_commit_converts():
    told = Told.of(FIRST, 2)
    told.window(2)
    told.group.begin_prefill()
    told.window(1)
    told.group.trim(0)
    assert (told.group.storage, told.group.prefilling) == ("dense", True)
    told.group.commit_prefill((1,))
    assert (storages(told.group), floors(told.group)) == (["dense", "affine"], [0, 3])
    told.window(2)
    told.group.begin_prefill()  # open already
    told.group.end_prefill()
    assert storages(told.group) == ["dense", "affine"]
    told.decode()
    assert (storages(told.group), floors(told.group)) == (["affine", "affine"], [5, 3])


def test_a_commit_converts_without_a_bracket_and_while_ends_are_pending():
    told = Told.of(FIRST, 2)
    told.group.prepare(lengths=(3, 2), right=(1, 2))
    told.window(4)
    told.group.commit_prefill((0, 1))
    assert (storages(told.group), floors(told.group)) == (["affine", "dense"], [3, 0])


def test_a_row_that_is_named_twice_converts_once():
    told = Told.of(FIRST, 1)
    told.window(3)
    twin = told.group.clone()
    told.group.commit_prefill((0, 0))
    twin.commit_prefill((0,))
    assert np.array_equal(told.group.planes(0).keys, twin.planes(0).keys)
    assert floors(told.group) == [3]


def test_the_opening_of_a_bracket_converts_all_that_is_due():
    told = Told.of(FIRST, 2)
    told.window(3)
    told.group.begin_prefill()
    assert (told.group.storage, floors(told.group)) == ("packed", [3, 3])


def test_a_due_row_from_outside_converts_when_it_joins_an_open_bracket():
    due = Told.of(FIRST, 1)
    due.window(3)
    raw = due.group.extract(0)
    open_group = Told.of(FIRST, 1)
    open_group.group.begin_prefill()
    open_group.window(4)
    assert storages(merge([due.group, raw])) == ["dense", "dense"]
    group = merge([open_group.group, raw, due.group])
    assert (group.prefilling, storages(group), floors(group)) == (True, ["dense", "affine", "affine"], [0, 3, 3])
    assert (raw.storage, due.group.storage, open_group.group.storage) == ("dense", "dense", "dense")


def test_extraction_gives_raw_storage_and_handing_back_a_settled_cache():
    told = Told.of(FIRST, 2)
    told.window(3)
    raw, back = told.group.extract(0), told.group.hand_back(0)
    assert (raw.layer, raw.storage, raw.max_append) == (RING.serial, "dense", "unbounded")
    assert (back.layer, back.storage, back.floor) == (FIRST.serial, "affine", 3)
    assert told.group.storage == "dense"
    told.decode()
    codes = told.group.extract(1)
    assert (codes.layer.start, codes.storage, codes.floor) == (None, "affine", 3)
    joined = merge([told.group, codes, raw])
    assert (storages(joined), floors(joined)) == (["affine", "affine", "affine", "dense"], [3, 3, 3, 0])
    assert joined.layer == FIRST


def test_empty_rows_are_taken_out_as_empty_caches_that_stay_converted_when_handed_back():
    told = Told.of(FIRST, 1)
    assert (told.group.extract(0).columns, told.group.hand_back(0).storage) == (0, "dense")
    told.window(3)
    told.group.trim(3)
    raw, back = told.group.extract(0), told.group.hand_back(0)
    assert (raw.columns, raw.nbytes, raw.storage, raw.floor) == (0, 0, "affine", 3)
    assert (back.columns, back.storage, back.floor) == (0, "affine", 3)
    back.append_decode(*one([[7]]))
    assert (back.storage, back.floor, back.offset) == ("affine", 3, 1)


def test_filter_prepare_finalize_and_clone_convert_nothing():
    told = Told.of(FIRST, 2)
    told.window(3)
    told.group.filter((1, 0))
    told.group.prepare(lengths=(0, 0), right=(1, 1))
    told.window(1)  # padding alone
    told.group.finalize()
    assert (told.group.storage, told.group.clone().storage) == ("dense", "dense")
    assert index_group.active(told.group.state) == 3


@pytest.mark.parametrize(
    ("layer", "storage", "identity"),
    [
        (RING, "dense", "ring_rows(window=4,sinks=0)"),
        (LayerSpec("full_rows"), "dense", "full_rows"),
        (LayerSpec("full_rows", bits=4, group=32), "affine", "full_rows(bits=4,group=32)"),
        (FIRST, "dense", "ring_rows(window=4,sinks=0,bits=4,group=32,start=3)"),
    ],
)
def test_storage_and_identity_of_a_group(layer: LayerSpec, storage: str, identity: str):
    assert (RowGroup(layer).storage, RowGroup(layer, 2).identity) == (storage, identity)
