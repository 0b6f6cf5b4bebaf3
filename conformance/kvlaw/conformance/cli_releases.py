"""``kvlaw releases``: fetch releases of mlx-lm for ``release:`` targets, and list those that are there."""

import sys

import click

from kvlaw.conformance.cli_options import UNUSABLE, console, errors


@click.group()
def releases() -> None:
    """Fetch releases of mlx-lm, to be checked as release:mlx-lm==VERSION:CACHE.

    Wheels are fetched with pip from its index, into a folder of their own (KVLAW_CACHE, else the user's cache folder);
    nothing is installed. No other command downloads anything.
    """


@releases.command()
@click.argument("versions", nargs=-1, required=True)
def fetch(versions: tuple[str, ...]) -> None:
    """Fetch VERSIONS, each unless it is there already.

    Each is tried, whatever becomes of the others; the exit code is 3 if one could not be fetched.
    """
    from kvlaw.conformance.releases.store import PACKAGE, ReleaseError, place
    from kvlaw.conformance.releases.store import fetch as fetched

    named = [_version(given) for given in versions]
    try:
        for version in named:
            place(version)
    except ReleaseError as error:
        raise click.UsageError(str(error)) from None
    failed = 0
    for version in dict.fromkeys(named):
        try:
            with errors.status(f"fetching {PACKAGE} {version}"):
                wheel = fetched(version)
        except ReleaseError as error:
            failed += 1
            errors.print(f"{error}", style="red", markup=False, soft_wrap=True)
        else:
            console.print(f"{PACKAGE} {version}  {wheel.path}", markup=False, soft_wrap=True)
    sys.exit(UNUSABLE if failed else 0)


@releases.command("list")
def list_() -> None:
    """List the releases that were fetched."""
    from kvlaw.conformance.releases.store import PACKAGE, cached, folder

    there = cached()
    for version in there:
        console.print(f"{PACKAGE} {version}", markup=False)
    if not there:
        console.print(f"no release in {folder()}; kvlaw releases fetch 0.28.0", markup=False, soft_wrap=True)


def _version(given: str) -> str:
    """Take ``mlx-lm==0.28.0`` for ``0.28.0``."""
    name, equals, version = given.partition("==")
    return version if equals and name.lower().replace("_", "-") == "mlx-lm" else given


__all__ = ["releases"]
