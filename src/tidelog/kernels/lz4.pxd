# The C faces of lz4.py, so that the decode kernel decompresses without Python.
ctypedef int (*block_fn)(const char* source, char* target, int source_size, int target_size) noexcept nogil

cdef block_fn _decompress_block

cdef long long decompress_payload(
    const unsigned char* p, Py_ssize_t pos, Py_ssize_t end, unsigned char* out, Py_ssize_t room
) noexcept nogil
cdef unsigned int _xxh32(const unsigned char* p, Py_ssize_t pos, Py_ssize_t n) noexcept nogil
cdef unsigned int _rotate(unsigned int x, int by) noexcept nogil
cdef unsigned int _u32_le(const unsigned char* p, Py_ssize_t pos) noexcept nogil
