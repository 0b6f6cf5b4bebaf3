"""The whole script of a failure: what it is about, helpers, the calls one by one, and the question at the end."""

import re
import textwrap
from importlib.resources import files

from kvlaw.conformance.events import FailureFound, StepShown
from kvlaw.conformance.reports.failure_text import headline, try_command
from kvlaw.conformance.reports.wording import demanded, shown
from kvlaw.conformance.reports.words import clean
from kvlaw.conformance.scripts.calls import Writer
from kvlaw.conformance.scripts.checks import check_lines
from kvlaw.conformance.scripts.made import Made, ScriptError, made_of
from kvlaw.conformance.scripts.prune import pruned
from kvlaw.spec.calls import Call, LookAt
from kvlaw.spec.config import Config
from kvlaw.spec.structure import TraceError
from kvlaw.spec.text_form import parse_call

_DTYPES = {
    "mlx": {"bf16": "mx.bfloat16", "f16": "mx.float16", "f32": "mx.float32"},
    "numpy": {"bf16": "np.dtype(ml_dtypes.bfloat16)", "f16": "np.dtype(np.float16)", "f32": "np.dtype(np.float32)"},
}
_ARRAY = {"mlx": "mx.array(cells, dtype=DTYPE)", "numpy": "np.array(cells, dtype=DTYPE)"}
_HOST = {
    "mlx": "array.astype(mx.float32).tolist()",
    "numpy": "np.asarray(array).astype(np.float32).tolist()",
}
_IMPORTS = {"mlx": "import mlx.core as mx", "numpy": "import ml_dtypes\nimport numpy as np"}
_TWICE = {"mlx": "mx.concatenate([array, array], axis)", "numpy": "np.concatenate([array, array], axis)"}


def write_script(failure: FailureFound) -> str:
    """Write a failure as a Python script.

    Raises:
        ScriptError: if that cannot be, with the reason and the way out.
    """
    try:
        return _script(failure)
    except ScriptError as error:
        raise ScriptError(error.why, f"send its trace: {try_command(failure)} (wherever both are installed)") from None


def _script(failure: FailureFound) -> str:
    made, config = made_of(failure.target), failure.trace.config
    if not failure.steps:
        raise ScriptError("its steps were not told, since the check ended before it could: check or replay it first")
    if config.bits is not None:
        raise ScriptError("its cache stores codes, whose columns do not tell their tokens")
    if config.is_recurrent:
        raise ScriptError("the state of a recurrent layer does not tell its tokens")
    if not failure.steps[-1].diverges:
        raise ScriptError("its trace did not fail when it was run again")
    writer = Writer(made, config)
    body = _body(failure, writer)
    return pruned("".join([_head(failure, made), _helpers(writer, config), "\n\n", *body]))


def check_duck(subject: object, name: str) -> None:
    """Raise ``ScriptError`` for a target that is not asked by mlx-lm's calls."""
    from kvlaw.conformance.subjects.duck import DuckAdapter
    from kvlaw.conformance.subjects.duck_rows import DuckRowsAdapter

    adapter: object = getattr(subject, "adapter", None)
    own = name.startswith("py:") and type(adapter) not in (DuckAdapter, DuckRowsAdapter)
    if not isinstance(adapter, DuckAdapter) or own:
        made_of(name)  # which may know better why
        raise ScriptError(f"{name} is not asked by the calls of mlx-lm's caches, but by an adapter of its own")


def _head(failure: FailureFound, made: Made) -> str:
    last = failure.steps[-1]
    about = [
        f"{headline(failure)} ({failure.level}).",
        "",
        *failure.prose.splitlines(),
        "",
        f"The trace: {failure.text}",
        f"The law says: {demanded(last)}",
        f"The cache shows: {shown(last)}",
        "",
        f"Found by kvlaw ({failure.id}) on {failure.target}; this script needs {made.needs}, and no kvlaw.",
        "",
        "Exit codes:",
        "0: the law is kept, the fault is gone.",
        "1: the fault is there.",
        "2: the script could not be run (a package is missing, the class cannot be built): nothing is known.",
        "To try another class with the same interface: python THIS_FILE module:Class",
    ]
    lines = [part for line in about for part in textwrap.wrap(clean(line), 110) or [""]]
    text = "\n".join(lines).replace("\\", "\\\\").replace('"""', "'''")
    modules = "import copy\nimport importlib\nimport inspect\nimport os\nimport sys\nimport tempfile\nimport traceback"
    return (
        f'"""{text}\n"""\n\n{modules}\n\n{_NOT_RUN}\n'
        f"{_IMPORTS[made.array]}\n\n"
        "sys.path.append(os.getcwd())\n"
        f'module, _, name = (sys.argv[1] if len(sys.argv) > 1 else {made.path!r}).partition(":")\n'
        "Cache = importlib.import_module(module)\n"
        'for part in name.split("."):\n    Cache = getattr(Cache, part)\n\n'
    )


_NOT_RUN = '''
PACKAGES = {"numpy": "numpy", "ml_dtypes": "ml-dtypes", "mlx": "mlx", "mlx_lm": "mlx-lm"}


def not_run(kind, error, trace):
    """Leave with 2 where a module is missing, or the script itself fails: that says nothing about the fault."""
    if issubclass(kind, KeyboardInterrupt):
        os._exit(130)
    missing = (getattr(error, "name", None) or "").partition(".")[0] if issubclass(kind, ImportError) else ""
    if missing in PACKAGES:
        print(f"{missing} is missing: pip install {PACKAGES[missing]}", file=sys.stderr)
    elif missing:
        print(f"{error}: run this where {missing} can be imported, in its folder for example", file=sys.stderr)
    else:
        traceback.print_exception(kind, error, trace)
    print("the script could not be run: nothing is known about the fault", file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(2)


sys.excepthook = not_run
'''


def _helpers(writer: Writer, config: Config) -> str:
    text = (files("kvlaw.conformance.scripts") / "prelude.txt").read_text(encoding="utf-8")
    array = writer.made.array
    values = {
        "heads": config.kv_heads,
        "head_dim": config.head_dim,
        "value_dim": config.value_dim,
        "dtype": _DTYPES[array][config.dtype],
        "array": _ARRAY[array],
        "host": _HOST[array],
        "last": writer.token - 1,
        "poison": _POISON if config.poison else "",
        "window": config.window,
    }
    for name, value in values.items():
        text = text.replace(f"@{name}@", str(value))
    return text


_POISON = """    keys[...] = 77  # the arrays are the caller's, who may overwrite them once the call is over
    values[...] = 77
"""
_MORE = {
    "begin_round(": '''def begin_round(name):
    """Note how many positions there are: mlx-lm's runtime does not tell its caches that drafts are coming."""
    starts[name] = count(things[name])
''',
    "remember(": '''def remember(name, read):
    """Keep a read, to ask it again, and a copy of what it is now."""
    things[name] = read
    copies[name] = [host(array) for array in leaves(read)]
    return read
''',
    "hand_out(": '''def hand_out(name, value):
    """Keep arrays that were handed out, and a copy of what they are now."""
    things[name] = value
    copies[name] = [host(array) for array in leaves(value)]
''',
    "merged(": '''def merged(caches):
    """Make a group of serial caches, one row each."""
    return caches[0].merge(caches)
''',
    "extended(": '''def extended(groups):
    """Put groups together."""
    for other in groups[1:]:
        groups[0].extend(other)
    return groups[0]
''',
    "twice(": '''def twice(array, axis):
    """Repeat an array along an axis."""
    return @twice@
''',
    "can_trim(": '''def can_trim(cache):
    """List how many positions the cache says it can drop."""
    offset = offsets(cache)
    least = min(offset) if isinstance(offset, list) else offset
    if callable(getattr(cache, "can_trim", None)):
        return [n for n in range(least + 2) if cache.can_trim(n)]
    return [n for n in range(least + 1) if cache.is_trimmable()]
''',
    "save(": '''def save(name, file):
    """Save a cache to a file of its own."""
    things[file] = os.path.join(tempfile.mkdtemp(), "cache.safetensors")
    importlib.import_module("mlx_lm.models.cache").save_prompt_cache(things[file], [things[name]])
''',
    "load(": '''def load(file):
    """Load the one cache that was saved."""
    (cache,) = importlib.import_module("mlx_lm.models.cache").load_prompt_cache(things[file])
    return cache
''',
    "count(": '''def count(cache):
    """Count the positions; of a group those of its first row."""
    offset = offsets(cache)
    return offset[0] if isinstance(offset, list) else offset
''',
    "roll_back(": '''def roll_back(name, keep):
    """Take back what was appended since the round began, as mlx-lm's speculative decoding does."""
    rejected = count(things[name]) - starts[name] - keep
    trimmed = importlib.import_module("mlx_lm.models.cache").trim_prompt_cache([things[name]], rejected)
    if trimmed != rejected:
        raise RuntimeError(f"trim_prompt_cache trimmed {trimmed} of {rejected} positions")
    starts.pop(name)
''',
}
"""Helpers that only some scripts need, by how their calls begin."""


def _body(failure: FailureFound, writer: Writer) -> list[str]:
    """Write the calls, and before them the helpers that they need."""
    lines: list[str] = []
    last: Call | None = None
    for number, step in enumerate(failure.steps):
        refused = _was_refused(step)
        if number == 0:
            expression = writer.opening()
        else:
            last = _parsed(step.call)
            if isinstance(last, LookAt) and failure.trace.config.look == "last" and not step.diverges:
                continue
            expression = writer.write(last, refused=refused)
        lines += _call_lines(number, step, expression, refused, failure)
    lines += check_lines(failure, failure.steps[-1], last)
    text = "\n".join(lines) + "\n"
    more = [writer.made.builder] + [code for begin, code in _MORE.items() if _uses(begin, text)]
    told = "".join(code.strip("\n") + "\n\n\n" for code in more if code).replace("@twice@", _TWICE[writer.made.array])
    if failure.trace.config.look == "last":  # nothing is looked at before the end: a copy would be a look
        told = re.sub(r"    copies\[name\] = .*\n", "", told).replace(", and a copy of what it is now", "")
    return [told, text]


def _parsed(text: str) -> Call:
    try:
        return parse_call(text)[0]
    except TraceError as error:
        raise ScriptError(f"{error}") from None


def _uses(begin: str, text: str) -> bool:
    return re.search(rf"(?<![\w.]){re.escape(begin)}", text) is not None or (
        begin == "count(" and "begin_round(" in text
    )


def _call_lines(number: int, step: StepShown, expression: str, refused: bool, failure: FailureFound) -> list[str]:
    """Write one call: what the law allows, and at the last one its answer."""
    allowed = _allowed(step, failure)
    known = ", refused=True" if refused or (step.diverges and failure.field == "outcome") else ""
    target = "answer = " if step.diverges else ""
    lines = [f"{target}call({number}, {step.call!r}, {allowed!r}, lambda: {expression}{known})"]
    looked = failure.trace.config.look == "every" and not step.diverges and not refused
    if looked and expression.startswith(("append(", "remember(")):
        lines[0] = f"read = {lines[0]}"
        lines.append(
            'print(f"     {told(sees(read))}")' if "rows" not in failure.trace.config.kind else _rows_told(step)
        )
    return lines


def _rows_told(step: StepShown) -> str:
    rows = sum(strip.what == "sees" for strip in step.strips)
    return f'print("     " + "; ".join(f"row {{row}} {{told(sees(read, row))}}" for row in range({rows})))'


def _was_refused(step: StepShown) -> bool:
    return step.shown.startswith("refused") or (step.diverges and step.observed.startswith("refused"))


def _allowed(step: StepShown, failure: FailureFound) -> tuple[str, ...]:
    """Read off a step which outcomes keep the law; a trim may always be refused by another design."""
    found = re.match(r"(?:ok|refused)(?: or (?:ok|refused))*(?=,|$)", step.law)
    allowed = tuple(found[0].split(" or ")) if found else ("ok",)
    if failure.field == "outcome" and step.diverges:
        allowed = tuple(word for word in failure.expected.split(" or ") if word in ("ok", "refused"))
    lenient = failure.profile == "core" and step.call.startswith("trim ") and "refused" not in allowed
    return (*allowed, "refused") if lenient else allowed


__all__ = ["write_script"]
