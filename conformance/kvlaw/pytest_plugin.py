"""The pytest plugin: options, and the items of ``kvlaw.conformance.conformance_tests``.

With ``--kvlaw-target`` and no suite among what was collected, the items of that target are collected by themselves,
without any test file.

It is loaded in every pytest session of whoever has kvlaw installed, so it imports pytest and nothing else until a suite
is collected.
"""

from argparse import ArgumentTypeError
from collections.abc import Generator
from typing import Any

import pytest

pytest.register_assert_rewrite("kvlaw.conformance")

SEEDS = 1 << 32
TARGET, SETTINGS, MAPPING = "kvlaw_target", "kvlaw_set", "kvlaw_map"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options; each one wins over what a suite says itself."""
    group = parser.getgroup("kvlaw", "conformance of KV caches")
    group.addoption(
        "--kvlaw-target",
        metavar="TARGET",
        help="check this target, as kvlaw check takes it, instead of those that suites name; or by itself, without any",
    )
    group.addoption("--kvlaw-budget", choices=["quick", "ci", "deep"], help="how much to play")
    group.addoption("--kvlaw-profile", choices=["core", "layout"], help="which clauses count")
    group.addoption("--kvlaw-seed", type=_seed, metavar="N", help="the seed of the machines")
    group.addoption("--kvlaw-spec", metavar="VERSION", help="hold the target to the clauses of that version only")
    group.addoption(
        "--kvlaw-set",
        action="append",
        metavar="NAME=VALUE",
        help="fix a configuration field (window=8) or an option of the target (array=numpy); may be repeated",
    )
    group.addoption(
        "--kvlaw-map",
        action="append",
        metavar="OURS=THEIRS",
        help="pass a configuration field under another name (window=max_size); may be repeated",
    )
    group.addoption(
        "--kvlaw-allow-incomplete",
        action="store_true",
        default=None,
        help="let the verdict pass although a MUST clause was never exercised",
    )


def _seed(text: str) -> int:
    """Read a seed; the message is that of a usage error."""
    if not text.isascii() or not text.isdigit() or int(text) >= SEEDS:
        raise ArgumentTypeError(f"{text!r} is no seed: a whole number from 0 to {SEEDS - 1:,}")
    return int(text)


def pytest_configure(config: pytest.Config) -> None:
    """Refuse options that cannot be, before anything is collected."""
    if any(config.getoption(name, None) is not None for name in (TARGET, SETTINGS, MAPPING)):
        from kvlaw.conformance.pytest_options import check_options  # noqa: PLC0415  # heavy, and only now needed

        check_options(config)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Collect the items of the target by themselves, where no suite is; before ``-k`` and ``-m`` choose."""
    if config.getoption(TARGET, None) is None or any(_is_suite(item) for item in items):
        return
    from kvlaw.conformance.pytest_options import own_items  # noqa: PLC0415  # as above

    items.extend(own_items(session))


def _is_suite(item: pytest.Item) -> bool:
    return getattr(getattr(item, "function", None), "kvlaw_suite", None) is not None


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
