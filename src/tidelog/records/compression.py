"""Compressed payloads, both ways, exactly as far as Kafka's own streams go.

`decompress` accepts what Kafka's reader accepts and refuses what it refuses; `compress` writes what Kafka's
writer writes (the compressors differ, so not always the same bytes). A payload, and where it ends for Kafka:

    codec   payload                                                      what follows it is
    gzip    members (RFC 1952), one after the other                      ignored, unless it starts a member
    snappy  xerial: 82 'SNAPPY' 00, version i32, compatible i32, then    ignored: at most 3 bytes, too few
            chunks of length i32 (big endian) and raw snappy; another    for a length
            such header may stand between chunks.
            Or, without that magic: one raw snappy block                 refused
    lz4     one LZ4 frame of independent blocks; block checksums are     ignored
            checked, content size and content checksum are not
    zstd    frames, one after the other, skippable ones too              refused; a last frame cut short too,
                                                                         which Kafka sometimes overlooks

A magic 0 LZ4 frame carries a header checksum taken over the wrong bytes (those of the frame's magic too), a
mistake of early Kafka that became the format: it is written so, and not looked at when read.

Bounds. No more than `limit` bytes come out, and no buffer is made for a size that a payload merely claims:
snappy and LZ4 blocks cannot grow more than 64/3 and 255 times, a zstd frame not past what its block headers
allow, and gzip's and zstd's output grows in steps.
"""

from __future__ import annotations

import struct
import threading
import zlib
from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidelog.errors import CompressionError, InvalidInputError, UnknownCodecError
from tidelog.records.libraries import Library, gzip_compressor, gzip_decompressor
from tidelog.types import Codec

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Buffer

__all__ = ["MAX_DECOMPRESSED", "compress", "decompress"]

MAX_DECOMPRESSED = 1 << 30
"""The most bytes a payload may expand to, unless the caller says otherwise."""

_lz4_block = Library("lz4.block", needed_by="lz4", package="lz4")
_xxhash = Library("xxhash", needed_by="lz4", package="xxhash")
_zstandard = Library("zstandard", needed_by="zstd", package="zstandard")

_i32_be = struct.Struct(">i").unpack_from
_u32_le = struct.Struct("<I").unpack_from
_pack_u32_be = struct.Struct(">I").pack
_pack_u32_le = struct.Struct("<I").pack


def decompress(
    codec: int, data: Buffer, *, magic: int = 2, limit: int = MAX_DECOMPRESSED
) -> bytes | memoryview:
    """The payload `data` of a batch (or of a magic 0/1 wrapper), decompressed.

    Raises CompressionError, without a position (the caller knows it), for bytes that Kafka's reader refuses
    and for more than `limit` bytes of output; UnknownCodecError for a codec that `magic` does not have.
    """
    view = memoryview(data)
    if view.format != "B" or view.ndim != 1:
        view = view.cast("B")
    if not 0 <= codec < len(_DECOMPRESSORS) or (codec == Codec.ZSTD and magic < 2):
        raise UnknownCodecError(f"compression codec {codec} is unknown to magic {magic}")
    try:
        return _DECOMPRESSORS[codec](view, magic, limit)
    except _PastLimit:
        raise CompressionError(f"{Codec(codec).label} payload expands past {limit} bytes") from None


def compress(codec: int, data: Buffer, *, magic: int = 2, level: int | None = None) -> bytes:
    """`data` compressed as a payload of format `magic`.

    `level` has Kafka's meaning and bounds (`compression.gzip.level` 1 to 9 or -1, `compression.lz4.level`
    1 to 17, of which 9 is the fast mode, `compression.zstd.level` -131072 to 22); None: the codec's default.
    """
    view = memoryview(data)
    if view.format != "B" or view.ndim != 1:
        view = view.cast("B")
    if not 0 <= codec < len(_COMPRESSORS) or (codec == Codec.ZSTD and magic < 2):
        raise InvalidInputError(f"compression codec {codec} is unknown to magic {magic}")
    return _COMPRESSORS[codec](view, magic, level)


class _PastLimit(Exception):
    """More output than the caller allows."""


def _checked_level(codec: str, level: int, lowest: int, highest: int) -> int:
    if not lowest <= level <= highest:
        raise InvalidInputError(f"{codec} has no compression level {level}: use {lowest} to {highest}")
    return level


# ---- none


def _plain(data: memoryview, magic: int, limit: int) -> memoryview:
    if len(data) > limit:
        raise _PastLimit
    return data


def _copy(data: memoryview, magic: int, level: int | None) -> bytes:
    return bytes(data)


# ---- gzip

_GZIP_MAGIC = b"\x1f\x8b\x08"
_GZIP_WRAPPER = 31  # zlib's way to say: a gzip member, 32 KiB window


def _gunzip(data: memoryview, magic: int, limit: int) -> bytes:
    """Member after member; what follows a member but is no gzip header ends the payload, as in Java."""
    content, rest = _gunzip_member(data, limit)
    if not rest.startswith(_GZIP_MAGIC):
        return content
    pieces, size = [content], len(content)
    while rest.startswith(_GZIP_MAGIC) and _gzip_header_is_whole(rest):
        content, rest = _gunzip_member(memoryview(rest), limit - size)
        pieces.append(content)
        size += len(content)
    return b"".join(pieces)


def _gunzip_member(data: memoryview, limit: int) -> tuple[bytes, bytes]:
    """One member's content and the bytes after it."""
    decompressor, errors = gzip_decompressor()
    member = decompressor(_GZIP_WRAPPER)
    try:
        content: bytes = member.decompress(data, limit + 1)
    except errors as error:
        raise CompressionError(f"gzip payload is corrupt: {error}") from error
    if len(content) > limit:
        raise _PastLimit
    if not member.eof:
        raise CompressionError("gzip payload is truncated")
    return content, member.unused_data


def _gzip_header_is_whole(rest: bytes) -> bool:
    """Whether Java continues: more than the bytes of a smallest member are left, and its header can be
    read.
    """
    if len(rest) <= 18:
        return False
    flags = rest[3]
    at = 10
    if flags & 4:
        at += 2 + int.from_bytes(rest[at : at + 2], "little")
    for text in (8, 16):
        if flags & text:
            end = rest.find(0, at)
            if end < 0:
                return False
            at = end + 1
    if flags & 2:
        return rest[at : at + 2] == (zlib.crc32(rest[:at]) & 0xFFFF).to_bytes(2, "little")
    return at <= len(rest)


def _gzip(data: memoryview, magic: int, level: int | None) -> bytes:
    """igzip's level 2 unless a level is asked for: that is deflate's own scale, which only zlib has whole."""
    if level is None:
        return gzip_compressor()(data)
    if level != -1:
        _checked_level("gzip", level, 1, 9)
    return zlib.compress(data, level, _GZIP_WRAPPER)


# ---- snappy

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_MAGIC_HEAD = _i32_be(_XERIAL_MAGIC)[0]
_XERIAL_BLOCK = 32 * 1024


def _unsnappy(data: memoryview, magic: int, limit: int) -> bytes | memoryview:
    """Chunks of raw snappy after a xerial header, or a single raw block without one."""
    if len(data) < 16 or data[:8] != _XERIAL_MAGIC:
        if not data:
            raise CompressionError("snappy payload is empty")
        return _unsnappy_block(data, limit)
    pieces: list[memoryview] = []
    at, size, end = 16, 0, len(data)
    while end - at >= 4:
        length = _i32_be(data, at)[0]
        if length == _XERIAL_MAGIC_HEAD:
            if end - at < 16 or data[at : at + 8] != _XERIAL_MAGIC:
                raise CompressionError("snappy payload has a bad header between chunks")
            if _i32_be(data, at + 8)[0] < 1:  # checked here only, as in snappy-java
                raise CompressionError("snappy payload has a header of an unknown version between chunks")
            at += 16
            continue
        at += 4
        if length < 0 or length > end - at:
            raise CompressionError(f"snappy chunk of {length} bytes in a payload with {end - at} left")
        pieces.append(_unsnappy_block(data[at : at + length], limit - size))
        size += len(pieces[-1])
        at += length
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _unsnappy_block(block: memoryview, limit: int) -> memoryview:
    """One raw block; its claim is believed only within what snappy can do with that many bytes."""
    size = shift = at = 0
    while True:
        if at >= len(block) or at == 5:
            raise CompressionError("snappy block has no length")
        byte = block[at]
        size |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        at += 1
        shift += 7
    if size > 22 * len(block):
        raise CompressionError(f"snappy block of {len(block)} bytes claims to hold {size}")
    if size > limit:
        raise _PastLimit
    try:
        content = _snappy_codec().decompress(block, size) if size else _empty_snappy(block, at + 1)
        return memoryview(content).cast("B")
    except OSError as error:
        raise CompressionError(f"snappy payload is corrupt: {error}") from error


def _empty_snappy(block: memoryview, after: int) -> memoryview:
    """Nothing, from a block that says so."""
    if len(block) != after:
        raise CompressionError("snappy payload is corrupt: an empty block has bytes after its length")
    return memoryview(b"")


@cache
def _snappy_codec() -> Any:
    return pa.Codec("snappy")


def _snappy(data: memoryview, magic: int, level: int | None) -> bytes:
    if level is not None:
        raise InvalidInputError("snappy has no compression levels")
    pieces: list[Buffer] = [_XERIAL_HEADER]
    for start in range(0, len(data), _XERIAL_BLOCK):
        block = _snappy_codec().compress(data[start : start + _XERIAL_BLOCK], asbytes=True)
        pieces.append(_pack_u32_be(len(block)))
        pieces.append(block)
    return b"".join(pieces)


# ---- lz4
#
#   header  04 22 4D 18 | FLG: version 01, independent, block checksum, content size, content checksum, 0, 0
#           | BD: 0, n = 4..7 (blocks of 2 ** (2 * n + 8) bytes), 0000 | [content size u64]
#           | HC: second byte of the xxh32 of all after the first four
#   block   size u32 (little endian, top bit set: stored as is) | bytes | [xxh32 u32]
#   end     00 00 00 00 | [content xxh32 u32]

_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_DESCRIPTOR = b"\x60\x40"  # what Kafka writes: version 1, independent blocks of 64 KiB, no checksums
_LZ4_BLOCK = 64 * 1024
_LZ4_STORED = 0x80000000
_LZ4_END = b"\0\0\0\0"


@cache
def _lz4_header(magic: int) -> bytes:
    checked = _LZ4_MAGIC + _LZ4_DESCRIPTOR if magic == 0 else _LZ4_DESCRIPTOR
    return _LZ4_MAGIC + _LZ4_DESCRIPTOR + bytes([_header_checksum(checked)])


def _header_checksum(checked: Buffer) -> int:
    digest: int = _xxhash.xxh32_intdigest(checked)
    return (digest >> 8) & 0xFF


def _unlz4(data: memoryview, magic: int, limit: int) -> bytes:
    end = len(data)
    if data[:7] == _lz4_header(2):
        at, largest, block_checksum, content_checksum = 7, _LZ4_BLOCK, 0, 0
    else:
        at, largest, block_checksum, content_checksum = _lz4_descriptor(data, magic)
    pieces: list[bytes] = []
    size = 0
    while True:
        if end - at < 4:
            raise CompressionError("lz4 payload is truncated")
        word = _u32_le(data, at)[0]
        length = word & ~_LZ4_STORED
        at += 4
        if length == 0:
            if content_checksum and end - at < 4:
                raise CompressionError("lz4 payload is truncated")
            break
        if length > largest or length + block_checksum > end - at:
            raise CompressionError(f"lz4 block of {length} bytes in a payload with {end - at} left")
        block = data[at : at + length]
        content = _unlz4_block(block, largest) if word < _LZ4_STORED else bytes(block)
        at += length
        if block_checksum:
            if _xxhash.xxh32_intdigest(block) != _u32_le(data, at)[0]:
                raise CompressionError("lz4 block does not match its checksum")
            at += 4
        if not content:
            break  # Kafka's stream takes an empty block for its end
        pieces.append(content)
        size += len(content)
        if size > limit:
            raise _PastLimit
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _lz4_descriptor(data: memoryview, magic: int) -> tuple[int, int, int, int]:
    """Where blocks start, how large they may be, bytes of checksum after each and after the end mark."""
    if len(data) < 7 or data[:4] != _LZ4_MAGIC:
        raise CompressionError("lz4 payload does not start with a frame")
    flags, sizes = data[4], data[5]
    if flags & 0xC3 != 0x40:
        raise CompressionError(f"lz4 frame flags {flags:#04x} are not supported")
    if not flags & 0x20:
        raise CompressionError("lz4 frame has dependent blocks, which Kafka does not read")
    if sizes & 0x8F or sizes < 0x40:
        raise CompressionError(f"lz4 block size {sizes:#04x} does not exist")
    at = 14 if flags & 0x08 else 6
    if at >= len(data):
        raise CompressionError("lz4 payload is truncated")
    if magic > 0 and _header_checksum(data[4:at]) != data[at]:
        raise CompressionError("lz4 frame header does not match its checksum")
    largest = 1 << (2 * (sizes >> 4) + 8)
    return at + 1, largest, 4 if flags & 0x10 else 0, 4 if flags & 0x04 else 0


def _unlz4_block(block: memoryview, largest: int) -> bytes:
    room = len(block) * 255
    try:
        content: bytes = _lz4_block.decompress(block, uncompressed_size=room if room < largest else largest)
    except _lz4_block.LZ4BlockError as error:
        raise CompressionError(f"lz4 payload is corrupt: {error}") from error
    return content


def _lz4(data: memoryview, magic: int, level: int | None) -> bytes:
    """Kafka's level 9 is the fast compressor, every other one the high-compression mode at that level."""
    options: dict[str, object] = {"store_size": False}
    if level is not None and _checked_level("lz4", level, 1, 17) != 9:
        options |= {"mode": "high_compression", "compression": min(level, 12)}
    pieces: list[Buffer] = [_lz4_header(magic)]
    for start in range(0, len(data), _LZ4_BLOCK):
        block = data[start : start + _LZ4_BLOCK]
        packed: bytes = _lz4_block.compress(block, **options)
        if len(packed) < len(block):
            pieces += (_pack_u32_le(len(packed)), packed)
        else:
            pieces += (_pack_u32_le(len(block) | _LZ4_STORED), block)
    pieces.append(_LZ4_END)
    return b"".join(pieces)


# ---- zstd
#
#   header  28 B5 2F FD | content size flag 2 bits, single segment, 0, 0, checksum, dictionary flag 2 bits
#           | [window u8, unless single segment] | [dictionary id, 0 1 2 4 bytes] | [content size, 0 1 2 4 8]
#   block   u24 (little endian): last 1 bit, kind 2 bits (raw, one repeated byte, compressed), size | bytes
#   end     [checksum u32]

_ZSTD_MAGIC = 0xFD2FB528
_ZSTD_SKIPPABLE = 0x184D2A50
_ZSTD_BLOCK = 128 * 1024
_ZSTD_FIRST_GUESS = 32  # times the frame's size
_ZSTD_STEP = 1 << 20


class _Contexts(threading.local):
    """Each thread's own zstd contexts: they are not to be shared, and dear to make."""

    def __init__(self) -> None:
        self.decompressor: Any = None
        self.compressors: dict[int, Callable[[memoryview], bytes]] = {}


_contexts = _Contexts()


def _zstd_decompressor() -> Any:
    if _contexts.decompressor is None:
        _contexts.decompressor = _zstandard.ZstdDecompressor()
    return _contexts.decompressor


def _unzstd(data: memoryview, magic: int, limit: int) -> bytes:
    pieces: list[bytes] = []
    at, size, end = 0, 0, len(data)
    while at < end:
        if end - at < 8:
            raise CompressionError("zstd payload is truncated")
        word = _u32_le(data, at)[0]
        if word & 0xFFFFFFF0 == _ZSTD_SKIPPABLE:
            at += 8 + _u32_le(data, at + 4)[0]
            if at > end:
                raise CompressionError("zstd payload is truncated")
            continue
        if word != _ZSTD_MAGIC:
            raise CompressionError("zstd payload holds bytes that are not a frame")
        stop, most, claim = _zstd_walk(data, at)
        pieces.append(_unzstd_frame(data[at:stop], most, claim, limit - size))
        size += len(pieces[-1])
        at = stop
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _zstd_walk(data: memoryview, at: int) -> tuple[int, int, int]:
    """Where the frame at `at` ends, the most its blocks can hold, and what it claims to hold (or -1)."""
    descriptor = data[at + 4]
    single = descriptor >> 5 & 1
    size_bytes = (single, 2, 4, 8)[descriptor >> 6]
    pos = at + 6 - single + (0, 1, 2, 4)[descriptor & 3]
    claim = -1
    if size_bytes:
        claim = int.from_bytes(data[pos : pos + size_bytes], "little") + (256 if size_bytes == 2 else 0)
        pos += size_bytes
    end, most, last = len(data), 0, 0
    while not last:
        if end - pos < 3:
            raise CompressionError("zstd payload is truncated")
        header = data[pos] | data[pos + 1] << 8 | data[pos + 2] << 16
        last, kind, length = header & 1, header >> 1 & 3, header >> 3
        pos += 4 if kind == 1 else 3 + length
        most += _ZSTD_BLOCK if kind > 1 else length
    pos += descriptor & 4
    if pos > end:
        raise CompressionError("zstd payload is truncated")
    return pos, most, claim


def _unzstd_frame(frame: memoryview, most: int, claim: int, limit: int) -> bytes:
    """One whole frame: in one go where a guess is room enough, else in steps."""
    if claim > most or (claim == 0 and most):
        raise CompressionError(f"zstd frame claims {claim} bytes, its blocks hold no more than {most}")
    room = max(_ZSTD_BLOCK, len(frame) * _ZSTD_FIRST_GUESS)
    if room > most:
        room = most
    if room > limit:
        room = limit
    if claim <= room and claim:
        try:
            content: bytes = _zstd_decompressor().decompress(frame, max_output_size=room or 1)
            return content
        except _zstandard.ZstdError:
            pass  # too little room, or corrupt: the steps tell which
    pieces: list[bytes] = []
    size = 0
    try:
        with _zstd_decompressor().stream_reader(frame) as stream:
            while piece := stream.read(_ZSTD_STEP):
                pieces.append(piece)
                size += len(piece)
                if size > limit:
                    raise _PastLimit
    except _zstandard.ZstdError as error:
        raise CompressionError(f"zstd payload is corrupt: {error}") from error
    if claim >= 0 and size != claim:
        raise CompressionError(f"zstd frame claims {claim} bytes and holds {size}")
    return b"".join(pieces)


def _zstd(data: memoryview, magic: int, level: int | None) -> bytes:
    if level is None:
        level = 3
    compressor = _contexts.compressors.get(level)
    if compressor is None:
        _checked_level("zstd", level, -131072, 22)
        compressor = _contexts.compressors[level] = _zstandard.ZstdCompressor(level=level).compress
    return compressor(data)


_DECOMPRESSORS: tuple[Callable[[memoryview, int, int], bytes | memoryview], ...]
_DECOMPRESSORS = (_plain, _gunzip, _unsnappy, _unlz4, _unzstd)
_COMPRESSORS: tuple[Callable[[memoryview, int, int | None], bytes], ...]
_COMPRESSORS = (_copy, _gzip, _snappy, _lz4, _zstd)
