"""Packed codes by hand, and against one big integer per row."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvlaw.reference.numerics.packing import CODE_BITS, CodeArray, Words, pack, unpack

every_bits = pytest.mark.parametrize("bits", CODE_BITS)
repeatedly = settings(max_examples=60, deadline=None, database=None)


def row_as_one_integer(codes: list[int], bits: int) -> list[int]:
    """The words of a row: all its codes in one integer, the first lowest, taken 32 bits at a time."""
    stream = sum(code << (place * bits) for place, code in enumerate(codes))
    return [(stream >> (32 * word)) & 0xFFFF_FFFF for word in range(len(codes) * bits // 32)]


def test_a_code_of_3_bits_lies_across_the_ends_of_a_byte_and_of_a_word() -> None:
    codes = np.zeros((1, 32), np.uint8)
    codes[0, 2] = 0b101  # bits 6 to 8
    codes[0, 10] = 0b011  # bits 30 to 32
    assert pack(codes, 3).tolist() == [[(0b101 << 6) | (0b11 << 30), 0, 0]]
    codes[0, 10] = 0b110
    assert pack(codes, 3).tolist() == [[(0b101 << 6) | (0b10 << 30), 1, 0]]


@pytest.mark.parametrize(("bits", "word"), [(2, 0xE4E4_E4E4), (4, 0x7654_3210), (8, 0x0302_0100)])
def test_ascending_codes_begin_with_this_word(bits: int, word: int) -> None:
    ascending = (np.arange(32) % (1 << bits)).astype(np.uint8)
    assert pack(ascending, bits)[0] == word


@repeatedly
@given(bits=st.sampled_from(CODE_BITS), blocks=st.integers(1, 8), seed=st.integers(0, 2**32 - 1))
def test_every_row_is_one_stream_of_bits(bits: int, blocks: int, seed: int) -> None:
    codes: CodeArray = np.random.default_rng(seed).integers(0, 1 << bits, (3, 32 * blocks), dtype=np.uint8)
    words = pack(codes, bits)
    assert words.dtype == np.uint32
    assert words.tolist() == [row_as_one_integer(row, bits) for row in codes.tolist()]
    assert np.array_equal(unpack(words, bits, 32 * blocks), codes)


@repeatedly
@given(bits=st.sampled_from(CODE_BITS), blocks=st.integers(1, 8), seed=st.integers(0, 2**32 - 1))
def test_any_words_are_codes(bits: int, blocks: int, seed: int) -> None:
    words: Words = np.random.default_rng(seed).integers(0, 1 << 32, (2, 3, blocks * bits), dtype=np.uint32)
    codes = unpack(words, bits, 32 * blocks)
    assert codes.dtype == np.uint8
    assert codes.shape == (2, 3, 32 * blocks)
    assert np.array_equal(pack(codes, bits), words)


@every_bits
def test_rows_that_lie_apart_in_memory_are_packed_alike(bits: int) -> None:
    codes = np.random.default_rng(bits).integers(0, 1 << bits, (64, 6, 5), dtype=np.uint8).transpose(2, 1, 0)[:, ::2]
    words = pack(codes, bits)
    assert np.array_equal(words, pack(np.ascontiguousarray(codes), bits))
    assert np.array_equal(unpack(words[::-1, ::2], bits, 64), codes[::-1, ::2])


def test_what_cannot_be_packed_is_refused() -> None:
    with pytest.raises(ValueError, match="2, 3, 4, 5, 6 or 8 bits, got 7"):
        pack(np.zeros((1, 32), np.uint8), 7)
    with pytest.raises(ValueError, match="multiple of 32 codes, got 40"):
        pack(np.zeros((1, 40), np.uint8), 4)
    with pytest.raises(ValueError, match="a code of 3 bits is below 8, got 8"):
        pack(np.full((1, 32), 8, np.uint8), 3)
    with pytest.raises(ValueError, match="5 words per row do not hold 32 codes of 4 bits"):
        unpack(np.zeros((1, 5), np.uint32), 4, 32)
