"""Check one claim at a time with CrossHair; `runner` starts it as `python -m kvlaw.conformance.proofs.worker`.

Reads lines `{"address": "module:function", "timeout": seconds}` from standard input and answers each with one line of
JSON: outcome, seconds, counterexample, detail. It is a process of its own so that a crash or a hang costs one claim.
"""

import importlib
import json
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, TextIO

from crosshair.core_and_libs import (
    AnalysisMessage,
    MessageType,
    analyze_function,  # pyright: ignore[reportUnknownVariableType] -- CrossHair annotates a bare Callable
    run_checkables,
)
from crosshair.options import AnalysisKind, AnalysisOptionSet

OUTCOMES = {
    MessageType.CONFIRMED: "confirmed",
    MessageType.POST_FAIL: "refuted",
    MessageType.PRE_UNSAT: "vacuous",
    MessageType.CANNOT_CONFIRM: "unknown",
}
"""What CrossHair's answers mean; any other answer, or none, is an error."""


def options(timeout: float) -> AnalysisOptionSet:
    """Ask for a report of every claim, and for a search that ends only when all paths are done or the time is."""
    return AnalysisOptionSet(
        analysis_kind=(AnalysisKind.PEP316,),
        report_all=True,
        per_condition_timeout=timeout,
        per_path_timeout=timeout,
        max_uninteresting_iterations=sys.maxsize,
    )


def load(address: str) -> Callable[..., Any]:
    """Import the function at `module:function`."""
    module, _, name = address.partition(":")
    function: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return function


def call_of(message: str) -> str:
    """Cut the call out of "false when calling f(1, 2) (which returns False)"."""
    return message.partition("when calling ")[2].rpartition(" (which returns")[0] or message


def judge(messages: Sequence[AnalysisMessage]) -> dict[str, str | None]:
    """Give the outcome of one claim: that of its only message, else an error."""
    if len(messages) != 1:
        found = "; ".join(f"{message.state.name}: {message.message}" for message in messages)
        return {"outcome": "error", "counterexample": None, "detail": found or "no contract found"}
    message = messages[0]
    outcome = OUTCOMES.get(message.state, "error")
    counterexample = call_of(message.message) if outcome == "refuted" else None
    return {"outcome": outcome, "counterexample": counterexample, "detail": message.message}


def check(address: str, timeout: float) -> dict[str, Any]:
    """Let CrossHair confirm or refute the claim at `address` within `timeout` seconds."""
    started = time.monotonic()
    try:
        verdict = judge(list(run_checkables(analyze_function(load(address), options(timeout)))))
    except Exception as error:  # whatever a claim or CrossHair raises is the result of this claim only
        verdict = {"outcome": "error", "counterexample": None, "detail": f"{type(error).__name__}: {error}"}
    return {**verdict, "seconds": time.monotonic() - started}


def serve(requests: TextIO, answers: TextIO) -> None:
    """Answer requests until there are no more."""
    for line in requests:
        answers.write(json.dumps(check(**json.loads(line))) + "\n")
        answers.flush()


if __name__ == "__main__":
    protocol, sys.stdout = sys.stdout, sys.stderr  # what a claim prints must not be taken for an answer
    serve(sys.stdin, protocol)
