"""The failure store: what is written is read back, whatever is broken is named with its file."""

import json
from pathlib import Path

import pytest

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


def test_a_bare_trace_is_a_stored_case_without_a_target(tmp_path: Path):
    path = tmp_path / "mine.json"
    path.write_text(FAILURE.trace.dumps())
    found = load(path)
    assert (found.id, found.target, found.words, found.trace) == ("mine", "", [], FAILURE.trace)
