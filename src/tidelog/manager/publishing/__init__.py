"""Bulk writes: staged outside of the root by any number of tasks, published by one, completely or not at all.

staging     what a task does with its batches            staged      the staged files and their manifests
committing  a staged write -> the root, under its lock   applying    a journal's intent, carried out or back
checks      what a topic would refuse                    waiting     taking a root that another one has
mark        whose a staging directory is                 existing    which topics there are
partitioner which partition a row goes to: its own, or by its key
"""
