# The C faces of snappy.py, so that the decode kernel decompresses without Python.
cdef enum:
    _SPECIAL = 0x8000

cdef struct Reach:
    Py_ssize_t pos
    Py_ssize_t at

cdef unsigned short _table[256]
cdef unsigned int _masks[4]

cdef void _fill() noexcept
cdef Reach _read_size(const unsigned char* p, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
cdef Py_ssize_t _read_number(const unsigned char* p, Py_ssize_t pos, Py_ssize_t size) noexcept nogil
cdef long long _decompress_block(
    const unsigned char* p, Py_ssize_t pos, Py_ssize_t end, unsigned char* out, Py_ssize_t room
) noexcept nogil
cdef long long decompress_payload(
    const unsigned char* p, Py_ssize_t pos, Py_ssize_t end, unsigned char* out, Py_ssize_t room
) noexcept nogil
