"""With which header a model is called.

The first call of a driver begins with the options of the agent; a reasoning effort that somebody asked for (no
default of the adapter) is carried over from the last header in the log, when provider and model are the same. Later
calls begin with the last header, without what the adapter had filled in. The hook ``request`` may change it, the
source fills in its defaults, and the header is logged when the log has none (``initial``), when this driver has not
logged one (``resume``), or when it differs (``change``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from playhead.eventstore.cancel import CancelToken
from playhead.eventstore.errors import UsageError
from playhead.eventstore.request_header import AdapterDefaults, CallConfig, RequestHeader, Tool
from playhead.live.hooks import Asking, Hooks
from playhead.live.options import AgentOptions
from playhead.live.session import LiveSession


class NoModel(UsageError):
    """Nobody said which model to call."""

    code = "no-model"

    def __init__(self, session: str) -> None:
        self.session = session
        super().__init__(
            f"session {session!r}: a request needs a provider and a model; name both in the options"
        )


class Header:
    """The headers that one driver sends."""

    def __init__(self, session: LiveSession, options: AgentOptions, hooks: Hooks) -> None:
        self._session = session
        self._options = options
        self._hooks = hooks
        self._has_logged = False

    async def ask(
        self, turn: int, step: int, system: str | None, tools: Sequence[Tool], token: CancelToken
    ) -> RequestHeader:
        """The header of the next call, logged where it has to be."""
        asked = await self._hooks.request.ask(Asking(turn, step, self._begin_with(), token))
        token.check()
        if not asked.provider or not asked.model:
            raise NoModel(self._session.id)
        config, defaults = self._options.fill_in(asked)
        header = RequestHeader(
            config=config, adapter_defaults=defaults, system=system, tools=tuple(tools)
        ).canonical()
        self._log_header(header)
        self._log_context(header.config)
        return header

    def _begin_with(self) -> CallConfig:
        config = self._options.config
        logged = self._session.request_header
        if logged is None:
            return config
        last = RequestHeader.decode(logged)
        filled = last.adapter_defaults or AdapterDefaults()
        effort = None if filled.reasoning_effort else last.config.reasoning_effort
        if self._has_logged:
            limit = None if filled.max_tokens else last.config.max_tokens
            return _changed(last.config, reasoning_effort=effort, max_tokens=limit)
        same = (last.config.provider, last.config.model) == (config.provider, config.model)
        if same and config.reasoning_effort is None and effort is not None:
            return _changed(config, reasoning_effort=effort)
        return config

    def _log_header(self, header: RequestHeader) -> None:
        logged = self._session.request_header
        if logged is None:
            reason = "initial"
        elif not self._has_logged:
            reason = "resume"
        elif not header.asks_the_same(RequestHeader.decode(logged)):
            reason = "change"
        else:
            return
        self._session.append("request/header", {"header": header.to_json(), "reason": reason})
        self._has_logged = True

    def _log_context(self, config: CallConfig) -> None:
        context: dict[str, Any] = {"provider": config.provider, "model": config.model}
        if self._options.context_window is not None:
            context["contextWindow"] = self._options.context_window
        if context != self._session.request_context:
            self._session.append("request/context", context)


def _changed(config: CallConfig, **members: Any) -> CallConfig:
    given = {name: getattr(config, name) for name in type(config).model_fields}
    return CallConfig(**(given | members))
