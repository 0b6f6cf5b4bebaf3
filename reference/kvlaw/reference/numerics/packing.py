"""Packed codes: how MLX lays codes of 2 to 8 bits into 32-bit words.

A row of codes is one stream of bits. Code 0 takes the lowest bits of word 0, each further code the next higher ones,
and the stream runs on from word to word, so that codes of 3, 5 and 6 bits lie across the ends of bytes and of words.
Rows are whole groups of at least 32 codes and thus end with a word, whatever the number of bits: 32 codes of b bits are
b words.

Eight codes of b bits are b bytes, which is the step in which `pack` and `unpack` work: the eight are put together in
one 64-bit integer, and its b low bytes are those of the stream.
"""

from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Words: TypeAlias = NDArray[np.uint32]
CodeArray: TypeAlias = NDArray[np.uint8]

CODE_BITS: Final = (2, 3, 4, 5, 6, 8)

_AT_ONCE: Final = 8
_WORD_BITS: Final = 32
_ROW_MULTIPLE: Final = 32


def pack(codes: CodeArray, bits: int) -> Words:
    """Pack ``codes`` [..., n], np.uint8 below 2^bits, into words [..., n * bits / 32]; n is a multiple of 32.

    Raises ValueError if ``bits`` is none of `CODE_BITS`, n does not fit, or a code needs more bits.
    """
    check_code_bits(bits)
    width = codes.shape[-1]
    if width % _ROW_MULTIPLE:
        raise ValueError(f"a row of packed codes is a multiple of {_ROW_MULTIPLE} codes, got {width}")
    if codes.size and int(codes.max()) >> bits:
        raise ValueError(f"a code of {bits} bits is below {1 << bits}, got {int(codes.max())}")
    eights = codes.reshape(-1, _AT_ONCE)
    joined = np.zeros(len(eights), "<u8")
    for place in range(_AT_ONCE):
        joined |= eights[:, place].astype("<u8") << np.uint64(place * bits)
    stream = joined.view(np.uint8).reshape(-1, _AT_ONCE)[:, :bits].reshape(-1)
    return stream.view("<u4").astype(np.uint32, copy=False).reshape(*codes.shape[:-1], width * bits // _WORD_BITS)


def unpack(words: Words, bits: int, width: int) -> CodeArray:
    """Return the ``width`` codes of each row of ``words`` [..., width * bits / 32] as np.uint8 [..., width].

    Raises ValueError if ``bits`` is none of `CODE_BITS` or a row of words doesn't hold ``width`` codes.
    """
    check_code_bits(bits)
    if width % _ROW_MULTIPLE or words.shape[-1] * _WORD_BITS != width * bits:
        raise ValueError(f"{words.shape[-1]} words per row do not hold {width} codes of {bits} bits")
    stream = np.ascontiguousarray(words, "<u4").reshape(-1).view(np.uint8).reshape(-1, bits)
    joined = np.zeros((len(stream), _AT_ONCE), np.uint8)
    joined[:, :bits] = stream
    eights = joined.view("<u8")
    places = np.arange(0, _AT_ONCE * bits, bits, dtype=np.uint64)
    codes = (eights >> places).astype(np.uint8) & np.uint8((1 << bits) - 1)
    return codes.reshape(*words.shape[:-1], width)


def check_code_bits(bits: int) -> None:
    """Raise ValueError, naming what is possible, unless codes can have ``bits`` bits."""
    if bits not in CODE_BITS:
        raise ValueError(f"codes have {', '.join(map(str, CODE_BITS[:-1]))} or {CODE_BITS[-1]} bits, got {bits}")
