# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""A batch's header as a line of text: JSON, or the wording of kafka-dump-log.

    {"base_offset":0,"last_offset":39,"count":40,...,"codec":"zstd","crc":2037362661,"valid":true}
    baseOffset: 0 lastOffset: 39 count: 40 ... compresscodec: zstd crc: 2037362661 isvalid: true
    offset: 11 position: 0 CreateTime: 1500000000021 size: 330 magic: 1 ...     (magic 0 and 1)

`b` is a row of the table that kernels/scan.py fills. A line takes less than 1024 bytes: 19 numbers of 20
digits at most, and their names. How many messages a compressed magic 0 or 1 message wraps is not in its
header: null.
"""

import cython

if cython.compiled:
    from cython.cimports.tidelog.kernels.codecs import GZIP, LZ4, SNAPPY, ZSTD
    from cython.cimports.tidelog.kernels.text import put_int, put_word
else:
    from tidelog.kernels.codecs import GZIP, LZ4, SNAPPY, ZSTD
    from tidelog.kernels.text import put_int, put_word

_MAX_SEQUENCE = cython.declare(cython.longlong, 0x7FFFFFFF)


def _field(out, at, word, value):
    return put_int(out, put_word(out, at, word), value)


def put_flag(out, at, word, value):
    """A literal and true or false."""
    return put_word(out, put_word(out, at, word), b"true" if value else b"false")


def _last_sequence(b):
    """The base sequence plus the last offset delta; after 2^31-1 comes 0."""
    return -1 if b[11] < 0 else (b[11] + b[3] - b[2]) & _MAX_SEQUENCE


def put_time_type(out, at, magic, attributes):
    """The timestamp type of a batch, in Kafka's words."""
    if magic == 0:
        return put_word(out, at, b"NoTimestampType")
    return put_word(out, at, b"LogAppendTime" if attributes & 8 else b"CreateTime")


def put_codec(out, at, attributes):
    """The codec of a batch; one that does not exist is unknown."""
    codec: cython.int = attributes & 7
    if codec == 0:
        return put_word(out, at, b"none")
    if codec == GZIP:
        return put_word(out, at, b"gzip")
    if codec == SNAPPY:
        return put_word(out, at, b"snappy")
    if codec == LZ4:
        return put_word(out, at, b"lz4")
    if codec == ZSTD:
        return put_word(out, at, b"zstd")
    return put_word(out, at, b"unknown")


def put_batch_json(out, at, b, sound):
    """The line of a batch."""
    v2: cython.bint = b[5] == 2
    at = _field(out, at, b'{"base_offset":', b[2])
    at = _field(out, at, b',"last_offset":', b[3])
    if v2 or not b[6] & 7:
        at = _field(out, at, b',"count":', b[12])
    else:
        at = put_word(out, at, b',"count":null')
    at = _field(out, at, b',"base_sequence":', b[11])
    at = _field(out, at, b',"last_sequence":', _last_sequence(b))
    at = _field(out, at, b',"producer_id":', b[9])
    at = _field(out, at, b',"producer_epoch":', b[10])
    at = _field(out, at, b',"leader_epoch":', b[4])
    at = put_flag(out, at, b',"transactional":', v2 and b[6] & 16 != 0)
    at = put_flag(out, at, b',"control":', v2 and b[6] & 32 != 0)
    if v2 and b[6] & 64:
        at = _field(out, at, b',"delete_horizon_ms":', b[7])
    else:
        at = put_word(out, at, b',"delete_horizon_ms":null')
    at = _field(out, at, b',"position":', b[0])
    at = put_time_type(out, put_word(out, at, b',"timestamp_type":"'), b[5], b[6])
    at = _field(out, at, b'","max_timestamp":', b[8])
    at = _field(out, at, b',"size":', b[1])
    at = _field(out, at, b',"magic":', b[5])
    at = put_codec(out, put_word(out, at, b',"codec":"'), b[6])
    at = _field(out, at, b'","crc":', b[13])
    at = put_flag(out, at, b',"valid":', sound)
    return put_word(out, at, b"}\n")


def put_batch_text(out, at, b, sound):
    """The line of a batch, as kafka-dump-log words it."""
    if b[5] == 2:
        at = _field(out, at, b"baseOffset: ", b[2])
        at = _field(out, at, b" lastOffset: ", b[3])
        at = _field(out, at, b" count: ", b[12])
        at = _field(out, at, b" baseSequence: ", b[11])
        at = _field(out, at, b" lastSequence: ", _last_sequence(b))
        at = _field(out, at, b" producerId: ", b[9])
        at = _field(out, at, b" producerEpoch: ", b[10])
        at = _field(out, at, b" partitionLeaderEpoch: ", b[4])
        at = put_flag(out, at, b" isTransactional: ", b[6] & 16 != 0)
        at = put_flag(out, at, b" isControl: ", b[6] & 32 != 0)
        if b[6] & 64:
            at = put_word(out, _field(out, at, b" deleteHorizonMs: OptionalLong[", b[7]), b"]")
        else:
            at = put_word(out, at, b" deleteHorizonMs: OptionalLong.empty")
    else:
        at = _field(out, at, b"offset: ", b[3])
    at = put_word(out, _field(out, at, b" position: ", b[0]), b" ")
    at = _field(out, put_time_type(out, at, b[5], b[6]), b": ", b[8])
    at = _field(out, at, b" size: ", b[1])
    at = _field(out, at, b" magic: ", b[5])
    at = put_codec(out, put_word(out, at, b" compresscodec: "), b[6])
    at = _field(out, at, b" crc: ", b[13])
    at = put_flag(out, at, b" isvalid: ", sound)
    return put_word(out, at, b"\n")
