# The C faces of varints.py, so that other kernels read and write numbers without Python.
cdef struct Var:  # pos < 0: minus the fault
    long long value
    Py_ssize_t pos

cdef Var long_varint(const unsigned char* p, Py_ssize_t pos, Py_ssize_t limit, int max_shift) noexcept nogil
cdef Py_ssize_t varint_size(long long n) noexcept nogil
cdef Py_ssize_t put_varint(unsigned char* out, Py_ssize_t pos, long long n) noexcept nogil

# `long_varint` with a short way for one byte and two, which most take: inlined, and so here. In varints.py it is its twin.
cdef inline Var varint(const unsigned char* p, Py_ssize_t pos, Py_ssize_t limit, int max_shift) noexcept nogil:
    cdef Var out
    cdef unsigned int raw
    if limit - pos < 2:
        return long_varint(p, pos, limit, max_shift)
    raw = p[pos]
    out.pos = pos + 1
    if raw >= 0x80:
        if p[pos + 1] >= 0x80:
            return long_varint(p, pos, limit, max_shift)
        raw = (raw & 0x7F) | (<unsigned int>p[pos + 1] << 7)
        out.pos = pos + 2
    out.value = <long long>(raw >> 1) ^ -<long long>(raw & 1)
    return out
