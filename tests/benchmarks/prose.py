"""Made-up text that compresses like real text: sentences, lists and source code over invented words.

Everything comes from the random generator that is handed in, so one seed gives one text.
"""

from __future__ import annotations

import itertools
import random
import re


def _parts(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_ONSETS = ("", *_parts("b br c ch d dr f fl g gr h j k l m n p pl qu r s sh st t th tr v w"))
_NUCLEI = _parts("a ai e ea i ie o oo u y")
_CODAS = ("", "", "", *_parts("ck d ght l ll m n nd ng nt r rd s st t x"))
_RARE = ("é", "ü", "→", "…", "“quoted”", "你好", "🙂")
_TOKEN = re.compile(r"\s*\w{1,6}|\s*[^\w\s]{1,4}|\s{1,8}")
_VOCABULARY = 6_000
_LEAST, _MOST = 3, 8


class Prose:
    """Text over a vocabulary with the frequencies of natural language (Zipf)."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        words = sorted({self._word() for _ in range(2 * _VOCABULARY)})
        self._words = sorted(words, key=lambda word: (len(word) + rng.random() * 6, word))[:_VOCABULARY]
        self._weights = list(itertools.accumulate(1 / (rank + 2.7) for rank in range(len(self._words))))

    def _word(self) -> str:
        rng = self._rng
        syllables = rng.choices((1, 2, 3), (5, 4, 1))[0]
        return "".join(
            rng.choice(_ONSETS) + rng.choice(_NUCLEI) + rng.choice(_CODAS) for _ in range(syllables)
        )

    def words(self, count: int) -> list[str]:
        return self._rng.choices(self._words, cum_weights=self._weights, k=count)

    def title(self) -> str:
        return " ".join(self.words(self._rng.randint(3, 7))).capitalize()

    def path(self) -> str:
        return "/".join(self.words(self._rng.randint(1, 3))) + self._rng.choice(
            (".py", ".ts", ".md", ".json")
        )

    def text(self, characters: int) -> str:
        """Paragraphs, lists and code blocks of about ``characters`` characters."""
        parts: list[str] = []
        size = 0
        while size < characters:
            kind = self._rng.random()
            part = self.code(6) if kind < 0.15 else self._list() if kind < 0.3 else self._paragraph()
            parts.append(part)
            size += len(part) + 2
        return "\n\n".join(parts)[: max(characters, 1)]

    def code(self, lines: int) -> str:
        """Source code of about ``lines`` lines, in a fence."""
        body = []
        for _ in range(lines):
            name, call, value = self.words(3)
            indent = "    " * self._rng.randint(0, 3)
            body.append(
                self._rng.choice(
                    (
                        f'{indent}{name} = {call}("{value}", {self._rng.randint(0, 99)})',
                        f"{indent}if {name} is not None:",
                        f"{indent}return {name}.{call}[{value!r}]",
                        f"{indent}# {name} {call} {value}",
                    )
                )
            )
        return "```python\n" + "\n".join(body) + "\n```"

    def _paragraph(self) -> str:
        return " ".join(self._sentence() for _ in range(self._rng.randint(2, 5)))

    def _sentence(self) -> str:
        words = self.words(self._rng.randint(5, 18))
        if self._rng.random() < 0.08:
            words[-1] = self._rng.choice(_RARE)
        if len(words) > 9:
            words[5] += ","
        return (" ".join(words) + self._rng.choice((".", ".", ".", "?", ":"))).capitalize()

    def _list(self) -> str:
        return "\n".join(
            f"- `{self.path()}`: {' '.join(self.words(5))}" for _ in range(self._rng.randint(2, 5))
        )


def pieces(text: str) -> list[str]:
    """``text`` cut as a model streams it, at word parts: 3 to 8 characters each, the last one maybe fewer."""
    cut: list[str] = []
    held = ""
    for token in _TOKEN.findall(text):
        held += token
        if len(held) >= _LEAST:
            cut.extend(held[at : at + _MOST] for at in range(0, len(held), _MOST))
            held = ""
    if held:
        cut.append(held)
    return cut
