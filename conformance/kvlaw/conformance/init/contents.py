"""What ``kvlaw init`` writes: the configuration, the expectations and the workflow, as texts."""

import json
import sys
import tomllib
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, distribution
from importlib.resources import files
from typing import Any, cast

import tomlkit
from attrs import frozen

from kvlaw.conformance.configuration import EXPECTATIONS, PROJECT, TABLE, ConfigurationError, parsed, text_of
from kvlaw.conformance.expectations.entries import Expected
from kvlaw.conformance.expectations.file import HEAD, Edits, edited
from kvlaw.conformance.guard import without_secrets
from kvlaw.conformance.init.places import Places
from kvlaw.conformance.project import Job


@frozen
class First:
    """What a first check says: the job, the version of the specification, what failed, and what was never exercised."""

    job: Job
    spec: str
    entries: tuple[Expected, ...]
    missing: tuple[str, ...] = ()


def configuration_text(places: Places, first: First) -> str:
    """Give the text of the configuration's file; raise ``ConfigurationError`` where it cannot be put there."""
    if not places.in_project:
        return _table(first, "")
    path = places.configuration
    before = text_of(path)
    text = _without_ours(before).rstrip("\n")
    text = f"{text}\n\n{_table(first, TABLE)}" if text else _table(first, TABLE)
    was, now = parsed(before, path), _parsed_again(text, path)
    if _rest(now) != _rest(was) or "kvlaw" not in now.get("tool", {}):
        raise ConfigurationError(f"{path}: [{TABLE}] cannot be added to it; make an empty kvlaw.toml and use --force")
    return text


def _parsed_again(text: str, path: Any) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{path}: [{TABLE}] cannot be added to it ({error}); write it there by hand") from None


def _rest(data: Mapping[str, Any]) -> dict[str, Any]:
    """Give all of a project's file that is not ours."""
    tools = {name: tool for name, tool in data.get("tool", {}).items() if name != "kvlaw"}
    return {**{name: value for name, value in data.items() if name != "tool"}, "tool": tools}


def _without_ours(text: str) -> str:
    document: Any = tomlkit.parse(text)
    if "kvlaw" not in document.get("tool", {}):
        return text
    del document["tool"]["kvlaw"]
    return tomlkit.dumps(document)


def _table(first: First, prefix: str) -> str:
    job = first.job
    lines = (
        [f"[{prefix}]  # what these keys mean: `kvlaw docs ci`"]
        if prefix
        else ["# What these keys mean: `kvlaw docs ci`."]
    )
    lines += [
        f"spec = {_value(first.spec)}  # clauses of later versions do not count until this is raised",
        f"budget = {_value(job.budget)}",
        f"profile = {_value(job.profile)}",
        f"seed = {job.seed}",
        f"expectations = {_value(EXPECTATIONS)}",
    ]
    if first.missing:
        lines += [f"allow_incomplete = true  # never exercised so far: {' '.join(first.missing)}"]
    lines += ["", f"[[{prefix}.targets]]" if prefix else "[[targets]]"]
    lines += [f"name = {_value(job.called)}"] if job.called != job.target else []
    lines += [f"target = {_value(job.target)}"]
    lines += [f"{name} = {_inline(pairs)}" for name, pairs in (("set", job.settings), ("map", job.mapping)) if pairs]
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    return cast("str", cast("Any", tomlkit.item)(value).as_string())


def _inline(pairs: Mapping[str, Any]) -> str:
    table: Any = tomlkit.inline_table()
    table.update(pairs)
    return table.as_string()


def expectations_text(entries: Iterable[Expected]) -> str:
    """Give the text of a new file of expectations."""
    return edited(HEAD, Edits(added=list(entries)))


def workflow_text(places: Places) -> str:
    """Give the text of the workflow, for the running version of Python."""
    text = (files("kvlaw.conformance.init") / "workflow.yml").read_text(encoding="utf-8")
    python = ".".join(map(str, sys.version_info[:2]))
    installs = "python -m pip install ." if places.in_project else 'echo "nothing to install"'
    values = {"@PYTHON@": python, "@INSTALL@": installs, "@KVLAW@": _value(kvlaw_source())}
    for name, value in values.items():
        text = text.replace(name, value)
    return text


def kvlaw_source() -> str:
    """Say what pip installs as this kvlaw elsewhere: the commit that it was installed from; nothing if none is known.

    A wheel, or a checkout on this machine, is on no other.
    """
    try:
        told: Any = json.loads(distribution("kvlaw").read_text("direct_url.json") or "{}")
        vcs, commit, url = told["vcs_info"]["vcs"], told["vcs_info"]["commit_id"], without_secrets(str(told["url"]))
    except (PackageNotFoundError, ValueError, KeyError, TypeError):
        return ""
    return f"{vcs}+{url}@{commit}" if "://" in url and not url.startswith("file:") else ""


__all__ = ["PROJECT", "First", "configuration_text", "expectations_text", "workflow_text"]
