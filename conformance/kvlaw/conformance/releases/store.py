"""The wheels of releases: where they lie, how they are fetched with pip, and how they are checked when they are read.

A wheel lies in ``releases/mlx-lm/VERSION`` under the cache folder (``KVLAW_CACHE``, else that of the platform), beside
``record.json`` with its name and its SHA-256. A wheel is written completely or not at all, its record last. It is read
only if its bytes have the recorded digest, and for the releases that kvlaw's own pages speak of also the one in
``DIGESTS``, as PyPI publishes it. Whatever is missing or wrong is a ``ReleaseError`` with the command that mends it.
"""

import json
import os
import re
import subprocess
import sys
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from zipfile import BadZipFile, ZipFile

from attrs import frozen

PACKAGE = "mlx-lm"
NEEDED = ("mlx_lm/models/cache.py", "mlx_lm/models/base.py")
"""The two modules that a release must have to be checked."""
PATIENCE = 300.0
"""Seconds that pip gets for one release."""
VERSION = re.compile(r"\d+(\.\d+)*((a|b|rc)\d+)?(\.post\d+)?(\.dev\d+)?")
"""A version as PyPI writes it (PEP 440, normalized)."""

DIGESTS = {
    "0.26.3": "c6a9e44bd707822bc165ce638723ab11252e8334b7b3bf79c7d399c8c3d6d48e",
    "0.28.0": "a2002b14a73ac6d88685a5e6ff5c5d86811157288468bf16aff7a94e6c872f3d",
    "0.28.1": "1dd5a53a127f7f00472d765d03ccd0ea78cb728f83e2bc98741f36aadd1d22b8",
    "0.30.2": "f0cec69b859698f07c840e06d6462a1ddafaaf4f701fc4d61c707acde1484971",
    "0.30.4": "b5a7f1a545fdcde63666edc13815f3eecfd7492fd065d31484c30f61b4e1cf83",
    "0.30.5": "a80bc8e3efdebe81813b0f6eb403fb66a7a15071e256f4e7102ada986acb75bb",
    "0.30.7": "17442a4bf01c4c2d3bca1e647712fe44f19890c3f1eadc8589d389e57b44b9bf",
    "0.31.1": "bfc3e08e919b87bebb6fe2dbea980ece8ae8ee7132b31421aa0923c4286ecfa0",
    "0.31.2": "a90a7905031b2580b4923f92e0fb156ca287f452bb1a9e41a60dcbc971532d46",
    "0.31.3": "758cfddf1180053b7613db76fad3d246a331a2a905808e1164a275621fc983b8",
    "0.32.2": "5c0991248cfff5872503d74f466d2532dd8cb7fb3670cb9be7a06d7305dadc04",
}
"""The wheels of these releases on PyPI, by version."""


class ReleaseError(Exception):
    """A release that is not there, or not what was fetched: the text says what to do."""


@frozen
class Wheel:
    """The wheel of one release, checked."""

    version: str
    path: Path
    data: bytes

    def source(self, name: str) -> str | None:
        """Read one file of it as text; None if it has none of that name."""
        try:
            with ZipFile(BytesIO(self.data)) as archive:
                return archive.read(name).decode("utf-8")
        except KeyError:
            return None


def folder() -> Path:
    """Give the folder in which releases are kept."""
    given = os.environ.get("KVLAW_CACHE")
    if given:
        return Path(given).expanduser() / "releases"
    if sys.platform == "darwin":
        return Path("~/Library/Caches/kvlaw/releases").expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "kvlaw" / "releases"


def place(version: str) -> Path:
    """Give the folder of one release; raise ``ReleaseError`` for a word that is no version."""
    if not VERSION.fullmatch(version):
        raise ReleaseError(f"{version!r} is no version of {PACKAGE}, such as 0.28.0")
    return folder() / PACKAGE / version


def cached() -> tuple[str, ...]:
    """List the releases that were fetched, oldest first."""
    found = (path.parent.name for path in (folder() / PACKAGE).glob("*/record.json"))
    return tuple(sorted((v for v in found if VERSION.fullmatch(v)), key=_ordered))


def read(version: str) -> Wheel:
    """Read the wheel of a release, and check it.

    Raises:
        ReleaseError: if it was not fetched, cannot be read, or is not what was fetched.
    """
    at = place(version)
    record = at / "record.json"
    if not record.is_file():
        raise ReleaseError(f"{PACKAGE} {version} is not in {folder()}: {_way(version)}")
    try:
        told = json.loads(record.read_text(encoding="utf-8"))
        path, digest = at / Path(told["wheel"]).name, told["sha256"]
        data = path.read_bytes()
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ReleaseError(f"{record} cannot be read ({type(error).__name__}): {_anew(version)}") from error
    _check(version, path, data, digest)
    return Wheel(version, path, data)


def fetch(version: str) -> Wheel:
    """Fetch the wheel of a release with pip, unless it is there already; give it, checked.

    Raises:
        ReleaseError: if pip cannot, or gave something else.
    """
    at = place(version)
    if (at / "record.json").is_file():
        try:
            return read(version)
        except ReleaseError:
            rmtree(at, ignore_errors=True)
    try:
        at.mkdir(parents=True, exist_ok=True)
        partial = Path(mkdtemp(prefix="partial-", dir=at))
    except OSError as error:
        raise ReleaseError(f"{at} cannot be written: {error.strerror or error}; set KVLAW_CACHE") from error
    try:
        return _kept(version, at, _downloaded(version, partial))
    except OSError as error:
        raise ReleaseError(f"{at} cannot be written: {error.strerror or error}; set KVLAW_CACHE") from error
    finally:
        rmtree(partial, ignore_errors=True)


def _downloaded(version: str, into: Path) -> Path:
    """Let pip fetch the wheel, without what it depends on, by the user's own index and certificates."""
    asked = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    where = {name: value for name, value in os.environ.items() if name != "PIP_CONSTRAINT"}
    try:
        done = subprocess.run(  # noqa: S603  # our own interpreter, and a version that was checked
            [*asked, "--dest", str(into), f"{PACKAGE}=={version}"],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            env=where,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ReleaseError(f"pip took more than {PATIENCE:.0f} s for {PACKAGE} {version}: try again") from None
    wheels = list(into.glob("*.whl"))
    if done.returncode or len(wheels) != 1:
        said = [line for line in done.stderr.splitlines() if "ERROR" in line] or done.stderr.splitlines()[-1:]
        raise ReleaseError(f"pip cannot fetch {PACKAGE} {version}: {' '.join(said[-1:]) or 'it gave no wheel'}")
    named = wheels[0].name.split("-")[1]
    if named != version:
        raise ReleaseError(f"pip gave {PACKAGE} {named} for {version}: name the release as it is, {_way(named)}")
    return wheels[0]


def _kept(version: str, at: Path, wheel: Path) -> Wheel:
    """Check what was fetched, and move it to its place, the record last."""
    data = wheel.read_bytes()
    digest = sha256(data).hexdigest()
    _check(version, wheel, data, digest)
    path, record = at / wheel.name, wheel.with_name("record.json")
    wheel.replace(path)
    record.write_text(json.dumps({"wheel": wheel.name, "sha256": digest}) + "\n", encoding="utf-8")
    record.replace(at / "record.json")
    return Wheel(version, path, data)


def _check(version: str, path: Path, data: bytes, digest: object) -> None:
    """Raise ``ReleaseError`` unless these are the bytes of the release, with the modules that are needed."""
    if sha256(data).hexdigest() != digest:
        raise ReleaseError(f"{path} is not what was fetched (its SHA-256 differs): {_anew(version)}")
    if version in DIGESTS and digest != DIGESTS[version]:
        raise ReleaseError(f"{path} is not the {PACKAGE} {version} of PyPI (its SHA-256 differs): {_anew(version)}")
    try:
        with ZipFile(BytesIO(data)) as archive:
            lacking = sorted(set(NEEDED) - set(archive.namelist()))
    except BadZipFile as error:
        raise ReleaseError(f"{path} is no wheel: {error}") from error
    if lacking:
        raise ReleaseError(f"{PACKAGE} {version} has no {lacking[0]}: kvlaw checks releases that have it")


def _way(version: str) -> str:
    return f"kvlaw releases fetch {version}"


def _anew(version: str) -> str:
    return f"fetch it again with `{_way(version)}`"


def _ordered(version: str) -> tuple[int, ...]:
    return tuple(int(n) for n in re.findall(r"\d+", version))


__all__ = ["DIGESTS", "NEEDED", "PACKAGE", "ReleaseError", "Wheel", "cached", "fetch", "folder", "place", "read"]
