"""The command line: what users see, exit codes; bad input names the thing and the way out, and is no traceback."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from homemade_caches import growing

from kvlaw.conformance import corpus
from kvlaw.conformance.cli import cli
from kvlaw.conformance.faults import registry
from kvlaw.conformance.spec_tools import gate
from kvlaw.reference.layout import Cache
from kvlaw.spec import clauses
from kvlaw.spec.markdown import SpecError
from kvlaw.spec.text_form import write
from kvlaw.spec.trace import TraceError

RING = "ring window=4 ; window 6 ; decode"


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")


def kvlaw(*arguments: str) -> Result:
    """Run a command; whatever it prints, it is no traceback."""
    found = CliRunner().invoke(cli, list(arguments))
    assert found.exception is None or isinstance(found.exception, SystemExit), found.exception
    assert "Traceback" not in found.output
    return found


def flat(found: Result) -> str:
    return " ".join(found.output.replace("│", " ").split())


# What works.


@pytest.mark.parametrize(
    "command", [(), ("check",), ("try",), ("replay",), ("faults",), ("prove",), ("bench",), ("spec",)]
)
def test_every_command_has_help(command: tuple[str, ...]):
    found = kvlaw(*command, "--help")
    assert found.exit_code == 0
    assert "Usage: " in found.output
    assert len(found.output) > 150


def test_a_trace_is_told_step_by_step():
    found = kvlaw("try", f"{RING} -> sees t4..t7 ; trim 1 -> refused")
    assert found.exit_code == 0
    lines = [" ".join(line.split()) for line in found.output.splitlines()]
    assert "1 window 6 sees t3..t6 sees t3..t6" in lines
    assert "2 decode sees t7,t4..t6 sees t7,t4..t6" in lines
    assert "3 trim 1 refused refused" in lines


@pytest.mark.parametrize(
    ("claim", "seen"),
    [("sees t3..t7", "t7,t4..t6"), ("mask causal", "none"), ("offset 6", "7"), ("refused", "ok"), ("columns 5", "4")],
)
def test_a_claim_that_is_not_kept_is_told(claim: str, seen: str):
    found = kvlaw("try", f"{RING} -> {claim}")
    assert found.exit_code == 1
    assert f"claim not kept: decode -> {claim}; seen: {seen}" in found.output


def test_a_target_that_diverges_is_told_with_the_clause():
    Path("wrong.py").write_text(WRONG)
    found = kvlaw("try", "full ; window 2 ; decode ; decode", "--target", "wrong:Cache", "--set", "array=numpy")
    assert found.exit_code == 1
    assert "breaks " in found.output
    assert "py:wrong:Cache shows" in found.output


WRONG = growing(
    "Forgets its first token with the third.",
    """\
        if self.offset == 3:
            self.keys, self.values = self.keys[:, :, 1:], self.values[:, :, 1:]
        return self.keys, self.values
""",
)


def check_wrong(*more: str) -> Result:
    Path("wrong.py").write_text(WRONG)
    return kvlaw("check", "wrong:Cache", "--set", "array=numpy", "--budget", "quick", *more)


def test_a_check_shows_blocks_a_table_a_verdict_and_writes_json():
    found = check_wrong("--json", "out.json")
    assert found.exit_code == 1
    assert "VIOLATIONS  py:wrong:Cache" in found.output
    assert "seed 0" in found.output
    told = json.loads(Path("out.json").read_text())
    assert told["verdict"] == "violations"
    failed = [i for i, clause in told["clauses"].items() if clause["outcome"] == "fail"]
    assert "GROW-1" in failed
    for clause in failed:
        assert f"─ {clause}  " in found.output
    assert told["clauses"]["GROW-1"]["traces"][0]["calls"][-1]["call"] in {"decode", "window"}


def test_a_target_whose_name_reads_like_an_emoji_is_told_by_its_name():
    Path("ring.py").write_text(WRONG)
    found = kvlaw("check", "py:ring:Cache", "--set", "array=numpy", "--budget", "quick")
    sys.modules.pop("ring", None)
    assert found.exit_code == 1
    assert {word for word in found.output.split() if word.startswith("py")} == {"py:ring:Cache"}


def test_every_line_of_a_failure_block_fits_and_names_tokens():
    blocks = check_wrong().output.split("╭")[1:]
    for block in blocks:
        lines = block.split("╰")[0].splitlines()
        assert len(lines) <= 40
        assert " t1" in block or "sees t" in block


def test_what_a_check_finds_is_replayed():
    check_wrong()
    stored = sorted(p.stem for p in Path(".kvlaw/failures").glob("*.json"))
    assert stored
    found = kvlaw("replay", stored[0])
    assert found.exit_code == 1
    assert f"{stored[0]} on py:wrong:Cache --set array=numpy" in flat(found)
    everything = kvlaw("replay", "--all")
    assert f"{len(stored)} of {len(stored)} fail" in everything.output
    mended = kvlaw("replay", "--all", "--target", "builtin:oracle")
    assert (mended.exit_code, mended.output.splitlines()[-1]) == (0, f"0 of {len(stored)} fail")


def stored(name: str, **fields: Any) -> None:
    """Store a failure as a check does."""
    folder = Path(".kvlaw/failures")
    folder.mkdir(parents=True, exist_ok=True)
    trace = {"config": {"kind": "full"}, "calls": [{"call": "decode"}]}
    (folder / f"{name}.json").write_text(json.dumps({**trace, **fields}))


def test_replaying_all_goes_on_after_what_cannot_be_replayed():
    check_wrong()
    whole = len(list(Path(".kvlaw/failures").glob("*.json")))
    stored("AAA-1-first", target="py:no.such.module:Cache")
    stored("AAA-2-nobody")
    (Path(".kvlaw/failures") / "AAA-3-torn.json").write_text('{"config": {"kind": "fu')
    stored("ZZZ-1-last", target="builtin:oracle")
    found = kvlaw("replay", "--all")
    assert found.exit_code == 3
    told = flat(found)
    assert "AAA-1-first: the target could not be run: no module 'no'" in told
    assert "AAA-2-nobody: the file names no target; use --target" in told
    assert "AAA-3-torn.json: no valid JSON" in told
    assert "ZZZ-1-last on builtin:oracle" in told
    assert f"{whole} of {whole + 4} fail, 3 could not be replayed" in told


@pytest.mark.parametrize(
    ("names", "code", "says"),
    [
        (("right",), 0, "0 of 1 fail"),
        (("right", "wrong"), 1, "1 of 2 fails"),
        (("torn", "wrong"), 2, "1 of 2 fails, 1 could not be replayed"),
        (("gone", "torn", "wrong", "right"), 3, "1 of 4 fails, 2 could not be replayed"),
        (("right", "right"), 0, "0 of 1 fail"),
        (("nowhere",), 2, "no stored failure is called 'nowhere'"),
    ],
)
def test_the_exit_code_of_a_replay_is_the_highest(names: tuple[str, ...], code: int, says: str):
    Path("wrong.py").write_text(WRONG)
    stored("right", target="builtin:oracle")
    stored("wrong", target="py:wrong:Cache --set array=numpy", calls=[{"call": "decode"}] * 4)
    stored("gone", target="builtin:gone")
    stored("torn", calls=[{"call": "jump"}])
    found = kvlaw("replay", *names)
    assert found.exit_code == code
    assert says in flat(found)


def test_of_many_stored_failures_a_few_are_named_and_the_one_that_may_be_meant():
    for number in range(49):
        stored(f"RING-{number}-abcd{number:04}")
    found = kvlaw("replay", "RING-7-abcd0008")
    assert found.exit_code == 2
    said = flat(found)
    assert "did you mean 'RING-7-abcd0007'?" in said or "did you mean 'RING-8-abcd0008'?" in said
    assert said.count("RING-") == 2 + 5
    assert "and 44 more" in said
    assert "did you mean" not in flat(kvlaw("replay", "nope.json"))


def test_a_target_that_is_named_for_all_is_opened_before_them():
    stored("right", target="builtin:oracle")
    found = kvlaw("replay", "--all", "--target", "builtin:gone")
    assert found.exit_code == 2
    assert "right" not in found.output


def test_a_failure_is_replayed_by_the_profile_that_it_was_found_with():
    trace = {"config": {"kind": "ring", "window": 4}, "calls": [{"call": "trim", "n": 5}]}
    stored("layout", target="builtin:mlx_lm.RotatingKVCache", profile="layout", **trace)
    assert kvlaw("replay", "layout").exit_code == 1
    assert kvlaw("replay", "layout", "--profile", "core").exit_code == 0


def test_clauses_later_than_the_pinned_version_fail_no_replay():
    """ROUND-2 came with version 1.3; ``--spec`` wins over what the configuration says."""
    fault = registry.load_faults()["keeps-one-more"]
    assert clauses.load_clauses()[fault.breaks].since == "1.3"
    target = "fault:keeps-one-more"
    stored("later", target=target, profile="core", **fault.entry.trace.to_json())
    trace = write(fault.entry.trace)
    for command in (("replay", "later"), ("try", trace, "--target", target)):
        assert kvlaw(*command).exit_code == 1
        assert kvlaw(*command, "--spec", "1.3").exit_code == 1
        assert kvlaw(*command, "--spec", "1.0").exit_code == 0
        unknown = kvlaw(*command, "--spec", "7.0")
        assert unknown.exit_code == 2
        assert "the versions are 1.0" in flat(unknown)
    Path("kvlaw.toml").write_text('spec = "1.0"\n')
    assert kvlaw("replay", "later").exit_code == 0
    assert kvlaw("replay", "later", "--spec", "1.4").exit_code == 1
    Path("kvlaw.toml").write_text("spec = 3\n")
    broken = kvlaw("replay", "later")
    assert broken.exit_code == 2
    assert "kvlaw.toml" in flat(broken)


ENDS = (
    WRONG
    + """
    def trim(self, n):
        import ctypes
        ctypes.CDLL(None)._exit(3)
"""
)


def test_a_stored_crash_is_replayed_in_a_process_of_its_own_and_no_script_shows_it():
    Path("ends.py").write_text(ENDS)
    calls: list[dict[str, Any]] = [{"call": "decode"}, {"call": "trim", "n": 1}]
    told = ("ok, drops 1", "error its process ended by exit code 3")
    found = {"field": "outcome", "clause": "TRIM-1", "others": [], "expected": told[0], "observed": told[1]}
    target = "py:ends:Cache --set array=numpy"
    stored("ends", config={"kind": "full"}, calls=calls, target=target, profile="core", found=found)
    shown = kvlaw("replay", "ends")
    sys.modules.pop("ends", None)
    assert shown.exit_code == 1, shown.output
    assert "ends on py:ends:Cache --set array=numpy\n" in shown.output
    assert "the target crashed in `trim 1`: the testee exited with code 3" in shown.output.replace("\n", " ")
    assert "charged to TRIM-" in shown.output
    script = kvlaw("replay", "ends", "--script")
    assert (script.exit_code, script.stdout) == (2, "")
    assert "ends the process in which it runs" in script.stderr


def test_two_targets_keep_the_same_trace_apart():
    check_wrong()
    first = {p.name for p in Path(".kvlaw/failures").glob("*.json")}
    Path("other.py").write_text(WRONG)
    assert kvlaw("check", "other:Cache", "--set", "array=numpy", "--budget", "quick").exit_code == 1
    both = [json.loads(p.read_text()) for p in Path(".kvlaw/failures").glob("*.json")]
    assert len(both) == 2 * len(first)
    assert {data["target"].split()[0] for data in both} == {"py:wrong:Cache", "py:other:Cache"}
    sys.modules.pop("other", None)


def test_claims_on_a_list_are_checked():
    text = "full ; list full + ring window=4 as l ; window 6 on l"
    assert kvlaw("try", f"{text} -> layer 0 sees t1..t6 and layer 1 sees t3..t6").exit_code == 0
    found = kvlaw("try", f"{text} -> sees t1..t6")
    assert found.exit_code == 1
    assert "claim not kept: window 6 on l -> sees t1..t6; seen: layer 1: t3..t6" in found.output


def test_a_claim_about_what_a_target_does_not_show_is_told():
    Path("wrong.py").write_text(WRONG)
    found = kvlaw("try", "full ; window 2 -> write_index 9", "--target", "wrong:Cache", "--set", "array=numpy")
    assert found.exit_code == 0
    assert "claim not observed: window 2 -> write_index 9; py:wrong:Cache does not show it" in found.output


def spoil_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> Any:
        raise SpecError.at("08-trim.md", 12, "'level' is missing")

    monkeypatch.setattr(clauses, "_shipped", broken)


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "builtin:oracle", "--budget", "quick"),
        ("try", "full ; decode"),
        ("replay", "right"),
        ("faults",),
        ("spec", "show", "TRIM-4"),
        ("spec", "trace"),
    ],
)
def test_a_specification_that_cannot_be_read_is_told(arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch):
    stored("right", target="builtin:oracle")
    spoil_the_text(monkeypatch)
    found = kvlaw(*arguments)
    assert found.exit_code == 3
    assert "nothing can be run: 08-trim.md:12: 'level' is missing" in flat(found)


def test_the_check_of_the_specification_says_itself_what_cannot_be_read(monkeypatch: pytest.MonkeyPatch):
    spoil_the_text(monkeypatch)
    found = kvlaw("spec", "check")
    assert found.exit_code == 1
    assert "08-trim.md:12: 'level' is missing" in flat(found)


@pytest.mark.parametrize(
    ("trace", "says"),
    [("full ; decode", "two planted faults are called 'twice'"), ("full ; jump", "unknown call 'jump'")],
)
@pytest.mark.parametrize("arguments", [("faults",), ("check", "fault:twice"), ("spec", "check")])
def test_a_planted_fault_that_cannot_be_one_is_told(
    arguments: tuple[str, ...], trace: str, says: str, monkeypatch: pytest.MonkeyPatch
):
    def load(_module: str) -> None:
        registry.fault("twice", breaks="POS-1", trace=trace)(Cache)

    monkeypatch.setattr(registry, "_registered", {})
    monkeypatch.setattr(registry, "import_module", load)
    gate.collect.cache_clear()
    registry.load_faults.cache_clear()
    found = kvlaw(*arguments)
    registry.load_faults.cache_clear()
    assert found.exit_code == 3
    assert says in flat(found)


def test_a_stored_trace_that_cannot_be_read_is_told(monkeypatch: pytest.MonkeyPatch):
    def broken() -> Any:
        raise TraceError("faults.jsonl:3: no valid JSON")

    monkeypatch.setattr(corpus, "_shipped", broken)
    found = kvlaw("check", "builtin:oracle", "--budget", "quick")
    assert found.exit_code == 3
    assert "faults.jsonl:3: no valid JSON" in flat(found)


def test_a_right_target_of_few_traces_is_incomplete_and_may_be_allowed():
    arguments = ("check", "builtin:oracle", "--set", "seed=12345", "--set", "kind=full", "--budget", "quick")
    found = kvlaw(*arguments)
    assert found.exit_code == 4
    assert "INCOMPLETE" in found.output
    assert "--allow-incomplete" in found.output
    assert kvlaw(*arguments, "--allow-incomplete").exit_code == 0


def test_verbose_lists_every_clause():
    found = kvlaw("check", "builtin:oracle", "--set", "seed=12345", "--budget", "quick", "-v", "--profile", "layout")
    assert " VIS-7 " in f" {flat(found)} "
    assert " RING-14 " in f" {flat(found)} "


def test_one_clause_is_shown():
    found = kvlaw("spec", "show", "trim-4")
    assert found.exit_code == 0
    assert "TRIM-4" in found.output
    assert "can_trim" in found.output


# Bad input: the message names the thing and the way out.

BAD: dict[str, tuple[tuple[str, ...], int, list[str]]] = {
    "an unknown call": (("try", "full ; jump 3"), 2, ["unknown call 'jump'", "decode, window"]),
    "a missing count": (("try", "full ; trim"), 2, ["'trim'", "n is missing"]),
    "a claim that is none": (("try", "full ; decode -> looks good"), 2, ["looks good", "sees"]),
    "an answer of an append": (("try", "full ; decode -> 5"), 2, ["'decode -> 5'", "only trim"]),
    "sights behind a look": (("try", "full ; look c0 -> sees t1"), 2, ["'sees'", "only decode, compiled, window"]),
    "a window beyond all patience": (("try", "full ; window 100000"), 2, ["call 1 (window)", "there may be 16,384"]),
    "decodes beyond all patience": (("try", "full ; decode x9999"), 2, ["9,999 calls", "it may have 4,096"]),
    "a seed that no generator takes": (("try", f"full seed={10**30} ; decode"), 2, ["seed", "0 to 4,294,967,295"]),
    "a check beyond all memory": (("check", "builtin:oracle", "--set", "batch=999999999"), 2, ["batch=", "512 MiB"]),
    "a check past a wide window": (("check", "builtin:oracle", "--set", "window=99999"), 2, ["window=", "8,192"]),
    "a claim about a layer of no list": (("try", "full ; decode -> layer 1 sees t1"), 2, ["layer 1", "no layers"]),
    "a claim about a layer that is not there": (
        ("try", "full ; list full as l ; decode on l -> layer 1 sees t1"),
        2,
        ["no layer 1", "layers 0 to 0"],
    ),
    "a trace beyond all memory": (("try", "full batch=1000000000 ; decode"), 2, ["too large", "batch"]),
    "an empty trace": (("try", " ; "), 2, ["empty trace", "ring window=8"]),
    "an unknown kind": (("try", "rang window=4 ; decode"), 2, ["rang", "full, ring"]),
    "an unknown option": (("try", "ring windows=4 ; decode"), 2, ["windows", "known are"]),
    "an object that nobody made": (("try", "full ; decode on c7"), 2, ["nothing is called 'c7'", "c0"]),
    "a call that makes no sense": (("try", "full ; decode as r ; trim 1 on r"), 2, ["'r' is a read", "trim"]),
    "a number of thousands of digits": (
        ("check", "builtin:oracle", "--set", "window=" + "9" * 5000),
        2,
        ["window", "is not an integer"],
    ),
    "a window of 0": (("check", "builtin:oracle", "--set", "window=0"), 2, ["window=0", "at least 1"]),
    "sinks as many as the window": (
        ("check", "builtin:oracle", "--set", "window=4", "--set", "sinks=4"),
        2,
        ["sinks=4", "0 to 3 sinks"],
    ),
    "a setting without a value": (("check", "builtin:oracle", "--set", "window"), 2, ["'window'", "NAME=VALUE"]),
    "a setting given twice": (
        ("check", "builtin:oracle", "--set", "window=4", "--set", "window=5"),
        2,
        ["window is given twice"],
    ),
    "a setting that nobody knows": (
        ("check", "builtin:oracle", "--set", "windows=4"),
        2,
        ["mean 'window'", "it takes"],
    ),
    "an unknown dtype": (("check", "builtin:oracle", "--set", "dtype=f8"), 2, ["f8", "bf16, f16, f32"]),
    "a kind that is not served": (
        ("check", "builtin:mlx_impl.ring", "--set", "kind=full"),
        2,
        ["kind=full", "ring only"],
    ),
    "a window for a growing cache": (
        ("check", "builtin:mlx_impl.full", "--set", "window=8"),
        2,
        ["window=8", "only a ring has a window"],
    ),
    "a map without a name": (("check", "wrong:Cache", "--map", "window"), 2, ["--map 'window'", "window=max_size"]),
    "an unknown builtin": (
        ("check", "builtin:mlx_lm.RotatingKvCache"),
        2,
        ["builtin:mlx_lm.RotatingKvCache", "did you mean", "RotatingKVCache"],
    ),
    "a target without a scheme": (("check", "oracle"), 2, ["'oracle'", "builtin:oracle"]),
    "a module that is not there": (("check", "py:no.such.module:Cache"), 3, ["no module 'no'", "PYTHONPATH"]),
    "an attribute that is not there": (("check", "py:json:Cache"), 3, ["json", "'Cache'"]),
    "a thing that is no cache": (("check", "py:json:dumps"), 3, ["json:dumps"]),
    "an unknown budget": (("check", "builtin:oracle", "--budget", "all"), 2, ["all", "quick"]),
    "a seed that is no number": (("check", "builtin:oracle", "--seed", "now"), 2, ["'now' is not a valid integer."]),
    "an unknown fault": (("check", "fault:no-such-fault"), 2, ["no-such-fault", "kvlaw faults"]),
    "an option that there is not": (("check", "wrong:Cache", "--set", "windw=8"), 2, ["no option 'windw'", "'window'"]),
    "an unknown option of a try": (("try", "full", "--target", "wrong:Cache", "--set", "windw=8"), 2, ["'windw'"]),
    "an unknown field": (("check", "json:dumps", "--map", "windw=max_size"), 2, ["no field 'windw'", "'window'"]),
    "an unknown array library": (("check", "json:dumps", "--set", "array=numpi"), 2, ["array=numpi", "numpy"]),
    "a kind that there is not": (("check", "json:dumps", "--set", "kind=rng"), 2, ["kind=rng"]),
    "a field of another type": (("check", "builtin:mlx_impl.ring", "--set", "window=eight"), 2, ["window", "eight"]),
    "a record that is not there": (("report", "nope.ndjson"), 2, ["nope.ndjson"]),
    "results that are not there": (("vectors", "judge", "nope.jsonl"), 2, ["nope.jsonl"]),
    "vectors that are not there": (("vectors", "replay", "builtin:oracle", "nope.jsonl"), 2, ["nope.jsonl"]),
    "a target of a smoke test with an odd option": (
        ("testee", "smoke", "cmd:true", "--set", "second=1"),
        2,
        ["'second'"],
    ),
    "a command line that is none": (("testee", "smoke", "cmd:'"), 2, ["cannot be read as a command line"]),
    "a command that does not start": (("try", "full", "--target", "cmd:./nope"), 3, ["no file ./nope"]),
    "an unknown clause": (("spec", "show", "TRIM-99"), 2, ["TRIM-99", "TRIM goes from TRIM-1"]),
    "a number that is none": (("init", "builtin:oracle", "--minutes", "x"), 2, ["'x' is not a valid number."]),
    "a misspelled call": (("try", "ring window=8 ; windw 3"), 2, ["'windw'; did you mean 'window'?; known are decode"]),
    "a misspelled field": (("try", "ring windw=8"), 2, ["field windw; did you mean 'window'?; known are"]),
    "an unknown family": (("spec", "show", "TREE-1"), 2, ["TREE-1", "families"]),
    "nothing to replay": (("replay",), 2, ["name a file or an id", "--all"]),
    "a failure that is not there": (("replay", "VIS-1-abc"), 2, ["VIS-1-abc", ".kvlaw/failures"]),
    "few rounds": (("bench", "--rounds", "3"), 2, ["3", "20"]),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_input(what: str):
    arguments, code, words = BAD[what]
    found = kvlaw(*arguments)
    assert found.exit_code == code, found.output
    for word in words:
        assert word in flat(found), found.output


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"config": {"kind": "ring", "window": 4}, "calls": [{"call": "window", "le', ["no valid JSON", "line 1"]),
        ('{"config": {"kind": "full"}, "calls": [{"call": "jump"}]}', ["jump", "known are"]),
        ('{"config": {"kind": "full"}, "calls": [{"call": "decode"}]}', ["names no target", "--target"]),
        ('{"config": {"kind": "full", "window": "4"}, "calls": []}', ["window", "integer"]),
    ],
)
def test_a_broken_file_is_named(text: str, words: list[str]):
    Path("case.json").write_text(text)
    found = kvlaw("replay", "case.json")
    assert found.exit_code == 2
    for word in ["case", *words]:
        assert word in flat(found)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("raise RuntimeError('not today')", ["importing broken failed", "not today"]),
        ("import sys; sys.exit(3)", ["importing broken failed"]),
        ("def Cache(: pass", ["importing broken failed", "SyntaxError"]),
        ("class Cache:\n    def __init__(self): raise ValueError('no memory')", ["building", "no memory"]),
        ("class Cache:\n    def __init__(self, size): pass", ["'size'", "--map"]),
        ("Cache = 7", ["broken:Cache", "int"]),
        ("class Cache:\n    pass", ["update_and_fetch"]),
    ],
)
def test_a_target_that_cannot_be_run_says_why(body: str, words: list[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delitem(sys.modules, "broken", raising=False)
    Path("broken.py").write_text(body + "\n")
    found = kvlaw("check", "py:broken:Cache", "--set", "array=numpy")
    assert found.exit_code == 3, found.output
    for word in words:
        assert word in flat(found), found.output
    sys.modules.pop("broken", None)


@pytest.mark.parametrize("command", [("check",), ("try", "ring window=8 ; window 9", "--target")])
def test_a_ring_whose_size_has_another_name_is_called_a_ring(command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delitem(sys.modules, "broken", raising=False)
    Path("broken.py").write_text("class Ring:\n    def __init__(self, max_size): pass\n")
    found = kvlaw(*command, "py:broken:Ring", "--set", "array=numpy")
    assert found.exit_code == 3
    said = "wants 'max_size', which no field of a ring is called; say which field it is: --map window=max_size"
    assert said in flat(found)
    assert "full" not in flat(found)
    sys.modules.pop("broken", None)


@pytest.mark.parametrize("option", ["--json", "--events", "--report"])
def test_a_file_that_cannot_be_written_is_refused_before_anything_is_run(option: str):
    value = "no/such/folder/out" if option != "--report" else "html=no/such/folder/out"
    found = check_wrong(option, value)
    assert found.exit_code == 2
    assert "no/such/folder/out: there is no folder" in flat(found)
    assert "checking" not in found.output


def test_a_failure_that_cannot_be_kept_loses_no_result():
    Path(".kvlaw").write_text("a file where the folder should be")
    found = check_wrong()
    assert found.exit_code == 1
    assert "is not kept for replay" in flat(found)
    assert "VIOLATIONS" in found.output


def test_the_installed_command_ends_without_a_traceback():
    run: Any = subprocess.run(
        [sys.executable, "-m", "kvlaw.conformance.cli", "try", "ring window=4 ; jump 3"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 2
    assert "unknown call 'jump'" in run.stderr
    assert "Traceback" not in run.stderr + run.stdout
    assert run.stdout == ""


def test_loading_the_command_line_loads_nothing_heavy():
    heavy = "[m for m in ('mlx', 'numpy', 'hypothesis', 'pytest', 'kvlaw.mlx_impl') if m in sys.modules]"
    run = subprocess.run(
        [sys.executable, "-c", f"import sys, kvlaw.conformance.cli; print({heavy})"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip() in {"[]", "['numpy']"}  # the trace language names array types


def test_help_keeps_its_lines():
    assert "\n    kvlaw spec show TRIM-4\n" in kvlaw("--help").output
    told = kvlaw("check", "--help").output
    assert "\n    builtin:oracle " in told
    assert "\n    clone=method|deepcopy|from_state " in told
    assert "\n  claims: refused, ok" in kvlaw("try", "--help").output


def test_output_that_cannot_be_encoded_is_no_traceback():
    run = subprocess.run(
        [sys.executable, "-m", "kvlaw.conformance.cli", "spec", "show", "TRIM-4"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert run.returncode == 0, run.stderr
    assert "TRIM-4: a trim" in run.stdout


SCRIPT = "import sys; from kvlaw.conformance.cli import main; sys.argv[0] = 'kvlaw'; main()"


def command(*arguments: str, **options: Any) -> "subprocess.CompletedProcess[str]":
    options = {"stdout": subprocess.PIPE, **options}
    run: subprocess.CompletedProcess[str] = subprocess.run(
        [sys.executable, "-c", SCRIPT, *arguments], stderr=subprocess.PIPE, text=True, check=False, **options
    )
    assert "Traceback" not in f"{run.stdout}{run.stderr}"
    assert "Exception ignored" not in run.stderr
    return run


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize("arguments", [("--help",), ("try", "full ; decode"), ("spec", "show", "VIS-1")])
def test_output_that_cannot_be_written_is_told(arguments: tuple[str, ...]):
    with Path("/dev/full").open("w") as full:
        run = command(*arguments, stdout=full)
    assert run.returncode == 3
    assert "kvlaw cannot go on: [Errno 28] No space left on device" in run.stderr


def test_a_working_folder_that_is_gone_is_told(tmp_path: Path):
    (tmp_path / "gone").mkdir()
    change = "import os, sys; os.chdir('gone'); os.rmdir('../gone'); sys.argv[0] = 'kvlaw'; "
    run = subprocess.run(
        [sys.executable, "-c", change + "from kvlaw.conformance.cli import main; main()", "check", "builtin:oracle"],
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert run.returncode == 2
    assert "the working folder is not there any more" in run.stderr
    assert "Traceback" not in run.stderr


@pytest.mark.parametrize(
    "surroundings",
    [
        {"HOME": "/nonexistent", "TMPDIR": "/nonexistent"},
        {"NO_COLOR": "1", "CI": "true", "TERM": "dumb"},
        {"COLUMNS": "40"},
        {"COLUMNS": "0", "LINES": "x"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"PYTHONWARNINGS": "error"},
        {"PYTHONOPTIMIZE": "1"},
    ],
)
def test_odd_surroundings_change_no_verdict(surroundings: dict[str, str]):
    Path("wrong.py").write_text(WRONG)
    run = command(
        "check", "wrong:Cache", "--set", "array=numpy", "--budget", "quick",
        env={**os.environ, **surroundings}, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert run.returncode == 1, run.stderr
    assert "VIOLATIONS" in run.stdout


def test_closed_streams_change_no_verdict():
    for closed in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
        line = f'"{sys.executable}" -c "{SCRIPT}" try "full ; decode -> offset 2" {closed}'
        run = subprocess.run(["/bin/sh", "-c", line], capture_output=True, text=True, check=False)
        assert run.returncode == 1
        assert "Traceback" not in run.stdout + run.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "read"),
    [
        (("check", "builtin:oracle", "--set", "kind=full", "--budget", "quick", "--allow-incomplete"), 0, 1),
        (("check", "fault:trims-a-wrapped-ring", "--budget", "quick"), 1, 0),
        (("try", "full ; decode x40"), 0, 0),
        (("report", "run.ndjson", "--exit-code", "--format", "html"), 1, 0),
    ],
)
def test_a_reader_that_goes_changes_no_verdict(arguments: tuple[str, ...], code: int, read: int):
    """Its end of the pipe is closed, and not the stream itself: that is met by writing, not by flushing."""
    stored("right", target="builtin:oracle")
    if arguments[0] == "report":
        found = kvlaw("check", "fault:trims-a-wrapped-ring", "--budget", "quick", "--events", "run.ndjson")
        assert found.exit_code == 1
    run = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert run.stdout is not None
    for _ in range(read):
        run.stdout.readline()
    run.stdout.close()
    _, err = run.communicate(timeout=120)
    assert run.returncode == code, err
    assert "Traceback" not in err
    assert "Exception ignored" not in err
    assert "BrokenPipe" not in err


def test_planted_faults_need_their_sentences():
    run = command("faults", env={**os.environ, "PYTHONOPTIMIZE": "2"})
    assert run.returncode == 2
    assert "python -OO" in run.stderr


SLOW = """
import time
from wrong import Cache as Wrong


class Cache(Wrong):
    def update_and_fetch(self, keys, values):
        open("started", "a").close()
        time.sleep(0.02)
        return super().update_and_fetch(keys, values)
"""


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("check", "slow:Cache", "--set", "array=numpy", "--budget", "deep"), 1, "interrupted: what was found so far"),
        (("try", "full ; decode x999", "--target", "slow:Cache", "--set", "array=numpy"), 130, "interrupted"),
    ],
)
def test_the_users_interrupt_shows_what_was_found(arguments: tuple[str, ...], code: int, says: str):
    Path("wrong.py").write_text(WRONG.replace("== 3", "== 3" if code == 1 else "== 3000"))
    Path("slow.py").write_text(SLOW)
    run = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    while not Path("started").exists() and run.poll() is None:
        time.sleep(0.05)
    time.sleep(3)
    run.send_signal(signal.SIGINT)
    out, err = run.communicate(timeout=120)
    assert run.returncode == code, err
    assert says in " ".join(f"{out}{err}".split())
    assert "Traceback" not in out + err


LATE = """
import multiprocessing
import time

from wrong import Cache as Wrong


class Cache(Wrong):
    def update_and_fetch(self, keys, values):
        if multiprocessing.parent_process() is None and self.offset:  # when its failures are walked once more
            open("walked", "a").close()
            time.sleep(5)
        return super().update_and_fetch(keys, values)
"""


def test_an_interrupt_while_failures_are_shown_loses_no_result():
    Path("wrong.py").write_text(WRONG)
    Path("late.py").write_text(LATE)
    arguments = [
        "check",
        "late:Cache",
        "--set",
        "array=numpy",
        "--budget",
        "quick",
        "--jobs",
        "2",
        "--json",
        "out.json",
    ]
    run = subprocess.Popen([sys.executable, "-c", SCRIPT, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while not Path("walked").exists() and run.poll() is None:
        time.sleep(0.05)
    run.send_signal(signal.SIGINT)
    out, err = run.communicate(timeout=120)
    assert run.returncode == 1, err
    assert b"VIOLATIONS  py:late:Cache" in out
    assert json.loads(Path("out.json").read_text())["verdict"] == "violations"
    assert list(Path(".kvlaw/failures").glob("GROW-1-*.json"))


def test_a_campaign_has_an_end():
    assert "is not in the range 1<=x<=10000" in flat(check_wrong("--seeds", "3000000"))


def test_an_interrupt_ends_the_check_of_several_targets():
    Path("wrong.py").write_text(WRONG)
    Path("slow.py").write_text(SLOW)
    one = '[[targets]]\nname = "{}"\ntarget = "py:slow:Cache"\nset = {{ array = "numpy"{} }}\n'
    Path("kvlaw.toml").write_text(one.format("a", "") + one.format("b", ', kind = "full"'))
    arguments = ["check", "--budget", "deep", "--events", "run.ndjson"]
    run = subprocess.Popen([sys.executable, "-c", SCRIPT, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while not Path("started").exists() and run.poll() is None:
        time.sleep(0.05)
    time.sleep(1)
    run.send_signal(signal.SIGINT)
    out, _ = run.communicate(timeout=120)
    assert run.returncode in (1, 4)
    assert b"1 not checked" in out
    events = [json.loads(line) for line in Path("run.ndjson").read_text().splitlines()]
    assert [event["target"] for event in events if event["event"] == "target_started"] == [
        "py:slow:Cache --set array=numpy"
    ]
    assert events[-1]["interrupted"]


def test_files_stay_where_they_were_asked_for_if_the_target_goes_elsewhere(tmp_path: Path):
    Path("wrong.py").write_text(WRONG)
    Path("away").mkdir()
    Path("goes.py").write_text("import os\nfrom wrong import Cache\n\nos.chdir('away')\n")
    options = ["--report", "md=report.md", "--events", "run.ndjson", "--database", "shared"]
    found = kvlaw("check", "goes:Cache", "--set", "array=numpy", "--budget", "quick", *options)
    assert found.exit_code == 1
    assert list((tmp_path / "away").iterdir()) == []
    assert {"report.md", "run.ndjson", "shared", ".kvlaw"} <= {path.name for path in tmp_path.iterdir()}


def test_a_target_that_answers_differently_each_time_is_told_so():
    Path("unsteady.py").write_text(WRONG.replace("if self.offset == 3:", "if self.offset == 3 and next(COUNT) == 0:"))
    with Path("unsteady.py").open("a") as file:
        file.write("\n\nimport itertools\n\nCOUNT = itertools.count()\n")
    found = kvlaw("check", "unsteady:Cache", "--set", "array=numpy", "--budget", "quick")
    sys.modules.pop("unsteady", None)
    assert found.exit_code == 1
    assert "not when the trace was run again" in flat(found)


def test_a_call_that_a_target_does_not_have_is_told():
    found = kvlaw("try", "full bits=4 ; decode", "--target", "builtin:mlx_lm.KVCache")
    assert "not asked further: the target is checked with dense storage" in found.output
    Path("wrong.py").write_text(WRONG)
    found = kvlaw("try", "full ; decode ; trim 1", "--target", "wrong:Cache", "--set", "array=numpy")
    assert "not asked further: the target lacks trim" in found.output


def test_others_caches_are_tried_by_the_core_clauses():
    trace = ("try", "ring window=4 ; trim 5", "--target", "builtin:mlx_lm.RotatingKVCache")
    assert kvlaw(*trace, "--profile", "layout").exit_code == 1
    assert kvlaw(*trace).exit_code == 0


def test_a_message_with_an_escape_sequence_does_not_reach_the_terminal():
    Path("red.py").write_text(WRONG.replace("if self.offset == 3:", "if 1:\n            raise OSError('\\x1b[31mred')"))
    found = kvlaw("try", "full ; decode", "--target", "red:Cache", "--set", "array=numpy")
    sys.modules.pop("red", None)
    assert "\x1b" not in found.output
    assert r"\x1b[31mred" in found.output
