# Only other kernels call this one, through text.pxd.
