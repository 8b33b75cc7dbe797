"""SageMaker training jobs, rehearsed without AWS.

`capture` runs a launch script against a mock of AWS until it requests a training job; `container` creates the files that
the job's container would find under /opt/ml; `start` runs it there, on XLA:CPU.
"""
