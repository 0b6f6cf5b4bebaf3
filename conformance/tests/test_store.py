"""The failure store: what is written is read back, whatever is broken is named with its file."""

import json
from pathlib import Path

import pytest
from attrs import evolve

from kvlaw.conformance.compare import Divergence
from kvlaw.conformance.failures import Failure
from kvlaw.conformance.store import all_stored, find, load, save
from kvlaw.spec.text_form import parse
from kvlaw.spec.trace import TraceError

FAILURE = Failure(
    "TRIM-4",
    parse("ring window=8 ; window 12 ; trim 2").trace,
    Divergence("outcome", "TRIM-4", (), "refused", "ok"),
    "py:acme.cache:RingCache --set array=numpy --map 'window=max size'",
)


def test_a_failure_is_read_back(tmp_path: Path):
    path = save(FAILURE, tmp_path / "deep" / "down")
    assert path.name == f"{FAILURE.id}.json"
    found = load(path)
    assert (found.id, found.clause, found.trace) == (FAILURE.id, "TRIM-4", FAILURE.trace)
    assert found.words == ["py:acme.cache:RingCache", "--set", "array=numpy", "--map", "window=max size"]
    assert json.loads(path.read_text())["note"] == "expected refused; observed ok"


def test_nothing_half_written_stays_beside_it(tmp_path: Path):
    save(FAILURE, tmp_path)
    save(FAILURE, tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == [f"{FAILURE.id}.json"]
    assert all_stored(tmp_path) == [tmp_path / f"{FAILURE.id}.json"]


def test_failures_are_found_by_id_and_by_file(tmp_path: Path):
    path = save(FAILURE, tmp_path)
    assert find(FAILURE.id, tmp_path) == path
    assert find(str(path), Path("elsewhere")) == path


def test_what_is_not_there_is_named_with_what_is(tmp_path: Path):
    with pytest.raises(TraceError, match=r"no stored failure is called 'X-1'; .* holds nothing"):
        find("X-1", tmp_path)
    save(FAILURE, tmp_path)
    with pytest.raises(TraceError, match=f"holds {FAILURE.id}"):
        find("X-1", tmp_path)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"config": {"kind": "full"}, "calls": [{"call": "dec', "no valid JSON"),
        ("", "no valid JSON"),
        ("[1, 2]", "object"),
        ('{"config": {"kind": "full"}, "calls": [{"call": "jump"}]}', "jump"),
        ('{"config": {"kind": "full"}, "calls": [{"call": "trim"}]}', "n is missing"),
        ('{"config": {"kind": "fool"}, "calls": []}', "fool"),
        ('{"version": 2, "config": {"kind": "full"}, "calls": []}', "version"),
        ('{"config": {"kind": "full"}, "calls": [], "extra": 1}', "extra"),
        ('{"config": {"kind": "full"}, "target": 5}', "target: text is wanted, as on the command line, not 5"),
        ('{"config": {"kind": "full"}, "target": "py:a:b --set \'x"}', "target: .*No closing quotation"),
        ('{"config": {"kind": "full"}, "profile": "strict"}', "profile: .*'strict' is not one of core, layout"),
    ],
)
def test_a_broken_file_is_named(tmp_path: Path, text: str, says: str):
    path = tmp_path / "broken.json"
    path.write_text(text)
    with pytest.raises(TraceError, match=says) as caught:
        load(path)
    assert str(path) in str(caught.value)


def test_a_file_that_is_no_text_or_no_file_is_named(tmp_path: Path):
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe\x00")
    for path in (tmp_path / "bytes.json", tmp_path / "missing.json", tmp_path):
        with pytest.raises(TraceError, match=str(path.name)):
            load(path)
    with pytest.raises(TraceError, match=r"no text in UTF-8: .* at byte 0"):
        load(tmp_path / "bytes.json")
    with pytest.raises(TraceError, match="is a folder"):
        find(str(tmp_path))


def test_failures_that_differ_have_ids_of_their_own(tmp_path: Path):
    others = (
        evolve(FAILURE, target="py:acme.cache:OtherCache"),
        evolve(FAILURE, target="py:acme.cache:RingCache --set array=mlx"),
        evolve(FAILURE, profile="layout"),
        evolve(FAILURE, clause="TRIM-1"),
        evolve(FAILURE, trace=parse("ring window=8 ; window 12 ; trim 1").trace),
    )
    paths = {save(failure, tmp_path) for failure in (FAILURE, *others)}
    assert len(paths) == 6
    assert {load(path).target for path in paths} == {f.target for f in (FAILURE, *others)}
    assert evolve(FAILURE, seed=7, minimal=True).id == FAILURE.id  # how it was found makes it no other failure


def test_the_profile_is_kept(tmp_path: Path):
    path = save(evolve(FAILURE, profile="layout"), tmp_path)
    assert load(path).profile == "layout"
    old = tmp_path / "old.json"
    old.write_text(FAILURE.trace.dumps())
    assert load(old).profile is None


def test_a_text_that_would_move_the_cursor_is_shown_as_what_it_is(tmp_path: Path):
    path = tmp_path / "red.json"
    path.write_text('{"id": "\\u001b[31mred", "config": {"kind": "full"}}')
    assert load(path).id == r"\x1b[31mred"


@pytest.mark.parametrize("name", ["a\0b", "x" * 5000, "", "."])
def test_a_name_that_no_file_can_have_is_named(name: str, tmp_path: Path):
    with pytest.raises(TraceError):
        find(name, tmp_path)


def test_a_bare_trace_is_a_stored_case_without_a_target(tmp_path: Path):
    path = tmp_path / "mine.json"
    path.write_text(FAILURE.trace.dumps())
    found = load(path)
    assert (found.id, found.target, found.words, found.trace) == ("mine", "", [], FAILURE.trace)


def test_a_failure_is_found_by_its_clause_where_it_is_the_only_one(tmp_path: Path):
    for name in ("TRIM-4-12ab", "TRIM-8-34cd", "TRIM-8-56ef", "TRIM-44-78aa"):
        (tmp_path / f"{name}.json").write_text("{}")
    assert find("TRIM-4", tmp_path).stem == "TRIM-4-12ab"
    for name in ("TRIM-8", "TRIM", "RING-1"):
        with pytest.raises(TraceError, match="TRIM-8-56ef"):
            find(name, tmp_path)


def test_git_ignores_our_folder_and_no_other(tmp_path: Path):
    save(FAILURE, tmp_path / ".kvlaw" / "failures")
    assert (tmp_path / ".kvlaw" / ".gitignore").read_text() == "*\n"
    save(FAILURE, tmp_path / "other" / "failures")
    assert not (tmp_path / "other" / ".gitignore").exists()
