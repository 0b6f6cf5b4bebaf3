"""Files of expectations: read with care, and edited so that comments and order stay."""

import json
import tomllib
from pathlib import Path

import pytest
from attrs import evolve

from kvlaw.conformance.configuration import Configuration, ConfigurationError
from kvlaw.conformance.corpus import example_entries, load_corpus
from kvlaw.conformance.expectations.entries import Expected
from kvlaw.conformance.expectations.file import HEAD, Edits, edited, read_file, written
from kvlaw.conformance.project import open_project
from kvlaw.spec.text_form import parse, write

TEXT = """\
# Known failures, kept by hand.

# --- trims ---

# Asked upstream in May.
[[expected]]
target = "ring"   # the only one
clause = "TRIM-4"
trace = "ring window=1 ; decode ; trim 1"
reason = "trims of a wrapped ring are obeyed"
link = "https://example.org/12"

[[expected]]
target = "ring"
clause = "TRIM-9"
# the shortest there is
trace = "ring window=1 ; trim -1"
observed = "answer: -1"
reason = '''negative
counts'''

# --- masks ---

[[expected]]
target = "ring"
clause = "MASK-9"
trace = "ring window=1 ; window 2 w=2"
reason = "wider arguments widen"
# the end
"""
MORE = Expected("ring", "OWN-8", parse("ring window=2 poison ; window 2").trace, "sights: sees _", "found today")


def put(folder: Path, text: str) -> Path:
    path = folder / "known.toml"
    path.write_text(text)
    return path


def test_entries_are_read_in_their_order(tmp_path: Path):
    path = put(tmp_path, TEXT)
    trim, negative, mask = read_file(path)
    assert (trim.target, trim.clause, trim.link) == ("ring", "TRIM-4", "https://example.org/12")
    assert write(trim.trace) == "ring window=1 ; decode ; trim 1"
    assert (trim.observed, negative.observed) == ("", "answer: -1")
    assert [e.where for e in (trim, negative, mask)] == [f"{path}:{line}" for line in (6, 13, 24)]


def test_a_witness_may_stand_in_a_file_of_its_own(tmp_path: Path):
    trace = parse("ring window=1 ; decode ; trim 1").trace
    (tmp_path / "traces").mkdir()
    (tmp_path / "traces" / "trim.json").write_text(
        json.dumps({**trace.to_json(), "id": "x", "target": "builtin:oracle"})
    )
    entry = '[[expected]]\ntarget = "ring"\nclause = "TRIM-4"\nfile = "traces/trim.json"\nreason = "known"\n'
    assert read_file(put(tmp_path, entry))[0].trace == trace


def test_a_file_without_entries_lists_nothing(tmp_path: Path):
    assert read_file(put(tmp_path, HEAD)) == ()


LINE = '[[expected]]\ntarget = "r"\nclause = "TRIM-4"\nreason = "known"\n'
TRACE = 'trace = "ring window=1 ; trim 1"\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("expected = 5\n", ": expected: a list of tables is wanted, not 5"),
        ("expected = [5]\n", ": expected[0]: a table is wanted, not 5"),
        ("[expected]\nclause = 'x'\n", ": expected: a list of tables is wanted, not a table"),
        ("[[expcted]]\n", ": the file.expcted: there is no such key; did you mean 'expected'"),
        (LINE + TRACE + "reson = 'x'\n", ": expected[0].reson: there is no such key; did you mean 'reason'"),
        (LINE, ":1: one of trace and file is wanted"),
        (LINE + TRACE + "file = 'x.json'\n", ":1: one of trace and file is wanted"),
        (LINE.replace('"known"', '" "') + TRACE, ":1: reason: something must stand there"),
        (LINE.replace('reason = "known"\n', "") + TRACE, ": expected[0]: reason is missing"),
        (LINE.replace('clause = "TRIM-4"\n', "clause = 4\n") + TRACE, ": expected[0].clause: 4 is not text"),
        (LINE + TRACE + LINE + 'trace = "rnig"\n', ":6: trace: "),
        (LINE + 'trace = "ring window=1 ; trm 1"\n', ":1: trace: 'trm 1': unknown call 'trm'"),
        (LINE + 'file = "nowhere.json"\n', ":1: file: "),
        (LINE + 'file = "a\\u0000b"\n', ":1: file: "),
        (LINE + "trace = \n", ": no valid TOML"),
    ],
)
def test_malformed_files_are_refused_with_their_place(text: str, message: str, tmp_path: Path):
    path = put(tmp_path, text)
    with pytest.raises(ConfigurationError) as refused:
        read_file(path)
    assert str(refused.value).startswith(f"{path}{message}")


def test_a_broken_trace_file_is_refused(tmp_path: Path):
    (tmp_path / "cut.json").write_text('{"version": 1, "config": {"kind"')
    with pytest.raises(ConfigurationError, match=r"known\.toml:1: file: .*cut\.json: no valid JSON"):
        read_file(put(tmp_path, LINE + 'file = "cut.json"\n'))


def test_the_file_that_is_named_must_be_there_unless_it_is_written(tmp_path: Path):
    with pytest.raises(ConfigurationError, match=r"none\.toml: there is no such file of expectations"):
        open_project(Configuration(), tmp_path / "none.toml")
    assert open_project(Configuration(), tmp_path / "none.toml", may_lack=True).expected == ()


def test_an_entry_that_is_added_leaves_all_before_it_as_it_was(tmp_path: Path):
    text = edited(TEXT, Edits(added=[MORE]))
    assert text.startswith(TEXT)
    assert read_file(put(tmp_path, text))[-1] == Expected(
        "ring",
        "OWN-8",
        MORE.trace,
        MORE.observed,
        MORE.reason,
        where=f"{tmp_path / 'known.toml'}:{len(TEXT.splitlines()) + 2}",
    )


def test_an_entry_that_is_removed_takes_the_comments_above_it_and_no_others():
    text = edited(TEXT, Edits(removed={0}))
    assert "Asked upstream" not in text
    assert "TRIM-4" not in text
    assert text == TEXT.replace(TEXT[TEXT.index("# Asked") : TEXT.index('[[expected]]\ntarget = "ring"\nclause')], "")


def test_removing_all_leaves_the_comments_between_them():
    text = edited(TEXT, Edits(removed={0, 1, 2}))
    assert text == "# Known failures, kept by hand.\n\n# --- trims ---\n\n# --- masks ---\n\n# the end\n"


def test_an_entry_that_is_refreshed_keeps_its_comments_and_keys():
    values = {"clause": "TRIM-10", "trace": "ring window=1 ; trim 0", "observed": "answer: 1"}
    text = edited(TEXT, Edits(refreshed={1: values}))
    wanted = TEXT.replace("TRIM-9", "TRIM-10").replace("trim -1", "trim 0").replace("answer: -1", "answer: 1")
    assert text == wanted
    added = edited(TEXT, Edits(refreshed={0: {"observed": "outcome: ok"}}))
    assert 'target = "ring"   # the only one' in added
    assert added.count("observed") == 2


def test_a_trace_takes_the_place_of_a_file_when_it_is_refreshed():
    text = edited(LINE + 'file = "x.json"\n', Edits(refreshed={0: {"trace": "ring window=1"}}))
    assert "x.json" not in text
    assert 'trace = "ring window=1"' in text


def test_all_at_once():
    text = edited(TEXT, Edits({1}, {0: {"clause": "TRIM-3"}}, [MORE, MORE]))
    assert [line for line in text.splitlines() if line.startswith("clause")] == [
        'clause = "TRIM-3"',
        'clause = "MASK-9"',
        'clause = "OWN-8"',
        'clause = "OWN-8"',
    ]


@pytest.mark.parametrize(
    "text",
    [
        'expected = [{ target = "r", clause = "TRIM-4", reason = "x", trace = "ring window=1" }]\n',
        LINE + TRACE + 'note = """\n[[expected]]\n"""\n',
        'reason = "x"\n' + LINE + TRACE,
    ],
)
def test_another_form_is_not_edited(text: str):
    edits = Edits(removed={0})
    if text.startswith("reason"):
        assert "TRIM-4" not in edited(text, edits)  # what is not ours stays
        return
    with pytest.raises(ConfigurationError, match="edit it by hand"):
        edited(text, edits)


def test_line_ends_of_windows_stay():
    text = edited(TEXT.replace("\n", "\r\n"), Edits(removed={1}, added=[MORE]))
    assert text.replace("\r\n", "\n") == edited(TEXT, Edits(removed={1}, added=[MORE]))
    assert text.count("\r\n") == text.count("\n")


@pytest.mark.parametrize("text", ['a "quoted" reason', "two\nlines", "back\\slash", "ünïcode → ok", "#not a comment"])
def test_what_is_written_is_read_again(text: str, tmp_path: Path):
    entry = Expected('py:a:b --set "x y"', "TRIM-4", MORE.trace, text, text, text)
    (read,) = read_file(put(tmp_path, edited(HEAD, Edits(added=[entry]))))
    assert (read.target, read.observed, read.reason, read.link) == (entry.target, text, text, text)


def test_every_stored_trace_survives_the_text_form():
    for entry in (*load_corpus(), *example_entries()):
        again = parse(write(entry.trace)).trace
        assert again == entry.trace, entry.id


def test_an_entry_without_a_link_asks_for_one_and_takes_that_with_it():
    assert '\n# link = "https://..."\nreason = ' in written(MORE)
    assert "# link" not in written(evolve(MORE, link="https://example.org/12"))
    assert edited(f"{HEAD}\n{written(MORE)}\n", Edits(removed={0})) == HEAD


STEPS = ("    call     the law says  the target shows", ">1  decode  sees t1       sees nothing", "", "found today")


def test_the_steps_stand_below_the_trace_of_an_entry_that_is_added():
    lines = written(evolve(MORE, comments=STEPS)).splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("trace = "))
    assert lines[at + 1 : at + 5] == [
        "#     call     the law says  the target shows",
        "# >1  decode  sees t1       sees nothing",
        "#",
        "# found today",
    ]


def test_steps_that_are_refreshed_take_the_place_of_ours_and_of_nobody_elses():
    text = HEAD + "\n# Asked in May.\n" + written(evolve(MORE, comments=STEPS)) + "\n# mine\n"
    now = ("    call  the law says  the target shows", ">1  trim 1  refused  ok")
    after = edited(text, Edits(refreshed={0: {"trace": "ring window=1 ; trim 1"}}, comments={0: now}))
    assert "# >1  trim 1  refused  ok\n" in after
    assert "sees nothing" not in after
    assert "# found today" not in after
    assert "# Asked in May.\n[[expected]]" in after
    assert after.count('# link = "https://..."') == text.count('# link = "https://..."')
    assert tomllib.loads(after)["expected"][0]["trace"] == "ring window=1 ; trim 1"


def test_no_steps_are_put_into_a_text_of_several_lines():
    text = (
        '[[expected]]\ntarget = "ring"\nclause = "VIS-1"\nreason = """\ntrace = wrong\n"""\ntrace = "ring window=1"\n'
    )
    after = edited(text, Edits(refreshed={0: {"observed": "outcome: ok"}}, comments={0: STEPS}))
    assert tomllib.loads(after)["expected"][0]["reason"] == "trace = wrong\n"
