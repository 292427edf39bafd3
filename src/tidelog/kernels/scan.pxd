# The C faces of scan.py, so that other kernels read numbers without Python. Those without a body in scan.py have
# their twins there.
cdef inline long long i16(const unsigned char* p, Py_ssize_t i) noexcept nogil:
    return <short>((<unsigned int>p[i] << 8) | p[i + 1])

cdef inline unsigned int u32(const unsigned char* p, Py_ssize_t i) noexcept nogil:
    return (
        (<unsigned int>p[i] << 24) | (<unsigned int>p[i + 1] << 16) | (<unsigned int>p[i + 2] << 8) | p[i + 3]
    )

cdef inline long long i32(const unsigned char* p, Py_ssize_t i) noexcept nogil:
    return <int>u32(p, i)

cdef inline long long i64(const unsigned char* p, Py_ssize_t i) noexcept nogil:
    return <long long>((<unsigned long long>u32(p, i) << 32) | u32(p, i + 4))

cdef inline long long wrapping_add(long long a, long long b) noexcept nogil:
    return <long long>(<unsigned long long>a + <unsigned long long>b)

cdef int _read_header(
    const unsigned char* p, Py_ssize_t pos, Py_ssize_t end, long long* row, bint check_crc
) noexcept nogil
cdef int _read_message(
    const unsigned char* p, Py_ssize_t pos, long long size, long long* row, bint check_crc
) noexcept nogil
