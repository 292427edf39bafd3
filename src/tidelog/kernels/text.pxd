# The C faces of text.py, so that other kernels write text without Python.
cdef unsigned char _pairs[8192]
cdef unsigned char _digits[200]

cdef Py_ssize_t put_word(unsigned char* out, Py_ssize_t at, const char* word) noexcept nogil
cdef Py_ssize_t put_int(unsigned char* out, Py_ssize_t at, long long value) noexcept nogil
cdef Py_ssize_t put_base64(
    unsigned char* out, Py_ssize_t at, const unsigned char* p, Py_ssize_t pos, Py_ssize_t n
) noexcept nogil
cdef Py_ssize_t put_json_text(
    unsigned char* out, Py_ssize_t at, const unsigned char* p, Py_ssize_t pos, Py_ssize_t n
) noexcept nogil
cdef Py_ssize_t put_visible(
    unsigned char* out, Py_ssize_t at, const unsigned char* p, Py_ssize_t pos, Py_ssize_t n
) noexcept nogil

cdef Py_ssize_t _few_digits(unsigned char* out, Py_ssize_t at, unsigned int value) noexcept nogil
cdef Py_ssize_t _eight_digits(unsigned char* out, Py_ssize_t at, unsigned int value) noexcept nogil
cdef Py_ssize_t _hex(unsigned char* out, Py_ssize_t at, unsigned char byte) noexcept nogil
cdef int _printable(const unsigned char* p, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
