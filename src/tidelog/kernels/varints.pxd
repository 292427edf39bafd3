# The C faces of varints.py, so that other kernels read and write numbers without Python.
cdef struct Var:  # pos < 0: minus the fault
    long long value
    Py_ssize_t pos

cdef Var long_varint(const unsigned char* p, Py_ssize_t pos, Py_ssize_t limit, int max_shift) noexcept nogil
cdef Py_ssize_t varint_size(long long n) noexcept nogil
cdef Py_ssize_t put_varint(unsigned char* out, Py_ssize_t pos, long long n) noexcept nogil
