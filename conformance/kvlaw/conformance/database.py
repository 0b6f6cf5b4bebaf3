"""Traces that were found elsewhere, in one of Hypothesis' example databases: a fleet shares what it finds.

A database is a folder, or a Redis server (``redis://host:6379/0``, with the package redis).  Below a key of the target,
the kind of cache and the profile stand failing traces in JSON, as in the failure store.  They are played first, each
failure that is found is added, and its shortest form takes its place.  At the end of a whole check those are dropped
that do not fail any more, and those of which there is a shorter one of the same clause; what the check has not played
stays, and so does what is no trace.
"""

import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

from attrs import define
from hypothesis.database import DirectoryBasedExampleDatabase, ExampleDatabase, InMemoryExampleDatabase

from kvlaw.conformance.failures import Failure
from kvlaw.conformance.guard import printable, without_secrets
from kvlaw.conformance.limits import trace_too_large
from kvlaw.spec.clauses import Profile
from kvlaw.spec.trace import Trace, TraceError


class DatabaseError(ValueError):
    """A database that cannot be used; the text says why, and what is possible."""


@define(eq=False)
class TraceDatabase:
    """Failing traces, by target and kind.

    A check does not end because its database does: what goes wrong is told once, and the check goes on without.
    """

    examples: ExampleDatabase
    url: str = ""
    _lost: bool = False

    def traces(self, target: str, kind: str, profile: Profile = "core") -> tuple[Trace, ...]:
        """Give the traces of a target, the shortest first; what is no trace of this kind is left alone."""
        read: list[Trace] = []
        with self._told():
            read.extend(trace for trace in self._read(_key(target, kind, profile)) if trace.config.kind == kind)
        return tuple(sorted(read, key=lambda t: (len(t.calls), t.dumps())))

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
        with self._told():
            key = _key(failure.target, failure.trace.config.kind, failure.profile)
            self.examples.save(key, _value(failure.trace))

    def replace(self, failure: Failure, shortest: Failure) -> None:
        """Keep the shortest form of a failure in the place of the one that was found."""
        self.save(shortest)
        if shortest.trace != failure.trace:
            self.drop(failure.target, failure.profile, failure.trace)

    def drop(self, target: str, profile: Profile, trace: Trace) -> None:
        """Keep a trace no more; one that is not there is no trouble."""
        with self._told():
            self.examples.delete(_key(target, trace.config.kind, profile), _value(trace))

    @contextmanager
    def _told(self) -> Generator[None]:
        """Tell what goes wrong, once: a folder that is gone, a server that does not answer."""
        try:
            yield
        except Exception as error:  # whatever a client raises
            self.lose(error)

    def lose(self, error: Exception) -> None:
        """Say that the database cannot be used, the first time."""
        if not self._lost:
            self._lost = True
            told = printable(
                without_secrets(f"--database {self.url}: {error}; the check goes on, and may share no more")
            )
            sys.stderr.write(f"{told}\n")


def _key(target: str, kind: str, profile: Profile = "core") -> bytes:
    parts = f"{target}\n{kind}" + (f"\n{profile}" if profile != "core" else "")
    return b"kvlaw-" + blake2b(parts.encode(errors="replace"), digest_size=16).hexdigest().encode()


def _value(trace: Trace) -> bytes:
    return trace.dumps().encode()


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
    raise DatabaseError(f"{without_secrets(url)}: a database is the path of a folder, or redis://HOST:PORT/NUMBER")


@cache
def reached(url: str) -> TraceDatabase:
    """Open a database that could be opened when the check began; one that is gone by now keeps nothing."""
    try:
        return open_database(url)
    except DatabaseError as error:
        gone = TraceDatabase(InMemoryExampleDatabase(), url)
        gone.lose(error)
        return gone


def _folder(path: Path) -> TraceDatabase:
    path = path.resolve()  # a target may go to another folder
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe = path / ".kvlaw"
        probe.touch()
        probe.unlink(missing_ok=True)  # another process may have done the same
    except OSError as error:
        raise DatabaseError(f"{path}: {error.strerror or error}; a folder is wanted that can be written to") from None
    return TraceDatabase(DirectoryBasedExampleDatabase(path), str(path))


def _redis(url: str) -> TraceDatabase:
    try:
        from hypothesis.extra.redis import RedisExampleDatabase
        from redis import Redis
        from redis.exceptions import RedisError
    except ImportError:
        raise DatabaseError(
            f"{without_secrets(url)}: a database on Redis needs the package redis: pip install redis"
        ) from None
    redis: Any = Redis  # whose annotations are not complete
    client = redis.from_url(url)
    try:
        client.ping()
    except (RedisError, OSError) as error:
        raise DatabaseError(without_secrets(f"{url} cannot be reached: {error}")) from None
    return TraceDatabase(RedisExampleDatabase(client), url)


__all__ = ["DatabaseError", "TraceDatabase", "open_database", "reached"]
