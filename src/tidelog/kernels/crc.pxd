# The C faces of crc.py, so that other kernels call it without Python.
ctypedef unsigned int (*extend_fn)(unsigned int crc, const unsigned char* data, size_t n) noexcept nogil
ctypedef unsigned int (*iscsi_fn)(const unsigned char* data, int n, unsigned int crc) noexcept nogil

# The CRC instruction and carry-less multiplication, and no multiplication of 64 bytes at a time.
cdef extern from *:
    """
    #if defined(__x86_64__) && defined(__GNUC__)
    #define TIDELOG_CRC_INSTRUCTION \
        (__builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul") \
         && !(__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("vpclmulqdq")))
    #else
    #define TIDELOG_CRC_INSTRUCTION 0
    #endif
    """
    bint _instruction "TIDELOG_CRC_INSTRUCTION"

cdef extend_fn _extend
cdef iscsi_fn _iscsi
cdef extend_fn _gzip
cdef unsigned int _c_table[8][256]
cdef unsigned int _z_table[8][256]

cdef void _fill(unsigned int (*table)[256], unsigned int polynomial) noexcept
cdef unsigned int _walk(
    unsigned int (*table)[256], const unsigned char* p, Py_ssize_t start, Py_ssize_t end
) noexcept nogil
cdef unsigned int crc32c_range(const unsigned char* p, Py_ssize_t start, Py_ssize_t end) noexcept nogil
cdef unsigned int crc32_range(const unsigned char* p, Py_ssize_t start, Py_ssize_t end) noexcept nogil
