"""Files of caches in lockstep: what spoils them, whom a difference is charged to, and what mlx-lm's files do."""

import pytest

from kvlaw.conformance.check import replay
from kvlaw.conformance.faults.registry import load_faults, subject
from kvlaw.conformance.lockstep import Step
from kvlaw.conformance.minimise import is_sound
from kvlaw.conformance.subjects.oracle import ReferenceAdapter
from kvlaw.conformance.subjects.oracle_files import StoredFile, spoil
from kvlaw.conformance.subjects.targets import open_target
from kvlaw.reference.oracle import Profile, UnknownObjectError
from kvlaw.spec.calls import DAMAGES, Damage
from kvlaw.spec.config import LayerSpec
from kvlaw.spec.text_form import parse

FILES = [name for name, fault in load_faults().items() if fault.breaks.startswith("PERS")]


def played(target: str, text: str, profile: Profile = "core") -> tuple[Step, ...]:
    return replay(open_target(target), profile, parse(text).trace)


def charged(steps: tuple[Step, ...]) -> list[str]:
    return [divergence.clause for step in steps for divergence in step.divergences][:1]


@pytest.mark.parametrize("name", FILES)
def test_a_fault_of_files_is_charged_to_its_clause(name: str) -> None:
    fault = load_faults()[name]
    assert charged(replay(subject(name), fault.profile, fault.trace)) == [fault.breaks]


@pytest.mark.parametrize("how", DAMAGES)
def test_every_damage_changes_the_file_and_is_refused(how: Damage) -> None:
    adapter = ReferenceAdapter()
    cache = adapter.build(LayerSpec("ring", 3))
    file: StoredFile = adapter.save(cache)
    whole = file.data
    assert adapter.load(file, False).offset == 0
    adapter.damage(file, how)
    assert file.data != whole
    assert spoil(whole, how) == file.data
    for profile in ("core", "layout"):
        text = f"ring window=3 ; window 4 ; save as f1 ; damage f1 how={how} ; load f1 as c1 ; decode"
        steps = played("builtin:oracle", text, profile)
        assert charged(steps) == []
        assert steps[-2].record.refused
        assert steps[-1].record.ok


def test_a_file_may_be_read_all_the_same_if_it_is_read_rightly() -> None:
    """In core, and only there: what a spoilt file held can be found out."""
    fault = "fault:reads-on-to-the-end"
    text = "full ; window 2 ; save as f1 ; damage f1 how=extra ; load f1 as c1 ; decode on c1"
    assert charged(played(fault, text)) == []
    assert charged(played(fault, text, "layout")) == ["PERS-12"]


@pytest.mark.parametrize(
    ("text", "sound"),
    [
        ("full ; save as f1 ; load f1 as c1 ; decode on c1 ; save on c1 as f1 ; drop f1", True),
        ("full ; list full as l0 ; save on l0 as f1 ; load f1 as l1 ; decode on l1 ; look f1", True),
        ("full ; load f1 as c1", False),
        ("full ; load c0 as c1", False),
        ("full ; damage c0 how=empty", False),
        ("full ; save as f1 ; decode on f1", False),
        ("full ; save as f1 ; save on f1 as f2", False),
        ("full ; save as f1 ; clone as c1 on f1", False),
        ("full ; save as f1 ; damage f1 how=empty ; damage f1 how=empty", False),
        ("full ; save as f1 ; damage f1 how=empty ; save as f1 ; damage f1 how=empty ; load f1 as c1", True),
        ("full ; decode as r1 ; save on r1 as f1", False),
        ("full_rows ; save as f1", False),
    ],
)
def test_the_minimiser_knows_what_can_be_asked_of_files(text: str, sound: bool) -> None:
    assert is_sound(parse(text).trace) is sound
    if sound:
        assert charged(played("builtin:oracle", text, "layout")) == []


@pytest.mark.parametrize("text", ["full ; load f1 as c1", "full ; save as f1 ; trim 1 on f1", "full ; load c0 as c1"])
def test_what_nobody_can_be_asked_is_said(text: str) -> None:
    with pytest.raises(UnknownObjectError):
        played("builtin:oracle", text)


def test_a_trace_ends_at_what_a_refused_load_did_not_make() -> None:
    text = "ring window=2 ; window 2 ; save as f1 ; damage f1 how=tensor ; load f1 as c1 ; decode on c1 ; decode"
    steps = played("builtin:oracle", text)
    assert [step.record.outcome for step in steps] == ["ok"] * 4 + ["refused"]


LM = {"KVCache": "full", "RotatingKVCache": "ring window=3", "QuantizedKVCache": "full bits=8"}


@pytest.mark.parametrize("name", list(LM))
def test_whole_files_of_mlx_lm_keep_the_law(name: str) -> None:
    pytest.importorskip("mlx_lm")
    for text in (
        "window 4 ; save as f1 ; decode ; load f1 as c1 ; decode on c1 ; window 3 on c1 ; decode ; look c1",
        "save as f1 ; load f1 as c1 ; decode on c1 ; decode",
        "window 2 ; trim 1 ; save as f1 ; load f1 as c1 ; load f1 as c2 ; window 5 on c1 ; decode on c2 ; decode",
        "window 2 ; save as f1 ; damage f1 how=truncate ; load f1 as c1",
        "window 2 ; save as f1 ; damage f1 how=empty ; load f1 as c1",
        "window 2 ; save as f1 ; damage f1 how=foreign ; load f1 as c1",
        "window 2 ; save as f1 ; damage f1 how=extra ; load f1 as c1 ; decode on c1",
    ):
        steps = played(f"builtin:mlx_lm.{name}", f"{LM[name]} ; {text}")
        assert charged(steps) == [], text
        assert all(step.record.outcome in ("ok", "refused") for step in steps), text


@pytest.mark.parametrize("name", list(LM))
def test_b96_a_file_of_031_is_an_empty_list_for_032(name: str) -> None:
    """``load_prompt_cache`` of 0.32 takes the 0.31 metadata (none) for the classes, so that there are no layers."""
    pytest.importorskip("mlx_lm")
    steps = played(
        f"builtin:mlx_lm.{name}", f"{LM[name]} ; window 2 ; save as f1 ; damage f1 how=older ; load f1 as c1"
    )
    assert charged(steps) == ["PERS-10"]
    assert "0 were loaded" in steps[-1].divergences[0].observed
    listed = "list full + ring window=3 as l0 ; window 2 on l0 ; save on l0 as f1"
    two = played("builtin:mlx_lm.KVCache", f"full ; {listed} ; damage f1 how=older ; load f1 as l1")
    assert charged(two) == []
    assert two[-1].record.refused  # too many values to unpack: an error, if not a clear one


@pytest.mark.parametrize("name", list(LM))
def test_mlx_lm_believes_what_was_altered(name: str) -> None:
    """There are no hashes in its files: one wrong bit of a key is read as it is."""
    pytest.importorskip("mlx_lm")
    for how in ("tensor", "header"):
        text = f"{LM[name]} ; window 2 ; save as f1 ; damage f1 how={how} ; load f1 as c1 ; decode on c1"
        assert charged(played(f"builtin:mlx_lm.{name}", text)) == ["PERS-9"]


@pytest.mark.parametrize(("kind", "config"), [("KVCache", "full"), ("QuantizedKVCache", "full bits=8")])
def test_b100_clones_of_a_state_share_what_the_source_writes(kind: str, config: str) -> None:
    """``from_state(cache.state)`` of 0.32 keeps the arrays themselves, and appends write into them in place."""
    pytest.importorskip("mlx_lm")
    target = open_target(f"builtin:mlx_lm.{kind}", {"clone": "from_state"})
    text = f"{config} ; window 4 ; clone as c1 ; decode on c1 as r1 ; decode ; decode on c1"
    steps = replay(target, "core", parse(text).trace)
    assert charged(steps) == ["OWN-3"]
    copied = open_target(f"builtin:mlx_lm.{kind}", {"clone": "deepcopy"})
    assert charged(replay(copied, "core", parse(text).trace)) == []
