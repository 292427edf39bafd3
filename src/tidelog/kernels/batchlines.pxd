# The C faces of batchlines.py, for the kernel that writes records between the batches.
cdef Py_ssize_t put_batch_json(unsigned char* out, Py_ssize_t at, const long long* b, bint sound) noexcept nogil
cdef Py_ssize_t put_batch_text(unsigned char* out, Py_ssize_t at, const long long* b, bint sound) noexcept nogil
cdef Py_ssize_t put_time_type(
    unsigned char* out, Py_ssize_t at, long long magic, long long attributes
) noexcept nogil
cdef Py_ssize_t put_codec(unsigned char* out, Py_ssize_t at, long long attributes) noexcept nogil

cdef Py_ssize_t _field(unsigned char* out, Py_ssize_t at, const char* word, long long value) noexcept nogil
cdef Py_ssize_t put_flag(unsigned char* out, Py_ssize_t at, const char* word, bint value) noexcept nogil
cdef long long _last_sequence(const long long* b) noexcept nogil
