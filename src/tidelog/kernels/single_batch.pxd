# What single_batch.py takes from Python itself.
from cpython.object cimport PyTypeObject

cdef extern from "Python.h":
    object PyType_GenericAlloc(PyTypeObject* type, Py_ssize_t items)
