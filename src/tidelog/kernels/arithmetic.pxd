# Arithmetic of 128 bits, which Cython has no type for. Compiled kernels only.
cdef extern from *:
    """
    static inline unsigned long long tidelog_fold(unsigned long long a, unsigned long long b) {
        unsigned __int128 product = (unsigned __int128)a * b;
        return (unsigned long long)product ^ (unsigned long long)(product >> 64);
    }
    """
    unsigned long long fold "tidelog_fold"(unsigned long long a, unsigned long long b) noexcept nogil
