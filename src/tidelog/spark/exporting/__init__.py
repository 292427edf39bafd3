"""`export`: topics -> Parquet, incrementally and exactly once.

job                        planning, and what tasks do     directory, storage   the target and its commits
parquet                    records -> Parquet files        values               values as columns
json_reading, json_types   JSON values under a schema      value_schemas, schema_evolution   which schema
"""
