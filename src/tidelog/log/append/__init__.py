"""From what is given to written batches: checked, stamped, rewritten where it must be.

incoming        what is given, made into batches
validation      decisions over headers and columns; `leader_checks`: all checks of a leader's append
rewriting       batches that cannot be stored as they came
appending       checked, stamped, written, and only then seen; `info`: its facts and result
single_batch    the short way of one ready batch
linking         a whole segment made elsewhere, linked in
"""
