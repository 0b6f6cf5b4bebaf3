"""One failure in HTML: what is broken in words, the picture, the law and its text, and how to see it again."""

from collections.abc import Iterator
from itertools import groupby

from kvlaw.conformance.counting import counted
from kvlaw.conformance.events import FailureFound, StepShown
from kvlaw.conformance.reports.failure_text import charged, legend_lines, shared_rule, swept, title, try_command
from kvlaw.conformance.reports.html_text import Anchors, code, inline, prose, text
from kvlaw.conformance.reports.legend import means
from kvlaw.conformance.reports.picture import Drawn, draw
from kvlaw.conformance.reports.run import TargetReport
from kvlaw.conformance.reports.wording import about, aside, demanded, shown
from kvlaw.spec.config import Config

MOST_STEPS = 80
"""Of a longer trace the last steps are shown."""

_CAPTIONS = {
    "sees": "what the newest token may look at",
    "fetches": "what is handed out",
    "slots": "what lies in the slots of the storage",
    "reads": "whose values the outputs are",
}


def failure_article(failure: FailureFound, anchors: Anchors, report: TargetReport) -> str:
    """Write one failure of those of a target."""
    return "".join(_article(failure, anchors, report))


def _article(failure: FailureFound, anchors: Anchors, report: TargetReport) -> Iterator[str]:
    yield f'<article class="failure" id="{anchors.failure(failure, report.name)}">\n'
    level = f'<span class="level">{text(failure.level)}</span>'
    yield f'<h3><span class="id">{text(failure.clause)}</span> {inline(title(failure))} {level}</h3>\n'
    if more := charged(failure):
        yield f"<p>{text(more[:1].upper() + more[1:])}</p>\n"
    if failure.prose:
        yield f'<div class="prose">{prose(failure.prose)}</div>\n'
    yield '<div class="says">'
    yield f'<div class="law"><b>the law says ({text(about(failure.field))})</b>{text(failure.expected)}</div>'
    yield f'<div class="cache"><b>the cache shows</b>{text(failure.observed)}</div></div>\n'
    if not failure.steady:
        yield '<p class="note">Unsteady: the same trace did not fail when it was run again; the cache does not answer '
        yield "the same calls in the same way each time.</p>\n"
    yield f"<h4>Step by step ({failure.size})</h4>\n"
    yield from _steps(failure)
    if words := legend_lines(failure, calls=False):
        yield f'<p class="soft">Words: {text("; ".join(words), 4000)}</p>\n'
    yield "<h4>See it again</h4>\n"
    yield f"<pre>{text(failure.replay)}\n{text(try_command(failure), 4000)}</pre>\n"
    yield from _more(failure, report.fixed)
    yield "</article>\n"


def _steps(failure: FailureFound) -> Iterator[str]:
    drawn = draw(failure)
    skipped = max(0, len(failure.steps) - MOST_STEPS)
    if not failure.steps:
        yield f"<p>{code(failure.text)}</p>\n"
        return
    if skipped:
        yield f'<p class="soft">{skipped} steps before these are not shown.</p>\n'
    yield '<ol class="steps">\n'
    for number, (step, strips) in enumerate(zip(failure.steps, drawn, strict=True)):
        if number >= skipped:
            yield from _step(number, step, strips, failure)
    yield "</ol>\n"


def _step(number: int, step: StepShown, strips: list[Drawn], failure: FailureFound) -> Iterator[str]:
    meaning = means(step.call, failure.trace.config) if number else _opens(failure.trace.config)
    yield f'<li class="step{" wrong" if step.diverges else ""}">\n<header><span class="no">{number or ""}</span>'
    yield f'<span class="call">{text(step.call)}</span><span class="means">{text(meaning)}</span>'
    yield f'<span class="breaks">breaks {text(failure.clause)}</span>' if step.diverges else ""
    yield "</header>\n"
    if strips:
        for of, group in groupby(strips, key=lambda drawn: drawn.strip.of):
            name = f'<div class="of">{text(of)}</div>' if of else ""
            yield f'<div class="strips">{name}{"".join(_figure(strip) for strip in group)}</div>\n'
        yield from (f'<p class="told">{text(line)}</p>\n' for line in _wrong(strips))
    if step.diverges:
        yield _words(demanded(step), shown(step), bad=True)
        yield f'<p class="soft">({text(more)})</p>\n' if (more := aside(step)) and not strips else ""
    elif (step.law, step.shown) != ("ok", "ok") and not strips:
        yield _words(step.law, step.shown, bad=False)
    yield "</li>\n"


def _words(law: str, shown: str, *, bad: bool) -> str:
    mark = ' class="bad"' if bad else ""
    return f'<dl class="words"><dt>law</dt><dd>{text(law)}</dd><dt>cache</dt><dd{mark}>{text(shown)}</dd></dl>\n'


def _figure(drawn: Drawn) -> str:
    strip = drawn.strip
    caption = _CAPTIONS[strip.what] if strip.query is None else f"what query {strip.query} of this call may look at"
    return f'<figure><figcaption>{caption}</figcaption><div class="wide">{drawn.svg}</div></figure>'


def _wrong(strips: list[Drawn]) -> Iterator[str]:
    for drawn in strips:
        where = f"{drawn.strip.of}: " if drawn.strip.of else ""
        yield from (f"{where}{line}" for line in drawn.wrong)


def _opens(config: Config) -> str:
    """Say what the first call makes."""
    what = f"a new group with {counted(config.row_count, 'row')}" if config.is_rows else "a new, empty cache"
    newest = f"the newest {counted(config.window or 0, 'token')}" if config.window != 1 else "the newest token"
    facts = [f"keeps {newest}" if config.window is not None else "keeps every token"]
    facts = ["holds the state of a recurrent layer"] if config.is_recurrent else facts
    pinned = "the first token" if config.sinks == 1 else f"the first {config.sinks} tokens"
    facts += [f"pins {pinned} for ever"] if config.sinks else []
    facts += [f"stores codes of {config.bits} bits"] if config.bits is not None else []
    facts += ["nothing is looked at before the end"] if config.look == "last" else []
    return f"{what}: {', '.join(facts)}"


def _more(failure: FailureFound, fixed: str) -> Iterator[str]:
    yield "<details><summary>The law as it is executed, its reason, and more</summary>\n"
    for law in failure.laws:
        yield f"<pre>{text(law.scope)}\nwhen {text(law.when, 4000)}\nthen {text(law.then, 4000)}</pre>\n"
    if failure.rationale:
        yield f"<h4>Why there is this rule</h4>\n{prose(failure.rationale)}\n"
    facts = {
        "target": code(failure.target) + (f" ({text(fixed)})" if fixed else ""),
        "trace": code(failure.text, 4000),
        "its cache is built by": code(failure.built) if failure.built else "",
        "other rules": text(shared_rule(failure)),
        "fails alike with": "<br>".join(text(swept(policy)) for policy in failure.seen[:30]),
        "read the rule": f"{code(failure.read)} ({text(failure.where)})",
        "id": code(failure.id),
        "seed": str(failure.seed),
    }
    rows = "".join(f"<dt>{name}</dt><dd>{told}</dd>" for name, told in facts.items() if told)
    yield f'<dl class="facts">{rows}</dl>\n</details>\n'


__all__ = ["failure_article"]
