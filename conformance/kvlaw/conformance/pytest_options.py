"""What the pytest plugin needs once one of its options is given: reading them, and items without a test file.

The plugin imports this module only then: a session that has nothing to do with kvlaw loads nothing of it.
"""

from types import ModuleType
from typing import Any, cast

import click
import pytest

from kvlaw.conformance.cli_options import Chosen, chosen_by
from kvlaw.conformance.pytest_items import conformance_tests

NAME = "kvlaw"
"""The file that the node ids of these items name: ``kvlaw::test_conformance[TRIM-4]``."""


def said(config: pytest.Config) -> Chosen:
    """Read ``--kvlaw-set`` and ``--kvlaw-map``; raise ``pytest.UsageError`` that shows how they are written."""
    given = {name: tuple(config.getoption(f"kvlaw_{name}", None) or ()) for name in ("set", "map")}
    try:
        return chosen_by(given["set"], given["map"])
    except click.UsageError as error:
        raise pytest.UsageError(f"--kvlaw-set, --kvlaw-map: {error.message}") from None


def check_options(config: pytest.Config) -> None:
    """Raise ``pytest.UsageError`` for a target or a setting that cannot be, whatever the machine has."""
    chosen = said(config)
    target: Any = config.getoption("kvlaw_target", None)
    if target is None:
        return
    from kvlaw.conformance.configuration import ConfigurationError
    from kvlaw.conformance.opening import check_named
    from kvlaw.conformance.pytest_project import configured
    from kvlaw.conformance.subjects.errors import TargetError

    try:
        check_named(configured(config.rootpath, target), chosen.settings, chosen.mapping)
    except (TargetError, ConfigurationError) as error:
        raise pytest.UsageError(f"--kvlaw-target {target}: {error}") from None


def own_items(session: pytest.Session) -> list[pytest.Item]:
    """Make the items of the target that the options name."""
    module = ModuleType(NAME)
    vars(module)["test_conformance"] = conformance_tests()
    collector: Alone = cast("Any", Alone).from_parent(session, path=session.config.rootpath / NAME)
    collector.obj = module
    return list(session.genitems(collector))


class Alone(pytest.Module):
    """A module that no file has."""

    def funcnamefilter(self, name: str) -> bool:
        """Take the one function that is ours, whatever the project calls its tests."""
        return name == "test_conformance"


__all__ = ["Alone", "check_options", "own_items", "said"]
