"""Releases of mlx-lm: fetched, checked, loaded side by side, and adapted by what their classes have.

Nothing here downloads: wheels are made of the installed mlx-lm, with methods taken out as they were missing once. The
real releases are checked for their known faults where ``kvlaw releases fetch`` has put them on this machine.
"""

import ast
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from click.testing import CliRunner

from kvlaw.conformance.check import replay
from kvlaw.conformance.cli import cli
from kvlaw.conformance.demands import terms_of
from kvlaw.conformance.releases import store
from kvlaw.conformance.releases.modules import load
from kvlaw.conformance.releases.store import DIGESTS, ReleaseError, cached, fetch, folder, read
from kvlaw.conformance.subjects.errors import TargetError
from kvlaw.conformance.subjects.targets import check_name, open_target
from kvlaw.reference.oracle import Profile
from kvlaw.spec.text_form import parse

pytestmark = pytest.mark.skipif(find_spec("mlx_lm") is None, reason="mlx-lm is not installed")

MODULES = ("models/cache.py", "models/base.py", "models/gated_delta.py", "generate.py")
HOME = folder()
"""Where the user's own releases are, whatever a test sets."""


def sources() -> dict[str, str]:
    root = Path(import_module("mlx_lm").__path__[0])
    return {f"mlx_lm/{name}": (root / name).read_text() for name in MODULES}


def without(source: str, *methods: str, classes: Iterable[str] = ()) -> str:
    """Take methods, and classes, out of a module."""
    tree = ast.parse(source)
    tree.body = [n for n in tree.body if not (isinstance(n, ast.ClassDef) and n.name in classes)]
    for node in (n for n in tree.body if isinstance(n, ast.ClassDef)):
        kept = [m for m in node.body if not (isinstance(m, ast.FunctionDef) and m.name in methods)]
        node.body = kept or [ast.Pass()]
    return ast.unparse(tree)


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Put a release on an empty shelf, made of the installed mlx-lm; ``change`` rewrites its modules by name."""
    monkeypatch.setenv("KVLAW_CACHE", str(tmp_path / "cache"))

    def put(version: str, change: Callable[[dict[str, str]], object] | None = None) -> str:
        files = sources()
        if change is not None:
            change(files)

        def downloaded(wanted: str, into: Path) -> Path:
            wheel = into / f"mlx_lm-{wanted}-py3-none-any.whl"
            with ZipFile(wheel, "w") as archive:
                for name, text in files.items():
                    archive.writestr(name, text)
            return wheel

        monkeypatch.setattr(store, "_downloaded", downloaded)
        return fetch(version).version

    return put


# The shelf.


def test_a_release_is_kept_with_its_digest_and_read_again(shelf: Callable[..., str]) -> None:
    assert cached() == ()
    shelf("9.9.10")
    shelf("9.9.9")
    assert cached() == ("9.9.9", "9.9.10")
    wheel = read("9.9.9")
    assert wheel.source("mlx_lm/models/cache.py") == sources()["mlx_lm/models/cache.py"]
    assert wheel.source("mlx_lm/nothing.py") is None
    record = json.loads((wheel.path.parent / "record.json").read_text())
    assert set(record) == {"wheel", "sha256"}
    assert not list(wheel.path.parent.glob("partial-*"))


def test_what_is_there_is_not_fetched_again(shelf: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    shelf("9.9.9")

    def again(version: str, into: Path) -> Path:
        pytest.fail(f"{version} is fetched into {into}")

    monkeypatch.setattr(store, "_downloaded", again)
    assert fetch("9.9.9").version == "9.9.9"


def _spoil_wheel(at: Path) -> None:
    wheel = next(at.glob("*.whl"))
    data = bytearray(wheel.read_bytes())
    data[len(data) // 2] ^= 1
    wheel.write_bytes(data)


def _cut_wheel(at: Path) -> None:
    wheel = next(at.glob("*.whl"))
    wheel.write_bytes(wheel.read_bytes()[:100])


SPOILT: list[tuple[Callable[[Path], object], str]] = [
    (_spoil_wheel, "is not what was fetched"),
    (_cut_wheel, "is not what was fetched"),
    (lambda at: next(at.glob("*.whl")).unlink(), "cannot be read"),
    (lambda at: (at / "record.json").write_text("{"), "cannot be read"),
    (lambda at: (at / "record.json").write_text("[]"), "cannot be read"),
    (lambda at: (at / "record.json").write_text('{"wheel": "../../x.whl", "sha256": ""}'), "cannot be read"),
    (lambda at: (at / "record.json").unlink(), "is not in"),
]


@pytest.mark.parametrize(("spoil", "says"), SPOILT)
def test_a_release_that_is_not_what_was_fetched_is_refused_and_can_be_fetched_again(
    shelf: Callable[..., str], spoil: Callable[[Path], object], says: str
) -> None:
    shelf("9.9.9")
    spoil(store.place("9.9.9"))
    with pytest.raises(ReleaseError, match=says) as told:
        read("9.9.9")
    assert "kvlaw releases fetch 9.9.9" in str(told.value)
    assert fetch("9.9.9") == read("9.9.9")


def test_a_known_release_must_be_the_one_of_pypi(shelf: Callable[..., str]) -> None:
    assert "0.28.0" in DIGESTS
    with pytest.raises(ReleaseError, match=r"is not the mlx-lm 0\.28\.0 of PyPI"):
        shelf("0.28.0")
    assert cached() == ()


def test_a_wheel_without_the_modules_is_refused(shelf: Callable[..., str]) -> None:
    def lacking(files: dict[str, str]) -> None:
        del files["mlx_lm/models/base.py"]

    with pytest.raises(ReleaseError, match=r"has no mlx_lm/models/base\.py"):
        shelf("9.9.9", lacking)


@pytest.mark.parametrize(
    "word", ["", "..", "../../etc", "0.28.0/..", "latest", "0.28.*", ">=0.28", "0.28.0 --pre", "v1"]
)
def test_a_word_that_is_no_version_reaches_no_path_and_no_pip(shelf: Callable[..., str], word: str) -> None:
    for act in (fetch, read):
        with pytest.raises(ReleaseError, match="is no version of mlx-lm"):
            act(word)


def test_pip_that_fails_or_gives_another_release_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVLAW_CACHE", str(tmp_path))
    made: list[list[str]] = []

    def pip(words: list[str], **_: Any) -> Any:
        made.append(words)
        into = Path(words[words.index("--dest") + 1])
        if "mlx-lm==9.9" in words:
            (into / "mlx_lm-9.9.0-py3-none-any.whl").write_bytes(b"PK")
            return subprocess.CompletedProcess(words, 0, "", "")
        return subprocess.CompletedProcess(words, 1, "", "x\nERROR: No matching distribution found for mlx-lm==9.9.8\n")

    monkeypatch.setattr(store.subprocess, "run", pip)
    with pytest.raises(ReleaseError, match=r"pip cannot fetch mlx-lm 9\.9\.8: ERROR: No matching distribution"):
        fetch("9.9.8")
    with pytest.raises(ReleaseError, match=r"pip gave mlx-lm 9\.9\.0 for 9\.9"):
        fetch("9.9")
    assert all({"--no-deps", "download"} <= set(words) for words in made)
    assert cached() == ()


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("KVLAW_CACHE", str(tmp_path / "file"))
    with pytest.raises(ReleaseError, match=r"cannot be written: .*; set KVLAW_CACHE"):
        fetch("9.9.9")


def test_the_command_fetches_lists_and_tells(shelf: Callable[..., str]) -> None:
    run = CliRunner().invoke
    assert "kvlaw releases fetch" in run(cli, ["releases", "list"]).output
    shelf("9.9.9")
    fetched = run(cli, ["releases", "fetch", "9.9.9", "mlx-lm==9.9.9"])
    assert fetched.exit_code == 0
    assert fetched.output.count("mlx-lm 9.9.9") == 1
    assert run(cli, ["releases", "list"]).output == "mlx-lm 9.9.9\n"
    wrong = run(cli, ["releases", "fetch", "9.9.9", "newest"])
    assert (wrong.exit_code, "'newest' is no version" in wrong.output) == (2, True)
    bad = run(cli, ["releases", "fetch", "0.28.0", "9.9.9"])
    assert (bad.exit_code, "mlx-lm 9.9.9" in bad.output, "of PyPI" in bad.output) == (3, True, True)


# Modules.


def test_releases_are_loaded_beside_each_other_and_the_installed_one(shelf: Callable[..., str]) -> None:
    def marked(files: dict[str, str]) -> None:
        files["mlx_lm/models/cache.py"] += "\nMARK = 'other'\n"

    first, second = load(shelf("9.9.1", marked)), load(shelf("9.9.2"))
    one, two = (import_module(f"{name}.models.cache") for name in (first, second))
    installed = import_module("mlx_lm.models.cache")
    assert one.__name__ == "kvlaw_releases.mlx_lm_9_9_1.models.cache"
    assert (one.MARK, hasattr(two, "MARK"), hasattr(installed, "MARK")) == ("other", False, False)
    assert len({one.KVCache, two.KVCache, installed.KVCache}) == 3
    base = import_module(f"{first}.models.base")
    assert base.create_causal_mask is one.create_causal_mask  # its own, not the installed one's
    assert str(one.__file__).endswith("9.9.1-py3-none-any.whl/mlx_lm/models/cache.py")
    with pytest.raises(ModuleNotFoundError):
        import_module(f"{first}.models.llama")


def test_of_the_runtime_only_the_conversion_is_loaded(shelf: Callable[..., str]) -> None:
    generate = import_module(f"{load(shelf('9.9.3'))}.generate")
    public = {name for name in vars(generate) if not name.startswith("__")}
    assert public == {"cache", "maybe_quantize_kv_cache"}


# Targets.


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("release:mlx-lm==9.9.9:KVCache", "kvlaw releases fetch 9.9.9"),
        ("release:mlx-lm==nine:KVCache", "'nine' is no version of mlx-lm"),
        ("release:mlx-lm==0.28.0", "write PACKAGE==VERSION:CACHE, as release:mlx-lm==0.28.0:RotatingKVCache"),
        ("release:mlx-lm:KVCache", "write PACKAGE==VERSION:CACHE"),
        ("release:vllm==0.28.0:KVCache", "write PACKAGE==VERSION:CACHE"),
        ("release:mlx-lm==0.28.0:RotatinKVCache", "did you mean 'RotatingKVCache'?"),
        ("release:", "unknown target 'release:'"),
        ("relaese:mlx-lm==0.28.0:KVCache", "did you mean 'release'?"),
    ],
)
def test_a_name_that_cannot_be_is_told(target: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVLAW_CACHE", str(tmp_path))
    run = CliRunner().invoke(cli, ["try", "full", "--target", target])
    if target.startswith("release:"):
        with pytest.raises(TargetError, match=r"."):
            open_target(target)
        assert run.exit_code == (3 if "9.9.9" in target else 2)
    assert says in " ".join(run.output.split()) or "no module" in run.output


def test_a_class_that_a_release_has_not_is_told_with_those_that_it_has(shelf: Callable[..., str]) -> None:
    def early(files: dict[str, str]) -> None:
        files["mlx_lm/models/cache.py"] = without(
            files["mlx_lm/models/cache.py"], classes=("BatchRotatingKVCache", "PromptTrie", "LRUPromptCache")
        )

    version = shelf("9.8.1", early)
    for name, says in (
        ("BatchRotatingKVCache", "mlx-lm 9.8.1 has no BatchRotatingKVCache; did you mean"),
        ("MambaCache", "has no MambaCache"),
    ):
        with pytest.raises(TargetError, match=says):
            open_target(f"release:mlx-lm=={version}:{name}")
    assert "reuse" not in open_target(f"release:mlx-lm=={version}:KVCache").capabilities


def test_options_are_checked(shelf: Callable[..., str]) -> None:
    version = shelf("9.8.2")
    with pytest.raises(TargetError, match=r"step=naive_compile: release:.*BatchKVCache has no such way"):
        open_target(f"release:mlx-lm=={version}:BatchKVCache", {"step": "naive_compile"})
    with pytest.raises(TargetError, match="clone=sideways"):
        open_target(f"release:mlx-lm=={version}:KVCache", {"clone": "sideways"})
    with pytest.raises(TargetError, match="a release: target has no option 'array'"):
        open_target(f"release:mlx-lm=={version}:KVCache", {"array": "numpy"})
    assert "compiled" in open_target(f"release:mlx-lm=={version}:KVCache", {"step": "naive_compile"}).capabilities
    check_name(f"release:mlx-lm=={version}:KVCache", {"window": "3", "kind": "ring"})


NAMES = ("KVCache", "RotatingKVCache", "ConcatenateKVCache", "QuantizedKVCache", "KVCache+convert")
GROUPS = ("BatchKVCache", "BatchRotatingKVCache", "CacheList", "ArraysCache")


@pytest.mark.parametrize("name", [*NAMES, *GROUPS])
def test_a_release_like_the_installed_one_has_the_same_capabilities(shelf: Callable[..., str], name: str) -> None:
    version = shelf("9.8.3")
    one, other = open_target(f"release:mlx-lm=={version}:{name}"), open_target(f"builtin:mlx_lm.{name}")
    assert one.capabilities == other.capabilities
    assert terms_of(one) == terms_of(other)


def broken(target: str, text: str, profile: Profile = "core", **options: str) -> str:
    """Walk a trace and give the clause that it breaks, or nothing."""
    found = [d.clause for s in replay(open_target(target, options), profile, parse(text).trace) for d in s.divergences]
    return found[0] if found else ""


def test_caches_that_build_no_masks_are_asked_through_the_models_function(shelf: Callable[..., str]) -> None:
    mask = """

def create_attention_mask(h, cache=None, return_array=False):
    T = h.shape[1]
    if T == 1:
        return None
    c = cache[0]
    window = getattr(c, "max_size", None)
    offset = c.offset if window is None else min(window - 1, c.offset)
    if return_array or (window is not None and offset + T > window):
        return create_causal_mask(T, offset, window_size=WIDER and window and window + 1 or window)
    return "causal"


WIDER = {wider}
"""

    def early(wider: bool) -> Callable[[dict[str, str]], None]:
        def change(files: dict[str, str]) -> None:
            files["mlx_lm/models/cache.py"] = without(files["mlx_lm/models/cache.py"], "make_mask")
            files["mlx_lm/models/base.py"] += mask.replace("{wider}", str(wider))

        return change

    right, wide = shelf("9.7.1", early(wider=False)), shelf("9.7.2", early(wider=True))
    assert {"mask", "as_array"} <= open_target(f"release:mlx-lm=={right}:RotatingKVCache").capabilities
    assert "window_argument" not in open_target(f"release:mlx-lm=={right}:RotatingKVCache").capabilities
    assert broken(f"release:mlx-lm=={right}:RotatingKVCache", "ring window=3 ; window 5 ; decode x4 ; window 2") == ""
    assert broken(f"release:mlx-lm=={right}:KVCache", "full ; window 3 ; window 2 ; decode") == ""
    assert broken(f"release:mlx-lm=={wide}:RotatingKVCache", "ring window=3 ; window 5") == "RING-11"


GONE = ("merge", "extract", "prepare", "batch_size")
"""What no group had before 0.30.2."""


def test_groups_are_constructed_where_nothing_merges(shelf: Callable[..., str]) -> None:
    def early(files: dict[str, str]) -> None:
        files["mlx_lm/models/cache.py"] = without(files["mlx_lm/models/cache.py"], *GONE)

    version = shelf("9.7.3", early)
    for name, opening in (("BatchKVCache", "full_rows"), ("BatchRotatingKVCache", "ring_rows window=4")):
        target = f"release:mlx-lm=={version}:{name}"
        able = open_target(target).capabilities
        assert {"rows", "merge", "filter"} <= able
        assert not {"extract", "padding", "left_padding"} & able
        assert broken(target, f"{opening} ; window 3 ; decode x3 ; merge c0 c0 as g ; decode on g ; filter 1") == ""
        steps = replay(
            open_target(target), "core", parse(f"{opening} ; cache as a ; decode on a ; merge a a as g").trace
        )
        assert steps[-1].record.outcome == "unsupported"
    recurrent = f"release:mlx-lm=={version}:ArraysCache"
    assert broken(recurrent, "recurrent_rows ; advance 3 ; advance 1 ; filter 1,0 ; advance 1") == ""


def test_a_group_of_empty_caches_is_constructed_where_merge_takes_none(shelf: Callable[..., str]) -> None:
    def early(files: dict[str, str]) -> None:
        text = files["mlx_lm/models/cache.py"]
        files["mlx_lm/models/cache.py"] = text.replace(
            "def merge(cls, caches):", "def merge(cls, caches):\n        next(c for c in caches if not c.empty())"
        )

    version = shelf("9.7.4", early)
    target = f"release:mlx-lm=={version}:BatchRotatingKVCache"
    assert broken(target, "ring_rows window=4 ; window 2 ; decode x3") == ""
    assert broken(target, "ring_rows window=4 ; merge c0 c0 as g1 ; cache as a ; merge a as g2") == "ROWS-3"


def test_a_state_beside_which_a_meta_state_goes_is_restored_with_it(shelf: Callable[..., str]) -> None:
    """As before 0.32: the state has the planes, ``meta_state`` what counts them."""

    def early(files: dict[str, str]) -> None:
        files["mlx_lm/models/cache.py"] += """

def _state(self):
    return (self.keys, self.values)


def _set_state(self, v):
    self.keys, self.values = v


def _meta(self):
    return tuple(str(n) for n in (self.keep, self.max_size, self.offset, self._idx))


def _set_meta(self, v):
    self.keep, self.max_size, self.offset, self._idx = map(int, v)


RotatingKVCache.state = property(_state, _set_state)
RotatingKVCache.meta_state = property(_meta, _set_meta)
KVCache.meta_state = ""


def _from_state(cls, state, meta_state):
    made = cls.__new__(cls)
    made.state, made.meta_state = state, meta_state
    return made


RotatingKVCache.from_state = classmethod(_from_state)
"""

    target = f"release:mlx-lm=={shelf('9.7.5', early)}:RotatingKVCache"
    trace = "ring window=4 ; window 6 ; decode ; clone as c1 ; decode on c1 ; look c0"
    assert broken(target, trace, clone="from_state") == ""
    assert "older" not in open_target(target).adapter.damages  # type: ignore[attr-defined] # it is of an adapter


# The real releases, where this machine has them.

TWO_RINGS = "ring_rows window=8 rows=1 ; cache as a ; window 12 on a ; cache as b ; window 3 on b ; merge a b as g"
TWO_EQUAL = "ring_rows window=8 ; cache as a ; window 5 on a ; cache as b ; window 5 on b ; merge a b as g"
JOINED = "cache as a ; cache as b ; merge a b as g ; merge c0 g as h"
PADDED = f"full_rows rows=1 dtype=f32 ; window 2 ; {JOINED} ; prepare lengths=2,1,1 right=0,1,1 on h ; window 2 on h"
KNOWN: list[tuple[str, str, str, str, str, Profile]] = [
    ("B04", "0.26.3", "RotatingKVCache", "ring window=3 ; window 5", "RING-11", "core"),
    ("B01", "0.28.0", "RotatingKVCache", "ring window=8 ; decode x10 ; window 3", "RING-4", "layout"),
    ("B01", "0.28.1", "RotatingKVCache", "ring window=8 ; decode x10 ; window 3", "", "layout"),
    ("B33", "0.28.1", "CacheList", "full_rows ; window 2 ; merge c0 c0 as g", "ROWS-3", "core"),
    (
        "B13",
        "0.30.4",
        "BatchRotatingKVCache",
        TWO_RINGS,
        "ROWS-3",
        "core",
    ),
    (
        "B13",
        "0.31.2",
        "BatchRotatingKVCache",
        TWO_RINGS,
        "",
        "core",
    ),
    (
        "B15",
        "0.30.2",
        "BatchRotatingKVCache",
        f"{TWO_EQUAL} ; decode on g ; extract 0 on g as e ; decode on e",
        "ROWS-12",
        "core",
    ),
    ("B06", "0.30.5", "KVCache", "full ; window 32 ; decode w=4", "MASK-4", "core"),
    ("B06", "0.30.7", "KVCache", "full ; window 32 ; decode w=4", "", "core"),
    (
        "B34",
        "0.30.5",
        "MambaCache",
        "recurrent_rows ; cache as a ; advance 1 on a ; cache as b ; advance 1 on b ; merge a b as g ; advance 1 on g",
        "REC-1",
        "core",
    ),
    (
        "B94",
        "0.30.7",
        "CacheList",
        "ring window=8 ; decode x12 ; save as f ; load f as c1 ; decode on c1",
        "PERS-1",
        "core",
    ),
    ("B94", "0.31.1", "CacheList", "ring window=8 ; decode x12 ; save as f ; load f as c1 ; decode on c1", "", "core"),
    (
        "B16",
        "0.31.1",
        "BatchRotatingKVCache",
        "ring_rows window=8 ; prepare left=3,0 ; window 6 ; decode x6 ; extract 0 as a",
        "ROWS-12",
        "core",
    ),
    (
        "B16",
        "0.31.2",
        "BatchRotatingKVCache",
        "ring_rows window=8 ; prepare left=3,0 ; window 6 ; decode x6 ; extract 0 as a",
        "",
        "core",
    ),
    (
        "B30",
        "0.31.2",
        "BatchKVCache",
        PADDED,
        "PAD-5",
        "core",
    ),
    (
        "B30",
        "0.31.3",
        "BatchKVCache",
        PADDED,
        "",
        "core",
    ),
    (
        "B31",
        "0.31.2",
        "ArraysCache",
        f"recurrent_rows ; advance 2 ; {JOINED}",
        "REC-9",
        "core",
    ),
    (
        "B31",
        "0.31.3",
        "ArraysCache",
        f"recurrent_rows ; advance 2 ; {JOINED} ; advance 1 on h",
        "",
        "core",
    ),
    ("B36", "0.31.3", "ArraysCache", "recurrent_rows ; prepare lengths=2,4 right=2,0 ; advance 4", "REC-8", "core"),
    ("B36", "0.32.2", "ArraysCache", "recurrent_rows ; prepare lengths=2,4 right=2,0 ; advance 4", "", "core"),
    (
        "B40",
        "0.31.3",
        "BatchKVCache",
        "full_rows ; prepare left=1,0 ; window 3 ; state as s ; decode ; look s",
        "OWN-4",
        "core",
    ),
    (
        "B93",
        "0.31.3",
        "BatchRotatingKVCache",
        "ring_rows window=4 ; window 6 ; clone as c1 ; extract 0 on c1 as e ; decode on e",
        "ROWS-12",
        "core",
    ),
    (
        "B93",
        "0.32.2",
        "BatchRotatingKVCache",
        "ring_rows window=4 ; window 6 ; clone as c1 ; extract 0 on c1 as e ; decode on e",
        "",
        "core",
    ),
]
"""What the releases are known to break: report, version, cache, trace (by hand, of the report), clause, profile."""


@pytest.mark.parametrize(("report", "version", "name", "trace", "clause", "profile"), KNOWN)
def test_known_faults_of_releases(
    report: str,
    version: str,
    name: str,
    trace: str,
    clause: str,
    profile: Profile,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KVLAW_CACHE", str(HOME.parent))
    if version not in cached():
        pytest.skip(f"mlx-lm {version} was not fetched: kvlaw releases fetch {version}")
    options = {"clone": "from_state"} if "clone" in trace and report == "B93" else {}
    assert broken(f"release:mlx-lm=={version}:{name}", trace, profile, **options) == clause


def test_no_command_but_fetch_downloads() -> None:
    """Only the store runs pip, and only the command calls what fetches."""
    root = Path(store.__file__).parents[1]
    named = re.compile(r"from kvlaw\.conformance\.releases\.store import .*\bfetch\b")
    assert [p.name for p in root.rglob("*.py") if named.search(p.read_text())] == ["cli_releases.py"]
    assert [p.name for p in root.rglob("*.py") if '"pip"' in p.read_text()] == ["store.py"]
    assert sys.modules["kvlaw.conformance.releases.store"] is store
