# The C faces of scan.py, so that other kernels read numbers without Python.
cdef long long i16(const unsigned char* p, Py_ssize_t i) noexcept nogil
cdef unsigned int u32(const unsigned char* p, Py_ssize_t i) noexcept nogil
cdef long long i32(const unsigned char* p, Py_ssize_t i) noexcept nogil
cdef long long i64(const unsigned char* p, Py_ssize_t i) noexcept nogil
cdef long long wrapping_add(long long a, long long b) noexcept nogil
cdef int _read_header(
    const unsigned char* p, Py_ssize_t pos, Py_ssize_t end, long long* row, bint check_crc
) noexcept nogil
cdef int _read_message(
    const unsigned char* p, Py_ssize_t pos, long long size, long long* row, bint check_crc
) noexcept nogil
