# The C faces of varints.py, so that other kernels write numbers without Python.
cdef Py_ssize_t varint_size(long long n) noexcept nogil
cdef Py_ssize_t put_varint(unsigned char* out, Py_ssize_t pos, long long n) noexcept nogil
