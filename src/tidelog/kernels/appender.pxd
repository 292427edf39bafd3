# What appender.py takes from C.
ctypedef Py_ssize_t (*pwrite_fn)(int descriptor, const void* data, size_t n, long long position) noexcept nogil

cdef extern from *:
    """
    #include <time.h>

    /* Milliseconds since 1970. The coarse clock stands still between two ticks: never ahead, and cheaper. */
    static long long tidelog_clock_ms(int exact) {
        struct timespec now;
    #ifdef CLOCK_REALTIME_COARSE
        if (exact || clock_gettime(CLOCK_REALTIME_COARSE, &now) != 0)
    #endif
            timespec_get(&now, TIME_UTC);
        return (long long) now.tv_sec * 1000 + now.tv_nsec / 1000000;
    }
    """
    long long clock_ms "tidelog_clock_ms"(bint exact) noexcept nogil
