"""NumPy caches against rings worked out by hand, column by column, from geometry.md sections 3 to 6."""

from typing import Any

import numpy as np
import pytest

from kvlaw.reference.layout import Cache, Refusal
from kvlaw.spec.calls import Phase
from kvlaw.spec.config import LayerSpec

HEADS, DIM = 2, 4


def plane(ids: list[int]) -> Any:
    """Make float32 bits ``[1, HEADS, len(ids), DIM]`` in which every number of a column is its token's id."""
    column = np.array(ids, np.float32)[None, None, :, None]
    return np.broadcast_to(column, (1, HEADS, len(ids), DIM)).copy().view(np.uint32)


def ids_of(bits: Any) -> list[int]:
    """Read the ids back, the same in every head and every number."""
    values = bits.view(np.float32)
    assert (values == values[:, :1, :, :1]).all()
    return [int(x) for x in values[0, 0, :, 0]]


class Told:
    """A cache that is fed ids 1, 2, 3, ...; values are the ids plus 1000."""

    def __init__(self, window: int | None = None, sinks: int = 0) -> None:
        self.cache = Cache(LayerSpec("full" if window is None else "ring", window, sinks))
        self.next = 1

    def append(self, count: int, phase: Phase = "window", window: int | None = None) -> Any:
        ids = list(range(self.next, self.next + count))
        act = self.cache.append_decode if phase == "decode" else self.cache.append_window
        read = act(plane(ids), plane([i + 1000 for i in ids]), "f32", window)
        self.next += count
        assert ids_of(read.values) == [i + 1000 if i else 0 for i in ids_of(read.keys)]
        return read

    def decode(self, times: int = 1) -> Any:
        return [self.append(1, "decode") for _ in range(times)][-1]

    @property
    def held(self) -> list[int]:
        assert self.cache.planes is not None
        keys, values = ids_of(self.cache.planes.keys), ids_of(self.cache.planes.values)
        assert values == [i + 1000 if i else 0 for i in keys]
        return keys


def test_decodes_grow_a_ring_fill_it_and_wrap():
    ring = Told(4)
    ring.decode()
    assert (ring.held, ring.cache.write_index, ring.cache.columns) == ([1, 0, 0, 0], 1, 4)
    ring.decode(3)
    assert (ring.held, ring.cache.write_index) == ([1, 2, 3, 4], 4)
    assert ids_of(ring.decode().keys) == [5, 2, 3, 4]
    assert (ring.held, ring.cache.write_index, ring.cache.offset) == ([5, 2, 3, 4], 1, 5)
    ring.decode()
    assert ring.held == [5, 6, 3, 4]


def test_a_window_lays_a_rotated_ring_out_anew():
    ring = Told(4)
    ring.decode(6)  # 5 6 3 4, so 3 4 5 6 in time; three of them stay
    read = ring.append(2)
    assert (ring.held, ring.cache.write_index) == ([4, 5, 6, 7, 8], 5)
    assert ids_of(read.keys) == [4, 5, 6, 7, 8]


def test_the_decode_after_an_oversized_window_drops_the_overshoot_first():
    ring = Told(4)
    ring.append(6)
    assert ring.held == [1, 2, 3, 4, 5, 6]
    ring.decode()
    assert (ring.held, ring.cache.write_index) == ([7, 4, 5, 6], 1)


def test_sinks_stay_in_the_first_columns():
    ring = Told(4, sinks=1)
    ring.decode(6)  # columns 1 to 3 are a ring of three: 2 3 4, then 5 over 2, 6 over 3
    assert (ring.held, ring.cache.write_index) == ([1, 5, 6, 4], 3)
    ring.append(2)  # 1 | 4 5 6 in time; the oldest that is not pinned goes
    assert ring.held == [1, 5, 6, 7, 8]
    ring.decode()  # one column too many: 5 goes, then 9 is written at column 1
    assert (ring.held, ring.cache.write_index) == ([1, 9, 7, 8], 2)


def test_two_sinks_and_an_oversized_first_window():
    ring = Told(4, sinks=2)
    ring.append(7)
    assert ring.held == [1, 2, 3, 4, 5, 6, 7]
    ring.decode()
    assert ring.held == [1, 2, 8, 7]
    ring.decode()
    assert ring.held == [1, 2, 8, 9]
    ring.append(1)
    assert ring.held == [1, 2, 9, 10]


def test_a_ring_of_one_keeps_its_newest_token_only():
    ring = Told(1)
    ring.append(3)
    assert ring.held == [1, 2, 3]
    assert ids_of(ring.decode().keys) == [4]
    assert ring.held == [4]
    ring.append(2)
    assert ring.held == [5, 6]


def test_growth_reads_the_columns_and_not_the_offset():
    ring = Told(300)
    ring.append(256)
    assert ring.cache.columns == 256
    ring.decode()
    assert ring.cache.columns == 300
    small = Told(8)
    small.append(4)
    small.cache.trim(2)
    small.decode()
    assert small.cache.columns == 4
    small.decode(2)
    assert small.cache.columns == 8
    assert small.held == [1, 2, 5, 6, 7, 0, 0, 0]


def test_a_growing_cache_adds_whole_steps_of_256():
    full = Told()
    assert (full.append(5).keys.shape[2], full.cache.columns) == (5, 256)
    full.append(300)
    assert full.cache.columns == 512
    assert full.held[:305] == list(range(1, 306))
    assert full.held[305:] == [0] * 207


def test_a_trim_moves_no_data_and_the_stale_tail_is_not_laid_out_again():
    ring = Told(6)
    ring.decode(4)
    assert ring.cache.trim(2) == 2
    assert (ring.held, ring.cache.write_index, ring.cache.offset) == ([1, 2, 3, 4, 0, 0], 2, 2)
    ring.append(1)
    assert ring.held == [1, 2, 5]


def test_bypass_cuts_the_newest_columns_of_the_last_window():
    ring = Told(4)
    ring.decode(6)
    ring.append(3)  # 4 5 6 | 7 8 9
    assert ring.cache.trim(1, bypass=True) == 1
    assert ring.cache.trim(2, bypass=True) == 2
    assert (ring.held, ring.cache.offset, ring.cache.write_index) == ([4, 5, 6], 6, 3)
    ring.decode()  # one column short of four: grown by one, nothing lost
    assert ring.held == [4, 5, 6, 10]
    with pytest.raises(Refusal, match="TRIM-12"):
        ring.cache.trim(1, bypass=True)


def test_a_bypass_that_leaves_nothing_leaves_no_planes():
    ring = Told(4)
    ring.append(3)
    ring.cache.trim(3, bypass=True)
    assert (ring.cache.planes, ring.cache.columns, ring.cache.nbytes, ring.cache.bytes_per_token) == (None, 0, 0, 0)


def rows(mask: Any) -> list[str]:
    return ["".join("x" if seen else "." for seen in row) for row in mask]


def test_masks_of_a_window_past_the_ring():
    ring = Told(4)
    ring.append(3)
    assert ring.cache.mask(1, "window") == "causal"  # 3 + 1 columns fit into the window
    assert rows(ring.cache.mask(2, "window")) == ["xxxx.", ".xxxx"]
    ring.append(3)  # three columns of history now
    assert rows(ring.cache.mask(3, "window")) == ["xxxx..", ".xxxx.", "..xxxx"]


def test_masks_with_sinks():
    ring = Told(4, sinks=2)
    ring.append(4)  # history 1 2 | 4; then positions 4 and 5
    assert rows(ring.cache.mask(2, "window")) == ["xxxx.", "xx.xx"]
    assert ring.cache.mask(1, "decode") is None
    with pytest.raises(Refusal, match="MASK-13"):
        ring.cache.mask(1, "decode", 3)


def test_a_narrowing_decode_mask_follows_the_physical_order():
    ring = Told(4)
    ring.decode(6)  # 5 6 3 4; the next goes over 3
    assert rows(ring.cache.mask(1, "decode", 2)) == [".xx."]
    assert ids_of(ring.decode().keys) == [5, 6, 7, 4]
    assert rows(ring.cache.mask(1, "decode", 3)) == [".xxx"]  # 8 over 4


def test_masks_of_a_growing_cache():
    full = Told()
    full.append(3)
    assert full.cache.mask(1, "decode") is None
    assert full.cache.mask(2, "window") == "causal"
    assert rows(full.cache.mask(2, "window", 2)) == ["..xx.", "...xx"]
    assert rows(full.cache.mask(1, "decode", array=True)) == ["xxxx"]
    assert full.cache.mask(1, "decode", 4) is None


def test_a_read_a_clone_and_a_state_keep_what_they_showed():
    ring = Told(3)
    read = ring.decode(3)
    twin, state = ring.cache.clone(), ring.cache.take_state()
    ring.decode(2)
    assert ids_of(read.keys) == [1, 2, 3]
    assert twin.planes is not None
    assert ids_of(twin.planes.keys) == [1, 2, 3]
    assert (ids_of(state["keys"]), int(state["offset"])) == ([1, 2, 3], 3)
    twin.append_decode(plane([9]), plane([1009]), "f32")
    assert ring.held == [4, 5, 3]
    assert ids_of(twin.planes.keys) == [9, 2, 3]


def test_reset_gives_everything_back():
    ring = Told(3)
    ring.append(5)
    ring.cache.reset()
    assert (ring.cache.offset, ring.cache.columns, ring.cache.nbytes, ring.cache.planes) == (0, 0, 0, None)


def test_numbers():
    ring = Told(4)
    ring.append(6)
    assert (ring.cache.size, ring.cache.nbytes) == (4, 6 * HEADS * 2 * DIM * 4)
    assert ring.cache.bytes_per_token == HEADS * 2 * DIM * 4


def wrong(cache: Cache) -> dict[str, tuple[str, Any]]:
    """Give calls that a cache with five positions refuses, each with the clause that its message names."""
    two = plane([7, 8])
    fetch, window = cache.fetch_dense, cache.append_window
    return {
        "no batch axis": ("ERR-2", lambda: window(two[0], two[0], "f32")),
        "keys longer than values": ("ERR-2", lambda: window(two, two[:, :, :1], "f32")),
        "one head too few": ("ERR-2", lambda: window(two[:, :1], two[:, :1], "f32")),
        "a shorter head": ("ERR-2", lambda: fetch(two[..., :2], two[..., :2], "f32")),
        "another dtype": ("ERR-3", lambda: window(two, two, "bf16")),
        "a decode of two": ("ERR-4", lambda: cache.append_decode(two, two, "f32")),
        "a window of none": ("ERR-4", lambda: window(two[:, :, :0], two[:, :, :0], "f32")),
        "a mask of none": ("ERR-4", lambda: cache.mask(0, "window")),
        "a decode mask of two": ("ERR-4", lambda: cache.mask(2, "decode")),
        "a window argument of 0": ("ERR-7", lambda: window(two, two, "f32", 0)),
        "a negative trim": ("ERR-5", lambda: cache.trim(-1)),
        "half a position": ("ERR-5", lambda: cache.trim(1.5)),  # type: ignore[arg-type] # the refusal is the test
        "a trim beyond the limit": ("TRIM-7", lambda: cache.trim(6)),
    }


@pytest.mark.parametrize("what", wrong(Cache(LayerSpec("full"))))
@pytest.mark.parametrize("window", [None, 3])
def test_a_refusal_names_its_clause_and_changes_nothing(what: str, window: int | None):
    told = Told(window)
    told.append(5)
    before = (told.held, told.cache.state, told.cache.nbytes)
    clause, call = wrong(told.cache)[what]
    with pytest.raises(Refusal, match=clause):
        call()
    assert (told.held, told.cache.state, told.cache.nbytes) == before


def test_impossible_rings_are_refused():
    for window, sinks in ((0, 0), (4, 4), (4, -1), (None, 0)):
        with pytest.raises(Refusal, match="ERR-6"):
            Cache(LayerSpec("ring", window, sinks))


def test_a_query_with_one_visible_key_answers_its_value():
    ring = Told(1)
    read = ring.append(3)
    queries = np.ones((1, 2 * HEADS, 3, DIM), np.float32).view(np.uint32)
    answers = read.attend(queries, 0.5).view(np.float32)
    assert answers[0, :, :, 0].tolist() == [[1001.0, 1002.0, 1003.0]] * (2 * HEADS)
    for wrong in (queries[0], queries[:, :3], queries[:, :, :2], queries[..., :2], queries.astype(np.uint16)):
        with pytest.raises(Refusal, match="READ-9"):
            read.attend(wrong, 0.5)
