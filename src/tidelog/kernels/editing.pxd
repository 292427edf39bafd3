# The C types of editing.py.
from tidelog.kernels.varints cimport Var

cdef struct Edited:  # a record, and where its parts end
    int fault
    Py_ssize_t body
    Py_ssize_t key_end
    Py_ssize_t value_end
    Py_ssize_t limit
    long long timestamp
    long long offset

cdef struct Sizes:
    Py_ssize_t key
    Py_ssize_t value
    Py_ssize_t headers

cdef struct Totals:
    int fault
    long long kept
    long long first_timestamp
    long long max_timestamp
    long long first_offset
    long long last_offset

cdef Py_ssize_t _skip(const unsigned char* p, Py_ssize_t pos, Py_ssize_t limit) noexcept nogil
cdef Edited _read(
    const unsigned char* p,
    Py_ssize_t pos,
    Py_ssize_t end,
    const long long* row,
    long long earliest,
    long long latest,
) noexcept nogil
cdef Totals _total(
    const unsigned char* p,
    Py_ssize_t size,
    const long long* row,
    const unsigned char* acts,
    long long earliest,
    long long latest,
) noexcept nogil
cdef Py_ssize_t _put(
    unsigned char* out, Py_ssize_t at, const unsigned char* p, Py_ssize_t start, Py_ssize_t size
) noexcept nogil
cdef Sizes _sizes(
    Edited r, int act, int how, Py_ssize_t key_size, Py_ssize_t value_size
) noexcept nogil
cdef Py_ssize_t _put_field(
    unsigned char* out,
    Py_ssize_t at,
    const unsigned char* p,
    Py_ssize_t start,
    Py_ssize_t end,
    bint replaced,
    bint is_null,
    const unsigned char* new,
    Py_ssize_t new_size,
) noexcept nogil
cdef Py_ssize_t _put_record(
    unsigned char* out,
    Py_ssize_t at,
    const unsigned char* p,
    Edited r,
    int act,
    int how,
    const unsigned char* key,
    Py_ssize_t key_size,
    const unsigned char* value,
    Py_ssize_t value_size,
    long long base_offset,
    long long base_timestamp,
) noexcept nogil
cdef int _edit(
    const unsigned char* p,
    Py_ssize_t size,
    const long long* row,
    const unsigned char* acts,
    int how,
    const unsigned char* key,
    Py_ssize_t key_size,
    const unsigned char* value,
    Py_ssize_t value_size,
    long long earliest,
    long long latest,
    unsigned char* out,
    Py_ssize_t room,
    long long* made,
) noexcept nogil
