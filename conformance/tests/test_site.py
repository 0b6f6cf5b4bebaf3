"""The documentation site as a reader gets it: built without a warning, whole, and shown by a browser.

One build serves all tests and workers, so there are few tests; what is looked at stands in ``CHECKS``.

What is built here has the API pages of the packages alone, which halves the time; ``make docs``, and ``KVLAW_LONG=1``
here, build all of them.  Without Sphinx or Chromium the tests that need them are skipped.
"""

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
from html import unescape
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from kvlaw.conformance.faults.registry import load_faults
from kvlaw.conformance.proofs.lemmas import LEMMAS
from kvlaw.spec.clauses import load_clauses
from kvlaw.spec.inventory import INVENTORY_IDS
from kvlaw_site import links

ROOT = Path(__file__).parents[2]
WHOLE = bool(os.environ.get("KVLAW_LONG"))
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
SHOWN = (
    *("index", "clauses", "spec/00-introduction", "spec/08-trim", "spec/inventory", "layout-choices"),
    *("implementation-defined", "glossary", "matrix", "faults", "lemmas", "numerics", "tutorials"),
    *("guides/first-check", "howto/python-vendor", "api", "api/kvlaw.spec", "source/reference/trims", "search"),
)
WIDTHS = (1280, 400)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not all(map(find_spec, ("sphinx", "myst_parser", "furo"))),
        reason="the site is built by Sphinx with MyST and furo: pip install 'kvlaw[docs]'",
    ),
]


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site once for all workers of pytest-xdist; the others wait for the first, or find what it left."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "kvlaw-site"
    folder.mkdir(exist_ok=True)
    told = folder / "told.txt"
    with (folder / "lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not told.is_file():
            told.write_text(build(folder), encoding="utf-8")
    assert told.read_text(encoding="utf-8") == "", "a warning is an error"
    return folder / "html"


def build(folder: Path) -> str:
    """Build the site into ``folder / "html"``; give what Sphinx complains of."""
    some = [] if WHOLE else ["-D", "kvlaw_api=packages"]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "sphinx", "-q", "-b", "html", "-W", "--keep-going", "-n", *some),
            *("-d", str(folder / "doctrees"), str(ROOT / "docs"), str(folder / "html")),
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    return done.stderr if done.stderr or not done.returncode else f"exit code {done.returncode}: {done.stdout}"


Pages = dict[str, links.Page]


def page_of(chapter: str) -> str:
    return f"spec/{chapter.removesuffix('.md')}.html"


def check_every_link_and_anchor_leads_somewhere(built: Path, pages: Pages) -> None:
    assert links.problems(built, pages) == []
    assert sum(len(page.links) for page in pages.values()) > 10_000


def check_every_clause_is_two_clicks_from_the_front_page(built: Path, pages: Pages) -> None:
    there = links.reached(pages, "index.html", 2)
    places = [(page_of(clause.chapter), clause.id) for clause in load_clauses().values()]
    assert [place for place in places if place not in there or place[1] not in pages[place[0]].anchors] == []


def check_faults_lemmas_rows_and_requirements_have_anchors(built: Path, pages: Pages) -> None:
    wanted = {
        "faults.html": {f"fault-{name}" for name in load_faults()},
        "lemmas.html": {f"lemma-{lemma.name}" for lemma in LEMMAS},
        "matrix.html": {f"row-{clause_id}" for clause_id in load_clauses()},
        "clauses.html": set(load_clauses()),
        "spec/inventory.html": {inventory_id.replace(":", "-") for inventory_id in INVENTORY_IDS},
    }
    assert {page: anchors - pages[page].anchors for page, anchors in wanted.items()} == {page: set() for page in wanted}


def section(built: Path, clause_id: str) -> str:
    """Cut a clause out of its chapter's page."""
    clause = load_clauses()[clause_id]
    text = (built / page_of(clause.chapter)).read_text(encoding="utf-8")
    return text[text.index(f'id="{clause_id}"') :].split("</section>")[0]


def check_a_clause_shows_its_fields_and_where_it_lives(built: Path, pages: Pages) -> None:
    text = section(built, "TRIM-4")
    assert re.findall(r'kv-badge-(\w+)">([^<]+)<', text) == [
        ("must", "MUST"),
        ("since", "since 1.0"),
        ("kind", "ring"),
        ("needs", "needs can_trim"),
        ("needs", "needs trim"),
    ]
    assert "level: MUST" not in text
    assert 'href="../faults.html#fault-trims-a-wrapped-ring"' in text
    (link,) = re.findall(r'<a [^>]*href="#TRIM-3"[^>]*>', text)
    assert 'title="a trim drops exactly what it answers"' in link
    assert "https://github.com/ml-explore/mlx-lm/issues/1776" in text
    assert '<details class="kv-lives">' in text


def check_where_it_lives_leads_to_the_line(built: Path, pages: Pages) -> None:
    found = set(re.findall(r'href="\.\./(source/reference/trims\.html)#(L-\d+)"', section(built, "TRIM-4")))
    assert found
    for page, anchor in found:
        source = (built / page).read_text(encoding="utf-8")
        line = source[source.index(f'id="{anchor}"') :].split("\n")[0]
        assert "TRIM-4" in unescape(re.sub(r"<[^>]+>", "", line))


def check_every_clause_shows_laws_examples_and_what_stands_behind_it(built: Path, pages: Pages) -> None:
    for clause in load_clauses().values():
        text = section(built, clause.id)
        assert text.count("kvlaw-law-block") == len(clause.laws), clause.id
        assert text.count("kvlaw-trace-block") >= 1, clause.id
        assert "Where it lives" in text, clause.id
        assert "Rationale:" in text, clause.id


def check_the_ring_is_drawn_from_the_model(built: Path, pages: Pages) -> None:
    text = (built / "index.html").read_text(encoding="utf-8")
    picture = text[text.index('<svg class="kv-ring"') : text.index("</svg>", text.index('<svg class="kv-ring"'))]
    assert re.findall(r'class="kv-token"[^>]*>([^<]+)<', picture) == [
        *("t1", "t2", "t3", "–"),
        *("t1", "t2", "t3", "t4"),
        *("t5", "t2", "t3", "t4"),
        *("t5", "t6", "t3", "t4"),
        *("t4", "t5", "t6", "t7", "t8"),
        *("t9", "t6", "t7", "t8"),
    ]
    assert re.findall(r'class="kv-offset"[^>]*>(\d+)<', picture) == ["3", "4", "5", "6", "8", "9"]


CHECKS = (
    check_every_link_and_anchor_leads_somewhere,
    check_every_clause_is_two_clicks_from_the_front_page,
    check_faults_lemmas_rows_and_requirements_have_anchors,
    check_a_clause_shows_its_fields_and_where_it_lives,
    check_where_it_lives_leads_to_the_line,
    check_every_clause_shows_laws_examples_and_what_stands_behind_it,
    check_the_ring_is_drawn_from_the_model,
)


def test_the_site_is_built_without_a_warning_and_whole(built: Path) -> None:
    pages = links.read_site(built)
    for check in CHECKS:
        check(built, pages)


def test_a_clause_that_was_given_up_says_so() -> None:
    from kvlaw_site.clause_parts import badges, where_it_lives  # noqa: PLC0415 # it needs Sphinx

    given_up = evolve(load_clauses()["TRIM-4"], retired="1.5")
    assert "retired in 1.5" in badges(given_up, "spec/08-trim").astext()
    assert list(where_it_lives(given_up, "spec/08-trim")) == []


PROBE = """\
<!doctype html><meta charset="utf-8"><title>probe</title><pre id="found">nothing</pre>
{frames}
<script>
addEventListener("load", () => setTimeout(() => {{
  const told = [...document.querySelectorAll("iframe")].map((frame) => {{
    const page = frame.contentDocument, body = page.body;
    const head = page.querySelector("h1, header");
    return {{
      name: frame.name, title: page.title, head: head ? head.textContent : "", height: body.scrollHeight,
      wide: page.documentElement.scrollWidth, width: frame.clientWidth,
      styled: page.defaultView.getComputedStyle(body).getPropertyValue("--kv-must").trim(),
      pictures: [...page.querySelectorAll("svg.kv-ring")].map((svg) => svg.getBoundingClientRect().height),
    }};
  }});
  document.getElementById("found").textContent = JSON.stringify(told);
}}, 300));
</script>
"""


Told = list[dict[str, Any]]


def show(built: Path, folder: Path) -> tuple[Told, str]:
    """Show pages in frames, wide and narrow ones; give what the frames say, and what is said on the console."""
    assert CHROMIUM is not None
    planted = folder / "planted.html"
    planted.write_text(
        "<title>p</title><h1 style='width:900px'>p</h1><script>console.error('planted'); none()</script>", "utf-8"
    )
    named = [(name, width, (built / f"{name}.html").as_uri()) for name in SHOWN for width in WIDTHS]
    frames = [
        f'<iframe name="{name} {width}" width="{width}" height="900" style="border:0" src="{uri}"></iframe>'
        for name, width, uri in (*named, ("planted", 400, planted.as_uri()))
    ]
    probe = folder / "probe.html"
    probe.write_text(PROBE.format(frames="\n".join(frames)), encoding="utf-8")
    done = subprocess.run(
        [
            *(CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
            *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars"),
            *("--allow-file-access-from-files", "--enable-logging=stderr", "--window-size=1400,2000"),
            *(f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=10000", "--dump-dom", probe.as_uri()),
        ],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    match = re.search(r'<pre id="found">(.*?)</pre>', done.stdout, re.DOTALL)
    assert match is not None, done.stderr
    return json.loads(unescape(match[1])), done.stderr


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed: apt-get install chromium")
def test_a_browser_shows_the_pages(built: Path, tmp_path: Path) -> None:
    told, stderr = show(built, tmp_path)
    shown = [page for page in told if page["name"] != "planted 400"]
    assert len(shown) == len(SHOWN) * len(WIDTHS)
    assert [page for page in shown if not (page["head"] and page["styled"] == "#8a3a00" and page["height"] > 200)] == []
    (picture,) = (page["pictures"] for page in shown if page["name"] == "index 1280")
    assert picture[0] > 200
    # No page is wider than a telephone, but the planted one is.
    assert [page["name"] for page in told if page["wide"] > page["width"]] == ["planted 400"]
    # No page complains, but what was planted is heard: its own word, and the error.
    said = [line for line in stderr.splitlines() if ":CONSOLE" in line]
    assert [line for line in said if "planted.html" not in line] == []
    assert len(said) == 2
