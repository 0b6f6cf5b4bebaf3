"""The bounds of what is walked: what laws need is inside them, what no machine can hold is refused with its numbers."""

import pytest

from kvlaw.conformance.corpus import load_corpus
from kvlaw.conformance.limits import MOST_CALLS, MOST_POSITIONS, MOST_SCORES, config_too_large, trace_too_large
from kvlaw.spec.config import Config
from kvlaw.spec.text_form import parse


def said(text: str) -> str:
    return trace_too_large(parse(text).trace)


def test_every_stored_trace_is_inside() -> None:
    assert [entry.id for entry in load_corpus() if trace_too_large(entry.trace)] == []


@pytest.mark.parametrize(
    "text",
    [
        "full ; window 2000 ; decode x100",
        "ring window=4096 ; window 800 x6 ; trim 2 ; decode",  # past the end of a ring as models have it
        "ring window=1000000000000 ; window 3",
        "full batch=16 heads=8 groups=4 D=128 Dv=128 ; window 20 ; decode x20",
        "full ; window -5",
        "full heads=1 groups=1 ; window 4096",
        "full ; dense 8192",
    ],
)
def test_what_laws_need_is_inside(text: str) -> None:
    assert said(text) == ""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("full ; window 100000", ["call 1 (window)", "100,000 positions", f"there may be {MOST_POSITIONS:,}"]),
        ("full ; window 4096", ["call 1 (window)", "67,108,864 scores", f"a call may have {MOST_SCORES:,}"]),
        ("full ; decode ; known 4096", ["call 2 (known)", "scores", "make shorter calls"]),
        ("full ; mask 100000", ["call 1 (mask)", "10,000,000,000 scores"]),
        ("full ; dense 100000", ["call 1 (dense)", "100,000 positions"]),
        ("full ; decode x5000", ["5,000 calls", f"it may have {MOST_CALLS:,}"]),
        (
            "full heads=1 groups=1 ; list full + full + full as l ; window 1400 x4 on l",
            ["call 5 (window)", "16,800 positions"],
        ),
        ("full batch=1000000000 ; decode", ["call 1 (decode)", "batch=1,000,000,000", "more than 512 MiB"]),
        ("full D=4096000000 ; decode", ["D=4,096,000,000", "more than 512 MiB"]),
        ("full heads=70000 groups=70000 ; decode", ["4,900,000,000 query heads over 70,000"]),
        ("full ; window " + "9" * 4000, ["more than 10^18 positions"]),
        ("full seed=99999999999999999999999 ; decode", ["seed=more than 10^18", "from 0 to 4,294,967,295"]),
        ("full seed=-1 ; decode", ["seed=-1", "from 0 to"]),
    ],
)
def test_what_no_machine_can_hold_is_refused_with_its_numbers(text: str, words: list[str]) -> None:
    told = said(text)
    for word in words:
        assert word in told


def test_scores_are_counted_over_what_is_fetched() -> None:
    """4 heads x 1,000 queries x 4,000 columns fit; a ring of 100 fetches no more than 1,100."""
    assert said("full ; window 1000 x4") == ""
    assert "call 5" in said("full ; window 1000 x5")
    assert said("ring window=100 ; window 1000 x16") == ""
    assert said("full ; window 1000 x4 ; reset ; window 1000") == ""
    assert "call 6 (attend)" not in said("full ; window 1000 x4 ; window 1 as r ; attend r")
    assert "call 6 (window)" in said("full ; window 1000 x4 ; clone as c ; window 1000 on c")


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (Config("ring", 100_000), ["window=100,000", "up to 8,192"]),
        (Config("full", bits=4, start=10**30), ["start=more than 10^18", "up to 8,192"]),
        (Config("full", batch=10**9), ["batch=1,000,000,000", "512 MiB"]),
        (Config("full", seed=1 << 32), ["seed=4,294,967,296"]),
    ],
)
def test_a_configuration_that_no_check_can_play_is_refused(config: Config, words: list[str]) -> None:
    for word in words:
        assert word in config_too_large(config)


def test_configurations_of_models_are_checked() -> None:
    assert config_too_large(Config("ring", 4096, batch=8, kv_heads=8, groups=4, head_dim=128, value_dim=128)) == ""
    assert config_too_large(Config("full", bits=4, start=5000)) == ""
    assert config_too_large(Config("full", bits=4, start="never")) == ""
