cdef enum:
    _NULL = 0
    _BOOLEAN = 1
    _INT = 2
    _LONG = 3
    _SCALED = 4
    _FLOAT = 5
    _DOUBLE = 6
    _ENUM = 7
    _BYTES = 8
    _STRING = 9
    _FIXED = 10
    _DECIMAL = 11
    _RECORD = 12
    _ARRAY = 13
    _MAP = 14
    _OPTION = 15
    _UNION = 16
    _SPAN = 17

cdef enum:
    _BAD_VARINT = 5
    _ENDS_EARLY = 6
    _FULL = 11
    _BAD_BOOLEAN = 20
    _BAD_LENGTH = 21
    _BAD_BRANCH = 22
    _BAD_SYMBOL = 23
    _BAD_TEXT = 24
    _TOO_MANY = 25
    _TOO_DEEP = 26
    _OUT_OF_RANGE = 27
    _LEFT_OVER = 28

cdef struct Context:
    const unsigned char* p
    const long long* nodes
    const unsigned char* consts
    long long* wide
    int* narrow
    unsigned char* small
    long long* counters
    const long long* room
    Py_ssize_t end
    Py_ssize_t depth
    long long spare
    long long full
    long long need

cdef void _copy(Context* c, Py_ssize_t to, Py_ssize_t at, Py_ssize_t n) noexcept nogil
cdef void _clear(Context* c, Py_ssize_t to, Py_ssize_t n) noexcept nogil
cdef bint _is_text(const unsigned char* p, Py_ssize_t at, Py_ssize_t end) noexcept nogil
cdef long long _little(const unsigned char* p, Py_ssize_t at, Py_ssize_t n) noexcept nogil
cdef Py_ssize_t _bytes(Context* c, long long o, Py_ssize_t at, long long i) noexcept nogil
cdef Py_ssize_t _keep(Context* c, long long o, Py_ssize_t at, Py_ssize_t n, long long i) noexcept nogil
cdef Py_ssize_t _decimal(Context* c, long long o, Py_ssize_t at, long long i) noexcept nogil
cdef Py_ssize_t _items(Context* c, long long o, Py_ssize_t at, long long i) noexcept nogil
cdef Py_ssize_t _branch(Context* c, long long o, Py_ssize_t at, long long i) noexcept nogil
cdef Py_ssize_t _scalar(Context* c, long long o, Py_ssize_t at, long long i) noexcept nogil
cdef Py_ssize_t _decode(Context* c, long long node, Py_ssize_t at, long long i) noexcept nogil
cdef void _null(Context* c, long long node, long long i) noexcept nogil
cdef Py_ssize_t _run(
    Context* c,
    const long long* starts,
    const long long* ends,
    int* faults,
    long long* kept,
    Py_ssize_t size,
    Py_ssize_t row,
    Py_ssize_t rows,
) noexcept nogil
