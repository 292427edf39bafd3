"""What all jobs run on.

sessions   a session that finds this Python    shipping   sending our objects to executors
jobs       work over splits                    packing    small splits share a task
collecting   planning without the garbage collector
"""
