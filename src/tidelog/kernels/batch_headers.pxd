# The C faces of batch_headers.py, so that other kernels call it without Python.
cdef void _put_int(unsigned char* out, Py_ssize_t pos, int size, long long n) noexcept nogil
cdef void write_header(unsigned char* out, long long* row) noexcept nogil
