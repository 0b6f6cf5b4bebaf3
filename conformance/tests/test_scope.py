"""Clauses that a fixed setting leaves without a situation."""

import pytest

from kvlaw.conformance.scope import ruled_out


@pytest.mark.parametrize(
    ("clause", "fixed"),
    [
        ("RING-10", {"window": 8}),
        ("VIS-9", {"sinks": 0}),
        ("RING-12", {"window": 1}),
        ("RING-14", {"sinks": 3, "window": 4}),
        ("VIS-10", {"batch": 1, "kv_heads": 1}),
        ("OWN-8", {"poison": False}),
        ("ERR-6", {"bits": 4}),
        ("PREC-2", {"bits": 4, "start": 16}),
        ("PREC-3", {"start": 0}),
        ("PREC-11", {"start": "never"}),
        ("READ-14", {"start": "never"}),
    ],
)
def test_a_setting_leaves_the_clause_no_situation(clause: str, fixed: dict[str, object]):
    why = ruled_out(clause, fixed)
    assert why.startswith("with ")
    assert all(f"{name}={value}" in why for name, value in fixed.items())


@pytest.mark.parametrize(
    ("clause", "fixed"),
    [
        ("RING-10", {}),
        ("RING-10", {"window": 1}),
        ("RING-10", {"sinks": 0}),
        ("VIS-9", {"window": 8}),
        ("VIS-9", {"sinks": 2}),
        ("RING-14", {"sinks": 4, "window": 4}),
        ("VIS-10", {"batch": 1}),
        ("VIS-10", {"batch": 1, "kv_heads": 2}),
        ("OWN-8", {"poison": True}),
        ("RING-1", {"window": 8}),
        ("ERR-6", {"batch": 1}),
        ("PREC-2", {"start": 0}),
        ("PREC-2", {"bits": 4}),
        ("PREC-3", {"start": "never"}),
        ("PREC-11", {"bits": 4}),
        ("READ-14", {"start": 16}),
        ("PREC-10", {"start": "never"}),
    ],
)
def test_every_other_clause_stays_open(clause: str, fixed: dict[str, object]):
    assert ruled_out(clause, fixed) == ""
