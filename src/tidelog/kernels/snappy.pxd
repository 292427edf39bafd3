# The C faces of snappy.py, so that the decode kernel decompresses without Python.
cdef long long decompress_payload(
    const unsigned char* p, Py_ssize_t pos, Py_ssize_t end, unsigned char* out, Py_ssize_t room
) noexcept nogil
cdef long long _decompress_block(
    const unsigned char* p, Py_ssize_t pos, Py_ssize_t end, unsigned char* out, Py_ssize_t room
) noexcept nogil
