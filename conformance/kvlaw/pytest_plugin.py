"""The pytest plugin: options, and the items of ``kvlaw.conformance.conformance_tests``.

It is loaded in every pytest session of whoever has kvlaw installed, so it imports pytest and nothing else until a suite
is collected.
"""

from collections.abc import Generator
from typing import Any

import pytest

pytest.register_assert_rewrite("kvlaw.conformance")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options; each one wins over what a suite says itself."""
    group = parser.getgroup("kvlaw", "conformance of KV caches")
    group.addoption("--kvlaw-target", metavar="TARGET", help="check this target instead of those that suites name")
    group.addoption("--kvlaw-budget", choices=["quick", "ci", "deep"], help="how much to play")
    group.addoption("--kvlaw-profile", choices=["core", "layout"], help="which clauses count")
    group.addoption("--kvlaw-seed", type=int, metavar="N", help="the seed of the machines")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make one item per clause of a suite's profile, and one for the verdict."""
    suite: Any = getattr(metafunc.function, "kvlaw_suite", None)
    if suite is not None:
        chosen = suite.chosen(metafunc.config)
        try:
            ids = chosen.items()
        except ValueError as error:  # a profile that there is not, a specification that cannot be read
            raise pytest.Collector.CollectError(f"kvlaw: {error}") from error
        metafunc.parametrize(("kvlaw_run", "kvlaw_item"), [(chosen, item) for item in ids], ids=ids)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """Report a failed clause by its block alone, without the frames of the suite."""
    report = yield
    block = getattr(call.excinfo.value, "kvlaw_block", None) if call.excinfo is not None else None
    if block is not None and report.failed and getattr(item, "obj", None) is not None:
        report.longrepr = block
    return report
