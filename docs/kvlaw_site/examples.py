"""What the pages show is true: examples hold on the oracle, sessions print what stands below them."""

from collections.abc import Iterator
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.util import logging

from kvlaw_site.borrowed import FOLDERS, borrowed
from kvlaw_site.facts import facts
from kvlaw_site.places import DOCS, chapter_page
from kvlaw_site.sessions import problem, sessions

logger = logging.getLogger(__name__)


def pages() -> Iterator[tuple[str, Path]]:
    """List the pages that may show sessions: those of this folder, and the borrowed ones."""
    yield from borrowed().items()
    for path in sorted(DOCS.rglob("*.md")):
        page = path.relative_to(DOCS)
        if page.parts[0] not in {*FOLDERS, "_build"}:
            yield page.with_suffix("").as_posix(), path


def warn(app: Sphinx) -> None:
    """Warn of examples that do not hold, and of sessions that are not as they are shown."""
    for failed in facts().evidence.failed_examples:
        where = chapter_page(facts().clauses.find(failed.clause).chapter)
        logger.warning("example of %s: %s", failed.clause, failed.message, location=(where, failed.line))
    for page, path in pages():
        for session in sessions(path.read_text(encoding="utf-8"), path.name):
            wrong = problem(session)
            if wrong:
                logger.warning("%s: %s", session.command, wrong, location=(page, session.line))


def setup(app: Sphinx) -> None:
    """Look when a build begins."""
    app.connect("builder-inited", warn)
