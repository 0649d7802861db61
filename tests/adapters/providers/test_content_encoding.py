"""A body that travels encoded can be read as it comes, whatever way it is cut."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from wire import cut

from playhead.adapters.providers.content_encoding import (
    LIMIT_BYTES,
    Unreadable,
    content_decoder,
    readable_encodings,
)


def _bare(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


ENCODERS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", gzip.compress),
    "x-gzip": ("X-GZip", gzip.compress),
    "gzip-in-two-members": ("gzip", lambda data: gzip.compress(data[:5]) + gzip.compress(data[5:])),
    "deflate": ("deflate", zlib.compress),
    "deflate-bare": ("deflate", _bare),
    "zstd": ("zstd", zstandard.ZstdCompressor().compress),
    "gzip-in-zstd": ("gzip, zstd", lambda data: zstandard.ZstdCompressor().compress(gzip.compress(data))),
    "identity": ("identity", bytes),
    "none": ("", bytes),
}


def decoded(encoding: str, pieces: Sequence[bytes]) -> bytes:
    decoder = content_decoder([("Content-Encoding", encoding)] if encoding else [])
    return b"".join(map(decoder.push, pieces))


@pytest.mark.parametrize("name", ENCODERS)
def test_what_was_encoded_is_read_again_however_it_is_cut(name: str) -> None:
    encoding, encode = ENCODERS[name]

    @settings(max_examples=30)
    @given(st.binary(max_size=3000), st.lists(st.integers(0, 3000), max_size=5))
    def holds(data: bytes, places: list[int]) -> None:
        assert decoded(encoding, list(cut(encode(data), places))) == data

    holds()


def test_a_piece_can_be_read_before_the_next_one_comes() -> None:
    packer, decoder = zlib.compressobj(wbits=31), content_decoder([("content-encoding", "gzip")])
    for text in (b"one", b"two"):
        assert decoder.push(packer.compress(text) + packer.flush(zlib.Z_SYNC_FLUSH)) == text


@pytest.mark.parametrize("encoding", ["br", "gzip, br", "compress", "aes128gcm"])
def test_an_unknown_encoding_is_refused_by_name(encoding: str) -> None:
    with pytest.raises(Unreadable, match=encoding.rpartition(" ")[2]):
        content_decoder([("content-encoding", encoding)])


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "zstd"])
@given(data=st.binary(min_size=1, max_size=200))
@settings(max_examples=30)
def test_bytes_that_are_no_encoding_are_unreadable_or_nothing(encoding: str, data: bytes) -> None:
    with suppress(Unreadable):
        decoded(encoding, [data])


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_a_body_that_was_made_to_fill_the_memory_is_unreadable(encoding: str) -> None:
    layers = {"gzip": gzip.compress, "zstd": zstandard.ZstdCompressor().compress}
    size = 16 * 2**20
    block = layers[encoding](bytes(size))
    decoder = content_decoder([("content-encoding", encoding)])
    read = sum(len(decoder.push(block)) for _ in range(LIMIT_BYTES // size))
    assert read == LIMIT_BYTES
    with pytest.raises(Unreadable, match="MiB"):
        decoder.push(block)


@pytest.mark.parametrize(
    ("accepted", "kept"),
    [
        ("gzip, deflate", "gzip, deflate"),
        ("gzip, deflate, br, zstd", "gzip, deflate, zstd"),
        ("br;q=1.0, gzip;q=0.8, *;q=0.1", "gzip;q=0.8"),
        ("identity", "identity"),
        ("br", "identity"),
        ("", "identity"),
    ],
)
def test_encodings_that_nobody_here_can_read_are_not_asked_for(accepted: str, kept: str) -> None:
    assert readable_encodings(accepted) == kept
