# The C face of appends.py, so that other kernels analyze an append without Python.
cdef struct Facts:
    int fault
    Py_ssize_t taken
    long long last_offset
    long long last_epoch
    long long max_timestamp
    long long codec
    long long size
    bint with_producer
    Py_ssize_t rewrites

cdef Facts analyze_rows(
    long long[:, ::1] rows,
    Py_ssize_t n,
    int origin,
    long long leader_epoch,
    long long max_message_bytes,
    int target_codec,
    bint log_append_time,
) noexcept nogil
cdef void _stamp_one(
    unsigned char* p,
    Py_ssize_t at,
    long long* row,
    long long next_offset,
    long long leader_epoch,
    bint log_append_time,
    long long max_timestamp,
) noexcept nogil
