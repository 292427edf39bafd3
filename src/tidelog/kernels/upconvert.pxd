# The C faces of upconvert.py.
cdef struct Lifted:
    Py_ssize_t used
    long long first
    long long last
    int fault

cdef struct Message:
    int fault
    Py_ssize_t limit
    long long timestamp
    Py_ssize_t key
    long long key_size
    Py_ssize_t value
    long long value_size

cdef Message _read(const unsigned char* p, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
cdef Py_ssize_t _put_field(
    unsigned char* out, Py_ssize_t at, const unsigned char* p, Py_ssize_t pos, long long n
) noexcept nogil
cdef Lifted _uplift(
    const unsigned char* p,
    Py_ssize_t end,
    long long messages,
    long long base,
    unsigned char* out,
    Py_ssize_t room,
) noexcept nogil
