# The C faces of record_lookup.py, so that other kernels find records without Python.
ctypedef struct Facts:  # of a v2 batch
    long long base
    long long epoch
    long long attributes
    long long base_timestamp
    long long max_timestamp
    long long producer_id
    long long producer_epoch
    long long sequence
    long long count

ctypedef struct Record:  # its fields after the offset delta are p[pos:limit]
    int code
    Py_ssize_t pos
    Py_ssize_t limit
    long long offset
    long long timestamp

ctypedef struct Body:  # a size below 0 means null
    int code
    Py_ssize_t key
    Py_ssize_t key_size
    Py_ssize_t value
    Py_ssize_t value_size
    Py_ssize_t headers
    Py_ssize_t header_count

cdef Record _head(const unsigned char* p, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
cdef Record find(
    const unsigned char* p,
    Py_ssize_t pos,
    Py_ssize_t end,
    Facts facts,
    bint by_time,
    long long offset,
    long long timestamp,
) noexcept nogil
cdef Body body_of(const unsigned char* p, Record r) noexcept nogil
cdef object _bytes(const unsigned char* p, Py_ssize_t pos, Py_ssize_t size)
cdef object _headers(const unsigned char* p, Body b, Py_ssize_t limit)
cpdef object make_pair(type cls, tuple names, object first, object second)
cdef tuple fields(const unsigned char* p, Record r, Body b, Facts facts)
