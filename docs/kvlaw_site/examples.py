"""What the pages show is true: examples hold on the oracle, sessions print what stands below them."""

from collections.abc import Iterator
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.util import logging

from kvlaw_site.facts import facts
from kvlaw_site.places import DOCS, chapter_page
from kvlaw_site.sessions import problem, sessions
from kvlaw_site.texts import FOLDERS, borrowed

logger = logging.getLogger(__name__)


def pages() -> Iterator[Path]:
    """List the pages that may show sessions: those of this folder, and the borrowed ones."""
    yield from borrowed().values()
    for path in sorted(DOCS.rglob("*.md")):
        if path.relative_to(DOCS).parts[0] not in {*FOLDERS, "_build"}:
            yield path


def warn(app: Sphinx) -> None:
    """Warn of examples that do not hold, and of sessions that are not as they are shown."""
    for failed in facts().evidence.failed_examples:
        path = borrowed()[chapter_page(facts().clauses.find(failed.clause).chapter)]
        logger.warning("example of %s: %s", failed.clause, failed.message, location=f"{path}:{failed.line}")
    for path in pages():
        for session in sessions(path.read_text(encoding="utf-8"), path.name):
            wrong = problem(session)
            if wrong:
                logger.warning("%s: %s", session.command, wrong, location=f"{path}:{session.line}")


def setup(app: Sphinx) -> None:
    """Look when a build begins."""
    app.connect("builder-inited", warn)
