"""SageMaker training jobs, rehearsed without AWS.

`capture` runs a launch script against a mock of AWS until it asks for a training job; `container` lays out what the
job's container would find under /opt/ml; `start` runs it there, on XLA:CPU.
"""
