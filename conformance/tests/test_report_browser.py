"""The HTML report in a real browser: it loads nothing, is quiet on the console, fits, filters, and its links work."""

import importlib.util
import re
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from kvlaw.conformance.event_file import read_events
from kvlaw.conformance.reports.html import html_report
from kvlaw.conformance.reports.run import gather

HERE = Path(__file__).parent
spec = importlib.util.spec_from_file_location("headless_browser", HERE / "headless_browser.py")
assert spec is not None
assert spec.loader is not None
headless: Any = importlib.util.module_from_spec(spec)
spec.loader.exec_module(headless)

pytestmark = pytest.mark.skipif(headless.CHROMIUM is None, reason="there is no Chromium: apt-get install chromium")
RUN = gather(read_events(HERE / "report_samples" / "run.ndjson"))


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Generator[Any]:
    with headless.browser(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(html_report(RUN), encoding="utf-8")
    return path


@pytest.mark.parametrize(("width", "dark"), [(1200, False), (1200, True), (380, False), (380, True)])
def test_the_page_fits_and_is_quiet(width: int, dark: bool, tab: Any, page: Path):
    tab.width(width, dark=dark)
    tab.open(page)
    assert tab.complaints == []
    assert tab.requests == [f"file://{page}"]
    assert tab.value("document.documentElement.scrollWidth") <= width
    ground = tab.value("getComputedStyle(document.body).backgroundColor")
    light = sum(map(int, re.findall(r"\d+", ground)[:3])) > 3 * 128
    assert light is not dark
    ink = "getComputedStyle(document.querySelector('svg .token')).fill"
    cell = "getComputedStyle(document.querySelector('svg .cell[style]')).fill"
    assert contrast(tab.value(ink), tab.value(cell)) > 4.5


def contrast(one: str, other: str) -> float:
    """Work out the contrast of two colours, as WCAG 2 has it."""

    def luminance(colour: str) -> float:
        parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
        lines = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * lines[0] + 0.7152 * lines[1] + 0.0722 * lines[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_a_token_has_the_same_colour_everywhere_and_its_neighbour_another(tab: Any, page: Path):
    tab.width(1200)
    tab.open(page)
    colours = tab.value(
        "Object.entries([...document.querySelectorAll('.steps svg .token')].reduce((found, text) => {"
        "const fill = getComputedStyle(text.previousElementSibling).fill;"
        "(found[text.textContent] ??= new Set()).add(fill); return found}, {})).map(([t, f]) => [t, [...f]])"
    )
    assert all(len(fills) == 1 for _, fills in colours)
    assert len({fills[0] for _, fills in colours}) == len(colours) >= 6


def test_the_links_lead_to_what_they_name(tab: Any, page: Path):
    tab.open(page)
    links = tab.value("[...document.querySelectorAll('a[href]')].map(a => a.getAttribute('href'))")
    assert len(links) >= 6
    assert (
        tab.value("[...document.querySelectorAll('a[href]')].filter(a => !document.querySelector(a.hash)).length") == 0
    )
    tab.value("document.querySelector('#clauses-target-1 a').click()")
    assert tab.value("location.hash") == "#target-1-VIS-1"
    assert tab.value("document.querySelector(':target h3').textContent").startswith("VIS-1 a decode sees")
    assert abs(tab.value("document.querySelector(':target').getBoundingClientRect().top")) < 40


def test_the_filter_keeps_what_is_asked_for(tab: Any, page: Path):
    tab.open(page)
    left = "document.querySelector('[data-table=clauses-target-1] .left').textContent"
    assert tab.value(left) == "7 of 7"
    tab.value(typed("TRIM"))
    assert tab.value(left) == "2 of 7"
    tab.value(typed("trim CANNOT"))
    assert tab.value(left) == "1 of 7"
    tab.value(typed(""))
    tab.value("document.querySelector('[data-table=clauses-target-1] input[value=none]').click()")
    assert tab.value(left) == "6 of 7"
    shown = "[...document.querySelectorAll('#clauses-target-1 tbody tr')].filter(r => r.offsetHeight).length"
    assert tab.value(shown) == 6
    assert tab.complaints == []


def typed(words: str) -> str:
    return (
        "(() => {const box = document.querySelector('[data-table=clauses-target-1] input[type=search]');"
        f"box.value = {words!r}; box.dispatchEvent(new Event('input', {{bubbles: true}}))}})()"
    )


def test_without_its_script_all_can_still_be_read(tab: Any, page: Path):
    tab.ask("Emulation.setScriptExecutionDisabled", value=True)
    try:
        tab.open(page)
        assert tab.value("document.querySelectorAll('#clauses-target-1 tbody tr:not([hidden])').length") == 7
        assert tab.value("document.querySelector('.filter').hidden") is True
    finally:
        tab.ask("Emulation.setScriptExecutionDisabled", value=False)


def test_what_is_marked_in_the_picture_can_be_seen(tab: Any, page: Path):
    tab.width(1200)
    tab.open(page)
    boxes = tab.value(
        "[...document.querySelectorAll('.step.wrong svg .missing, .step.wrong svg .extra')].map(e => {"
        "const b = e.getBoundingClientRect(); return [e.getAttribute('class'), b.width > 20, b.height > 20,"
        "getComputedStyle(e).stroke]})"
    )
    kinds = [kind for kind, *_ in boxes]
    assert kinds == ["cell extra", "cell empty missing", "cell extra"]
    assert all(wide and high for _, wide, high, _ in boxes)
    assert len({stroke for *_, stroke in boxes}) == 1
