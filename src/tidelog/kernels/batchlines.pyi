# Only other kernels call this one, through batchlines.pxd.
