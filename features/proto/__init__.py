"""Protobuf messages of stored values.

`row_pb2.py` is generated, never edited:
`python -m grpc_tools.protoc -I . --python_out=. features/proto/row.proto`.
`row_pb2.pyi` began as `--pyi_out` of the same command and is kept by hand, to pass strict checks.
"""
