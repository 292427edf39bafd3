# What single_batch.py takes from C.
ctypedef Py_ssize_t (*pwrite_fn)(int descriptor, const void* data, size_t n, long long position) noexcept nogil

cdef extern from "<time.h>":
    const int TIME_UTC
    struct timespec:
        long long tv_sec
        long tv_nsec
    int timespec_get(timespec* now, int base) noexcept nogil
