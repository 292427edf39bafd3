"""Values and keys as columns: Avro, Protobuf, JSON under a schema, text.

spec            what values are, and what decodes a column
wire            the magic byte and schema id before a value
schemas         where schemas come from: a directory, a registry
versions        values of several schemas in one column
avro_*          Avro: schemas, plans for the kernel, columns, schema resolution
protobuf        Protobuf, through ptars
json_*          JSON: the exact rules, types, JSON Schema
decoding        bytes, text, and JSON in bulk
conforming      arrays as a wider type
"""
