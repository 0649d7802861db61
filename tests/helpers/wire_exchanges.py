"""Model calls as they went over the wire, drawn by hypothesis."""

from __future__ import annotations

from itertools import accumulate

from hypothesis import strategies as st

from playhead.eventstore.exchange import ENDS, Exchange

_times = st.integers(0, 2**45)
_counts = st.none() | st.integers(0, 2**40)
_words = st.text(max_size=20)


@st.composite
def exchanges(draw: st.DrawFn) -> Exchange:
    """An exchange of any kind, cleaned as it is kept."""
    sizes = draw(st.lists(st.integers(1, 40), max_size=6))
    offsets = list(accumulate(sizes, initial=0))
    answered = draw(st.booleans())
    return Exchange(
        dialect=draw(_words),
        path=draw(st.sampled_from(["/v1/messages", "/chat/completions?beta=true", "/ü"])),
        request=draw(st.binary(max_size=60) | st.text(max_size=60).map(str.encode)),
        end=draw(st.sampled_from(sorted(ENDS))),  # type: ignore[arg-type]
        began_ms=draw(_times),
        ended_ms=draw(_times),
        request_headers=(("content-type", draw(_words)), ("user-agent", draw(_words))),
        status=draw(st.integers(100, 599)) if answered else None,
        head_ms=draw(_times) if answered else None,
        headers=(("retry-after", "2"), ("x-request-id", draw(_words))),
        body=draw(st.binary(min_size=offsets[-1], max_size=offsets[-1])),
        pieces=tuple((offset, draw(_times)) for offset in offsets[:-1]),
        whole=draw(st.booleans()),
        turn=draw(_counts),
        step=draw(_counts),
        number=draw(_counts),
        seq=draw(_counts),
    ).cleaned()
