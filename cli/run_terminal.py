"""A conversation in a terminal: what streams goes up line by line, below it a person types at any time.

The line that is not whole yet stands above the input, and between them what goes on. Ctrl-C stops the turn and keeps
what is queued; when nothing runs, or when it was said before, it leaves, as Ctrl-D does on an empty line. Alt-Enter
begins another line of the same text.
"""

from __future__ import annotations

import asyncio
import errno
import sys
from collections.abc import Iterable
from shutil import get_terminal_size
from typing import TYPE_CHECKING

from playhead.cli import output
from playhead.cli.app import DONE, STOPPED
from playhead.cli.colour import wanted
from playhead.cli.paragraphs import clip, clipped
from playhead.cli.run_commands import Command, Quit, Status, Wait, parsed
from playhead.cli.run_conversation import Conversation
from playhead.cli.run_signals import heeded
from playhead.cli.run_tail import Tail
from playhead.eventstore.errors import UsageError

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.formatted_text import StyleAndTextTuples
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

_SIGN = "> "
_RULE = "──"
_MODEL_CELLS = 40


class Terminal:
    """The screen of one conversation: text goes to ``write``, and ``talk`` lets a person take part."""

    def __init__(self) -> None:
        self._tail = Tail()
        self._shown = ""  # of the line that is not whole
        self._woken = asyncio.Event()
        self._code = DONE
        self._typing: asyncio.Task[None] | None = None

    def write(self, text: str) -> None:
        """Show ``text`` above the input."""
        self._tail.feed(text)
        self._woken.set()

    def aside(self, line: str) -> None:
        """Show a whole line above the input, and above what streams."""
        self._tail.insert(line)
        self._woken.set()

    def rest(self) -> None:
        """Show what is left, now that nobody types any more; nothing where the terminal is gone."""
        try:
            sys.stdout.write(self._tail.lines() + self._tail.line)
            sys.stdout.flush()
        except OSError:
            output.silence(sys.stdout)

    async def talk(self, conversation: Conversation, first: Iterable[Command]) -> int:
        """Do ``first``, then what a person types until they leave; the exit code.

        Raises what the log of the conversation failed with.
        """
        prompt = self._prompt(conversation)
        conversation.agent.notices.listen(lambda _: self._woken.set())
        self._typing = asyncio.ensure_future(self._type(conversation, prompt, first))
        tasks = [
            self._typing,
            asyncio.ensure_future(self._show(prompt)),
            asyncio.ensure_future(conversation.watch()),
        ]
        try:
            with heeded(lambda: self._interrupt(conversation), self._leave):
                ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for task in ended:
            error = None if task.cancelled() else task.exception()
            if isinstance(error, OSError) and error.errno == errno.EIO:  # the terminal was closed
                return STOPPED
            if error is not None:
                raise error
        return self._code

    async def _type(
        self, conversation: Conversation, prompt: PromptSession[str], first: Iterable[Command]
    ) -> None:
        conversation.view.say(conversation.act(Status()))
        for command in first:
            conversation.view.say(conversation.act(command))
        while True:
            try:
                line = await prompt.prompt_async(handle_sigint=False)
            except EOFError:
                return
            if not line.strip():
                continue
            try:
                command = parsed(line)
                if isinstance(command, Quit):
                    return
                if isinstance(command, Wait):
                    raise UsageError("/wait is for scripts: here you see when nothing runs")
                conversation.view.say(conversation.act(command))
            except UsageError as error:
                conversation.view.say([str(error)])

    async def _show(self, prompt: PromptSession[str]) -> None:
        from prompt_toolkit.application import in_terminal

        while True:
            await self._woken.wait()
            self._woken.clear()
            if self._tail.has_lines:
                async with in_terminal():
                    sys.stdout.write(self._tail.lines())
                    sys.stdout.flush()
                    self._shown = self._tail.line
            self._shown = self._tail.line
            prompt.app.invalidate()

    # Leaving

    def _interrupt(self, conversation: Conversation) -> None:
        """Stop the turn; leave when nothing runs, or when it is being stopped already."""
        if conversation.runs and not conversation.stops:
            conversation.view.say(conversation.cancel(keep=True))
        else:
            self._leave()

    def _leave(self) -> None:
        self._code = STOPPED
        if self._typing is not None:
            self._typing.cancel()

    # The input

    def _prompt(self, conversation: Conversation) -> PromptSession[str]:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.formatted_text import ANSI, merge_formatted_text
        from prompt_toolkit.history import InMemoryHistory
        from prompt_toolkit.output import ColorDepth, create_output

        output = create_output()
        # Nothing here drops down, so the room below need not be asked for; some terminals never answer.
        output.enable_cpr = False  # type: ignore[attr-defined]
        depth = None if wanted() else ColorDepth.DEPTH_1_BIT
        return PromptSession(
            lambda: merge_formatted_text([ANSI(self._above()), _standing(conversation), [("bold", _SIGN)]]),
            history=InMemoryHistory(),
            key_bindings=self._keys(conversation),
            prompt_continuation=" " * len(_SIGN),
            reserve_space_for_menu=0,
            erase_when_done=True,
            enable_suspend=True,
            color_depth=depth,
            output=output,
        )

    def _above(self) -> str:
        return f"{self._shown}\n\n" if self._shown else "\n"

    def _keys(self, conversation: Conversation) -> KeyBindings:
        from prompt_toolkit.key_binding import KeyBindings

        keys = KeyBindings()

        @keys.add("c-c")
        def interrupt(event: KeyPressEvent) -> None:
            if event.current_buffer.text and not conversation.runs:
                event.current_buffer.reset()
            else:
                self._interrupt(conversation)

        @keys.add("escape", "enter")
        def another_line(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        return keys


def _standing(conversation: Conversation) -> StyleAndTextTuples:
    """What goes on, on a line of its own."""
    agent = conversation.agent
    facts = [
        "stopping" if conversation.stops else f"turn {agent.last_turn}" if conversation.runs else "ready"
    ]
    facts.append(clipped(conversation.model, _MODEL_CELLS))
    if conversation.waiting:
        facts.append(f"{conversation.waiting:,} queued")
    view = conversation.goals.get()
    if view is not None and view.goal.phase != "complete":
        facts.append(f"goal {view.goal.phase}, round {view.rounds:,} of {view.goal.max_rounds:,}")
    keys = "Ctrl-C stops" if conversation.runs else "Ctrl-D leaves"
    line = clip(" · ".join([*facts, keys, "/help"]), get_terminal_size().columns - len(_RULE) - 2)
    return [("dim", f"{_RULE} {line}\n")]
