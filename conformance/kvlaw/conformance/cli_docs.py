"""``kvlaw docs``: the pages for users, as they ship with kvlaw, for whoever has a wheel of it and no checkout."""

from pathlib import Path

import click

from kvlaw.conformance.cli_options import emit

SHIPPED = Path(__file__).parent / "pages"
"""Where a wheel has the pages."""
CHECKOUT = Path(__file__).parents[2] / "docs"
"""Where a checkout has them."""


def pages() -> dict[str, Path]:
    """Find the pages, by their names."""
    folder = SHIPPED if SHIPPED.is_dir() else CHECKOUT
    return {path.stem: path for path in sorted(folder.glob("*.md"))}


@click.command()
@click.argument("page", required=False)
def docs(page: str | None) -> None:
    """Print a PAGE of the documentation; without one, list them.

    \b
    Of these speak messages of kvlaw:
      kvlaw docs ci        the configuration, expected failures, and kvlaw in CI
      kvlaw docs testee    the protocol of a cache in another language
    """  # noqa: D301  # click looks for the control character itself
    from kvlaw.conformance.subjects.errors import nearest

    found = pages()
    if page is None:
        for name, path in found.items():
            click.echo(f"{name:<18} {title(path)}")
        return
    if page not in found:
        meant = nearest(page, found) or ";"
        raise click.UsageError(f"there is no page {page!r}{meant} there are {', '.join(found)}")
    emit(found[page].read_text(encoding="utf-8"))


def title(path: Path) -> str:
    """Give the heading of a page."""
    return path.read_text(encoding="utf-8").split("\n", 1)[0].removeprefix("# ")


__all__ = ["docs", "pages"]
