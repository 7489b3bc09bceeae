"""What has a life cycle: the compute pool, ONNX models, ANN indexes, release loading."""
