# ruff: noqa: BLE001, PGH003, SIM105, T201
# type: ignore # foreign code has no types
"""Growing NumPy caches that do one hostile thing each, from their second append on."""

import signal
import sys
import time

import numpy as np
from numpy_caches import Growing


class Hostile(Growing):
    def update_and_fetch(self, keys, values):
        fetched = super().update_and_fetch(keys, values)
        return self.spoil(*fetched) if self.offset > keys.shape[2] else fetched

    def spoil(self, keys, values):
        return keys, values


class Raises(Hostile):
    def spoil(self, keys, values):
        raise RuntimeError("the pool\nis empty")


class Hangs(Hostile):
    def spoil(self, keys, values):
        while True:
            try:
                time.sleep(30)
            except Exception:  # swallows whatever it can
                pass


class Nothing(Hostile):
    def spoil(self, keys, values):
        return None


class Three(Hostile):
    def spoil(self, keys, values):
        return keys, values, 0


class Lists(Hostile):
    def spoil(self, keys, values):
        return keys.tolist(), values.tolist()


class WrongShape(Hostile):
    def spoil(self, keys, values):
        return keys.swapaxes(1, 2), values.swapaxes(1, 2)


class WrongDtype(Hostile):
    def spoil(self, keys, values):
        return keys.astype(np.float32), values.astype(np.float32)


class NotANumber(Hostile):
    def spoil(self, keys, values):
        return keys * np.array(np.nan, keys.dtype), values


class Torn(Hostile):
    def spoil(self, keys, values):
        return keys, values[:, :, ::-1]


class Short(Hostile):
    def spoil(self, keys, values):
        return keys, values[:, :, 1:]


class Leaves(Hostile):
    def spoil(self, keys, values):
        sys.exit(3)


class Interrupts(Hostile):
    def spoil(self, keys, values):
        raise KeyboardInterrupt  # nobody asked for it


class IsInterrupted(Hostile):
    def spoil(self, keys, values):
        try:
            signal.raise_signal(signal.SIGINT)  # the user does
        except KeyboardInterrupt:
            raise ValueError("swallowed") from None


class OutOfMemory(Hostile):
    def spoil(self, keys, values):
        raise MemoryError("no pages")


class TooDeep(Hostile):
    def spoil(self, keys, values):
        return self.spoil(keys, values)


class Abandons(Hostile):
    def spoil(self, keys, values):
        raise GeneratorExit("leaving")


class Unspeakable(Hostile):
    class Error(Exception):
        def __str__(self):
            raise RuntimeError("no words")

    def spoil(self, keys, values):
        raise self.Error


class Prints(Hostile):
    def spoil(self, keys, values):
        print("appending")
        return keys, values


class BadNumber(Growing):
    @property
    def nbytes(self):
        return 1 << 20 if self.offset < 2 else float("nan")


class BreaksLater(Growing):
    """Its size is there, and breaks from the second position on."""

    @property
    def size(self):
        return self.offset if self.offset < 2 else self.no_such_thing


class BreaksAtOnce(Growing):
    @property
    def nbytes(self):
        return None.nbytes


class BrokenState(Growing):
    @property
    def state(self):
        return None.keys


class Declares(Growing):
    """What it declares and does not have, and what is no number of the cache, is not shown."""

    __slots__ = ("write_index",)

    @property
    def nbytes(self):
        raise NotImplementedError

    def size(self, axis):
        return axis


class Asks(Growing):
    """Knows nothing but what it is asked for."""

    def __getattr__(self, name):
        raise AttributeError(name)


class BadTrim(Growing):
    def trim(self, n):
        return "all of it"


class Uninterruptible(Growing):
    def __init__(self):
        raise KeyboardInterrupt


class Unbuildable(Growing):
    def __init__(self):
        raise OSError("no room")


class Needy(Growing):
    def __init__(self, pool):
        super().__init__()


class Nobody:
    """No cache at all."""


answer = 42
