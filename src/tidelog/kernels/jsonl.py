# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Decoded records, and their batches, as lines of text: JSON, or the wording of kafka-dump-log.

    {"offset":7,"timestamp":1700000000000,"timestamp_type":"CreateTime","key":null,"value":"aGk=","headers":...}
    | offset: 7 CreateTime: 1700000000000 keySize: -1 valueSize: 2 sequence: 7 headerKeys: [] payload: hi

A `Lines` stands on the batches of a table and the columns decoded from them; which record lies in which batch
is told by the column of positions. `fill` writes whole lines into a buffer until one more might not fit, so
the caller's buffer bounds the memory, and may be small enough to stay in the cache:

1. What is the same for all records of a batch is written once, into a template, when the batch is reached.
2. For each record the most that its line can take is reckoned first (see kernels/text.py), then the line is
   written without another look at the room.

Text that goes to a terminal must not command it: in the dump-log wording control characters and bytes that
are not UTF-8 are escaped. JSON has base64 for bytes and escapes header keys by its own rules.
"""

import cython

if cython.compiled:
    from cython.cimports.libc.string import memcpy, strlen
    from cython.cimports.tidelog.kernels.batchlines import (
        put_batch_json,
        put_batch_text,
        put_codec,
        put_flag,
        put_time_type,
    )
    from cython.cimports.tidelog.kernels.text import put_base64, put_int, put_json_text, put_visible
else:
    from tidelog.kernels.batchlines import (
        put_batch_json,
        put_batch_text,
        put_codec,
        put_flag,
        put_time_type,
    )
    from tidelog.kernels.text import put_base64, put_int, put_json_text, put_visible

DONE, FULL, NOTE, BAD = range(4)
"""Why `fill` stopped: all is written; the next line may take `need` bytes, which the buffer has not; the next
record, `row`, is a control record that the caller has words for; the columns do not hold together."""

_DONE = cython.declare(cython.int, 0)
_FULL = cython.declare(cython.int, 1)
_NOTE = cython.declare(cython.int, 2)
_BAD = cython.declare(cython.int, 3)

# The most that numbers and fixed words can take, generously.
_BATCH_LINE = cython.declare(cython.Py_ssize_t, 1024)
_TEMPLATE = cython.declare(cython.Py_ssize_t, 512)
_RECORD_LINE = cython.declare(cython.Py_ssize_t, 1024)
_HEADER = cython.declare(cython.Py_ssize_t, 32)

_SIGN32 = cython.declare(cython.longlong, 0x80000000)
_MAX_SEQUENCE = cython.declare(cython.longlong, 0x7FFFFFFF)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _copy(
    out: cython.pointer[cython.uchar],
    at: cython.Py_ssize_t,
    p: cython.pointer[cython.const[cython.uchar]],
    pos: cython.Py_ssize_t,
    n: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """p[pos:pos+n] to out[at:]; where it ends."""
    if cython.compiled:
        memcpy(out + at, p + pos, n)
    else:
        out[at : at + n] = p[pos : pos + n]
    return at + n


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _word(
    out: cython.pointer[cython.uchar], at: cython.Py_ssize_t, word: cython.pointer[cython.const[cython.char]]
) -> cython.Py_ssize_t:
    """A literal to out[at:]; where it ends. Inlined, the C compiler knows its length."""
    if cython.compiled:
        n: cython.Py_ssize_t = strlen(word)
        memcpy(out + at, word, n)
        return at + n
    else:
        out[at : at + len(word)] = word
        return at + len(word)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _field(
    out: cython.pointer[cython.uchar],
    at: cython.Py_ssize_t,
    word: cython.pointer[cython.const[cython.char]],
    value: cython.longlong,
) -> cython.Py_ssize_t:
    """A literal and a number."""
    return put_int(out, _word(out, at, word), value)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _sequence(base: cython.longlong, delta: cython.longlong) -> cython.longlong:
    """The sequence `delta` after `base`; after 2^31-1 comes 0."""
    return -1 if base < 0 else (base + delta) & _MAX_SEQUENCE


@cython.final
@cython.cclass
class Column:
    """A column of byte strings in Arrow's layout: ends (one more than rows), validity bits or None, bytes."""

    ends: cython.const[cython.int][::1]
    valid: cython.const[cython.uchar][::1]
    data: cython.const[cython.uchar][::1]
    rows: cython.Py_ssize_t
    room: cython.Py_ssize_t
    nullable: cython.bint

    def __init__(self, ends, valid, data):
        self.rows = len(ends) - 1
        self.room = len(data)
        self.nullable = valid is not None
        if self.nullable and 8 * len(valid) < self.rows:
            raise ValueError("fewer validity bits than rows")
        self.ends = ends if cython.compiled else ends.tolist()
        self.valid = valid if cython.compiled or valid is None else valid.tolist()
        self.data = data if cython.compiled else memoryview(data)

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def size(self, row: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Bytes of the value in `row`: -1 if it is null, -2 if it lies outside the data."""
        start: cython.Py_ssize_t = self.ends[row]
        end: cython.Py_ssize_t = self.ends[row + 1]
        if start < 0 or end < start or end > self.room:
            return -2
        if self.nullable and not (self.valid[row >> 3] >> (row & 7)) & 1:
            return -1
        return end - start

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def bytes(self) -> cython.pointer[cython.const[cython.uchar]]:
        """All data; there is none to be looked at where no value has a size above 0."""
        if cython.compiled:
            return cython.address(self.data[0])
        else:
            return self.data

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def put_json(
        self, row: cython.Py_ssize_t, out: cython.pointer[cython.uchar], at: cython.Py_ssize_t
    ) -> cython.Py_ssize_t:
        """The value in `row` as a JSON string in base64, or null."""
        size: cython.Py_ssize_t = self.size(row)
        if size < 0:
            return _word(out, at, b"null")
        at = _word(out, at, b'"')
        if size > 0:
            at = put_base64(out, at, self.bytes(), self.ends[row], size)
        return _word(out, at, b'"')


@cython.final
@cython.cclass
class Lines:
    """The lines of a run of batches and their records; see the module.

    `table` has the batch headers (columns as in kernels/scan.py); `positions`, `offsets` and `timestamps` are
    columns of their records and `header_ends` the ends of their lists of headers. With `batches` each batch
    gets a line too; `payloads` adds keys and values to the dump-log wording; `sound` is in a batch's line.
    """

    table: cython.const[cython.longlong][:, ::1]
    positions: cython.const[cython.longlong][::1]
    offsets: cython.const[cython.longlong][::1]
    timestamps: cython.const[cython.longlong][::1]
    keys: Column
    values: Column
    header_ends: cython.const[cython.int][::1]
    header_keys: Column
    header_values: Column
    template: cython.uchar[::1]
    head: cython.Py_ssize_t  # template[:head]: timestamp type
    tail: cython.Py_ssize_t  # template[head:tail]: facts of the batch, up to the sequence
    last: cython.Py_ssize_t  # template[tail:last]: what follows the sequence
    json: cython.bint
    batches: cython.bint
    payloads: cython.bint
    sound: cython.bint
    rows: cython.Py_ssize_t
    count: cython.Py_ssize_t
    batch = cython.declare(cython.Py_ssize_t, visibility="readonly")
    row = cython.declare(cython.Py_ssize_t, visibility="readonly")
    need = cython.declare(cython.Py_ssize_t, visibility="readonly")
    status = cython.declare(cython.int, visibility="readonly")

    def __init__(
        self,
        table,
        positions,
        offsets,
        timestamps,
        keys: Column,
        values: Column,
        header_ends,
        header_keys: Column,
        header_values: Column,
        json,
        batches,
        payloads,
        sound,
    ):
        self.rows = len(positions)
        if not (len(offsets) == len(timestamps) == keys.rows == values.rows == self.rows):
            raise ValueError("columns of different lengths")
        if len(header_ends) != self.rows + 1 or header_keys.rows != header_values.rows:
            raise ValueError("header columns of different lengths")
        self.count = len(table)
        self.table = table if cython.compiled else table.tolist()
        self.positions = positions if cython.compiled else positions.tolist()
        self.offsets = offsets if cython.compiled else offsets.tolist()
        self.timestamps = timestamps if cython.compiled else timestamps.tolist()
        self.header_ends = header_ends if cython.compiled else header_ends.tolist()
        self.keys = keys
        self.values = values
        self.header_keys = header_keys
        self.header_values = header_values
        self.template = bytearray(_TEMPLATE)
        self.json = json
        self.batches = batches
        self.payloads = payloads
        self.sound = sound
        self.batch = -1
        self.row = 0
        self.need = 0
        self.status = _DONE

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def facts(self) -> cython.pointer[cython.const[cython.longlong]]:
        """The header of the batch at hand."""
        if cython.compiled:
            return cython.address(self.table[self.batch, 0])
        else:
            return self.table[self.batch]

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def prepare(self, out: cython.pointer[cython.uchar]) -> cython.void:
        """Write into the template what all records of the batch at hand share."""
        b: cython.pointer[cython.const[cython.longlong]] = self.facts()
        base: cython.longlong = b[2]
        at: cython.Py_ssize_t
        if not self.json:
            self.head = _word(out, put_time_type(out, _word(out, 0, b" "), b[5], b[6]), b": ")
            return
        if b[5] < 2:
            base = self.offsets[self.row]  # a wrapper's own offset is that of the last message in it
        self.head = _word(
            out, put_time_type(out, _word(out, 0, b',"timestamp_type":"'), b[5], b[6]), b'","key":'
        )
        at = _field(out, self.head, b',"position":', b[0])
        at = _field(out, at, b',"magic":', b[5])
        at = put_codec(out, _word(out, at, b',"codec":"'), b[6])
        at = _field(out, at, b'","base_offset":', base)
        at = _field(out, at, b',"leader_epoch":', b[4])
        at = _field(out, at, b',"producer_id":', b[9])
        at = _field(out, at, b',"producer_epoch":', b[10])
        self.tail = _word(out, at, b',"sequence":')
        at = put_flag(out, self.tail, b',"transactional":', b[5] == 2 and b[6] & 16 != 0)
        at = put_flag(out, at, b',"control":', b[5] == 2 and b[6] & 32 != 0)
        self.last = _word(out, at, b"}\n")

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def most(self) -> cython.Py_ssize_t:
        """The most bytes that the line of the record at hand can take; -1 if its columns are bad."""
        key: cython.Py_ssize_t = self.keys.size(self.row)
        value: cython.Py_ssize_t = self.values.size(self.row)
        i: cython.Py_ssize_t = self.header_ends[self.row]
        end: cython.Py_ssize_t = self.header_ends[self.row + 1]
        total: cython.Py_ssize_t = _RECORD_LINE
        name: cython.Py_ssize_t
        if key < -1 or value < -1 or i < 0 or end < i or end > self.header_keys.rows:
            return -1
        if self.json or self.payloads:
            total += 4 * (key + value) + 16
        while i < end:
            name = self.header_keys.size(i)
            value = self.header_values.size(i)
            if name < -1 or value < -1:
                return -1
            total += 6 * name + 4 * value + _HEADER
            i += 1
        return total

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def put_record_json(
        self,
        out: cython.pointer[cython.uchar],
        at: cython.Py_ssize_t,
        template: cython.pointer[cython.const[cython.uchar]],
    ) -> cython.Py_ssize_t:
        """The line of the record at hand."""
        b: cython.pointer[cython.const[cython.longlong]] = self.facts()
        i: cython.Py_ssize_t = self.header_ends[self.row]
        end: cython.Py_ssize_t = self.header_ends[self.row + 1]
        size: cython.Py_ssize_t
        at = _field(out, at, b'{"offset":', self.offsets[self.row])
        at = _field(out, at, b',"timestamp":', self.timestamps[self.row])
        at = _copy(out, at, template, 0, self.head)
        at = self.keys.put_json(self.row, out, at)
        at = self.values.put_json(self.row, out, _word(out, at, b',"value":'))
        at = _word(out, at, b',"headers":[')
        while i < end:
            at = _word(out, at, b'["')
            size = self.header_keys.size(i)
            if size > 0:
                at = put_json_text(out, at, self.header_keys.bytes(), self.header_keys.ends[i], size)
            at = self.header_values.put_json(i, out, _word(out, at, b'",'))
            i += 1
            at = _word(out, at, b"]," if i < end else b"]")
        at = _copy(out, _word(out, at, b"]"), template, self.head, self.tail - self.head)
        at = put_int(out, at, _sequence(b[11], self.offsets[self.row] - b[2]))
        return _copy(out, at, template, self.tail, self.last - self.tail)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def put_record_text(
        self,
        out: cython.pointer[cython.uchar],
        at: cython.Py_ssize_t,
        template: cython.pointer[cython.const[cython.uchar]],
    ) -> cython.Py_ssize_t:
        """The line of the record at hand, as kafka-dump-log words it, but for its content and end."""
        b: cython.pointer[cython.const[cython.longlong]] = self.facts()
        i: cython.Py_ssize_t = self.header_ends[self.row]
        end: cython.Py_ssize_t = self.header_ends[self.row + 1]
        size: cython.Py_ssize_t
        at = _field(out, at, b"| offset: ", self.offsets[self.row])
        at = put_int(out, _copy(out, at, template, 0, self.head), self.timestamps[self.row])
        at = _field(out, at, b" keySize: ", self.keys.size(self.row))
        at = _field(out, at, b" valueSize: ", self.values.size(self.row))
        if b[5] < 2:
            if not b[6] & 7:  # the checksums of messages inside a wrapper are not kept
                at = _field(out, put_flag(out, at, b" isValid: ", self.sound), b" crc: ", b[13])
            return at
        at = _field(out, at, b" sequence: ", _sequence(b[11], self.offsets[self.row] - b[2]))
        at = _word(out, at, b" headerKeys: [")
        while i < end:
            size = self.header_keys.size(i)
            if size > 0:
                at = put_visible(out, at, self.header_keys.bytes(), self.header_keys.ends[i], size)
            i += 1
            if i < end:
                at = _word(out, at, b",")
        return _word(out, at, b"]")

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def put_payload(self, out: cython.pointer[cython.uchar], at: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Key and value of the record at hand; what is null is left out."""
        size: cython.Py_ssize_t = self.keys.size(self.row)
        if size >= 0:
            at = _word(out, at, b" key: ")
        if size > 0:
            at = put_visible(out, at, self.keys.bytes(), self.keys.ends[self.row], size)
        size = self.values.size(self.row)
        if size >= 0:
            at = _word(out, at, b" payload: ")
        if size > 0:
            at = put_visible(out, at, self.values.bytes(), self.values.ends[self.row], size)
        return at

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def put_marker(self, out: cython.pointer[cython.uchar], at: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """The commit or abort marker at hand; -1 if it is none: those are for the caller to word.

        Key: version i16, type i16 (0 abort, 1 commit). Value: version i16, coordinator epoch i32.
        """
        p: cython.pointer[cython.const[cython.uchar]]
        i: cython.Py_ssize_t = self.keys.ends[self.row]
        epoch: cython.longlong
        if self.keys.size(self.row) < 4 or self.values.size(self.row) < 6:
            return -1
        p = self.keys.bytes()
        if p[i] > 127 or p[i + 2] != 0 or p[i + 3] > 1:
            return -1
        at = _word(out, at, b" endTxnMarker: ")
        at = _word(out, at, b"COMMIT" if p[i + 3] else b"ABORT")
        p = self.values.bytes()
        i = self.values.ends[self.row]
        if p[i] > 127:
            return -1
        epoch = (p[i + 2] << 24) | (p[i + 3] << 16) | (p[i + 4] << 8) | p[i + 5]
        return _field(out, at, b" coordinatorEpoch: ", (epoch ^ _SIGN32) - _SIGN32)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def put_all(
        self,
        out: cython.pointer[cython.uchar],
        size: cython.Py_ssize_t,
        template: cython.pointer[cython.uchar],
        note: cython.pointer[cython.const[cython.uchar]],
        note_size: cython.Py_ssize_t,
    ) -> cython.Py_ssize_t:
        """Lines into out[:size] until it is full; how much was written."""
        at: cython.Py_ssize_t = 0
        end: cython.Py_ssize_t
        while True:
            if self.batch < 0 or self.row >= self.rows or self.positions[self.row] != self.facts()[0]:
                if self.batch + 1 >= self.count:
                    self.status = _DONE if self.row >= self.rows else _BAD
                    return at
                self.need = _BATCH_LINE
                if self.batches and size - at < self.need:
                    self.status = _FULL
                    return at
                self.batch += 1
                if self.batches and self.json:
                    at = put_batch_json(out, at, self.facts(), self.sound)
                elif self.batches:
                    at = put_batch_text(out, at, self.facts(), self.sound)
                if self.row < self.rows:
                    self.prepare(template)
                continue
            self.need = self.most() + note_size
            if self.need < note_size or self.need > size - at:
                self.status = _BAD if self.need < note_size else _FULL
                return at
            if self.json:
                at = self.put_record_json(out, at, template)
            else:
                end = self.put_record_text(out, at, template)
                if self.facts()[5] == 2 and self.facts()[6] & 32:
                    end = _copy(out, end, note, 0, note_size) if note_size else self.put_marker(out, end)
                    note_size = 0
                    if end < 0:
                        self.status = _NOTE
                        return at
                elif self.payloads:
                    end = self.put_payload(out, end)
                at = _word(out, end, b"\n")
            self.row += 1

    def fill(self, out: cython.uchar[::1], note: bytes = b"") -> cython.Py_ssize_t:
        """Write lines into `out`; how many bytes they take. `status` says why it stopped.

        `note` goes into the line of the next record, if that is a control record.
        """
        size: cython.Py_ssize_t = len(out)
        note_size: cython.Py_ssize_t = len(note)
        used: cython.Py_ssize_t
        words: cython.const[cython.uchar][::1] = note or b" "
        if size == 0:
            raise ValueError("a buffer without room")
        if cython.compiled:
            with cython.nogil:
                used = self.put_all(
                    cython.address(out[0]),
                    size,
                    cython.address(self.template[0]),
                    cython.address(words[0]),
                    note_size,
                )
        else:
            used = self.put_all(memoryview(out), size, self.template, words, note_size)
        return used
