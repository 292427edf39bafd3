cdef unsigned int _hash(const unsigned char* data, Py_ssize_t start, Py_ssize_t end) noexcept nogil
