"""The figures of ``playhead stats`` on the screen.

On a terminal numbers are aligned and have separators, failures are painted, and remarks are wrapped. A sum to which
some calls did not report is marked ``≥``, one that nobody reported is ``-``. Anywhere else each row is one line, its
cells separated by tabs, with plain numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from shutil import get_terminal_size
from typing import NamedTuple

from playhead.cli import output, table, units
from playhead.cli.call_speed import CallSpeed
from playhead.cli.colour import paint
from playhead.cli.paragraphs import wrap
from playhead.cli.safe_text import safe
from playhead.cli.stats_figures import Figures, Name, Summary
from playhead.projections.tool_use import Tool

_INPUTS = (
    ("input", "input, not cached"),
    ("cache_read", "input from cache"),
    ("cache_write", "input to cache"),
)


_LEAST = "≥"
_NAMED = 5


class _Line(NamedTuple):
    """One figure: its name, its value, what else there is to say, and how it is painted."""

    name: str
    value: str
    remark: str = ""
    style: str = ""


def overview(summary: Summary, *, alone: bool) -> None:
    """One figure a line; ``alone`` for a single session."""
    lines = [] if alone else [_Line("sessions", _number(summary.sessions))]
    lines += [*_calls(summary.total), *_tokens(summary.total)]
    if summary.prices is not None:
        lines.append(_cost(summary.total))
    lines += _times(summary.total, summary.last.speed if alone and summary.last is not None else None)
    lines += _tools(summary.tools)
    if summary.inherited.calls:
        lines.append(_inherited(summary.inherited))
    if not output.on_terminal():
        for line in lines:
            output.line("\t".join(map(safe, (line.name.strip(), line.value, line.remark))))
        return
    if alone and summary.last is not None:
        info = summary.last.info
        output.line(
            f"{paint(safe(info.id), 'bold')}  {units.when(info.first_ms)} to {units.when(info.last_ms)}"
        )
    names, values = max(len(line.name) for line in lines), max(len(line.value) for line in lines)
    room = max(get_terminal_size().columns - names - values - 4, 16)
    for line in lines:
        first, *rest = wrap(safe(line.remark), room)
        shown = f"{line.name:<{names}}  {paint(f'{line.value:>{values}}', line.style)}"
        output.line(f"{shown}  {paint(first, 'dim')}" if first else shown)
        for more in rest:
            output.line(" " * (names + values + 4) + paint(more, "dim"))


def _calls(made: Figures) -> Iterable[_Line]:
    yield _Line("turns", _number(made.turns), "with a step")
    yield _Line("steps", _number(made.steps))
    yield _Line("model calls", _number(made.calls), _listed(made.outcomes))
    if made.failures:
        failed = sum(made.failures.values())
        yield _Line("  failed", _number(failed), _listed(made.failures), "bold red")
    if made.retries:
        waited = f"after waits of {units.duration(round(made.waited_ms))} in all"
        yield _Line("  made again", _number(made.retries), waited, "yellow")
    if made.silent:
        why = "nothing came of them; whether a request went out is not known"
        yield _Line("unanswered steps", _number(made.silent), why, "yellow")


def _tokens(made: Figures) -> Iterable[_Line]:
    tokens, by = made.tokens.tokens, made.tokens.reported
    for name, label in _INPUTS:
        yield _Line(label, _count(getattr(tokens, name)), _reporters(made, getattr(by, name)))
    yield _Line("  billed input", _count(made.tokens.billed_input))
    yield _Line("output", _count(tokens.output), _reporters(made, by.output))
    yield _Line("  of it reasoning", _count(tokens.reasoning), _reporters(made, by.reasoning))
    if made.tokens.unknown:
        unknown = "what they took is not known and in no sum"
        yield _Line("calls without usage", _number(made.tokens.unknown), unknown, "yellow")


def _cost(made: Figures) -> _Line:
    unpriced = made.cost.unpriced
    remark = f"without {units.count(unpriced, 'call')} of unknown price or usage" if unpriced else ""
    return _Line("cost", made.cost.text or "-", remark, "yellow" if unpriced else "")


def _times(made: Figures, speed: CallSpeed | None) -> Iterable[_Line]:
    timed = "" if made.timed == made.calls else f"of the {units.count(made.timed, 'call')} with a known end"
    yield _Line("model time", _span(made.model_ms if made.timed else None), timed)
    if speed is None:
        return
    if speed.mean_first_token_ms is not None:
        calls = f"on average of {units.count(speed.calls, 'call')}"
        yield _Line("  to first token", _span(speed.mean_first_token_ms), calls)
    if speed.tokens_per_second is not None:
        yield _Line("  tokens a second", f"{speed.tokens_per_second:,.1f}", "from the first token to the end")


def _tools(tools: list[tuple[str, Tool]]) -> Iterable[_Line]:
    total = Tool()
    for _, tool in tools:
        total = total.plus(tool)
    yield _Line(
        "tool calls", _number(total.calls), _listed(Counter({name: tool.calls for name, tool in tools}))
    )
    if total.errors:
        wrong = Counter({name: tool.errors for name, tool in tools if tool.errors})
        yield _Line("  with an error", _number(total.errors), _listed(wrong), "bold red")
    if total.calls > total.answered:
        yield _Line("  without a result", _number(total.calls - total.answered), "", "yellow")
    if total.answered:
        yield _Line("tool time", _span(total.total_ms))


def _inherited(parents: Figures) -> _Line:
    billed, came = parents.tokens.billed_input, parents.tokens.tokens.output
    told = f"with {_count(billed)} tokens of input and {_count(came)} of output; made by the parent, in no sum above"
    return _Line("inherited calls", _number(parents.calls), told, "cyan")


def groups(summary: Summary, by: str) -> None:
    """One row a group, then the sum of all."""
    if not output.on_terminal():
        for name, made in summary.groups:
            output.line("\t".join(map(safe, (_label(name), *_cells(made)))))
        return
    written = bool(summary.total.tokens.tokens.cache_write)
    priced = summary.prices is not None
    rows = [_row(_label(name), made, written, priced) for name, made in summary.groups]
    rows.append(_row("all", summary.total, written, priced))
    headings = [">CALLS", _FAILED, ">INPUT", ">CACHED"] + [">WRITTEN"] * written + [">OUTPUT", ">TIME"]
    _aligned([*headings, *[">COST"] * priced, by.upper()], rows, _FAILED)
    if any(_LEAST in cell for row in rows for cell in row[:-1]):
        output.line(paint(f"{_LEAST} at least so much: some calls do not tell it", "dim"))


def _label(name: Name) -> str:
    """``model (provider)``; any other name as it is."""
    first, *provider = (part or "unknown" for part in name)
    return f"{first} ({provider[0]})" if provider else first


_FAILED = ">FAILED"
_ERRORS = ">ERRORS"


def _row(name: str, made: Figures, written: bool, priced: bool) -> list[str]:
    tokens, by = made.tokens.tokens, made.tokens.reported

    def least(figure: str) -> str:
        value = getattr(tokens, figure)
        mark = _LEAST if value is not None and getattr(by, figure) < made.calls else ""
        return mark + _count(value)

    return [
        _number(made.calls),
        _number(sum(made.failures.values())),
        least("input"),
        least("cache_read"),
        *([least("cache_write")] if written else []),
        least("output"),
        _span(made.model_ms if made.timed else None),
        *(
            [(_LEAST if made.cost.unpriced and made.cost.text else "") + (made.cost.text or "-")]
            if priced
            else []
        ),
        name,
    ]


def _cells(made: Figures) -> list[str]:
    """The figures of a group for a program, see docs/cli.md."""
    tokens = made.tokens.tokens
    known = (tokens.input, tokens.cache_read, tokens.cache_write, tokens.output, tokens.reasoning)
    return [
        str(made.calls),
        str(sum(made.failures.values())),
        str(made.retries),
        str(made.silent),
        str(made.tokens.unknown),
        *("-" if value is None else str(value) for value in known),
        str(made.model_ms) if made.timed else "-",
        made.cost.text or "-",
    ]


def tools(summary: Summary) -> None:
    """One row a tool, the most used first."""
    if not output.on_terminal():
        for name, tool in summary.tools:
            figures = (tool.calls, tool.errors, tool.calls - tool.answered, tool.total_ms, tool.longest_ms)
            output.line("\t".join((safe(name), *map(str, figures))))
        return
    rows = []
    for name, tool in summary.tools:
        mean = round(tool.total_ms / tool.answered) if tool.answered else None
        silent = _number(tool.calls - tool.answered)
        spans = (_span(tool.total_ms), _span(mean), _span(tool.longest_ms))
        rows.append([_number(tool.calls), _number(tool.errors), silent, *spans, name])
    if not rows:
        output.note("no tool was called")
        return
    _aligned([">CALLS", _ERRORS, ">NO RESULT", ">TIME", ">MEAN", ">LONGEST", "TOOL"], rows, _ERRORS)


def _aligned(headings: list[str], rows: list[list[str]], alarming: str) -> None:
    """A table whose cells in the column ``alarming`` are painted red where they are not 0."""
    head, *lines = table.lines(headings, rows)
    output.line(paint(head, "dim"))
    name = alarming.removeprefix(table.NUMBER)
    end = head.index(name) + len(name)
    column = headings.index(alarming)
    for row, line in zip(rows, lines, strict=True):
        cell = row[column]
        if cell != "0":
            line = line[: end - len(cell)] + paint(cell, "bold red") + line[end:]
        output.line(line)


def _listed(numbers: Counter[str]) -> str:
    """``2 finished, 1 failed``; of many names the most frequent."""
    told = [f"{number:,} {name}" for name, number in numbers.most_common(_NAMED)]
    more = len(numbers) - len(told)
    return ", ".join([*told, *([f"{more:,} more names"] if more else [])])


def _reporters(made: Figures, reported: int | None) -> str:
    """Of how many calls a sum is, where that is not all of those that report anything."""
    telling = made.calls - made.tokens.unknown
    if not reported or reported == telling:
        return ""
    return f"reported by {reported:,} of {units.count(telling, 'call')}"


def _number(value: int) -> str:
    return f"{value:,}" if output.on_terminal() else str(value)


def _count(value: int | None) -> str:
    return "-" if value is None else _number(value)


def _span(span_ms: int | None) -> str:
    if output.on_terminal():
        return units.duration(span_ms)
    return "-" if span_ms is None else f"{span_ms} ms"
