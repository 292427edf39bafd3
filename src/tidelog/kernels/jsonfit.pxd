cdef Py_ssize_t _skip(const unsigned char* p, Py_ssize_t at, Py_ssize_t end) noexcept nogil
cdef long long _hex4(const unsigned char* p, Py_ssize_t at) noexcept nogil
cdef Py_ssize_t _character(const unsigned char* p, Py_ssize_t at, Py_ssize_t end) noexcept nogil
cdef Py_ssize_t _string(const unsigned char* p, Py_ssize_t at, Py_ssize_t end) noexcept nogil
cdef Py_ssize_t _digits(const unsigned char* p, Py_ssize_t at, Py_ssize_t end) noexcept nogil
cdef Py_ssize_t _number(
    const unsigned char* p, Py_ssize_t at, Py_ssize_t end, long long kind, long long limit
) noexcept nogil
cdef long long _two(const unsigned char* p, Py_ssize_t at) noexcept nogil
cdef Py_ssize_t _date(const unsigned char* p, Py_ssize_t at, Py_ssize_t end) noexcept nogil
cdef Py_ssize_t _timestamp(const unsigned char* p, Py_ssize_t at, Py_ssize_t end, bint zoned) noexcept nogil
cdef Py_ssize_t _scalar(
    const unsigned char* p, Py_ssize_t at, Py_ssize_t end, long long kind, long long limit
) noexcept nogil
cdef Py_ssize_t _null(const unsigned char* p, Py_ssize_t at, Py_ssize_t end) noexcept nogil
cdef Py_ssize_t _child(
    const unsigned char* p,
    Py_ssize_t start,
    Py_ssize_t stop,
    const long long* nodes,
    const unsigned char* names,
    Py_ssize_t first,
    Py_ssize_t count,
    Py_ssize_t hint,
) noexcept nogil
cdef void _enter(long long* scratch, Py_ssize_t depth, Py_ssize_t node, long long stamp) noexcept nogil
cdef Py_ssize_t _member(
    const unsigned char* p,
    Py_ssize_t at,
    Py_ssize_t end,
    const long long* nodes,
    const unsigned char* names,
    long long* scratch,
    Py_ssize_t depth,
) noexcept nogil
cdef bint _value(
    const unsigned char* p,
    Py_ssize_t at,
    Py_ssize_t end,
    const long long* nodes,
    const unsigned char* names,
    long long* scratch,
    long long stamp,
) noexcept nogil
