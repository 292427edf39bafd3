GZIP: int
SNAPPY: int
LZ4: int
ZSTD: int
LARGEST: int
