# The C faces of scratch.py, so that runs are decompressed without Python.
ctypedef void* (*create_fn)() noexcept nogil
ctypedef size_t (*free_fn)(void* context) noexcept nogil
ctypedef size_t (*zstd_fn)(void* context, void* out, size_t room, const void* data, size_t n) noexcept nogil

cdef create_fn _create
cdef free_fn _free
cdef zstd_fn _unzstd

cdef class Scratch:
    cdef unsigned char[::1] memory
    cdef unsigned char* data
    cdef readonly Py_ssize_t room
    cdef void* context

    cdef long long decompress(
        self, const unsigned char* p, Py_ssize_t pos, Py_ssize_t end, long long codec
    ) noexcept nogil
    cdef long long _zstd(self, const unsigned char* p, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
