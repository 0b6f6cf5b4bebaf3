"""Traces that were found elsewhere, in one of Hypothesis' example databases: a fleet shares what it finds.

A database is a folder, or a Redis server (``redis://host:6379/0``, with the package redis).  Below a key of the target
and the kind of cache stand failing traces in JSON, as in the failure store.  They are played first, each failure that
is found is added, and its shortest form takes its place.
"""

from collections.abc import Iterator
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

from attrs import frozen
from hypothesis.database import DirectoryBasedExampleDatabase, ExampleDatabase

from kvlaw.conformance.failures import Failure
from kvlaw.conformance.limits import trace_too_large
from kvlaw.spec.trace import Trace, TraceError


class DatabaseError(ValueError):
    """A database that cannot be used; the text says why, and what is possible."""


@frozen(eq=False)
class TraceDatabase:
    """Failing traces, by target and kind."""

    examples: ExampleDatabase

    def traces(self, target: str, kind: str) -> tuple[Trace, ...]:
        """Give the traces of a target, the shortest first; what cannot be read as a trace is left alone."""
        return tuple(sorted(self._read(_key(target, kind)), key=lambda t: (len(t.calls), t.dumps())))

    def _read(self, key: bytes) -> Iterator[Trace]:
        for value in self.examples.fetch(key):
            try:
                trace = Trace.loads(value.decode())
            except (TraceError, UnicodeDecodeError):
                continue
            if not trace_too_large(trace):
                yield trace

    def save(self, failure: Failure) -> None:
        """Add the trace of a failure."""
        self.examples.save(_key_of(failure), _value(failure))

    def replace(self, failure: Failure, shortest: Failure) -> None:
        """Keep the shortest form of a failure in the place of the one that was found."""
        self.save(shortest)
        if shortest.trace != failure.trace:
            self.examples.delete(_key_of(failure), _value(failure))


def _key(target: str, kind: str) -> bytes:
    return b"kvlaw-" + blake2b(f"{target}\n{kind}".encode(errors="replace"), digest_size=16).hexdigest().encode()


def _key_of(failure: Failure) -> bytes:
    return _key(failure.target, failure.trace.config.kind)


def _value(failure: Failure) -> bytes:
    return failure.trace.dumps().encode()


@cache
def open_database(url: str) -> TraceDatabase:
    """Open a database by its URL: the path of a folder, or ``redis://…``.

    Raises:
        DatabaseError: if there is no such database, or it cannot be reached.
    """
    scheme, colon, rest = url.partition("://")
    if not colon:
        return _folder(Path(url))
    if scheme == "file":
        return _folder(Path(rest))
    if scheme in ("redis", "rediss", "unix"):
        return _redis(url)
    raise DatabaseError(f"{url}: a database is the path of a folder, or redis://HOST:PORT/NUMBER")


def _folder(path: Path) -> TraceDatabase:
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe = path / ".kvlaw"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise DatabaseError(f"{path}: {error.strerror or error}; a folder is wanted that can be written to") from None
    return TraceDatabase(DirectoryBasedExampleDatabase(path))


def _redis(url: str) -> TraceDatabase:
    try:
        from hypothesis.extra.redis import RedisExampleDatabase
        from redis import Redis
        from redis.exceptions import RedisError
    except ImportError:
        raise DatabaseError(f"{url}: a database on Redis needs the package redis: pip install redis") from None
    redis: Any = Redis  # whose annotations are not complete
    client = redis.from_url(url)
    try:
        client.ping()
    except (RedisError, OSError) as error:
        raise DatabaseError(f"{url} cannot be reached: {error}") from None
    return TraceDatabase(RedisExampleDatabase(client))


__all__ = ["DatabaseError", "TraceDatabase", "open_database"]
