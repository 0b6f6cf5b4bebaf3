"""What a smoke test hands over and looks for, and what it says of a step: what came, and what to do."""

from typing import Any

import numpy as np
import numpy.typing as npt
from attrs import frozen

from kvlaw.spec.config import ITEM_SIZE, Config
from kvlaw.spec.observations import Bits, Payload


@frozen
class Tried:
    """One step: what was tried, whether it went well, what came, and what to do where it did not."""

    what: str
    word: str
    came: str = ""
    remedy: str = ""


class WrongError(Exception):
    """A step that went wrong: what came, and what to do."""

    def __init__(self, came: str, remedy: str) -> None:
        """Say both."""
        super().__init__(came)
        self.remedy = remedy


class SkippedError(Exception):
    """A step that cannot be tried; the text says why."""


def odd_bits(config: Config, length: int) -> Payload:
    """Make tensors of all kinds of bits: NaNs, infinities, both zeros, denormals, all ones, and counted ones."""
    size = 8 * ITEM_SIZE[config.dtype]
    kind = np.uint32 if size == 32 else np.uint16
    top = 1 << (size - 1)
    odd = [
        0,
        top,
        1,
        top + 1,
        (1 << size) - 1,
        top - 1,
        0x7F80 << (size - 16),
        0x7C00 << (size - 16),
        0x7FC1 << (size - 16),
    ]

    def tensor(heads: int, dim: int, first: int) -> npt.NDArray[Any]:
        shape = (config.batch, heads, length, dim)
        bits = (np.arange(int(np.prod(shape)), dtype=np.uint64) * 40503 + first) % (1 << size)
        bits[: len(odd)] = odd
        return bits.astype(kind).reshape(shape)

    keys, values = tensor(config.kv_heads, config.head_dim, 1), tensor(config.kv_heads, config.value_dim, 2)
    queries = np.zeros((config.batch, config.heads, length, config.head_dim), kind)
    return Payload(tuple(range(1, length + 1)), keys, values, queries, config.dtype)


def same_bits(side: str, sent: Bits, got: Bits) -> None:
    """Compare a fetch with what was appended to an empty cache."""
    if got.shape != sent.shape:
        raise WrongError(
            f"{side} of shape {list(sent.shape)} came back as {list(got.shape)}", "axes are [batch, heads, length, dim]"
        )
    wrong = np.argwhere(got != sent)
    if len(wrong):
        at = tuple(int(i) for i in wrong[0])
        told = f"{side}{list(at)}: sent {int(sent[at]):#x}, came back {int(got[at]):#x} ({len(wrong)} differ)"
        raise WrongError(told, "move tensors as bytes, little endian, the last axis first; never through numbers")


def remedy(told: str, *, started: bool = True) -> str:
    """Say what to do about a testee that was lost, or that ended before it had answered anything."""
    if "exited with code" in told and not started:
        return "it ends before it answers the hello: see what it wrote to stderr, or run its command by hand"
    for sign, remedy in (
        ("no answer within", "answer every message, and flush stdout after every line"),
        ("was ended by signal", "it crashed: run it by hand with the same lines (--set log=FILE writes them down)"),
        ("exited with code", "a testee answers error where it cannot go on, and stays"),
        ("without being asked", "write to stderr what is no answer"),
        ("two answers", "answer each message once"),
        ("no valid JSON", "write one JSON object a line to stdout, and all else to stderr"),
        ("id:", "give each answer the id of its message"),
    ):
        if sign in told:
            return remedy
    return "see the page on the protocol"


__all__ = ["SkippedError", "Tried", "WrongError", "odd_bits", "remedy", "same_bits"]
