# The C faces of uplift.py.
cdef struct Lifted:
    Py_ssize_t used
    long long first
    long long last
    int fault

cdef Lifted _uplift(
    const unsigned char* p,
    Py_ssize_t end,
    long long messages,
    long long base,
    unsigned char* out,
    Py_ssize_t room,
) noexcept nogil
